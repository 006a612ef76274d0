"""What an attack is, and the harm each would do."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tests.signing import Envelope, body_of, certificate, notification, sign
from tests.steps import ses_event

VICTIM = "ada@example.com"
VICTIMS_TAG = str(UUID(int=4))
"""The tag of the call that went to the victim; the stage holds it against this."""
KNOWN_ID = "00000000-0000-4000-8000-00000000000a"
"""The SNS MessageId of an event that is stored already."""
HARM = json.dumps(ses_event("Complaint", tag=VICTIMS_TAG, recipients=(VICTIM,)))
GOOD_PEM = certificate()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One request, and its answer. ``cause`` is what it is counted under.

    ``pem`` is what stands at the good address; ``asks`` says whether it may be asked for.
    """

    row: str
    name: str
    body: bytes = field(repr=False)
    status: int
    cause: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    pem: bytes = field(default=GOOD_PEM, repr=False)
    asks: bool = False
    versions: tuple[str, ...] = ("2",)

    def __str__(self) -> str:
        return f"{self.row} {self.name}"


Attacks = Iterator[Attack]

STATUSES = {"too_large": 413, "foreign_topic": 403, "certificate_address": 403} | dict.fromkeys(
    ("signature_version", "bad_certificate", "bad_signature"), 403
)


def attack(
    row: str,
    name: str,
    envelope: Envelope | bytes,
    cause: str,
    *,
    headers: Mapping[str, str] | None = None,
    pem: bytes = GOOD_PEM,
    versions: tuple[str, ...] = ("2",),
) -> Attack:
    """Give the attack that is this body; its status follows from the cause of its refusal."""
    return Attack(
        row=row,
        name=name,
        body=envelope if isinstance(envelope, bytes) else body_of(envelope),
        status=STATUSES.get(cause, 400),
        cause=cause,
        headers=headers or {},
        pem=pem,
        asks=cause in ("bad_certificate", "bad_signature"),
        versions=versions,
    )


def harmful(**fields: object) -> Envelope:
    """Give an unsigned notification that would suppress the victim."""
    return notification(HARM, **fields)


def signed_harm(**fields: object) -> Envelope:
    """Give the same, signed: believed as it stands."""
    return sign(harmful(**fields))
