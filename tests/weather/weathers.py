"""Every weather as data: how the sky looks while it lasts, and what may become of the emails in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SHOP, BILLING, NEWS = SENDERS = ("shop@example.com", "billing@example.com", "news@example.com")
"""Three callers, whose emails take turns."""

CONFIGURATION_SET = "mail"

FAIR: Mapping[str, object] = {
    "outcome": None,
    "sender_outcomes": {},
    "sending_paused": False,
    "configuration_sets": None,
}
"""The knobs of a clear sky."""


@dataclass(frozen=True, kw_only=True)
class Weather:
    """One kind of bad weather. Nothing in it may make an email fail."""

    name: str
    knobs: Mapping[str, object] = field(default_factory=dict[str, object])
    """How the sandbox answers while it lasts."""
    refused: bool = False
    """Whether connections are refused while it lasts."""
    kill: bool = False
    """Whether a worker is killed as it begins, and another started in its place."""
    seconds: float = 60
    hold: tuple[str, str] | None = None
    """Scope and subject of the one hold that it must open; None: it must open none."""
    stops: str | None = None
    """The one sender whose emails it may stop; None: it may stop everybody's."""
    doubt: bool = False
    """Whether emails may be in doubt when it is over."""
    odd: tuple[str, ...] = ()
    """Recipients' local parts that are mixed in, each for one email in a hundred."""
    may_hold: bool = False
    """Whether it may open a hold of the endpoint, by chance."""


WEATHERS = (
    Weather(name="account paused", knobs={"sending_paused": True}, hold=("account", "")),
    Weather(name="expired credentials", knobs={"outcome": "expired"}, hold=("account", "")),
    Weather(
        name="unverified sender",
        knobs={"sender_outcomes": {BILLING: "unverified"}},
        hold=("sender", BILLING),
        stops=BILLING,
    ),
    Weather(
        name="missing configuration set",
        knobs={"configuration_sets": ["another"]},
        hold=("configuration_set", CONFIGURATION_SET),
    ),
    Weather(name="refused connections", refused=True, hold=("endpoint", "")),
    Weather(
        # One caller's calls are accepted all the same: their events must prove it.
        name="503s",
        knobs={"outcome": "refuse503", "sender_outcomes": {NEWS: "error503"}},
        hold=("endpoint", ""),
        doubt=True,
    ),
    Weather(name="throttling", knobs={"outcome": "throttle"}, seconds=30),
    Weather(
        name="lost answers and a kill",
        kill=True,
        seconds=0,
        doubt=True,
        odd=("timeout", "reset", "error500", "garbage", "lost", "blackhole", "refuse503"),
        may_hold=True,
    ),
)

NEVER_PROVED = "reset"
"""Of the odd ones, the accepted whose events never come."""


def sender_of(number: int) -> str:
    """Give whose email this one is."""
    return SENDERS[number % len(SENDERS)]


def local_part_of(weather: Weather, number: int, emails: int) -> str:
    """Give what the recipient of this email makes the sandbox do: each odd kind, evenly spread."""
    each = max(2, emails // 100)
    step = max(1, emails // (each * len(weather.odd) + 1)) if weather.odd else 0
    turn, rest = divmod(number + 1, step) if step else (0, 1)
    odd = rest == 0 and 0 < turn <= each * len(weather.odd)
    return weather.odd[turn % len(weather.odd)] if odd else "success"
