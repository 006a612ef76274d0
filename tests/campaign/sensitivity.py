"""Proves the campaign: each seeded bug must turn it red. ``python -m tests.campaign.sensitivity``

A bug is a patch of a copy of the source tree; the copy goes before the installed package on
PYTHONPATH, so that the processes under test have the bug and the auditor does not.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.campaign import seeding
from tests.campaign.campaign import run
from tests.campaign.load import MIX
from tests.campaign.seeding import Patch

SOURCES = ("mail_service", "actors", "api", "migrations", "gunicorn.conf.py", "Procfile")


@dataclass(frozen=True)
class Bug:
    """A mistake that somebody could make, and the rules of which at least one must break."""

    name: str
    patches: Sequence[Patch]
    caught_by: tuple[str, ...]
    mix: Mapping[str, int] = field(default_factory=dict)
    """More of what the bug is about, in a hundred sign-ups."""


BUGS = (
    Bug(
        "no bug at all (the control: it must stay green)",
        (),
        (),
    ),
    Bug(
        "an expired lease makes the email pending again",
        (
            Patch(
                "mail_service/domain/sending.py",
                'move=Move(to=EmailState.AMBIGUOUS, reason="lease_expired"),',
                "move=Move(to=EmailState.PENDING, wait_seconds=0.0),",
            ),
        ),
        ("at most one acceptance", "the sweep never"),
    ),
    Bug(
        "an unknown outcome is retried",
        (
            Patch(
                "mail_service/domain/sending.py",
                'return Move(to=EmailState.AMBIGUOUS, reason=error_class), "ambiguous"',
                'return Move(to=EmailState.PENDING, reason=error_class, wait_seconds=0.1), "retry"',
            ),
        ),
        ("at most one acceptance", "a further attempt"),
    ),
    Bug(
        "the attempt's row is written after the call",
        (
            Patch(
                "mail_service/store/claims.py",
                """    ), attempted AS (
        INSERT INTO mail_service.send_attempts (id, email_id, number, epoch)
        SELECT attempt_id, id, number, epoch FROM verdict WHERE state = 'sending'
    ), called AS (
        INSERT INTO mail_service.attempt_recipients (attempt_id, recipient_id)
        SELECT v.attempt_id, a.id FROM verdict v JOIN addressed a ON a.email_id = v.id
        WHERE v.state = 'sending' AND NOT a.suppressed
    ), left_out""",
                "    ), left_out",
            ),
            Patch(
                "mail_service/workflows/record.py",
                "    standing = standings.of_calls(\n",
                """    for ended in results:
        tx.run(
            "INSERT INTO mail_service.send_attempts (id, email_id, number, epoch)"
            " VALUES (%s, %s, %s, 0) ON CONFLICT DO NOTHING",
            (ended.row.attempt_id, ended.row.email_id, ended.row.number),
        )
    standing = standings.of_calls(
""",
            ),
        ),
        ("every request has one attempt",),
    ),
    Bug(
        "the SDK retries by itself",
        (
            Patch(
                "mail_service/gateways/ses.py", '"total_max_attempts": 1', '"total_max_attempts": 3'
            ),
        ),
        ("no tag arrived twice",),
    ),
    Bug(
        "a 5xx is taken for a refusal",
        (
            Patch(
                "mail_service/domain/answers.py",
                '        case "connection_lost" | "no_message_id" | "read_timeout" | "server_error":\n',
                '        case "server_error":\n'
                "            return Deferred(error_class=reason, error_code=code)\n"
                '        case "connection_lost" | "no_message_id" | "read_timeout":\n',
            ),
        ),
        ("nothing recorded as not accepted", "at most one acceptance"),
        {"error500": 20},
    ),
    Bug(
        "events are matched by MessageId alone",
        (
            Patch(
                "mail_service/workflows/match.py",
                "tx, request_tag=event.request_tag,",
                "tx, request_tag=None,",
            ),
        ),
        ("an accepted call whose Send event",),
    ),
    Bug(
        "the sweep does not look at expired leases",
        (
            Patch(
                "mail_service/workflows/reconcile.py",
                "leases_expired=_in_batches(rt, _expire_leases)",
                "leases_expired=0",
            ),
        ),
        ("every email is submitted or ambiguous",),
    ),
    Bug(
        "an idempotency key is not looked up",
        (
            Patch(
                "mail_service/workflows/idempotency.py",
                "        if stored is not None:\n",
                "        if stored is not None and stored.status == 0:\n",
            ),
        ),
        ("one key, one account",),
    ),
)


def known(name: str, *caught_by: str) -> Bug:
    """Give one of these mistakes to another proof, whose rules have other names."""
    (bug,) = [bug for bug in BUGS if bug.name == name]
    return Bug(bug.name, bug.patches, caught_by)


def copied(directory: Path) -> Path:
    """Copy the sources once, so that all bugs are put into the same tree; gives the copy."""
    return seeding.copied(SOURCES, directory / "sound")


def patched(bug: Bug, sound: Path, directory: Path) -> Path:
    """Copy the copy and put the bug in; gives where it is."""
    source = shutil.copytree(sound, directory / "source")
    seeding.seed(bug.name, bug.patches, source)
    return source


def main() -> int:
    """Run a small campaign for each bug; gives 0 only if each was seen and the control was green."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign.sensitivity", description=__doc__
    )
    parser.add_argument("--emails", type=int, default=90)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="WORDS", help="bugs whose name contains this")
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    shown = Table("seeded bug", "seconds", "violations", "rules that broke", "verdict")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="sensitivity-") as kept:
        sound = copied(Path(kept))
        for bug in (bug for bug in BUGS if asked.only in bug.name):
            missed += not _seen(bug, sound, asked, console, shown)
    console.print(shown)
    return 1 if missed else 0


def _seen(bug: Bug, sound: Path, asked: argparse.Namespace, console: Console, shown: Table) -> bool:
    """Run a campaign against one bug; says whether it was seen as it should be."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sensitivity-") as directory:
        outcome = run(
            emails=asked.emails,
            kills=asked.kills,
            seed=asked.seed,
            console=Console(file=io.StringIO(), width=140),
            source=patched(bug, sound, Path(directory)),
            settles_within=15,
            most_strikes=1,
            mix={**MIX, **bug.mix},
        )
    rules = sorted({verdict.rule for verdict in outcome.verdicts if verdict.violations})
    right = any(rule.startswith(bug.caught_by) for rule in rules) if bug.caught_by else not rules
    took = f"{time.monotonic() - begun:.0f}"
    word = "as expected" if right else "[red]MISSED[/red]"
    shown.add_row(bug.name, took, str(len(outcome.violations)), "; ".join(rules), word)
    console.print(f"{bug.name}: {word} ({took} s)", highlight=False)
    return right


if __name__ == "__main__":
    sys.exit(main())
