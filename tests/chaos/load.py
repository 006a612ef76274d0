"""The load: sign-ups and emails with keys, a share of them repeated, a share to suppressed addresses."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import urllib3

from tests.campaign.load import Load as Campaign
from tests.chaos.notes import SPOILED
from tests.journeys.town import Answer, Api

SUPPRESSED = 0.05
POISON = 0.02
"""How many of the emails are spoiled in the database, so that no worker can render them."""

AGAIN = 0.4
"""How many of the emails with a dedup key may be sent again by the stated policy."""

FATES = {"bounce": 2, "complaint": 3, "delayed": 1, "ooto": 1}
GIVES_UP_AFTER = 90.0
PAUSE = 0.1


@dataclass(frozen=True)
class Submitted:
    """What the client was promised by a 2xx to an email with a dedup key."""

    key: str
    address: str
    email_id: str
    created: bool


@dataclass(frozen=True)
class Stopped:
    """A suppression that was answered 2xx, before any email to its address was submitted."""

    address: str
    suppression_id: str


class Load(Campaign):
    """Client threads that repeat whatever was not answered, with the same key."""

    def __init__(
        self,
        port: int,
        api_key: str,
        *,
        emails: int,
        seed: int,
        fates: Mapping[str, int] | None = None,
        clients: int = 6,
        calm: bool = False,
    ) -> None:
        self._poison = 0.0 if calm else POISON
        self._urgent = Api(port, api_key)
        self.poisoned: set[str] = set()
        self.submitted: list[Submitted] = []
        self.stopped: list[Stopped] = []
        self.other_payloads_refused = 0
        self.payloads_taken_twice: list[str] = []
        self._seed = seed
        super().__init__(
            port,
            api_key,
            emails=emails,
            seed=seed,
            mix=FATES if fates is None else fates,
            clients=clients,
        )

    def _sign_up(self, api: Api, key: str, address: str) -> None:
        """Make one piece of work; the name is the campaign's, for which all work is sign-ups."""
        chance = random.Random(f"load {self._seed} {key}")
        at = chance.random()
        if at < SUPPRESSED:
            self._stop(api, key, address)
            self._email(api, key, address, chance)
        elif at < 0.5:
            self._account(api, key, address)
        else:
            self._email(api, key, address, chance)

    def _account(self, api: Api, key: str, address: str) -> None:
        answer, tries = self._insist(
            key, lambda: api.post("/v1/accounts", {"email": address}, **{"Idempotency-Key": key})
        )
        if answer is None:
            return
        self._note(key, address, answer, tries)
        if key in self._again:
            other = {"email": f"other+{uuid.uuid4().hex}@simulator.amazonses.com"}
            self._other_payload(
                key, lambda: api.post("/v1/accounts", other, **{"Idempotency-Key": key})
            )

    def _email(self, api: Api, key: str, address: str, chance: random.Random) -> None:
        body: dict[str, Any] = {
            "data": {"name": "someone"},
            "dedup_key": key,
            "template": "welcome-v1",
            "to": [address],
            "on_ambiguous": "resend" if chance.random() < AGAIN else "hold",
            "priority": chance.choice([2, 5, 8, 8]),
        }
        if chance.random() < self._poison and address.startswith("success+"):
            body["data"]["name"] = SPOILED
            with self._lock:
                self.poisoned.add(key)
        if self._submit(api, key, address, body) is None:
            return
        if key in self._again:
            self._other_payload(key, lambda: api.post("/v1/emails", body | {"priority": 0}))
        if address.startswith(("bounce+", "complaint+")) and not key.endswith("again"):
            # While the event that suppresses the address may be on its way.
            self._email(api, f"{key} again", address, chance)

    def finish(self, seconds: float, tell: Callable[[], None] = lambda: None) -> None:
        """Make what is left and wait for the clients; ``seconds`` at most in which none gets on."""
        self.grant()
        for _ in self._threads:
            self._granted.put(None)
        done, since = self.done, time.monotonic()
        while any(thread.is_alive() for thread in self._threads):
            if self.done != done:
                done, since = self.done, time.monotonic()
            if time.monotonic() - since > seconds:
                break
            tell()
            time.sleep(0.05)
        for api in [*self._apis, self._urgent]:
            api.close()

    def urgent(self, key: str, address: str) -> str | None:
        """Submit one email ahead of all others, that policy may send again; gives its id."""
        body = {
            "dedup_key": key,
            "template": "welcome-v1",
            "to": [address],
            "on_ambiguous": "resend",
            "priority": 9,
        }
        return self._submit(self._urgent, key, address, body)

    def later(self, key: str, address: str, at: datetime) -> str | None:
        """Submit one email that is due later, when nothing else may be going on; gives its id."""
        body = {
            "dedup_key": key,
            "template": "welcome-v1",
            "to": [address],
            "send_at": at.isoformat(),
        }
        return self._submit(self._urgent, key, address, body)

    def _submit(self, api: Api, key: str, address: str, body: dict[str, Any]) -> str | None:
        answer, _ = self._insist(key, lambda: api.post("/v1/emails", body))
        if answer is None:
            return None
        said = Submitted(key, address, answer.json["id"], created=answer.status == 201)
        with self._lock:
            self.submitted.append(said)
        return said.email_id

    def _stop(self, api: Api, key: str, address: str) -> None:
        answer, _ = self._insist(
            f"suppress {key}", lambda: api.post("/v1/suppressions", {"address": address})
        )
        if answer is not None:
            with self._lock:
                self.stopped.append(Stopped(address, answer.json["id"]))

    def _other_payload(self, key: str, call: Callable[[], Answer]) -> None:
        """The key with another payload: it must be refused, whatever else goes wrong."""
        try:
            answer = call()
        except urllib3.exceptions.HTTPError:
            return
        with self._lock:
            if answer.status < 300:
                self.payloads_taken_twice.append(key)
            elif answer.status < 500:
                self.other_payloads_refused += 1

    def _insist(self, what: str, call: Callable[[], Answer]) -> tuple[Answer | None, int]:
        """Repeat until there is a 2xx. A conflict may be a twin whose connection is half-open."""
        deadline = time.monotonic() + GIVES_UP_AFTER
        tries, last = 0, "nothing"
        while time.monotonic() < deadline:
            tries += 1
            try:
                answer = call()
            except urllib3.exceptions.HTTPError as fault:
                last = type(fault).__name__
            else:
                if answer.status < 300:
                    return answer, tries
                last = f"{answer.status} {answer.text[:200]}"
                if answer.status < 500 and answer.status != 409:
                    break
            with self._lock:
                self.retries += 1
            time.sleep(PAUSE)
        with self._lock:
            self.unanswered.append(f"{what}: {last}")
        return None, tries
