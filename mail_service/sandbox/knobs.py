"""The settings that change how the sandbox behaves while it runs."""

import threading
from collections.abc import Callable, Mapping
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mail_service.sandbox.simulator import BEHAVIOURS

EventKind = Literal["Send", "Delivery", "Bounce", "Complaint", "Reject", "DeliveryDelay"]
Trouble = Literal["denied", "throttled", "unavailable"]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)


class SendQuota(BaseModel):
    """The quota that GetAccount reports; `SentLast24Hours` is counted when not set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    Max24HourSend: float = 1_000_000
    MaxSendRate: float = Field(default=1_000, gt=0)
    SentLast24Hours: float | None = None


class Knobs(BaseModel):
    """One consistent set of settings; never changed in place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer_delay_seconds: float = Field(default=0, ge=0)
    slow_seconds: float = Field(default=2, ge=0)
    outcome: str | None = None
    sender_outcomes: Mapping[str, str] = Field(default_factory=dict[str, str])

    event_delay_seconds: float = Field(default=0, ge=0)
    repeat_events: int = Field(default=1, ge=1, le=100)
    reorder_events: bool = False
    hold_events: tuple[EventKind, ...] = ()
    hold_local_parts: tuple[str, ...] = ()
    drop_events: tuple[EventKind, ...] = ()
    event_types: tuple[EventKind, ...] = EVENT_KINDS
    signature_version: Literal["1", "2"] = "2"
    delivery_retries: int = Field(default=3, ge=0, le=100)
    delivery_retry_seconds: float = Field(default=0.5, ge=0)
    delivery_timeout_seconds: float = Field(default=15, gt=0)

    sending_paused: bool = False
    production_access: bool = True
    enforcement_status: Literal["HEALTHY", "PROBATION", "SHUTDOWN"] = "HEALTHY"
    send_quota: SendQuota = SendQuota()
    enforce_quota: bool = False
    configuration_sets: tuple[str, ...] | None = None
    operations: Mapping[str, Trouble] = {}

    seed: int = 0

    @field_validator("outcome")
    @classmethod
    def _known_behaviour(cls, value: str | None) -> str | None:
        if value is not None and value not in BEHAVIOURS:
            raise ValueError(f"must be one of: {', '.join(BEHAVIOURS)}")
        return value

    @field_validator("sender_outcomes")
    @classmethod
    def _known_behaviours(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name in value.values():
            cls._known_behaviour(name)
        return {sender.lower(): name for sender, name in value.items()}

    @field_validator("hold_local_parts")
    @classmethod
    def _lower(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(part.lower() for part in value)

    def outcome_for(self, sender: str) -> str | None:
        """The behaviour that is forced on a sender's mail, if one is."""
        return self.sender_outcomes.get(sender.lower(), self.outcome)


class KnobBoard:
    """Holds the current `Knobs`; a change replaces all of them at once."""

    def __init__(self, knobs: Knobs) -> None:
        self.now = knobs
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Knobs], None]] = []

    def on_change(self, listener: Callable[[Knobs], None]) -> None:
        """Call `listener` with the new knobs after every change."""
        self._listeners.append(listener)

    def change(self, changes: Mapping[str, object]) -> Knobs:
        """Apply `changes`, or raise pydantic's ValidationError and change nothing."""
        with self._lock:
            self.now = Knobs.model_validate(self.now.model_dump() | dict(changes))
            for listener in self._listeners:
                listener(self.now)
            return self.now
