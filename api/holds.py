"""Holds: what stops sending now, why, since when; and clearing one."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from falcon import Request, Response

from api import bodies
from api.authentication import actor_of
from api.models import Reason
from api.paths import identifier
from api.presenting import Page, Shown
from api.routes import Operation, Said, answer
from mail_service.domain.outcomes import HoldScope
from mail_service.runtime import Runtime
from mail_service.workflows import holding, observe


class Hold(Shown):
    """Why mail waits. It stops sending while `cleared_at` is null."""

    id: UUID
    scope: HoldScope
    subject: str
    error_class: str
    error_code: str | None
    opened_at: datetime
    probes: int
    next_probe_at: datetime | None
    cleared_at: datetime | None
    cleared_by: str | None
    clear_reason: str | None


class HoldPage(Page[Hold]):
    """What stops sending now, oldest first. There is one page."""


LIST = Operation(
    summary="What stops sending now",
    about="A hold is probed by one email at a time, and cleared by a probe's success or by you.",
    group="Holds",
    answers={200: Said(meaning="The open holds", content=HoldPage)},
)
CLEAR = Operation(
    summary="Clear a hold",
    group="Holds",
    body=Reason,
    answers={200: Said(meaning="The cleared hold", content=Hold)},
    errors={409: "It was cleared before"},
)


class Holds:
    """``/v1/holds`` and what lies under it."""

    def __init__(self, rt: Runtime, nudge: Callable[[], None]) -> None:
        self._rt = rt
        self._nudge = nudge

    def page(self, req: Request, resp: Response) -> None:
        """Give what stops sending now."""
        items = [Hold.model_validate(hold) for hold in observe.open_holds(self._rt)]
        answer(resp, 200, HoldPage(items=items, next=None))

    def clear(self, req: Request, resp: Response, hold_id: str) -> None:
        """Clear one."""
        body = bodies.parse(Reason, bodies.read(req))
        hold = holding.clear(
            self._rt, identifier(hold_id, "hold"), reason=body.reason, by=actor_of(req)
        )
        self._nudge()
        answer(resp, 200, Hold.model_validate(hold))
