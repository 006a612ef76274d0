"""Events: what SES told us, by how far it was understood."""

from datetime import datetime
from uuid import UUID

from falcon import Request, Response

from api import bodies
from api.models import EventQuery
from api.presenting import Page, Shown
from api.routes import Operation, Said, answer
from mail_service.domain.events import EventKind, EventStatus
from mail_service.runtime import Runtime
from mail_service.workflows import observe


class Event(Shown):
    """One event that SES published, and how far it was understood."""

    id: UUID
    topic_arn: str
    sns_message_id: str
    kind: EventKind
    status: EventStatus
    provider_message_id: str | None
    request_tag: str | None
    attempt_id: UUID | None
    occurred_at: datetime
    received_at: datetime


class EventPage(Page[Event]):
    """Some events, newest first. `next` is null on the last page."""


PAGE = Operation(
    summary="Page through events",
    group="Events",
    query=EventQuery,
    answers={200: Said(meaning="Events, newest first", content=EventPage)},
)


class Events:
    """``/v1/events``."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt

    def page(self, req: Request, resp: Response) -> None:
        """Give stored events newest first."""
        asked = bodies.query(EventQuery, req)
        found = observe.list_events(self._rt, asked.status, after=asked.after, limit=asked.limit)
        items = [Event.model_validate(event) for event in found.items]
        answer(resp, 200, EventPage(items=items, next=found.next))
