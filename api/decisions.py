"""Decisions about one email: resolve a doubt, requeue what ended, cancel what is pending."""

from collections.abc import Callable

from falcon import Request, Response

from api import bodies, presenting
from api.authentication import actor_of
from api.models import Nothing, Requeue, Resolution
from api.paths import identifier
from api.routes import Operation, Said, answer
from mail_service.domain.deciding import Decision
from mail_service.runtime import Runtime
from mail_service.workflows import decide

_DECIDED = {200: Said(meaning="The email as it is now", content=presenting.Email)}

RESOLVE = Operation(
    summary="Resolve a doubt",
    about="`accepted`: SES took it. `resend`: send again, in a new epoch. `abandon`: give up.",
    group="Emails",
    body=Resolution,
    answers=_DECIDED,
    errors={
        409: "No longer ambiguous, an attempt that is not the newest, or, for `resend`, "
        "the old call may still be running"
    },
)
REQUEUE = Operation(
    summary="Requeue a failed or suppressed email",
    about="Opens a new epoch.",
    group="Emails",
    body=Requeue,
    answers=_DECIDED,
    errors={409: "Neither failed nor suppressed, its content is erased, or its time is over"},
)
CANCEL = Operation(
    summary="Cancel a pending email",
    group="Emails",
    answers=_DECIDED,
    errors={409: "It is no longer pending"},
)


class Decisions:
    """``/v1/emails/{email_id}/…``."""

    def __init__(self, rt: Runtime, nudge: Callable[[], None]) -> None:
        self._rt = rt
        self._nudge = nudge

    def resolve(self, req: Request, resp: Response, email_id: str) -> None:
        """Take an email out of doubt."""
        body = bodies.parse(Resolution, bodies.read(req))
        view = decide.resolve(
            self._rt,
            identifier(email_id, "email"),
            decision=body.decision,
            reason=body.reason,
            attempt_id=body.attempt_id,
            by=actor_of(req),
        )
        if body.decision is Decision.RESEND:
            self._nudge()
        answer(resp, 200, presenting.email(view))

    def requeue(self, req: Request, resp: Response, email_id: str) -> None:
        """Open a new epoch."""
        body = bodies.parse(Requeue, bodies.read(req))
        view = decide.requeue(
            self._rt,
            identifier(email_id, "email"),
            reason=body.reason,
            not_after=body.not_after,
            seen=decide.Seen(epoch=body.epoch, attempt_id=body.attempt_id),
            by=actor_of(req),
        )
        self._nudge()
        answer(resp, 200, presenting.email(view))

    def cancel(self, req: Request, resp: Response, email_id: str) -> None:
        """Cancel what is still pending. It needs no body; what a body says is never ignored."""
        if raw := bodies.read(req).strip():
            bodies.parse(Nothing, raw)
        view = decide.cancel(self._rt, identifier(email_id, "email"), by=actor_of(req))
        answer(resp, 200, presenting.email(view))
