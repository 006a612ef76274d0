"""Mistakes that somebody could make, of which each must turn the machine red: of sending and deciding."""

from __future__ import annotations

from tests.campaign.seeding import Patch
from tests.statemachine.more_bugs import MORE_BUGS
from tests.statemachine.seeding import (
    CLAIMS,
    DECIDE,
    DISPATCH,
    MATCH,
    SENDING,
    WAVES,
    Bug,
    bug,
)

BUGS = (
    Bug("no bug at all: it must stay green", "", (), ()),
    bug(
        "a stale token moves an email",
        "a late answer, resend",
        ("S8", "S5"),
        SENDING,
        "holds_lease = email.state is EmailState.SENDING and email.lease_token == attempt.id",
        "holds_lease = email.state is EmailState.SENDING",
    ),
    bug(
        "an expired lease makes an email sendable",
        "a late answer, resend",
        ("S9", "S5"),
        SENDING,
        'move=Move(to=EmailState.AMBIGUOUS, reason="lease_expired"),',
        "move=Move(to=EmailState.PENDING, wait_seconds=0.0),",
    ),
    bug(
        "an unknown outcome is tried again",
        "haste, resend",
        ("S5", "S9"),
        SENDING,
        'return Move(to=EmailState.AMBIGUOUS, reason=error_class), "ambiguous"',
        'return Move(to=EmailState.PENDING, reason=error_class, wait_seconds=0.1), "retry"',
    ),
    bug(
        "the claim does not look at suppressions",
        "another try",
        ("S10",),
        CLAIMS,
        "AND COALESCE(s.released_at, 'infinity') = 'infinity') AS suppressed",
        "AND s.released_at < s.created_at) AS suppressed",
    ),
    bug(
        "nobody looks at suppressions again before a call that waited",
        "a suppression while it waits",
        ("S10",),
        DISPATCH,
        "stale = [c for c in in_time if now - c.checked > CHECK_GOOD_FOR_SECONDS]",
        "in_time = [replace(c, checked=now) for c in in_time]\n    stale: list[Claim] = []",
    ),
    bug(
        "a delivery lifts a suppression",
        "a delivery before its MessageId",
        ("S11", "S12"),
        MATCH,
        "            reason = reason_in(fact)\n",
        """            reason = reason_in(fact)
            if fact.kind.value == "delivered":
                tx.run(
                    "UPDATE mail_service.suppressions SET released_at = mail_service.clock(), "
                    "released_by = 'event', release_rule = 'delivered' "
                    "WHERE address_hash = %s AND released_at IS NULL",
                    (recipient.address_hash,),
                )
""",
    ),
    Bug(
        "an SNS id may be stored twice",
        "a proof before the answer",
        ("S14",),
        (
            Patch(
                "migrations/sql/0001_the_first_loop.sql",
                "    CONSTRAINT ses_events_stored_once UNIQUE (topic_arn, sns_message_id),\n",
                "",
            ),
            Patch(
                "mail_service/store/events.py",
                "        ON CONFLICT (topic_arn, sns_message_id) DO NOTHING\n",
                "",
            ),
        ),
    ),
    bug(
        "a decision from an old page counts",
        "an old page, resend",
        ("S18",),
        DECIDE,
        "(newest is None or newest.id != seen.attempt_id)",
        "(newest is None or newest.email_id != email.id)",
    ),
    bug(
        "an operator may send again while the old call may run",
        "haste, resend",
        ("S5",),
        DECIDE,
        "    if doubt.started_ago is not None and doubt.started_ago < until:\n",
        "    if doubt.started_ago is not None and doubt.started_ago < 0 * until:\n",
    ),
    bug(
        "a paused account fails its mail",
        "two holds",
        ("S16",),
        SENDING,
        """                Move(
                    to=EmailState.PENDING,
                    reason=error_class,
                    wait_seconds=0.0,
                    refusals=email.refusals,
                    deferrals=email.deferrals,
                ),
                "held",
""",
        """                Move(to=EmailState.FAILED, reason=error_class),
                "held",
""",
    ),
    bug(
        "acceptance does not beat a doubt that was settled",
        "earlier evidence, abandoned",
        ("S7", "L3", "S12"),
        SENDING,
        (
            "    may_move = email.state not in {EmailState.SENDING, EmailState.SUBMITTED}\n"
            "    return Settlement(\n        attempt=AttemptState.ACCEPTED,"
        ),
        (
            "    may_move = email.state is EmailState.AMBIGUOUS\n"
            "    return Settlement(\n        attempt=AttemptState.ACCEPTED,"
        ),
    ),
    bug(
        "an acceptance does not beat a refusal",
        "a broken word, refused",
        ("S7", "L3"),
        SENDING,
        "    return Settlement(\n        attempt=AttemptState.ACCEPTED,",
        (
            "    if refused:\n        return Settlement(\n            attempt=attempt.state,\n"
            "            provider_message_id=None,\n            decision='kept', move=None\n        )\n"
            "    return Settlement(\n        attempt=AttemptState.ACCEPTED,"
        ),
    ),
    bug(
        "the claim ignores holds",
        "two holds",
        ("S16",),
        WAVES,
        "SELECT scope, subject FROM mail_service.holds WHERE cleared_at IS NULL\n",
        "SELECT scope, subject FROM mail_service.holds WHERE cleared_at < opened_at\n",
    ),
    bug(
        "policy sends again without limit",
        "a policy",
        ("S5",),
        "mail_service/domain/deciding.py",
        "seen.policy_resends >= seen.max_policy_resends",
        "seen.policy_resends >= 100 + seen.max_policy_resends",
    ),
    bug(
        "the finalise does not look for evidence",
        "a proof before the answer",
        ("S7", "L3"),
        SENDING,
        "    if email.accepted or state is AttemptState.ACCEPTED:\n        may_move = holds_lease",
        "    if learned is AttemptState.ACCEPTED:\n        may_move = holds_lease",
    ),
    bug(
        "a late result takes what is known back",
        "a proof before the answer",
        ("S8", "S7", "CheckViolation"),  # the database has a check of its own
        SENDING,
        "return learned if _CERTAINTY[learned] > _CERTAINTY[known] else known",
        "return learned if _CERTAINTY[known] else learned",
    ),
    *MORE_BUGS,
)
