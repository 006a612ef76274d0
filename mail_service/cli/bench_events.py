"""Events of a bench: what SNS would bring about calls that were made, signed by a signer of its own."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from mail_service.cli.bench_formation import opened
from mail_service.cli.bench_mail import CONFIGURATION_SET, SENDER
from mail_service.cli.bench_place import TOPIC, Place
from mail_service.domain.outcomes import Accepted
from mail_service.ports import TAG_HEADER, TAG_NAME
from mail_service.sandbox.signing import Signer
from mail_service.workflows import dispatch, record
from mail_service.workflows.dispatch import Ended

_WAVE = 100
DELIVERY, SEND, BOUNCE, COMPLAINT = "Delivery", "Send", "Bounce", "Complaint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that SES is said to have accepted."""

    email_id: uuid.UUID
    tag: str
    message_id: str
    address: str


def submitted(place: Place, count: int) -> list[Call]:
    """Have so many emails submitted on an empty database, as the product's own drain records it."""
    place.database.reset()
    with opened(place) as rt:
        place.database.fill(rt, count)
        number = 0
        while claims := dispatch.take(rt, _WAVE):
            accepted = [
                Ended(
                    row=claim.row, result=Accepted(provider_message_id=f"bench-{number + n:08}")
                )
                for n, claim in enumerate(claims)
            ]  # fmt: skip
            number += len(claims)
            record.results(rt, accepted)
    with place.database.connect() as connection:
        rows: Sequence[tuple[uuid.UUID, str, str, str]] = connection.execute(
            "SELECT a.email_id, a.request_tag, a.provider_message_id, r.address "
            "FROM mail_service.send_attempts a "
            "JOIN mail_service.email_recipients r ON r.email_id = a.email_id ORDER BY a.id"
        ).fetchall()
    return [
        Call(email_id=email_id, tag=str(tag), message_id=mid, address=to)
        for email_id, tag, mid, to in rows
    ]


class Publisher:
    """Signs as SNS does; the certificate lies at the bench's provider."""

    def __init__(self, place: Place) -> None:
        self._signer = Signer.generate()
        place.provider.ask("certificate", pem=self._signer.certificate_pem.decode())
        self._certificate_url = f"{place.provider.url}{self._signer.certificate_path}"

    @property
    def public_key(self) -> rsa.RSAPublicKey:
        """The key of its certificate."""
        key = x509.load_pem_x509_certificate(self._signer.certificate_pem).public_key()
        if not isinstance(key, rsa.RSAPublicKey):
            raise TypeError("the signer's key is none of RSA")
        return key

    def event(self, call: Call, kind: str = DELIVERY) -> str:
        """Give an event of this kind about a call in SNS's envelope, with an id of its own."""
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        message = {
            "eventType": kind,
            "mail": _mail(call, at),
            kind.lower(): _detail(call, kind, at),
        }
        fields = {
            "Type": "Notification",
            "MessageId": str(uuid.uuid4()),
            "TopicArn": TOPIC,
            "Message": json.dumps(message, separators=(",", ":")) + "\n",
            "Timestamp": at,
            "SignatureVersion": "2",
            "SigningCertURL": self._certificate_url,
        }
        return json.dumps({**fields, "Signature": self._signer.signature(fields, "2")})


def _mail(call: Call, at: str) -> dict[str, object]:
    return {
        "timestamp": at,
        "source": SENDER,
        "sourceArn": "arn:aws:ses:eu-west-1:123456789012:identity/example.com",
        "sendingAccountId": "123456789012",
        "messageId": call.message_id,
        "destination": [call.address],
        "headersTruncated": False,
        "headers": [
            {"name": "From", "value": SENDER},
            {"name": "To", "value": call.address},
            {"name": TAG_HEADER, "value": call.tag},
        ],
        "commonHeaders": {"from": [SENDER], "to": [call.address], "messageId": call.message_id},
        "tags": {
            "ses:operation": ["SendEmail"],
            "ses:configuration-set": [CONFIGURATION_SET],
            TAG_NAME: [call.tag],
        },
    }


def _detail(call: Call, kind: str, at: str) -> dict[str, object]:
    if kind == DELIVERY:
        return {
            "timestamp": at,
            "processingTimeMillis": 512,
            "recipients": [call.address],
            "smtpResponse": "250 2.0.0 OK",
            "reportingMTA": "a4-8.smtp-out.eu-west-1.amazonses.com",
        }
    if kind == BOUNCE:
        return {
            "timestamp": at,
            "bounceType": "Permanent",
            "bounceSubType": "General",
            "bouncedRecipients": [{"emailAddress": call.address, "status": "5.1.1"}],
            "feedbackId": f"feedback-{call.message_id}",
        }
    if kind == COMPLAINT:
        return {
            "timestamp": at,
            "complainedRecipients": [{"emailAddress": call.address}],
            "complaintFeedbackType": "abuse",
            "feedbackId": f"feedback-{call.message_id}",
        }
    return {}
