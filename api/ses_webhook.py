"""What SNS brings: raw bytes in, a status out. The reasons for a refusal stand in the log alone."""

from typing import Literal

from falcon import HTTPError, Request, Response

from api import bodies, errors
from api.errors import RETRY_AFTER_SECONDS, Problem
from api.presenting import Shown
from api.routes import Operation, Said, answer
from mail_service.errors import MalformedEnvelope, NotGenuine
from mail_service.runtime import Runtime
from mail_service.workflows import ingest


class Taken(Shown):
    """What the webhook says when an event is durable."""

    status: Literal["ok"] = "ok"


TAKE = Operation(
    summary="Take an event from SNS",
    about="Believed for its signature, whatever its Content-Type says. SNS tries again after a 503.",
    group="Webhook",
    answers={200: Said(meaning="Durable, or known already", content=Taken)},
    errors={
        400: "Not an SNS message",
        403: "Not genuine, or not of a topic of ours",
        413: "Larger than WEBHOOK_MAX_BYTES",
    },
)


class SesWebhook:
    """``/webhooks/ses/sns``."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt

    def take(self, req: Request, resp: Response) -> None:
        """Answer 200 once the event is durable, and 503 for every fault of ours."""
        try:
            # One byte too many is passed on, so that the refusal is counted like every other.
            raw = bodies.read_up_to(req, self._rt.settings.webhook_max_bytes)
            ingest.accept(self._rt, req.headers_lower, raw)
        except Exception as error:
            problem = _problem(error)
            if problem.status == 503:
                errors.record(req, error, alarm="webhook_failed")
            errors.write(resp, problem)
        else:
            answer(resp, 200, Taken())


def _problem(error: Exception) -> Problem:
    """Give the answer to a refusal or a fault: the same few words whatever was wrong."""
    match error:
        case MalformedEnvelope(cause="too_large"):
            return Problem(status=413, detail="too large")
        case MalformedEnvelope():
            return Problem(status=400, detail="not an SNS message")
        case NotGenuine():
            return Problem(status=403, detail="not taken")
        case HTTPError() if error.status_code < 500:
            return Problem(status=error.status_code, detail="not read")
        case _:
            return Problem(
                status=503,
                detail="try again",
                headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            )
