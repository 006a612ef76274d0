"""Shows how a run goes (a bar on a terminal, plain lines elsewhere), and everything in one table."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table

from tests.campaign import report as campaign
from tests.campaign import watch
from tests.campaign.auditor import Verdict
from tests.campaign.nemesis import WINDOWS
from tests.chaos.evidence import Found
from tests.chaos.load import Load
from tests.chaos.nemesis import BESIDE, Nemesis
from tests.chaos.stage import Stage
from tests.chaos.world import IN_VAIN, MIX


class Watch(watch.Watch):
    """Says how far a run is."""

    def __init__(self, console: Console, emails: int) -> None:
        super().__init__(console, 1.0)
        self._emails = emails

    def stands(self, what: str, share: float, done: int) -> None:
        """Tell where it stands."""
        self.show(f"{share:4.0%} {what}, clients {done}/{self._emails}", share)


def points(found: Found, nemesis: Nemesis, load: Load, stage: Stage) -> dict[str, int]:
    """Count how often each fault was met, by what the world, the wire and the tables tell."""
    blows, tally, proxy = nemesis.harm.blows, nemesis.tally, stage.proxy
    ahead = stage.ahead
    calls = found.campaign.calls
    ended = {row["request_id"]: row["behaviour"] for row in calls}
    met = Counter(ended.values())
    habits = found.habits
    deliveries = [row for row in found.campaign.deliveries if row["type"] == "Notification"]
    decided = Counter((row["decided_by"] == "policy", row["decision"]) for row in found.decisions)
    states = Counter(row["state"] for row in found.emails)
    return {
        "SIGKILLs in all": tally.total,
        **{f"SIGKILL of a {what}": tally.kills[what] for what in ("worker", "web", "clock")},
        **{f"worker killed in the window {w}": tally.windows[w] for w in WINDOWS},
        "kill -9 of the postmaster": blows["postmaster"],
        "kill -9 of a child of the postmaster": blows["backend"],
        "purges of all backends": blows["purge"],
        "deploys (group SIGTERM, twice)": blows["deploy"],
        "workers whose clock is 15 min ahead": ahead["900"],
        "workers whose clock is 15 min behind": ahead["-900"],
        "workers frozen past their lease": tally.pauses,
        "stale worker beside a second epoch": blows[BESIDE],
        "broker's table truncated": blows["truncate"],
        "windows: outage": blows["outage"],
        "windows: throttling": blows["throttling"],
        "windows: account paused": blows["paused"],
        "windows: certificate away": blows["certificate"],
        "certificates asked for in vain": blows[IN_VAIN],
        "calls refused while paused": met["paused"],
        **{
            f"wire: {what}": proxy.counts[fault]
            for fault, what in {
                "late": "late",
                "cut": "cut",
                "hole": "half-open",
                "answer_lost": "COMMIT done, answer lost",
                "commit_lost": "COMMIT lost",
            }.items()
        },
        **{f"SES: {name}": met[name] for name in MIX},
        "events: early": sum("early" in row for row in habits),
        "events: repeated": sum("repeat_events" in row for row in habits),
        "events: reordered": sum("reorder_events" in row for row in habits),
        "events: late": sum("event_delay_seconds" in row for row in habits),
        "events: never": sum("drop_events" in row for row in habits),
        "events: delivery repeated after no 2xx": sum(row["will_retry"] for row in deliveries),
        "forgeries": len(found.forged),
        "keys used again, replayed": sum(said.replayed for said in load.answered)
        + sum(not said.created for said in load.submitted),
        "keys with another payload": load.other_payloads_refused,
        "emails that can't be rendered": len(found.poisoned),
        "emails kept from the suppressed": states["suppressed"],
        "operator: accepted": decided[False, "accepted"],
        "operator: resend": decided[False, "resend"],
        "operator: abandon": decided[False, "abandon"],
        "policy: resend": decided[True, "resend"],
    }


def table(
    title: str, facts: dict[str, object], points: dict[str, int], verdicts: list[Verdict]
) -> Table:
    """Everything in one table: what was done, the faults, the rules."""
    shown = Table("what", "count", "verdict", title=title)
    for name, value in facts.items():
        shown.add_row(name, str(value), "")
    shown.add_section()
    for name, times in points.items():
        shown.add_row(name, str(times), "ok" if times else "[red]never met[/red]")
    shown.add_section()
    campaign.judged(shown, verdicts)
    return shown
