"""Suppressions: who gets no mail and why, adding one, releasing one."""

from datetime import datetime
from uuid import UUID

from falcon import Request, Response

from api import bodies
from api.authentication import actor_of
from api.models import NewSuppression, Release, SuppressionQuery
from api.paths import identifier
from api.presenting import Page, Shown
from api.routes import Operation, Said, answer
from mail_service.domain.suppression import SesListState, SuppressionReason
from mail_service.runtime import Runtime
from mail_service.workflows import observe, operate


class Suppression(Shown):
    """Why an address gets no mail. It is active while `released_at` is null.

    `ses_state` tells of SES's own list: `unknown` until a sync has looked, `pending_put` and
    `pending_delete` until a worker has told it, then `listed`, `absent`, or `deleted`; `kept` when the
    address was suppressed again before its entry was deleted. `ses_error` says why SES did not take it.
    """

    id: UUID
    address: str | None
    reason: SuppressionReason
    source: str
    note: str | None
    returns: int
    created_at: datetime
    released_at: datetime | None
    released_by: str | None
    release_rule: str | None
    release_reason: str | None
    ses_state: SesListState
    ses_checked_at: datetime | None
    ses_error: str | None


class SuppressionPage(Page[Suppression]):
    """Some suppressions, newest first. `next` is null on the last page."""


PAGE = Operation(
    summary="Page through suppressions",
    group="Suppressions",
    query=SuppressionQuery,
    answers={200: Said(meaning="Suppressions, newest first", content=SuppressionPage)},
)
ADD = Operation(
    summary="Suppress an address",
    group="Suppressions",
    body=NewSuppression,
    answers={
        201: Said(meaning="The new suppression", content=Suppression),
        200: Said(meaning="The one that stands already", content=Suppression),
    },
)
RELEASE = Operation(
    summary="Release a suppression",
    about="A complaint can be released only by `consent_renewed` with `confirm` true. Mail may go out "
    "at once; a worker deletes the entry on SES's own list within seconds, which `ses_state` tells.",
    group="Suppressions",
    body=Release,
    answers={200: Said(meaning="The released suppression", content=Suppression)},
    errors={409: "It was released before, or this rule does not release its reason"},
)


class Suppressions:
    """``/v1/suppressions`` and what lies under it."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt

    def page(self, req: Request, resp: Response) -> None:
        """Give suppressions newest first, narrowed by the query."""
        asked = bodies.query(SuppressionQuery, req)
        found = observe.list_suppressions(
            self._rt,
            address=asked.address,
            reason=asked.reason,
            active=asked.active,
            after=asked.after,
            limit=asked.limit,
        )
        items = [Suppression.model_validate(row) for row in found.items]
        answer(resp, 200, SuppressionPage(items=items, next=found.next))

    def add(self, req: Request, resp: Response) -> None:
        """Stop mail to an address, or give the suppression that stands."""
        body = bodies.parse(NewSuppression, bodies.read(req))
        row, created = operate.suppress(
            self._rt, address=body.address, note=body.note, by=actor_of(req)
        )
        answer(resp, 201 if created else 200, Suppression.model_validate(row))

    def release(self, req: Request, resp: Response, suppression_id: str) -> None:
        """Lift a suppression by a stated rule."""
        body = bodies.parse(Release, bodies.read(req))
        row = operate.release(
            self._rt,
            identifier(suppression_id, "suppression"),
            rule=body.rule,
            reason=body.reason,
            confirmed=body.confirm or False,
            by=actor_of(req),
        )
        answer(resp, 200, Suppression.model_validate(row))
