"""The load client: signs people up, repeats what was not answered, and keeps its own log of every 2xx."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import urllib3

from tests.journeys.town import Answer, Api

GIVES_UP_AFTER = 60.0
CONFLICT_GIVES_UP_AFTER = 8.0
"""A twin in flight dies with its transaction, so a 409 that stays is no answer to a fresh key."""

REPEATS = 0.1
"""How many of the answered requests are made once more with the same key."""

MIX = {
    "timeout": 3,
    "reset": 3,
    "lost": 2,
    "error500": 3,
    "refuse503": 2,
    "garbage": 2,
    "throttleonce": 3,
    "early": 2,
    "slow": 2,
    "bounce": 1,
}
"""How many of a hundred sign-ups are of each kind; the others are ordinary."""


@dataclass(frozen=True)
class Answered:
    """What the client was promised by one 2xx."""

    key: str
    address: str
    account_id: str
    email_id: str
    replayed: bool
    tries: int


def _parts(emails: int, mix: Mapping[str, int]) -> list[str]:
    """Give the local part of each sign-up, so that a small campaign has some of each kind, too."""
    odd = [part for part, share in mix.items() for _ in range(max(1, emails * share // 100))]
    return (odd + ["success"] * emails)[:emails]


class Load:
    """A few client threads that make the sign-ups they were granted."""

    def __init__(
        self,
        port: int,
        api_key: str,
        *,
        emails: int,
        seed: int,
        mix: Mapping[str, int] = MIX,
        clients: int = 6,
    ) -> None:
        chance = random.Random(seed)
        parts = _parts(emails, mix)
        chance.shuffle(parts)
        self._todo = [
            (f"campaign-{seed}-{n}", f"{part}+c{seed}-{n}@simulator.amazonses.com")
            for n, part in enumerate(parts)
        ]
        self._again = {key for key, _ in self._todo if chance.random() < REPEATS}
        self._granted: SimpleQueue[tuple[str, str] | None] = SimpleQueue()
        self._next = 0
        self._lock = threading.Lock()
        self.answered: list[Answered] = []
        self.unanswered: list[str] = []
        self.done = 0
        self.retries = 0
        self._apis = [Api(port, api_key) for _ in range(clients)]
        self._threads = [
            threading.Thread(target=self._client, args=(api,), name=f"client-{n}", daemon=True)
            for n, api in enumerate(self._apis)
        ]
        for thread in self._threads:
            thread.start()

    def grant(self, count: int | None = None) -> None:
        """Let the clients make this many more sign-ups; None: all that are left."""
        until = len(self._todo) if count is None else min(self._next + count, len(self._todo))
        while self._next < until:
            self._granted.put(self._todo[self._next])
            self._next += 1

    def finish(self, seconds: float) -> None:
        """Make what is left and wait for the clients."""
        self.grant()
        for _ in self._threads:
            self._granted.put(None)
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for api in self._apis:
            api.close()

    def abandon(self) -> None:
        """Drop what was granted, because the campaign ended early."""
        self._next = len(self._todo)
        try:
            while True:
                self._granted.get_nowait()
        except Empty:
            self.finish(5)

    def _client(self, api: Api) -> None:
        while (job := self._granted.get()) is not None:
            key, address = job
            for _ in range(2 if key in self._again else 1):
                self._sign_up(api, key, address)
            with self._lock:
                self.done += 1

    def _sign_up(self, api: Api, key: str, address: str) -> None:
        begun = time.monotonic()
        deadline = begun + GIVES_UP_AFTER
        tries, last = 0, "nothing"
        while time.monotonic() < deadline:
            tries += 1
            try:
                answer = api.post("/v1/accounts", {"email": address}, **{"Idempotency-Key": key})
            except urllib3.exceptions.HTTPError as fault:
                last = type(fault).__name__
            else:
                if answer.status == 201:
                    self._note(key, address, answer, tries)
                    return
                last = f"{answer.status} {answer.text[:200]}"
                if answer.status == 409:
                    deadline = min(deadline, begun + CONFLICT_GIVES_UP_AFTER)
                elif answer.status < 500:
                    break
            with self._lock:
                self.retries += 1
            time.sleep(0.1)
        with self._lock:
            self.unanswered.append(f"{key}: {last}")

    def _note(self, key: str, address: str, answer: Answer, tries: int) -> None:
        content = answer.json
        with self._lock:
            self.answered.append(
                Answered(
                    key=key,
                    address=address,
                    account_id=content["account"]["id"],
                    email_id=content["email"]["id"],
                    replayed=answer.headers.get("Idempotency-Replayed") == "true",
                    tries=tries,
                )
            )
