"""``make bench``: the product's own bench with its peers beside it, in one run.

The peers live in ``.venv-bench``, made here from ``benchmarks/requirements.txt``; they never touch the
product's lock. Options are those of ``mail-service bench``, and ``--json FILE``, ``--picture FILE``.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import structlog
import typer

from benchmarks import picture
from benchmarks.peers import profile as peers
from mail_service.cli import bench_report, session
from mail_service.cli.bench_cases import Case, Goal
from mail_service.cli.bench_pipeline import OURS, cases
from mail_service.cli.bench_run import LATENCIES, measure, profile, sized
from mail_service.errors import MailServiceError

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "benchmarks" / "requirements.txt"
VENV = ROOT / ".venv-bench"


def _cost(peer: str, bound: float) -> list[Goal]:
    return [
        Goal(
            text=f"CPU per email to {peer}, {group.rpartition('after ')[2]}",
            value=lambda medians, group=group: (
                medians(group, OURS.name, "CPU ms/email") / medians(group, peer, "CPU ms/email")
            ),
            bound=bound,
        )
        for group in (bench_report.AT_ONCE, bench_report.AFTER_50_MS)
    ]


GOALS = (*_cost("dramatiq-pg", 0.30), *_cost("pgqueuer", 0.50))


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only groups whose name contains this.")
    ] = None,
    repetitions: Annotated[int | None, typer.Option(min=1)] = None,
    emails: Annotated[int | None, typer.Option(min=100)] = None,
    signups: Annotated[int | None, typer.Option(min=10)] = None,
    requests: Annotated[int | None, typer.Option(min=100)] = None,
    pending: Annotated[int | None, typer.Option(min=0)] = None,
    finished: Annotated[int | None, typer.Option(min=0)] = None,
    findings: Annotated[
        Path | None, typer.Option("--json", help="Write the findings here, too.")
    ] = None,
    drawing: Annotated[
        Path | None, typer.Option("--picture", help="Draw the pipelines here, as SVG.")
    ] = None,
) -> None:
    """Measure the product and its peers."""
    session.quiet_logs()
    _make_venv()
    given = {
        "repetitions": repetitions,
        "emails": emails,
        "signups": signups,
        "requests": requests,
        "pending": pending,
        "finished": finished,
    }
    sizes = sized(quick=quick, given=given)
    status, found = measure(
        _all_cases(), (*GOALS, *bench_report.GOALS), sizes, only=only or [], as_json=False
    )
    if found and findings is not None:
        findings.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    if found and drawing is not None:
        drawing.write_text(picture.draw(found))
    raise typer.Exit(status)


def _all_cases() -> list[Case]:
    """Give the product's cases, with the peers' pipelines in the same groups."""
    others = cases(peers.senders(lambda text: typer.echo(text, err=True)), LATENCIES)
    return [*profile(), *others]


def _make_venv() -> None:
    """Make the peers' virtual environment, or make it anew when what it should hold has changed."""
    mark = VENV / ".made-from"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return
    typer.echo("making .venv-bench for the peers ...", err=True)
    python = VENV / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    subprocess.run(
        [
            *(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "-r", str(REQUIREMENTS)),
        ],
        check=True,
    )
    mark.write_text(wanted)


if __name__ == "__main__":
    structlog.reset_defaults()
    try:
        typer.run(main)
    except MailServiceError as problem:
        typer.echo(str(problem), err=True)
        sys.exit(1)
