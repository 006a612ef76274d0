"""Tells the events of accepted mails: delayed, repeated, reordered, held back or dropped."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from mail_service.sandbox.courier import Posted
from mail_service.sandbox.emitter import Emitter
from mail_service.sandbox.event_text import event_json
from mail_service.sandbox.events import Event, Identity, publishable
from mail_service.sandbox.knobs import KnobBoard, Knobs
from mail_service.sandbox.mails import Mail, Told
from mail_service.sandbox.publications import Publication
from mail_service.sandbox.schedule import Schedule
from mail_service.sandbox.simulator import local_part

_SUBJECT = "Amazon SES Email Event Notification"


@dataclass(frozen=True, slots=True)
class _Telling:
    """One delivery to be made: which mail's event, and which copy of it."""

    mail: Mail
    told: Told
    copy: int


class Newsroom:
    """Publishes the events of each mail one after the other to the sandbox's topic.

    The next event of a mail goes out when the first try of the one before has ended, so that
    without `reorder_events` a reachable endpoint sees the natural order.
    """

    def __init__(
        self,
        topic_arn: str,
        identity: Identity,
        knobs: KnobBoard,
        emitter: Emitter,
        schedule: Schedule,
    ) -> None:
        self._topic_arn = topic_arn
        self._identity = identity
        self._knobs = knobs
        self._emitter = emitter
        self._schedule = schedule
        self._lock = threading.Lock()
        self._held: list[_Telling] = []
        self._mails_told = 0

    def story_of(
        self, mail: Mail, events: list[Event], *, first_now: bool = False
    ) -> Callable[[], None]:
        """Prepare the events of a mail; calling the result starts to tell them.

        With `first_now` the first event is delivered before this returns.
        """
        knobs = self._knobs.now
        tellings = self._tellings(mail, events, knobs)
        if knobs.reorder_events:
            with self._lock:
                self._mails_told += 1
                order = random.Random(f"{knobs.seed}:{self._mails_told}")  # noqa: S311
            tellings = _reordered(tellings, order)
        if first_now and tellings:
            self._tell(tellings.pop(0))

        def start() -> None:
            if tellings:
                self._schedule.run(lambda: self._continue(tellings), knobs.event_delay_seconds)

        return start

    def _tellings(self, mail: Mail, events: list[Event], knobs: Knobs) -> list[_Telling]:
        tellings: list[_Telling] = []
        for event in events:
            told = Told(event)
            mail.events.append(told)
            published = publishable(event.kind, configuration_set=mail.draft.configuration_set)
            if not published or event.kind not in knobs.event_types:
                told.state = "not published"
            elif event.kind in knobs.drop_events:
                told.state = "dropped"
            else:
                tellings += [
                    _Telling(mail, told, copy) for copy in range(1, knobs.repeat_events + 1)
                ]
        return tellings

    def _continue(self, tellings: list[_Telling]) -> None:
        self._tell(tellings.pop(0))
        if tellings:
            self._schedule.run(lambda: self._continue(tellings))

    def _tell(self, telling: _Telling) -> None:
        if _is_held(telling, self._knobs.now):
            telling.told.state = "held"
            with self._lock:
                self._held.append(telling)
            return
        self._publish(telling)

    def _publish(self, telling: _Telling) -> None:
        told = telling.told

        def report(posted: Posted) -> None:
            if posted.delivered or told.state != "delivered":
                told.state = "delivered" if posted.delivered else "failed"
                told.status = posted.status

        if not self._emitter.has_receivers(self._topic_arn):
            told.state = "no subscriber"
            return
        # Copies are the same message again, so they share one publication.
        if told.publication is None:
            told.publication = self._publication(telling.mail, told.event)
        self._emitter.publish(told.publication, copy=telling.copy, report=report)

    def _publication(self, mail: Mail, event: Event) -> Publication:
        return Publication.new(
            self._topic_arn,
            event_json(event, mail, self._identity),
            None if mail.draft.configuration_set is None else _SUBJECT,
            event=event.kind,
            provider_message_id=mail.message_id,
        )

    def release(self) -> int:
        """Tell everything that is held back, in the order it was held; return how many."""
        with self._lock:
            released, self._held = self._held, []
        for telling in released:
            telling.told.state = "waiting"
        if released:
            self._schedule.run(lambda: self._publish_all(released))
        return len(released)

    def _publish_all(self, tellings: list[_Telling]) -> None:
        for telling in tellings:
            self._publish(telling)

    @property
    def held(self) -> int:
        """How many deliveries are held back."""
        return len(self._held)


def _is_held(telling: _Telling, knobs: Knobs) -> bool:
    if telling.told.event.kind not in knobs.hold_events:
        return False
    return not knobs.hold_local_parts or any(
        local_part(address) in knobs.hold_local_parts for address in telling.told.event.recipients
    )


def _reordered(tellings: list[_Telling], order: random.Random) -> list[_Telling]:
    """Another order, wherever there is more than one event to order."""
    if len({id(telling.told) for telling in tellings}) < 2:
        return tellings
    natural = [id(telling.told) for telling in tellings]
    shuffled = tellings[:]
    while [id(telling.told) for telling in shuffled] == natural:
        order.shuffle(shuffled)
    return shuffled
