"""One run: each weather in the middle of its emails, one after the other on the same stage."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from tests.campaign.auditor import Verdict
from tests.campaign.watch import Watch
from tests.journeys.programs import ROOT
from tests.weather import evidence, report
from tests.weather.auditor import judge
from tests.weather.evidence import Evidence, key
from tests.weather.stage import AS_SHIPPED, QUICK, Stage
from tests.weather.weathers import WEATHERS, Weather, local_part_of, sender_of

CLIENTS = 4
TOO_BUSY = {408, 503}
LOOK_EVERY = 0.05


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What to run."""

    emails: int = 1000
    weathers: Sequence[Weather] = WEATHERS
    settings: Mapping[str, str]
    seconds: float | None = None
    """How long bad weather lasts; None: as each weather has it."""
    answers_after: float = 0.2
    """Seconds until SES answers, so that calls are in flight when the weather turns."""
    probes_apart: float
    settles_within: float
    source: Path = ROOT


def as_shipped(emails: int, weathers: Sequence[Weather], source: Path = ROOT) -> Asked:
    """Give the full size: the product's own times."""
    return Asked(
        emails=emails,
        weathers=weathers,
        settings=AS_SHIPPED,
        probes_apart=60,  # of a minute's weather, also where probes tell nothing
        settles_within=200,
        source=source,
    )


def quick(weathers: Sequence[Weather], source: Path = ROOT) -> Asked:
    """Give a size that takes seconds: the same with short times."""
    return Asked(
        emails=60,
        weathers=weathers,
        settings=QUICK,
        seconds=1.2,
        answers_after=0.05,
        probes_apart=float(QUICK["RETRY_CAP_SECONDS"]),
        settles_within=60,
        source=source,
    )


@dataclass(frozen=True)
class Outcome:
    """What was found."""

    seen: list[Evidence]
    verdicts: list[list[Verdict]]

    @property
    def violations(self) -> list[str]:
        """Everything that broke a rule."""
        return [
            f"{found.weather.name}: {verdict.rule}: {broken}"
            for found, judged in zip(self.seen, self.verdicts, strict=True)
            for verdict in judged
            for broken in verdict.violations
        ]


def run(
    asked: Asked, console: Console, stage: AbstractContextManager[Stage] | None = None
) -> Outcome:
    """Run every weather asked for, judge each, and print the table."""
    with ExitStack() as stack:
        playing = stack.enter_context(stage or _stage(asked, stack))
        playing.sandbox.knobs(answer_delay_seconds=asked.answers_after)
        watch = stack.enter_context(Watch(console, len(asked.weathers)))
        seen = [
            _Play(asked, playing, weather, watch, n).run()
            for n, weather in enumerate(asked.weathers)
        ]
    outcome = Outcome(seen, [judge(found) for found in seen])
    console.print(report.table(f"weather: {asked.emails} emails each", seen, outcome.verdicts))
    for violation in outcome.violations[:25]:
        console.print(violation, highlight=False, markup=False)
    return outcome


def _stage(asked: Asked, stack: ExitStack) -> Stage:
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="weather-"))
    postgres = stack.enter_context(EmbeddedPostgres())
    return Stage(postgres, directory=Path(directory), settings=asked.settings, source=asked.source)


class _Play:
    """One weather from its first email to what is left of it."""

    def __init__(
        self, asked: Asked, stage: Stage, weather: Weather, watch: Watch, number: int
    ) -> None:
        self._asked = asked
        self._stage = stage
        self._weather = weather
        self._watch = watch
        self._number = number
        self._not_written: list[str] = []
        self._lasts = (
            weather.seconds if asked.seconds is None else min(weather.seconds, asked.seconds)
        )

    def run(self) -> Evidence:
        """Write the emails, let the weather turn in their midst and clear, and see them out."""
        stage, weather, emails = self._stage, self._weather, self._asked.emails
        before = evidence.mark(stage)
        late: list[str] = []
        writing = threading.Thread(target=self._write, name="writer", daemon=True)
        writing.start()
        quarter = partial(self._accepted, before, emails // 4)
        self._until(quarter, "the first quarter is accepted", late)
        begun = stage.now()
        stage.begin(weather)
        over = time.monotonic() + self._lasts
        self._until(lambda: time.monotonic() >= over, "the weather is over", late)
        self._until(lambda: not writing.is_alive(), "everything is written", late)
        if weather.stops is not None:
            self._until(self._others_are_out, "what the weather is not about is out", late)
        ended = stage.now()
        stage.end(weather)
        self._until(self._at_rest, "nothing is pending or sending", late)
        if weather.may_hold:
            # A hold that nobody's email is left to probe ends with the next one.
            self._write_one(emails)
            self._until(self._at_rest, "the next one is out", late)
        self._until(self._nothing_is_held, "nothing is held", late)
        self._until(partial(evidence.told, stage, before), "every event is told", late)
        late += self._not_written
        return evidence.collect(
            stage,
            weather,
            before,
            begun=begun,
            ended=ended,
            unfinished="; ".join(late),
            probes_apart=self._asked.probes_apart,
        )

    def _until(self, look: Callable[[], bool], what: str, late: list[str]) -> None:
        """Look until it is so; notes what was waited for in vain."""
        deadline = time.monotonic() + self._asked.settles_within
        while not look():
            if time.monotonic() > deadline:
                late.append(f"not within {self._asked.settles_within:g} s: {what}")
                return
            self._watch.show(f"{self._weather.name}: until {what}", self._number)
            time.sleep(LOOK_EVERY)

    def _write(self) -> None:
        with ThreadPoolExecutor(CLIENTS) as clients:
            writing = [clients.submit(self._write_one, n) for n in range(self._asked.emails)]
        self._not_written = [str(error) for one in writing if (error := one.exception())]

    def _write_one(self, number: int) -> None:
        local_part = local_part_of(self._weather, number, self._asked.emails)
        email = {
            "dedup_key": f"{key(self._weather)}{number}",
            "template": "welcome-v1",
            "to": [self._stage.address(local_part)],
            "from": sender_of(number),
        }
        # The dedup key makes it safe to ask again when the machine is too busy to answer.
        while (answer := self._stage.api.post("/v1/emails", email)).status in TOO_BUSY:
            time.sleep(LOOK_EVERY)
        assert answer.status in {200, 201}, answer.text

    def _accepted(self, before: evidence.Mark, least: int) -> bool:
        rows = self._stage.sandbox.log(before.calls)
        return sum(row["event"] == "accepted" for row in rows) >= least

    def _others_are_out(self) -> bool:
        return not self._stage.sql(
            "SELECT 1 FROM mail_service.email_outbox WHERE dedup_key LIKE %s || '%%'"
            " AND sender_address <> %s AND state <> 'submitted' LIMIT 1",
            key(self._weather),
            self._weather.stops,
        )

    def _at_rest(self) -> bool:
        return not self._stage.sql(
            "SELECT 1 FROM mail_service.email_outbox WHERE dedup_key LIKE %s || '%%'"
            " AND state IN ('pending', 'sending') LIMIT 1",
            key(self._weather),
        )

    def _nothing_is_held(self) -> bool:
        return not self._stage.sql("SELECT 1 FROM mail_service.holds WHERE cleared_at IS NULL")
