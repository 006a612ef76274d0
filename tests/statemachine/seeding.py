"""What a seeded bug is: patches of the source, and what they must break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.campaign.seeding import Patch


@dataclass(frozen=True)
class Bug:
    """A mistake, the story around which it is looked for first, and the promises of which one must break."""

    name: str
    story: str
    promises: tuple[str, ...]
    patches: Sequence[Patch]


def bug(
    name: str, story: str, promises: tuple[str, ...], path: str, before: str, after: str
) -> Bug:
    """Give a mistake of one place."""
    return Bug(name, story, promises, (Patch(path, before, after),))


DISPATCH = "mail_service/workflows/dispatch.py"
RECORD = "mail_service/workflows/record.py"
FACTS = "mail_service/domain/facts.py"
MATCH = "mail_service/workflows/match.py"
RECONCILE = "mail_service/workflows/reconcile.py"
REGISTRATION = "mail_service/workflows/registration.py"
INTAKE = "mail_service/workflows/intake.py"
SENDING = "mail_service/domain/sending.py"
CLAIMS = "mail_service/store/claims.py"
WAVES = "mail_service/store/waves.py"
OUTBOX = "mail_service/store/outbox.py"
ACCEPTANCES = "mail_service/store/acceptances.py"
DECIDE = "mail_service/workflows/decide.py"
