"""Who signs up in the demo, and where each has to end."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from mail_service.sandbox import SIMULATOR_DOMAIN

Json = dict[str, Any]


@dataclass(frozen=True)
class World:
    """What can be looked up to judge: active suppressions' reasons by address, the sandbox's log."""

    suppressed: Callable[[str], str | None]
    provider_log: Callable[[], Sequence[Json]]

    def calls(self, address: str, event: str = "arrived") -> int:
        """Count the SendEmail calls with this address, as the sandbox itself recorded them."""
        return sum(
            row["event"] == event and address in row["recipients"] for row in self.provider_log()
        )


@dataclass
class Role:
    """One account. ``states`` collects every state its email was seen in, in order."""

    name: str
    address: str
    promise: str
    check: Callable[["Role", World], Iterator[str]]
    email: Json = field(default_factory=dict[str, Any])
    states: list[str] = field(default_factory=list[str])

    def see(self, email: Json) -> None:
        """Take note of the email as it is now."""
        self.email = email
        if not self.states or self.states[-1] != email["state"]:
            self.states.append(email["state"])

    def problems(self, world: World) -> list[str]:
        """Say in which points it did not end where it should; empty when it did."""
        return [f"{self.name}: {problem}" for problem in self.check(self, world)]

    @property
    def state(self) -> str:
        """The email's state; empty before it was seen."""
        return self.email.get("state", "")

    @property
    def status(self) -> str:
        """The status of its recipient."""
        return self.email["recipients"][0]["status"] if self.email else ""

    @property
    def attempts(self) -> list[Json]:
        """The calls to SES made for it."""
        return cast("list[Json]", self.email.get("attempts", []))


def cast_of_the_demo() -> list[Role]:
    """Give the five accounts, in the order in which they sign up."""
    return [
        Role("ordinary", "ada@example.com", "submitted, then delivered", _ordinary),
        Role(
            "bounce",
            f"bounce+bob@{SIMULATOR_DOMAIN}",
            "bounced; no further mail",
            _stopped_by("bounce", "bounced"),
        ),
        Role(
            "complaint",
            f"complaint+carol@{SIMULATOR_DOMAIN}",
            "complained; no further mail",
            _stopped_by("complaint", "complained"),
        ),
        Role("suppressed", "dave@example.com", "never called: on the list before", _suppressed),
        Role(
            "timeout",
            f"timeout+tina@{SIMULATOR_DOMAIN}",
            "in doubt, until its Send event comes",
            _timeout,
        ),
    ]


def _expect(what: str, wanted: object, found: object) -> Iterator[str]:
    if found != wanted:
        yield f"{what} should be {wanted!r} and is {found!r}"


def _sent_once(role: Role, world: World) -> Iterator[str]:
    yield from _expect("state", "submitted", role.state)
    accepted = world.calls(role.address, "accepted")
    yield from _expect("mails that the sandbox accepted", 1, accepted)


def _ordinary(role: Role, world: World) -> Iterator[str]:
    yield from _sent_once(role, world)
    yield from _expect("recipient", "delivered", role.status)


def _stopped_by(reason: str, status: str) -> Callable[[Role, World], Iterator[str]]:
    def check(role: Role, world: World) -> Iterator[str]:
        yield from _sent_once(role, world)
        yield from _expect("recipient", status, role.status)
        yield from _expect("suppression list", reason, world.suppressed(role.address))

    return check


def _suppressed(role: Role, world: World) -> Iterator[str]:
    yield from _expect("state", "suppressed", role.state)
    yield from _expect("recipient", "suppressed", role.status)
    yield from _expect("calls to SES", 0, world.calls(role.address))


def _timeout(role: Role, world: World) -> Iterator[str]:
    if "ambiguous" not in role.states:
        yield f"it should have been ambiguous on its way, and was {' > '.join(role.states)}"
    yield from _sent_once(role, world)
    resolved = role.attempts[-1]["resolved_by"] if role.attempts else None
    yield from _expect("its call should be settled by an event: resolved_by", "event", resolved)
