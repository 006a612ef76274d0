"""The mistakes that a chaos run must see, each as a patch of a copy of the tree."""

from __future__ import annotations

from dataclasses import dataclass

from tests.campaign.seeding import Patch
from tests.campaign.sensitivity import Bug, known


@dataclass(frozen=True)
class Seeded:
    """A bug, and the blows that come before all others because they are what it is about."""

    bug: Bug
    first: tuple[str, ...] = ()


def _seeded(
    name: str,
    caught_by: tuple[str, ...],
    *patches: tuple[str, str, str],
    first: tuple[str, ...] = (),
) -> Seeded:
    return Seeded(Bug(name, [Patch(*patch) for patch in patches], caught_by), first)


_ANSWERS = "mail_service/domain/answers.py"
_CLAIMS = "mail_service/store/claims.py"
_UNKNOWNS = '        case "connection_lost" | "no_message_id" | "read_timeout" | "server_error":\n'
_ACCOUNT = (
    '        case "account_suspended" | "clock_skew" | "credentials" | "daily_quota"'
    ' | "sending_paused":\n'
)

BUGS = (
    _seeded("no bug at all (the control: it must stay green)", ()),
    _seeded(
        "the token is not looked at",
        ("S8",),
        (
            "mail_service/domain/sending.py",
            "holds_lease = email.state is EmailState.SENDING and email.lease_token == attempt.id",
            "holds_lease = email.state is EmailState.SENDING",
        ),
        first=("stale",),
    ),
    Seeded(known("an expired lease makes the email pending again", "S5", "S9")),
    _seeded(
        "a timeout is taken for a refusal",
        ("S5", "S6"),
        (
            _ANSWERS,
            _UNKNOWNS,
            '        case "read_timeout":\n'
            "            return Deferred(error_class=reason, error_code=code)\n"
            + _UNKNOWNS.replace(' | "read_timeout"', ""),
        ),
    ),
    Seeded(known("a 5xx is taken for a refusal", "S5", "S6")),
    Seeded(known("the SDK retries by itself", "S4")),
    _seeded(
        "the claim does not look at suppressions",
        ("S10",),
        (
            _CLAIMS,
            "(SELECT count(*) > 0 FROM mail_service.suppressions s\n"
            "                WHERE s.address_hash = r.address_hash\n"
            "                  AND COALESCE(s.released_at, 'infinity') = 'infinity') AS suppressed",
            "false AS suppressed",
        ),
    ),
    _seeded(
        "a delivery clears the suppression",
        ("S11",),
        (
            "mail_service/workflows/match.py",
            "    for address_hash in sorted(stops):\n",
            "    if event.kind is EventKind.DELIVERY:\n"
            "        tx.run(\n"
            '            "DELETE FROM mail_service.suppressions WHERE address_hash = ANY(%s)",\n'
            "            ([r.address_hash for r in called],),\n"
            "        )\n"
            "    for address_hash in sorted(stops):\n",
        ),
    ),
    _seeded(
        "SNS ids are not unique",
        ("S12",),
        (
            "migrations/sql/0001_the_first_loop.sql",
            "    CONSTRAINT ses_events_stored_once UNIQUE (topic_arn, sns_message_id),\n",
            "",
        ),
        (
            "mail_service/store/events.py",
            "        ON CONFLICT (topic_arn, sns_message_id) DO NOTHING\n",
            "",
        ),
    ),
    _seeded(
        "the webhook answers 200 before the commit",
        ("S12", "L4"),
        (
            "mail_service/workflows/ingest.py",
            "    stored = _patiently(rt, event)\n",
            "    stored = None\n"
            '    __import__("threading").Thread(target=_patiently, args=(rt, event)).start()\n',
        ),
        first=("postmaster", "web", "purge", "web child"),
    ),
    _seeded(
        "a certificate that can't be fetched is a refusal",
        ("S12",),
        (
            "mail_service/gateways/certificates.py",
            "outcome = _Failure(fault, until=",
            'outcome = _Failure(NotGenuine("bad_certificate", str(fault)), until=',
        ),
        first=("certificate",),
    ),
    _seeded(
        "a hint is the only thing that wakes a worker",
        ("L1",),
        (
            "actors/drain.py",
            "        if not self._woken and now < self._poll_at:\n",
            "        if not self._woken:\n",
        ),
    ),
    _seeded(
        "leases end by the worker's clock",
        ("S8", "L1", "L2"),
        (
            _CLAIMS,
            "                THEN mail_service.clock() + make_interval(secs => %(lease)s) END,\n",
            "                THEN to_timestamp(%(clock)s) + make_interval(secs => %(lease)s) END,\n",
        ),
        (
            _CLAIMS,
            '            "limit": len(attempt_ids),\n',
            '            "limit": len(attempt_ids),\n            "clock": time.time(),\n',
        ),
        (
            _CLAIMS,
            '            "ids": [attempt_id],\n',
            '            "ids": [attempt_id],\n            "clock": time.time(),\n',
        ),
        (_CLAIMS, "from uuid import UUID\n", "from uuid import UUID\nimport time\n"),
    ),
    _seeded(
        "a paused account fails the email",
        ("what failed",),
        (
            _ANSWERS,
            _ACCOUNT,
            '        case "sending_paused":\n'
            "            return Refused(error_class=reason, error_code=code)\n"
            + _ACCOUNT.replace(' | "sending_paused"', ""),
        ),
        first=("paused",),
    ),
    Seeded(known("the attempt's row is written after the call", "S4")),
)
