"""The outside, scripted: a provider that answers what it is told, ids that count."""

from collections.abc import Callable
from itertools import count
from uuid import UUID

from mail_service.domain.outcomes import Accepted, Outcome
from mail_service.ports import OutgoingEmail, SendingQuota


class ScriptedMailer:
    """Answers from its script, then accepts everything; remembers every call in order."""

    def __init__(self) -> None:
        self.script: list[Outcome | Callable[[OutgoingEmail], Outcome]] = []
        self.calls: list[OutgoingEmail] = []
        self._accepted = count(1)
        self.account = SendingQuota(
            max_per_second=1_000_000,
            max_per_day=None,
            sent_last_day=0,
            sending_enabled=True,
            production_access=True,
        )

    def answers(self, *outcomes: Outcome | Callable[[OutgoingEmail], Outcome]) -> None:
        """Add to the script."""
        self.script.extend(outcomes)

    def quota(self) -> SendingQuota:
        """Give the account's quota: what the test set."""
        return self.account

    def send(self, email: OutgoingEmail) -> Outcome:
        """Answer the next of the script."""
        self.calls.append(email)
        if not self.script:
            return Accepted(provider_message_id=f"message-{next(self._accepted)}")
        answer = self.script.pop(0)
        return answer(email) if callable(answer) else answer


def counting_ids() -> Callable[[], UUID]:
    """Give UUIDs 1, 2, 3 … so that a failing test names the same ids each time."""
    numbers = count(1)
    return lambda: UUID(int=next(numbers))
