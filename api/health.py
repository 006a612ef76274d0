"""Whether this process is alive, and whether it can do its work."""

from typing import Literal

from falcon import Request, Response
from pydantic import Field

from api.presenting import Shown
from api.routes import Operation, Said, answer
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.workflows import observe


class Liveness(Shown):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Readiness(Shown):
    """The database answers and its schema fits. The two ages never change the status."""

    status: Literal["ready"] = "ready"
    schema_version: str | None
    schema_needed: str
    last_sweep_seconds: float | None
    events_silent_seconds: float | None = Field(
        description="For how long accepted mail has waited without an event of any kind since"
    )


ALIVE = Operation(
    summary="Is the process alive?",
    group="Health",
    answers={200: Said(meaning="It is", content=Liveness)},
)
READY = Operation(
    summary="Can it do its work?",
    group="Health",
    answers={200: Said(meaning="The database answers and its schema fits", content=Readiness)},
)


class Health:
    """``/healthz`` and ``/readyz``."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt

    def alive(self, req: Request, resp: Response) -> None:
        """Answer, whatever the database does."""
        answer(resp, 200, Liveness())

    def ready(self, req: Request, resp: Response) -> None:
        """Answer 200 when the database answers and its schema fits this code, else 503."""
        found = observe.readiness(self._rt)
        if not found.ready:
            raise Unavailable("the schema is missing or old: run mail-service migrate")
        answer(
            resp,
            200,
            Readiness(
                schema_version=found.schema_version,
                schema_needed=found.schema_needed,
                last_sweep_seconds=found.last_sweep_seconds,
                events_silent_seconds=found.events_silent_seconds,
            ),
        )
