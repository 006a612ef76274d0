"""The outside world as a process of its own: the sandbox, misbehaving in given proportions.

``python -m tests.chaos.world``. What a call meets depends on the seed, the address and how often that
address was called; what becomes of its events on the seed and the mail. So an email that is sent again
meets something else the second time. What was drawn for events is written down for the auditor.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mail_service.sandbox import parts
from mail_service.sandbox.connection import Connection, Request, Response
from mail_service.sandbox.events import Event, Identity
from mail_service.sandbox.knobs import EVENT_KINDS, KnobBoard, Knobs
from mail_service.sandbox.ledger import Ledger
from mail_service.sandbox.mails import Draft, Mail
from mail_service.sandbox.newsroom import Newsroom
from mail_service.sandbox.sandbox import Sandbox
from mail_service.sandbox.sender import Sender
from mail_service.sandbox.simulator import BEHAVIOURS, Behaviour, local_part
from tests.journeys.town import TOPIC

MIX = {
    "timeout": 4,
    "reset": 3,
    "error500": 1,
    "error503": 1,
    "garbage": 1,
    "lost": 3,
    "blackhole": 1,
    "throttle": 3,
    "rejected": 2,
    "refuse503": 1,
}
"""Of a hundred calls; the others are accepted and answered."""

EARLY, REPEATED, REORDERED, NEVER = 0.05, 0.2, 0.3, 0.01
CERTAIN_EVERY = 4
"""Among the first calls every fourth is bad for certain, so that small runs meet each kind twice; of
those that are accepted, all of it unknown to the caller, no event ever tells."""

IN_VAIN = "certificates.log"

SLOW = "slow"
"""Mail to this local part is always taken and answered slowly, for blows that aim at its call."""

DELAYS = ((0.0, 55), (0.3, 30), (2.0, 12), (8.0, 3))
"""Seconds until the events of a mail start, and their share in a hundred."""


@dataclass
class World:
    """What the misbehaving parts need to know; there is one per process."""

    seed: int = 0
    odd: bool = True
    mix: dict[str, int] | None = None
    certificate_away: bool = False
    habits: Ledger | None = None
    in_vain: Ledger | None = None
    """Requests for a certificate that was away."""
    silent: set[str] = field(default_factory=set)
    """Addresses whose events never come, so that only a person can settle a doubt about them."""

    def draw(self, *what: object) -> random.Random:
        """Give a source of chance that depends on the seed and on what it is asked about."""
        return random.Random(f"{self.seed} {what}")


WORLD = World()


class OddSender(Sender):
    """Answers each call as the mix has it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._calls: Counter[str] = Counter()
        self._counting = threading.Lock()
        self._certain = [*MIX, *MIX] if WORLD.odd else []

    def _behaviour(self, draft: Draft, knobs: Knobs) -> Behaviour:
        usual = super()._behaviour(draft, knobs)
        address = draft.recipients[0]
        if knobs.outcome is not None or not WORLD.odd or local_part(address) == SLOW:
            return usual
        with self._counting:
            self._calls[address] += 1
            chance = WORLD.draw(address, self._calls[address])
            if self._certain and len(self._calls) % CERTAIN_EVERY == 0:
                certain = BEHAVIOURS[self._certain.pop()]
                if certain.accepted:
                    WORLD.silent.add(address)
                return certain
        at = chance.uniform(0, 100)
        for name, share in (WORLD.mix or MIX).items():
            if at < share:
                return BEHAVIOURS[name]
            at -= share
        return replace(usual, send_event_first=chance.random() < EARLY or len(self._calls) == 10)


class _Board:
    """Knobs as they are, but for what was drawn."""

    def __init__(self, board: KnobBoard, drawn: dict[str, object]) -> None:
        self._board = board
        self._drawn = drawn

    @property
    def now(self) -> Knobs:
        return self._board.now.model_copy(update=self._drawn)


class OddNewsroom:
    """Tells the events of each mail with the habits drawn for it; made of ordinary newsrooms."""

    def __init__(
        self, topic: str, identity: Identity, knobs: KnobBoard, emitter: Any, schedule: Any
    ) -> None:
        self._knobs = knobs
        self._build = lambda board: Newsroom(topic, identity, board, emitter, schedule)
        self._rooms: dict[str, Newsroom] = {}
        self._mails: Counter[str] = Counter()
        self._lock = threading.Lock()

    def story_of(
        self, mail: Mail, events: list[Event], *, first_now: bool = False
    ) -> Callable[[], None]:
        """Prepare the events of a mail."""
        drawn = self._drawn(mail)
        if WORLD.habits is not None:
            kinds = [event.kind for event in events]
            told = {"message_id": mail.message_id, "kinds": kinds, **drawn}
            WORLD.habits.append(told | ({"early": True} if first_now else {}))
        with self._lock:
            room = self._rooms.get(key := json.dumps(drawn))
            if room is None:
                room = self._rooms[key] = self._build(_Board(self._knobs, drawn))
        return room.story_of(mail, events, first_now=first_now)

    def _drawn(self, mail: Mail) -> dict[str, Any]:
        if not WORLD.odd:
            return {}
        address = mail.draft.recipients[0]
        with self._lock:
            self._mails[address] += 1
            chance = WORLD.draw("events", address, self._mails[address])
        drawn: dict[str, Any] = {}
        if chance.random() < NEVER or address in WORLD.silent:
            return {"drop_events": EVENT_KINDS}
        if chance.random() < REPEATED:
            drawn["repeat_events"] = chance.randint(2, 5)
        if chance.random() < REORDERED:
            drawn["reorder_events"] = True
        (delay,) = chance.choices([d for d, _ in DELAYS], [share for _, share in DELAYS])
        return drawn | ({"event_delay_seconds": delay} if delay else {})

    def release(self) -> int:
        """Tell what was held back."""
        with self._lock:
            return sum(room.release() for room in self._rooms.values())

    @property
    def held(self) -> int:
        """How much is held back."""
        with self._lock:
            return sum(room.held for room in self._rooms.values())


class OddSandbox(Sandbox):
    """A sandbox whose certificate may be away, and that takes orders about the world."""

    def _respond(self, request: Request, connection: Connection) -> None:
        away = WORLD.certificate_away and "SimpleNotificationService" in request.path
        if away:
            if WORLD.in_vain is not None:
                WORLD.in_vain.append({"path": request.path})
            connection.write(Response(503, b"away", "text/plain"))
        elif request.path == "/_world":
            for name, value in json.loads(request.body).items():
                setattr(WORLD, name, value)
            connection.write(Response(200, b"{}"))
        else:
            super()._respond(request, connection)


def main() -> None:
    """Play the world until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.world", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--webhook", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--calm", action="store_true")
    asked = parser.parse_args()
    WORLD.seed, WORLD.odd = asked.seed, not asked.calm
    WORLD.habits = Ledger(asked.directory / "habits.log")
    WORLD.in_vain = Ledger(asked.directory / IN_VAIN)
    # Put in before the sandbox is built: it makes its parts by these names.
    for name, odd in (("Sender", OddSender), ("Newsroom", OddNewsroom)):
        setattr(parts, name, odd)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with OddSandbox(
        asked.port,
        topic_arn=TOPIC,
        webhook_url=asked.webhook,
        log=asked.directory / "ses.log",
        delivery_log=asked.directory / "sns.log",
        seed=asked.seed,
    ):
        stop.wait()


if __name__ == "__main__":
    main()
