/*
 * One email, its attempts, and everybody who may touch them, in any order: docs/model.md.
 *
 * Each alternative of a `do` is one d_step: one transaction, one answer of SES, or one accident.
 * PROMISE(id, condition) is checked where it stands; ids are those of docs/reliability.md.
 * M_… is a mutant: the model with one mistake in it, which must be caught (variants.py).
 */

#ifndef ATTEMPTS
#define ATTEMPTS 4      /* calls at most, of all epochs together; no more than 4 */
#endif
#ifndef EPOCHS
#define EPOCHS 2        /* no more than 4 */
#endif
#ifndef WORKERS
#define WORKERS 2       /* 2 or 3 */
#endif

/* email_state */
#define PENDING    0
#define SENDING    1
#define SUBMITTED  2
#define FAILED     3
#define AMBIGUOUS  4
#define SUPPRESSED 5
#define CANCELLED  6

/* attempt_state; ABSENT: no committed row */
#define ABSENT     0
#define STARTED    1
#define UNKNOWN    2
#define RETRYABLE  3
#define PERMANENT  4
#define HELD       5
#define RELEASED   6
#define ACCEPTED   7

/* What is in the database. Attempts are numbered from 1; 0 is none. */
unsigned state : 3 = PENDING;
unsigned newest : 3;                    /* email_outbox.attempts: number of the newest attempt */
unsigned token : 3;                     /* email_outbox.lease_token, as the attempt's number */
unsigned epoch : 2;
byte known[5];                          /* send_attempts.state */
byte era[5];                            /* send_attempts.epoch */
byte waiting[5];                        /* ses_events: a bounce without our tag that found no attempt yet */
#define LOOKED    1                     /* not committed: it has no row to lock, so a finalise may pass it by */
#define UNMATCHED 2
#define FOREIGN   3                     /* given up, but matched all the same if its MessageId turns up */
bool stop;                              /* an active suppression of the only recipient */

/* What a worker process has in memory: the attempt it holds, and what its call ended in, if it ended. */
byte holds[WORKERS];
byte result[WORKERS];                   /* ABSENT: the call is still to be made */

/* The one page that a person opens, leaves standing, and then acts on. Which attempt and epoch it shows
 * is told by how far things have moved on since. */
#define CLOSED       0
#define CURRENT      1                  /* it shows the newest attempt and this epoch */
#define SAME_ATTEMPT 2                  /* the epoch has moved on, the newest attempt has not */
#define STALE        3
#define USED         4
unsigned page : 3;

/* Ghosts: what is true, whatever the database says. */
bool took[5];                           /* SES accepted this attempt's call */
bool took_in_window;                    /* SES accepted a call since this epoch was opened */
unsigned lied_about : 3;                /* UNTRUE: the attempt that was accepted and answered as refused */
bool said_accepted;                     /* an operator recorded that SES took it */
bool stop_stands;                       /* a suppression was committed, and nobody released it */
#ifdef LIVE
bool calm;                              /* faults have ended */
#define FAULTS !calm
#else
#define FAULTS true
#endif

/* Used within one step, and cleared in it. */
byte was;
byte better;

c_decl {
\#include <stdlib.h>
static int edge_seen[8][8];
static const char *mark_name[] = {
    "late refusal ended doubt", "late release ended doubt", "late acceptance ended doubt",
    "stale token kept as evidence", "evidence came before the finalise", "expired with evidence",
    "event ended doubt", "event after abandoning", "late evidence for an earlier epoch",
    "stale page refused", "resend refused while a call may run", "finalise repeated",
    "claim without an answer", "call after the lease had expired", "call after a suppression",
    "two acceptances in two epochs", "requeued after a release",
    "waiting event matched", "waiting event matched by the sweep", "acceptance beat a refusal" };
static int mark_seen[sizeof mark_name / sizeof *mark_name];
static void tell(void) {
    int a, b;
    for (a = 0; a < 8; a++) for (b = 0; b < 8; b++)
        if (edge_seen[a][b]) printf("edge: %d %d\n", a, b);
    for (a = 0; a < (int) (sizeof mark_name / sizeof *mark_name); a++)
        printf("mark: %d %s\n", mark_seen[a], mark_name[a]);
}
}

#define LATE_REFUSAL 0
#define LATE_RELEASE 1
#define LATE_ACCEPTANCE 2
#define STALE_TOKEN 3
#define EVIDENCE_FIRST 4
#define EXPIRED_PROVED 5
#define EVENT_ENDED_DOUBT 6
#define EVENT_AFTER_ABANDON 7
#define EARLIER_EPOCH 8
#define STALE_PAGE 9
#define RESEND_TOO_SOON 10
#define REPEATED 11
#define CLAIM_UNANSWERED 12
#define CALL_AFTER_EXPIRY 13
#define CALL_AFTER_STOP 14
#define TWO_EPOCHS 15
#define AFTER_RELEASE 16
#define MATCHED_BY_ID 17
#define MATCHED_BY_SWEEP 18
#define BEAT_A_REFUSAL 19
#define MARK(n) c_code { mark_seen[n] = 1; }

#define PROMISE(id, condition) \
    if \
    :: (condition) \
    :: else -> c_code { printf("broken: %s\n", id); }; assert(false) \
    fi

#define refusal(s) (s >= RETRYABLE && s <= RELEASED)
#define rank(s) (refusal(s) -> 3 : (s == ACCEPTED -> 4 : s))
#define proved (known[1] == ACCEPTED || known[2] == ACCEPTED || known[3] == ACCEPTED || known[4] == ACCEPTED)
#define accepted (took[1] || took[2] || took[3] || took[4])

/* domain/states.py: TRANSITIONS. A test compares. */
#define drawn(a, b) ( \
    (a == PENDING    && b == SENDING)    || \
    (a == PENDING    && b == SUPPRESSED) || \
    (a == PENDING    && b == CANCELLED)  || \
    (a == PENDING    && b == FAILED)     || \
    (a == PENDING    && b == SUBMITTED)  || \
    (a == SENDING    && b == SUBMITTED)  || \
    (a == SENDING    && b == PENDING)    || \
    (a == SENDING    && b == FAILED)     || \
    (a == SENDING    && b == AMBIGUOUS)  || \
    (a == AMBIGUOUS  && b == SUBMITTED)  || \
    (a == AMBIGUOUS  && b == PENDING)    || \
    (a == AMBIGUOUS  && b == FAILED)     || \
    (a == FAILED     && b == SUBMITTED)  || \
    (a == FAILED     && b == PENDING)    || \
    (a == CANCELLED  && b == SUBMITTED)  || \
    (a == SUPPRESSED && b == SUBMITTED)  || \
    (a == SUPPRESSED && b == PENDING))

/* A worker may still begin the call of an attempt that it holds: the limit on a call's time is not past. */
#define to_call(w) (holds[w] && !result[w])
#if WORKERS == 3
#define may_run (to_call(0) || to_call(1) || to_call(2))
#else
#define may_run (to_call(0) || to_call(1))
#endif

/* Workers are alike, so of states that differ in who is who only one is looked at. Fairness to each
 * worker needs to tell them apart. */
#define IN_ORDER(v, w) \
    if \
    :: holds[v] < holds[w] || (holds[v] == holds[w] && result[v] < result[w]) -> \
        was = holds[v]; holds[v] = holds[w]; holds[w] = was; \
        was = result[v]; result[v] = result[w]; result[w] = was; was = 0 \
    :: else \
    fi
#if defined(LIVE) || defined(UNSORTED)
#define SORT skip
#elif WORKERS == 3
#define SORT IN_ORDER(0, 1); IN_ORDER(1, 2); IN_ORDER(0, 1)
#else
#define SORT IN_ORDER(0, 1)
#endif

/* store/outbox.py: move. The row is locked, so what was read still stands. */
inline move(to) {
    PROMISE("S15 only drawn edges", drawn(state, to));
    PROMISE("S7 proved: only to submitted", !proved || to == SUBMITTED);
    PROMISE("S7 submitted was accepted", to != SUBMITTED || accepted || said_accepted);
    was = state;
    state = to;
    c_code { edge_seen[now.was][now.state] = 1; };
    was = 0;
    if
    :: state != SENDING -> token = 0
    :: else
    fi
}

/* store/attempts.py: learn. */
inline learn(a, what) {
    PROMISE("S8 certainty grows", what == known[a] || rank(what) > rank(known[a]));
    PROMISE("S6 refused was not accepted", !refusal(what) || !took[a] || lied_about == a);
    known[a] = what
}

#ifdef M_REFUSAL_OVERWRITES
#define beats(learned, standing) (refusal(learned) || rank(learned) > rank(standing))
#else
#define beats(learned, standing) (rank(learned) > rank(standing))
#endif

/* domain/sending.py: strengthen. Leaves the more certain of the two in `better`. */
inline strengthen(standing, learned) {
    if
    :: beats(learned, standing) -> better = learned
    :: else -> better = standing
    fi
}

/* A recorded decision to send again. */
inline open_epoch() {
#ifndef M_SAME_EPOCH
    epoch++;
    took_in_window = false;
    if
    :: page == CURRENT -> page = SAME_ATTEMPT
    :: else
    fi;
#endif
    move(PENDING)
}

/* ---- evidence: workflows/match.py ---- */

/* domain/sending.py: prove. */
inline prove(a, bounced) {
    if
    :: known[a] != ABSENT ->
#ifdef M_REFUSAL_STANDS
        if
        :: refusal(known[a]) -> better = known[a]
        :: else -> better = ACCEPTED
        fi;
#else
        if
        :: refusal(known[a]) -> MARK(BEAT_A_REFUSAL)
        :: else
        fi;
        better = ACCEPTED;
#endif
        learn(a, better);
        if
#ifdef M_EVENT_MOVES_SENDING
        :: state != SUBMITTED ->
            PROMISE("S8 only the current token", state != SENDING);
#else
        :: better == ACCEPTED && state != SENDING && state != SUBMITTED ->
#endif
            if
            :: era[a] != epoch -> MARK(EARLIER_EPOCH)
            :: else
            fi;
            if
            :: state == AMBIGUOUS -> MARK(EVENT_ENDED_DOUBT)
            :: state == FAILED -> MARK(EVENT_AFTER_ABANDON)
            :: else
            fi;
            move(SUBMITTED)
        :: else
        fi;
        better = 0;
        if
        :: bounced -> stop = true; stop_stands = true
#ifdef M_EVENT_LIFTS_STOP
        :: else -> stop = false
#else
        :: else
#endif
        fi;
        PROMISE("S11 events only suppress", stop || !stop_stands);
        PROMISE("L3 acceptance is heard", state == SUBMITTED || state == SENDING)
    :: else
    fi
}

/* The MessageId has just been saved: what waits for it is matched. Without our tag it is a bounce here. */
inline match_waiting(a) {
    if
    :: waiting[a] >= UNMATCHED -> MARK(MATCHED_BY_ID); waiting[a] = 0; prove(a, true)
    :: else
    fi
}

/* ---- worker: workflows/dispatch.py ---- */

#ifdef M_NO_STOP_CHECK
#define STOPPED false
#else
#define STOPPED stop
#endif

#define settled_in_this_epoch(a) \
    (newest < a || era[a] != epoch || refusal(known[a]))

/* store/claims.py: claim, where it leases. */
inline lease() {
    PROMISE("S10 no claim when suppressed", !stop_stands);
    PROMISE("S8 one live lease", token == 0);
    PROMISE("S5 earlier ones known refused",
        settled_in_this_epoch(1) && settled_in_this_epoch(2) && settled_in_this_epoch(3));
    newest++;
    era[newest] = epoch;
#ifndef M_ROW_AFTER_CALL
    known[newest] = STARTED;
#endif
    token = newest;
    if
    :: page == CURRENT || page == SAME_ATTEMPT -> page = STALE
    :: else
    fi;
    move(SENDING)
}

#ifdef M_CLAIMS_LEASED
#define claimable (state == PENDING || state == SENDING)
#else
#define claimable (state == PENDING)
#endif
#define may_lease (claimable && !STOPPED && newest < ATTEMPTS)

/* SES takes the call of the attempt that this worker holds. */
inline take(a) {
    PROMISE("S5 one acceptance per epoch", lied_about ||
        (!(took[1] && era[1] == era[a]) && !(took[2] && era[2] == era[a]) &&
         !(took[3] && era[3] == era[a]) && !(took[4] && era[4] == era[a])));
    PROMISE("S5 one acceptance in an epoch's time", lied_about || !took_in_window);
    if
    :: accepted -> MARK(TWO_EPOCHS)
    :: else
    fi;
    took[a] = true;
    took_in_window = true
}

/* Both ends of every call: SES sees the tag, the worker learns what it learns. */
inline seen(me, what) {
    PROMISE("S4 recorded before sent", known[holds[me]] != ABSENT);
    if
    :: token != holds[me] -> MARK(CALL_AFTER_EXPIRY)
    :: else
    fi;
    if
    :: stop -> MARK(CALL_AFTER_STOP)
    :: else
    fi;
    result[me] = what
}

/* domain/answers.py */
#ifdef M_5XX_IS_REFUSAL
#define OF_5XX RETRYABLE
#else
#define OF_5XX UNKNOWN
#endif
#ifdef M_SILENCE_IS_ACCEPTANCE
#define OF_SILENCE ACCEPTED
#else
#define OF_SILENCE UNKNOWN
#endif

#if defined(M_NO_TOKEN)
#define holds_lease(a) (state != SUBMITTED)
#elif defined(M_ANY_TOKEN) || defined(M_REPEAT_MOVES)
#define holds_lease(a) (state == SENDING)
#else
#define holds_lease(a) (state == SENDING && token == a)
#endif

#ifdef M_ANY_LATE_REFUSAL
#define is_newest(a) true
#else
#define is_newest(a) (newest == a)
#endif

#define in_doubt_over(a, r) (state == AMBIGUOUS && is_newest(a) && r != UNKNOWN && better == r)

#if defined(M_EVIDENCE_IGNORED)
#define stands_accepted(r) (r == ACCEPTED)
#elif defined(M_EARLIER_EVIDENCE_IGNORED)
#define stands_accepted(r) (better == ACCEPTED)
#else
#define stands_accepted(r) (proved || better == ACCEPTED)
#endif

/* domain/sending.py: _after. `spent`: MAX_ATTEMPTS refusals are used up; any limit is looked at. */
inline after(r, spent) {
    if
    :: r == PERMANENT || (r == RETRYABLE && spent) -> move(FAILED)
#ifdef M_UNKNOWN_IS_RETRYABLE
    :: r == UNKNOWN -> move(PENDING)
#else
    :: r == UNKNOWN -> move(AMBIGUOUS)
#endif
    :: else -> move(PENDING)
    fi
}

/* domain/sending.py: settle, and workflows/dispatch.py: _settle, in one transaction. */
inline settle(a, r, spent) {
    strengthen(known[a], r);
    if
#ifdef M_LATE_RESULT_DROPPED
    :: token != a -> skip
#endif
    :: stands_accepted(r) ->
        if
        :: better == ACCEPTED && r != ACCEPTED -> MARK(EVIDENCE_FIRST)
        :: r == ACCEPTED && state == AMBIGUOUS -> MARK(LATE_ACCEPTANCE)
        :: else
        fi;
        learn(a, better);
        if
        :: holds_lease(a) || (state != SENDING && state != SUBMITTED) ->
            PROMISE("S8 only the current token", state != SENDING || token == a);
            if
            :: era[a] != epoch -> MARK(EARLIER_EPOCH)
            :: else
            fi;
            move(SUBMITTED)
        :: else
        fi
    :: else ->
        if
        :: refusal(r) && known[a] == r ->
            MARK(REPEATED);
            PROMISE("S15 a repeat moves nothing", !holds_lease(a) && !in_doubt_over(a, r))
        :: else
        fi;
        if
        :: holds_lease(a) || in_doubt_over(a, r) ->
            PROMISE("S8 only the current token", state != SENDING || token == a);
            if
            :: state == AMBIGUOUS && r == RELEASED -> MARK(LATE_RELEASE)
            :: state == AMBIGUOUS && r != RELEASED -> MARK(LATE_REFUSAL)
            :: else
            fi;
            learn(a, better);
            after(r, spent)
        :: else ->
            MARK(STALE_TOKEN);
            learn(a, better)
        fi
    fi;
    better = 0;
    PROMISE("L3 acceptance is heard", r != ACCEPTED || state == SUBMITTED || state == SENDING);
    if
    :: known[a] == ACCEPTED -> match_waiting(a)
    :: else
    fi
}

#define forget(me) holds[me] = 0; result[me] = ABSENT

proctype worker(byte me) {
end:
    do
    /* Claim: take. The email is past its time, or everybody in it is suppressed. */
#ifndef M_NO_AGE
    :: d_step { holds[me] == 0 && state == PENDING -> move(FAILED) }
#endif
    :: d_step { holds[me] == 0 && state == PENDING && STOPPED -> move(SUPPRESSED) }
    :: d_step { holds[me] == 0 && may_lease -> lease(); holds[me] = newest; SORT }
    /* The claim is committed, its answer is lost: the worker knows nothing and must not call. */
    :: d_step { holds[me] == 0 && may_lease && FAULTS -> lease(); MARK(CLAIM_UNANSWERED) }
#ifdef M_CALL_WITHOUT_ANSWER
    /* Nothing was committed, and the worker calls all the same. */
    :: d_step { holds[me] == 0 && may_lease -> holds[me] = newest + 1; SORT }
#endif

    /* Call: send. */
    :: d_step { holds[me] && !result[me] -> take(holds[me]); seen(me, ACCEPTED); SORT }
    :: d_step { holds[me] && !result[me] -> take(holds[me]); seen(me, OF_SILENCE); SORT }
    :: d_step { holds[me] && !result[me] -> take(holds[me]); seen(me, OF_5XX); SORT }
    :: d_step { holds[me] && !result[me] -> seen(me, OF_SILENCE); SORT }
    :: d_step { holds[me] && !result[me] -> seen(me, OF_5XX); SORT }
    :: d_step { holds[me] && !result[me] -> seen(me, RETRYABLE); SORT }
    :: d_step { holds[me] && !result[me] -> seen(me, PERMANENT); SORT }
    :: d_step { holds[me] && !result[me] -> seen(me, HELD); SORT }
#ifdef UNTRUE
    /* Once, SES takes a call and something on the way answers that it was refused. */
    :: d_step { holds[me] && !result[me] && !lied_about ->
        lied_about = holds[me]; take(holds[me]); seen(me, RETRYABLE); SORT }
    :: d_step { holds[me] && !result[me] && !lied_about ->
        lied_about = holds[me]; take(holds[me]); seen(me, PERMANENT); SORT }
#endif
    /* recheck, send, or the drain that stops: given back, no call was made. */
    :: d_step { holds[me] && !result[me] -> result[me] = RELEASED; SORT }
#ifdef M_RELEASE_IN_FLIGHT
    :: d_step { holds[me] && !result[me] -> take(holds[me]); seen(me, RELEASED); SORT }
#endif

#ifdef M_SDK_RETRIES
    :: d_step { result[me] == UNKNOWN -> take(holds[me]); seen(me, ACCEPTED); SORT }
#endif

    /* Finalise: record. Then the same where the commit's answer is lost: it is done again. A mutant that
     * breaks something worse than the repeat is shown without repeats. */
    :: d_step { result[me] ->
        settle(holds[me], result[me], false); forget(me); SORT }
    :: d_step { result[me] == RETRYABLE ->
        settle(holds[me], result[me], true); forget(me); SORT }
#ifndef NO_REPEATS
    :: d_step { result[me] && FAULTS ->
        settle(holds[me], result[me], false); SORT }
    :: d_step { result[me] == RETRYABLE && FAULTS ->
        settle(holds[me], result[me], true); SORT }
#endif

    /* A crash, between any two of these. */
    :: d_step { holds[me] && FAULTS -> forget(me); SORT }
    od
}

/* ---- sweep: workflows/reconcile.py ---- */

/* domain/sending.py: expire, on the newest attempt. */
inline expire() {
    strengthen(known[newest], UNKNOWN);
    learn(newest, better);
    if
#ifdef M_EXPIRY_TO_PENDING
    :: state == SENDING && !proved -> move(PENDING)
#endif
#ifdef M_EXPIRY_IGNORES_EVIDENCE
    :: state == SENDING && proved -> move(AMBIGUOUS)
#endif
    :: proved ->
        MARK(EXPIRED_PROVED);
        move(SUBMITTED)
    :: else -> move(AMBIGUOUS)
    fi;
    better = 0;
    PROMISE("S9 expiry is doubt", state == AMBIGUOUS || state == SUBMITTED)
}

#ifdef M_NEVER_REMATCHED
#define REMATCH(a)
#else
#define REMATCH(a) :: d_step { waiting[a] == UNMATCHED && known[a] == ACCEPTED -> MARK(MATCHED_BY_SWEEP); match_waiting(a) }
#endif
#define GIVE_UP(a) :: d_step { waiting[a] == UNMATCHED && known[a] != ACCEPTED -> waiting[a] = FOREIGN }

proctype sweep() {
end:
    do
#ifndef M_NO_EXPIRY
    :: d_step { state == SENDING -> expire() }
#endif
    :: d_step { state == AMBIGUOUS && proved -> move(SUBMITTED) }
    REMATCH(1)
    REMATCH(2)
    REMATCH(3)
    REMATCH(4)
    GIVE_UP(1)
    GIVE_UP(2)
    GIVE_UP(3)
    GIVE_UP(4)
    od
}

/* ---- webhook: workflows/ingest.py ---- */

/* Any time after acceptance, as often as it likes, in any order: a Send or Delivery with our tag, a bounce
 * or complaint with it, a bounce without it, which is found by a saved MessageId or has to wait. */
#ifdef M_FOREIGN_FORGOTTEN
#define SAVED(a) skip
#else
#define SAVED(a) match_waiting(a)
#endif
#define TAGGED(a, bounced) :: d_step { took[a] -> prove(a, bounced); SAVED(a) }
#define UNTAGGED(a) :: d_step { took[a] && known[a] != ACCEPTED && !waiting[a] -> waiting[a] = LOOKED }
#define STORED(a) :: d_step { waiting[a] == LOOKED -> waiting[a] = UNMATCHED }

proctype webhook() {
end:
    do
#ifdef M_EVENTS_LOST
    :: false
#else
    TAGGED(1, false)
    TAGGED(2, false)
    TAGGED(3, false)
    TAGGED(4, false)
    TAGGED(1, true)
    TAGGED(2, true)
    TAGGED(3, true)
    TAGGED(4, true)
    UNTAGGED(1)
    UNTAGGED(2)
    UNTAGGED(3)
    UNTAGGED(4)
    STORED(1)
    STORED(2)
    STORED(3)
    STORED(4)
#endif
    od
}

/* ---- people and policy ---- */

#ifdef M_RESEND_TOO_SOON
#define may_resend (epoch + 1 < EPOCHS)
#else
#define may_resend (epoch + 1 < EPOCHS && !may_run)
#endif

#ifdef M_REQUEUE_TOO_SOON
#define may_requeue (epoch + 1 < EPOCHS)
#else
#define may_requeue (epoch + 1 < EPOCHS && !may_run)
#endif

#define open (page == CURRENT || page == SAME_ATTEMPT || page == STALE)

/* What the page must show for its button to work. */
#ifdef M_STALE_PAGE
#define resolvable open
#else
#define resolvable (page == CURRENT)
#endif
#if defined(M_REQUEUE_NAMES_NO_ATTEMPT)
#define requeueable open
#elif defined(M_REQUEUE_NAMES_NO_EPOCH)
#define requeueable (page == CURRENT || page == SAME_ATTEMPT)
#else
#define requeueable (page == CURRENT)
#endif

inline act() {
    PROMISE("S18 decided on what is so", page == CURRENT);
    page = USED
}

proctype people() {
end:
    do
    /* The caller cancels; a person suppresses, or lifts a suppression. */
    :: d_step { state == PENDING -> move(CANCELLED) }
    :: d_step { !stop_stands -> stop = true; stop_stands = true }
    :: d_step { stop_stands -> stop = false; stop_stands = false }

    /* Decisions on what is shown now. Policy's is the second of them. */
    :: d_step { state == AMBIGUOUS -> said_accepted = true; move(SUBMITTED) }
    :: d_step { state == AMBIGUOUS && may_resend -> open_epoch() }
    :: d_step { state == AMBIGUOUS -> move(FAILED) }
    :: d_step { state == FAILED && may_requeue -> open_epoch() }
    :: d_step { state == SUPPRESSED && !stop && may_requeue -> MARK(AFTER_RELEASE); open_epoch() }
    :: d_step { state == AMBIGUOUS && epoch + 1 < EPOCHS && may_run -> MARK(RESEND_TOO_SOON) }

    /* One page is opened, and one decision is made on it later. */
    :: d_step { page == CLOSED && (state == AMBIGUOUS || state == FAILED || state == SUPPRESSED) ->
        page = CURRENT }
    :: d_step { resolvable && state == AMBIGUOUS -> act(); said_accepted = true; move(SUBMITTED) }
    :: d_step { resolvable && state == AMBIGUOUS && may_resend -> act(); open_epoch() }
    :: d_step { resolvable && state == AMBIGUOUS -> act(); move(FAILED) }
    :: d_step { requeueable && (state == FAILED || (state == SUPPRESSED && !stop)) && may_requeue ->
        act(); open_epoch() }
    :: d_step { open && page != CURRENT -> MARK(STALE_PAGE); page = USED }
    od
}

#ifdef LIVE
proctype peace() {
    calm = true
}

/* Nothing stays leased; nothing circles for ever; what SES took, and says so, is known to be taken. */
ltl L1 { <> [] (state != PENDING && state != SENDING) }
ltl L2 { [] (state == SENDING -> <> (state != SENDING)) }
ltl L3 { [] (accepted -> <> (state == SUBMITTED)) }
ltl L4 { [] (waiting[1] >= UNMATCHED && known[1] == ACCEPTED -> <> !waiting[1]) }
#endif

init {
    atomic {
        c_code { atexit(tell); };
        run worker(0);
        run worker(1);
#if WORKERS == 3
        run worker(2);
#endif
        run sweep();
        run webhook();
        run people();
#ifdef LIVE
        run peace();
#endif
    }
}
