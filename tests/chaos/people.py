"""Who acts from outside while everything goes wrong: an operator who decides, and a forger."""

from __future__ import annotations

import base64
import json
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3

from mail_service.ports import TAG_NAME
from mail_service.sandbox.signing import Signer
from tests.chaos.stage import SETTINGS, Stage
from tests.journeys.town import TOPIC, Api

FOREIGN = "arn:aws:sns:eu-west-1:999999999999:ses-events"
MAY_RUN = float(SETTINGS["LEASE_SECONDS"]) + 3.5


class Lines:
    """A file of JSON lines, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def more(self) -> list[dict[str, Any]]:
        """Give what was added."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


class _Actor:
    """Does something now and then on a thread of its own, until told to stop."""

    every = 0.5

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self.faults: list[str] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is under way is finished."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(60)

    def turn(self) -> None:
        """Do it once."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stop.wait(self.every):
            try:
                self.turn()
            except urllib3.exceptions.HTTPError:
                continue  # the product may be away
            except Exception as fault:
                self.faults.append(repr(fault))


@dataclass(frozen=True)
class Decided:
    """A decision that was asked for; ``sure`` once it was answered 2xx."""

    email_id: str
    attempt_id: str
    decision: str
    sure: bool


class Operator(_Actor):
    """Resolves some of the doubtful emails over the API, by looking at the world's own log.

    Says ``accepted`` only where the log says so and no event will ever tell; sends again or gives up
    where nothing was accepted; leaves alone whatever an event will still prove, and every fifth.
    """

    def __init__(self, stage: Stage, seed: int) -> None:
        super().__init__("operator")
        self._stage = stage
        self._seed = seed
        self._api = Api(stage.processes.port, stage.processes.api.key)
        self._calls = Lines(stage.directory / "ses.log")
        self._habits = Lines(stage.directory / "habits.log")
        self._accepted: dict[str, str] = {}
        self._silent: set[str] = set()
        self.decided: list[Decided] = []

    def turn(self) -> None:
        """Look at the desk and decide."""
        answer = self._api.get("/v1/emails?state=ambiguous&limit=100")
        if answer.status != 200:
            return
        for row in self._calls.more():
            if row["event"] == "accepted":
                self._accepted[row["tags"][TAG_NAME]] = row["message_id"]
        for habit in self._habits.more():
            if habit.get("drop_events"):
                self._silent.add(habit["message_id"])
        for email in answer.json["items"]:
            if not self._stop.is_set():
                self._look(email)

    def _look(self, email: dict[str, Any]) -> None:
        newest = max(email["attempts"], key=lambda attempt: attempt["number"])
        begun = datetime.fromisoformat(newest["started_at"])
        if (datetime.now(UTC) - begun).total_seconds() < MAY_RUN:
            return
        if email["on_ambiguous"] == "resend" and not email["policy_note"]:
            return  # the stated policy goes first
        chance = random.Random(f"operator {self._seed} {email['dedup_key']} {email['epoch']}")
        if chance.random() < 0.2:
            return
        message_id = self._accepted.get(newest["request_tag"])
        if message_id is None:
            self._decide(email, newest, "resend" if chance.random() < 0.7 else "abandon")
        elif message_id in self._silent:
            self._decide(email, newest, "accepted")

    def _decide(self, email: dict[str, Any], newest: dict[str, Any], decision: str) -> None:
        body = {"decision": decision, "reason": "seen in the log", "attempt_id": newest["id"]}
        sure = False
        try:
            sure = self._api.post(f"/v1/emails/{email['id']}/resolve", body).status == 200
        finally:
            self.decided.append(Decided(email["id"], newest["id"], decision, sure))


class Forger(_Actor):
    """Posts what is not genuine; each must be refused, and leave nothing."""

    every = 0.4

    def __init__(self, stage: Stage, seed: int) -> None:
        super().__init__("forger")
        self._stage = stage
        self._chance = random.Random(f"forger {seed}")
        self._pool = urllib3.PoolManager(retries=False, timeout=10)
        self._signer = Signer.generate()
        self._habits = Lines(stage.directory / "habits.log")
        self._known: list[str] = [f"0102{uuid.uuid4().hex}"]
        about = self._pool.request("GET", f"{stage.sandbox_url}/_sandbox")
        self._genuine_certificate = json.loads(about.data)["certificate_url"]
        self.told: dict[str, Counter[int]] = {}
        self._kinds: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
            "another's key": lambda fields: fields,
            "no signature": lambda fields: fields | {"Signature": ""},
            "a foreign topic": lambda fields: fields | {"TopicArn": FOREIGN},
            "a certificate elsewhere": lambda fields: (
                fields | {"SigningCertURL": "http://127.0.0.1:1/SimpleNotificationService-0.pem"}
            ),
        }

    def turn(self) -> None:
        """Forge a bounce of a mail that exists."""
        self._known += [row["message_id"] for row in self._habits.more()]
        message = {
            "eventType": "Bounce",
            "mail": {"messageId": self._chance.choice(self._known), "tags": {}},
            "bounce": {"bounceType": "Permanent", "bouncedRecipients": []},
        }
        sns_id = str(uuid.uuid4())
        fields = {
            "Type": "Notification",
            "MessageId": sns_id,
            "TopicArn": TOPIC,
            "Message": json.dumps(message),
            "Timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        }
        signed = fields | {
            "SignatureVersion": "2",
            "Signature": self._signer.signature(fields, "2"),
            "SigningCertURL": self._genuine_certificate,
        }
        assert base64.b64decode(signed["Signature"])
        forged = self._kinds[self._chance.choice(sorted(self._kinds))](signed)
        seen = self.told.setdefault(sns_id, Counter())
        answer = self._pool.request(
            "POST",
            self._stage.processes.webhook,
            body=json.dumps(forged).encode(),
            headers={"Content-Type": "text/plain; charset=UTF-8"},
        )
        seen[answer.status] += 1
