"""The sandbox as one object: SES and SNS on a port, and Python's handle on both."""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mail_service.sandbox.connection import Connection, Request, Response
from mail_service.sandbox.control import Control
from mail_service.sandbox.courier import Posted
from mail_service.sandbox.envelopes import Envelope
from mail_service.sandbox.events import Identity, ses_time
from mail_service.sandbox.ids import new_uuid
from mail_service.sandbox.inbox_pages import InboxPages
from mail_service.sandbox.parts import Parts, Plan
from mail_service.sandbox.publications import Publication
from mail_service.sandbox.server import Server
from mail_service.sandbox.signing import Signer
from mail_service.sandbox.suppression import Suppressed

DEFAULT_TOPIC_ARN = "arn:aws:sns:eu-west-1:000000000000:ses-events"


class Sandbox:
    """A local SES v2 and SNS for boto3, running from construction until `close()`.

    Use it as a context manager::

        with Sandbox(webhook_url="http://127.0.0.1:8000/webhooks/ses/sns") as sandbox:
            ses = boto3.client("sesv2", endpoint_url=sandbox.url, region_name="eu-west-1", ...)

    `url` is the endpoint of SES and of SNS; `certificate_url` and `topic_arn` are what a receiver
    must trust. `port=0` takes a free port. With `webhook_url` the endpoint is subscribed to the
    topic, and asked again until it answers; events reach it once it has confirmed, or at once
    with `confirm=False`. `log` and `delivery_log` are files for the two append-only logs.
    `validate=False` leaves out the checks against botocore's model. A `signer` may be shared
    between sandboxes to save the time that making a key takes. `mails` bounds the inbox.

    Every method may be called from any thread.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        topic_arn: str = DEFAULT_TOPIC_ARN,
        webhook_url: str | None = None,
        confirm: bool = True,
        validate: bool = True,
        log: Path | str | None = None,
        delivery_log: Path | str | None = None,
        seed: int = 0,
        signer: Signer | None = None,
        mails: int = 2000,
    ) -> None:
        identity = Identity.of_topic(topic_arn)
        self.topic_arn = topic_arn
        self._stopped = threading.Event()
        self._server = Server(host, port, self._respond)
        reachable = "127.0.0.1" if host in {"", "0.0.0.0"} else host  # noqa: S104
        self.url = f"http://{reachable}:{self._server.port}"
        plan = Plan(
            topic_arn=topic_arn,
            signer=signer or Signer.generate(),
            validate=validate,
            log=None if log is None else Path(log),
            delivery_log=None if delivery_log is None else Path(delivery_log),
            seed=seed,
            mails=mails,
        )
        try:
            self._parts = Parts(plan, identity, self.url)
        except OSError:
            self._server.close()
            raise
        self._control = Control(self)
        self._pages = InboxPages(self._parts.mails, identity)
        self._server.start()
        if webhook_url is not None:
            self.subscribe(webhook_url, confirm=confirm)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop: answer nothing more, drop what is not yet delivered, leave no thread or socket."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        # The courier goes first, because a request may be waiting for a delivery.
        self._parts.courier.close()
        self._server.close()
        self._parts.close()

    @property
    def certificate_url(self) -> str:
        """Where the certificate that verifies the sandbox's signatures is served."""
        return self.url + self._parts.signer.certificate_path

    @property
    def certificate_pem(self) -> bytes:
        """The certificate itself."""
        return self._parts.signer.certificate_pem

    @property
    def held(self) -> int:
        """How many event deliveries `hold_events` holds back now."""
        return self._parts.newsroom.held

    def knobs(self, **changes: object) -> dict[str, Any]:
        """Change the given knobs and return all of them; pydantic's ValidationError if wrong."""
        knobs = self._parts.knobs.change(changes) if changes else self._parts.knobs.now
        return knobs.model_dump(mode="json")

    def log(self, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """The provider log: what happened to each SendEmail call, rows with seq > `after`."""
        return self._parts.log.read(after, limit)

    def deliveries(self, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """The log of SNS deliveries, one row per try, rows with seq > `after`."""
        return self._parts.deliveries.read(after, limit)

    def inbox(self, *, to: str = "", search: str = "", limit: int = 100) -> list[dict[str, Any]]:
        """The accepted mails, newest first."""
        return [mail.summary() for mail in self._parts.mails.find(search, to)[:limit]]

    def list_suppressed(self, address: str, reason: str, at: float | None = None) -> None:
        """Put an address on the account's suppression list, as if SES had done so at a time.

        The reason is BOUNCE or COMPLAINT, the time seconds since 1970; None is now.
        """
        when = time.time() if at is None else at
        self._parts.suppression.put(Suppressed(address, reason, when))

    def suppressed(self) -> dict[str, str]:
        """The account's suppression list: reason by address."""
        return {entry.address: entry.reason for entry in self._parts.suppression.entries()}

    def release(self) -> int:
        """Deliver the events held back by `hold_events`; return how many there were."""
        return self._parts.newsroom.release()

    def subscribe(
        self, endpoint: str, topic_arn: str | None = None, *, confirm: bool = True
    ) -> str:
        """Subscribe an endpoint, asking it to confirm until it answers; return the ARN."""
        return self._parts.subscriber.subscribe(
            endpoint, topic_arn or self.topic_arn, confirm=confirm
        )

    def subscriptions(self, topic_arn: str | None = None) -> list[dict[str, Any]]:
        """The subscriptions of a topic, pending ones too."""
        return self._parts.subscriber.known(topic_arn or self.topic_arn)

    def wait_confirmed(self, seconds: float = 15) -> bool:
        """Wait until the topic's subscriptions are confirmed; False if that takes longer."""
        return self._parts.subscriber.wait_confirmed(self.topic_arn, seconds)

    def publish(
        self,
        message: str,
        *,
        topic_arn: str | None = None,
        subject: str | None = None,
        endpoint: str | None = None,
    ) -> dict[str, Any]:
        """Sign any text and deliver it; return the message id and the status of each delivery.

        It goes to the topic's confirmed subscriptions, or to `endpoint` alone, which needs none.
        """
        publication = Publication.new(topic_arn or self.topic_arn, message, subject)
        posted: list[Posted] = (
            self._parts.emitter.publish(publication)
            if endpoint is None
            else [self._parts.emitter.publish_to(endpoint, publication)]
        )
        return {
            "message_id": publication.message_id,
            "status": posted[0].status if posted else None,
            "deliveries": [{"status": one.status, "error": one.error} for one in posted],
        }

    def sign(self, fields: Envelope, version: str | None = None) -> Envelope:
        """A whole signed envelope with `fields`; what a Notification needs besides is filled in."""
        defaults = {
            "Type": "Notification",
            "MessageId": new_uuid(),
            "TopicArn": self.topic_arn,
            "Message": "",
            "Timestamp": ses_time(time.time()),
        }
        return self._parts.emitter.signed(defaults | fields, version)

    def _respond(self, request: Request, connection: Connection) -> None:
        path = request.path
        if path.startswith("/v2/"):
            self._parts.ses.respond(request, connection)
            return
        if path.startswith("/_sandbox"):
            response = self._control.respond(request)
        elif path == self._parts.signer.certificate_path:
            response = Response(200, self._parts.signer.certificate_pem, "application/x-pem-file")
        elif path == "/" and (request.method == "POST" or "Action=" in request.query):
            response = self._parts.sns.respond(request, new_uuid())
        else:
            response = self._pages.respond(request)
        connection.write(response, head_only=request.method == "HEAD")
