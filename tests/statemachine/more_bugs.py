"""Mistakes that somebody could make: of holds, commits, intake, time, events and what is told."""

from __future__ import annotations

from tests.campaign.seeding import Patch
from tests.statemachine.seeding import (
    ACCEPTANCES,
    CLAIMS,
    DECIDE,
    DISPATCH,
    FACTS,
    INTAKE,
    MATCH,
    RECONCILE,
    RECORD,
    REGISTRATION,
    SENDING,
    Bug,
    bug,
)

MORE_BUGS = (
    bug(
        "two holds over the same mail wait for each other",
        "two holds",
        ("L1",),
        CLAIMS,
        "AND NOT stopped.wider\n",
        "AND stopped.others = 0\n",
    ),
    bug(
        "a probe that is lost keeps its slot",
        "a lost probe",
        ("L1",),
        RECONCILE,
        "    holding.lost(tx, [finding",
        "    list([finding",
    ),
    bug(
        "a commit whose answer was lost is taken for one that did not happen",
        "a lost answer to a commit",
        ("UniqueViolation",),  # an attempt that is there cannot be written again
        DISPATCH,
        "rows = rt.db.transact(work, found=lambda tx: claims.held_by(tx, ids))",
        "rows = rt.db.transact(work, found=work)",
    ),
    bug(
        "a claim is believed whose commit was not answered",
        "a lost commit",
        ("S4",),
        DISPATCH,
        "rows = rt.db.transact(work, found=lambda tx: claims.held_by(tx, ids))",
        (
            "got: list[Claimed] = []\n"
            "    rows = rt.db.transact(\n"
            "        lambda tx: got.extend(work(tx)) or got, found=lambda tx: got\n"
            "    )"
        ),
    ),
    bug(
        "an account is committed before its email",
        "a sign-up and a later fault",
        ("S1",),
        REGISTRATION,
        "        created_at = rows.open_account(tx, account, email, actor)\n",
        "        rt.db.transact(lambda own: own.run('INSERT INTO mail_service.accounts'\n"
        "            ' (id, email, address_hash) VALUES (%s, %s, %s)',\n"
        "            (rt.new_id(), address, hashed[::-1])))\n"
        "        created_at = rows.open_account(tx, account, email, actor)\n",
    ),
    bug(
        "a key stands for any email",
        "a key twice",
        ("S3",),
        INTAKE,
        "return hmac.compare_digest(standing.intent_hash, email.intent_hash)",
        "return hmac.compare_digest(email.intent_hash, email.intent_hash)",
    ),
    bug(
        "a requeue does not wait for the old call",
        "a change of mind",
        ("S5",),
        DECIDE,
        "if not doubt.call_ended:",
        "if doubt.call_ended:",
    ),
    bug(
        "a call that met a hold is recorded as never made",
        "two holds",
        ("S19",),
        DISPATCH,
        "    return Ended(row=claim.row, result=outcome, seconds=",
        (
            "    if isinstance(outcome, Held):\n"
            "        return Ended(row=claim.row, result=Released())\n"
            "    return Ended(row=claim.row, result=outcome, seconds="
        ),
    ),
    Bug(
        "a saved MessageId gives way to a later one",
        "a proof before the answer",
        ("S7", "S14"),
        (
            Patch(
                "mail_service/store/attempts.py",
                "provider_message_id = COALESCE(a.provider_message_id, f.provider_message_id),",
                "provider_message_id = f.provider_message_id,",
            ),
            # Each of the two keeps it alone.
            Patch(
                SENDING,
                "    message_id = attempt.provider_message_id\n"
                "    if isinstance(result, Accepted) and message_id is None:\n",
                "    message_id = None\n    if isinstance(result, Accepted):\n",
            ),
        ),
    ),
    bug(
        "leases are measured by another clock",
        "a late answer, resend",
        ("S8", "L2"),
        CLAIMS,
        "THEN mail_service.clock() + make_interval(secs => %(lease)s) END,",
        "THEN now() + make_interval(secs => %(lease)s) END,",
    ),
    bug(
        "the sweep lets expired leases be",
        "a late answer, resend",
        ("L2",),
        RECONCILE,
        "leases_expired=_in_batches(rt, _expire_leases),",
        "leases_expired=0,",
    ),
    bug(
        "evidence older than a release counts",
        "an old bounce after a release",
        ("S11",),
        "mail_service/store/suppressions.py",
        "GREATEST(p.released_at, CASE",
        "GREATEST(p.released_at - interval '9 years', CASE",
    ),
    bug(
        "the fact that came last wins",
        "a delivery before its MessageId",
        ("S12", "L4"),
        FACTS,
        "return at if known is None else min(known, at)",
        "return at",
    ),
    bug(
        "a MessageId is not compared where there is a tag",
        "a delivery before its MessageId",
        ("S14",),
        MATCH,
        "        return known.provider_message_id != event.provider_message_id\n"
        "    return known.holder_id is not None",
        "        return False\n    return False",
    ),
    Bug(
        "an event that came early is never looked at again",
        "a delivery before its MessageId",
        ("L4", "L3", "S14"),
        (
            Patch(
                MATCH,
                "    for event in waiting.waiting_for(tx, message_ids=message_ids):\n",
                "    for event in waiting.waiting_for(tx, message_ids=[]):\n",
            ),
            Patch(
                RECONCILE,
                "        events_matched=_match_waiting(rt),\n",
                "        events_matched=0,\n",
            ),
        ),
    ),
    bug(
        "a refused request leaves a trace",
        "a policy",
        ("S13",),
        "mail_service/workflows/ingest.py",
        "            so_far = housekeeping.count_rejection(tx, cause)\n",
        (
            "            so_far = housekeeping.count_rejection(tx, cause)\n"
            '            housekeeping.beat(tx, "forged")\n'
        ),
    ),
    bug(
        "doubt that is given up becomes cancelled",
        "haste, abandon",
        ("S15",),
        "mail_service/domain/deciding.py",
        'Move(to=EmailState.FAILED, reason="abandoned")',
        'Move(to=EmailState.CANCELLED, reason="abandoned")',
    ),
    bug(
        "refusals are not counted",
        "refusals to the end",
        ("S16",),
        SENDING,
        "refusals = email.refusals + 1",
        "refusals = email.refusals + 0",
    ),
    bug(
        "the log names the recipients",
        "a key twice",
        ("S17",),
        DISPATCH,
        '" ".join(str(row.attempt_id) for row in rows)',
        '" ".join(str(row.attempt_id) for row in rows), to=str([row.recipients for row in rows])',
    ),
    bug(
        "a transaction is open during a call",
        "two holds",
        ("S20",),
        DISPATCH,
        "    outcome: Outcome = rt.mailer.send(outgoing)\n",
        "    with rt.db.transaction() as tx:\n        tx.now  # noqa: B018\n"
        "        outcome: Outcome = rt.mailer.send(outgoing)\n",
    ),
    bug(
        "two results of one email are judged by what stood before both",
        "a late answer, resend",
        ("S7", "S8", "S15"),
        RECORD,
        "        free.discard(ended.row.email_id)\n",
        "",
    ),
    Bug(
        "an acceptance is written without a look at the lease",
        "a late acceptance, resend",
        ("S8",),
        (
            Patch(
                ACCEPTANCES,
                "FROM ours JOIN brought b ON b.attempt_id = ours.lease_token",
                "FROM ours CROSS JOIN brought b",
            ),
            Patch(
                ACCEPTANCES,
                " AND a.state = 'started'\n",
                " AND a.email_id = ours.id AND a.state IN ('started', 'unknown')\n",
            ),
            Patch(ACCEPTANCES, "                  AND o.lease_token = accepted.id\n", ""),
        ),
    ),
)
