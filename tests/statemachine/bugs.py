"""Mistakes that somebody could make: patches of the source of which each must turn the machine red."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Patch:
    """One replacement in one file; its text must occur exactly once."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Bug:
    """A mistake, and the promises of which at least one must break."""

    name: str
    promises: tuple[str, ...]
    patches: Sequence[Patch]


def bug(name: str, promises: tuple[str, ...], path: str, before: str, after: str) -> Bug:
    """Give a mistake of one place."""
    return Bug(name, promises, (Patch(path, before, after),))


SENDING = "mail_service/domain/sending.py"
CLAIMS = "mail_service/store/claims.py"
OUTBOX = "mail_service/store/outbox.py"
DECIDE = "mail_service/workflows/decide.py"
HOLDING = "mail_service/workflows/holding.py"

BUGS = (
    Bug("no bug at all: it must stay green", (), ()),
    bug(
        "a stale token moves an email",
        ("S8", "S5"),
        SENDING,
        "holds_lease = email.state is EmailState.SENDING and email.lease_token == attempt.id",
        "holds_lease = email.state is EmailState.SENDING",
    ),
    bug(
        "an expired lease makes an email sendable",
        ("S9", "S5"),
        SENDING,
        'move=Move(to=EmailState.AMBIGUOUS, reason="lease_expired"),',
        "move=Move(to=EmailState.PENDING, wait_seconds=0.0),",
    ),
    bug(
        "an unknown outcome is tried again",
        ("S5", "S9"),
        SENDING,
        'return Move(to=EmailState.AMBIGUOUS, reason=error_class), "ambiguous"',
        'return Move(to=EmailState.PENDING, reason=error_class, wait_seconds=0.1), "retry"',
    ),
    bug(
        "the claim does not look at suppressions",
        ("S10",),
        CLAIMS,
        "WHERE s.address_hash = r.address_hash AND s.released_at IS NULL) AS suppressed",
        "WHERE s.address_hash = r.address_hash AND s.released_at < s.created_at) AS suppressed",
    ),
    bug(
        "nobody looks at suppressions again before a call that waited",
        ("S10",),
        "mail_service/workflows/dispatch.py",
        "stale = [c for c in in_time if now - c.checked > CHECK_GOOD_FOR_SECONDS]",
        "in_time = [replace(c, checked=now) for c in in_time]\n    stale: list[Claim] = []",
    ),
    bug(
        "a delivery lifts a suppression",
        ("S11", "S12"),
        "mail_service/workflows/match.py",
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
        ("S14",),
        (
            Patch(
                "migrations/sql/0001_the_first_loop.sql",
                "    CONSTRAINT ses_events_stored_once UNIQUE (topic_arn, sns_message_id),\n",
                "",
            ),
            Patch(
                "mail_service/store/events.py",
                "            ON CONFLICT (topic_arn, sns_message_id) DO NOTHING\n",
                "",
            ),
        ),
    ),
    bug(
        "a decision from an old page counts",
        ("S18",),
        DECIDE,
        "if newest.id != attempt_id:",
        "if newest.email_id != email_id:",
    ),
    bug(
        "an operator may send again while the old call may run",
        ("S5",),
        DECIDE,
        "    if doubt.started_ago is not None and doubt.started_ago < until:\n",
        "    if doubt.started_ago is not None and doubt.started_ago < 0 * until:\n",
    ),
    bug(
        "a paused account fails its mail",
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
        ("S16",),
        CLAIMS,
        "SELECT scope, subject FROM mail_service.holds WHERE cleared_at IS NULL\n",
        "SELECT scope, subject FROM mail_service.holds WHERE cleared_at < opened_at\n",
    ),
    bug(
        "policy sends again without limit",
        ("S5",),
        "mail_service/domain/deciding.py",
        "seen.policy_resends >= seen.max_policy_resends",
        "seen.policy_resends >= 100 + seen.max_policy_resends",
    ),
    bug(
        "the finalise does not look for evidence",
        ("S7", "L3"),
        SENDING,
        "    if email.accepted or state is AttemptState.ACCEPTED:\n        may_move = holds_lease",
        "    if learned is AttemptState.ACCEPTED:\n        may_move = holds_lease",
    ),
    bug(
        "a late result takes what is known back",
        ("S8", "S7", "CheckViolation"),  # the database has a check of its own
        SENDING,
        "return learned if _CERTAINTY[learned] > _CERTAINTY[known] else known",
        "return learned if _CERTAINTY[known] else learned",
    ),
    bug(
        "two holds over the same mail wait for each other",
        ("L1",),
        CLAIMS,
        "AND NOT stopped.wider\n",
        "AND stopped.others = 0\n",
    ),
    bug(
        "a probe that is lost keeps its slot",
        ("L1",),
        "mail_service/workflows/reconcile.py",
        "    holding.lost(tx, [finding",
        "    list([finding",
    ),
    bug(
        "a commit whose answer was lost is taken for one that did not happen",
        ("S5", "S4", "L1", "S8"),
        "mail_service/workflows/dispatch.py",
        "rows = rt.db.transact(work, found=lambda tx: claims.held_by(tx, ids))",
        "rows = rt.db.transact(work, found=work)",
    ),
)
