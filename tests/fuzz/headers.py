"""No text of a caller brings a line of its own into what SES is asked to write as a header."""

from collections.abc import Callable, Iterator, Mapping
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parseaddr
from typing import Any, cast

from mail_service.domain.address import AddressInvalid, format_sender, normalise, split_sender
from mail_service.domain.content import Template
from mail_service.domain.outcomes import Accepted
from mail_service.errors import InvalidFields
from mail_service.gateways.ses import SesMailer
from mail_service.ports import OutgoingEmail
from tests.fuzz.inputs import input_of, texts_of

TAG = "00000000-0000-4000-8000-000000000001"
TOKENS = (
    *("\r\n", "\r", "\n", "\nBcc: b@example.com", "\x00", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"),
    *("=?utf-8?q?", "?=", "=0D=0A", "=?utf-8?b?DQo=?=", "Name <", "@example.com>", '"', "\\", ","),
)
TEMPLATE = Template(
    name="fuzz-v1", subject="For {{ name }}", text="Dear {{ name }}", checksum="none"
)

Request = dict[str, Any]
Format = Callable[[str, str], str]


class _Client:
    """Keeps what SES would have been asked."""

    request: Request

    def send_email(self, **request: Any) -> object:
        self.request = request
        return {"MessageId": "m", "ResponseMetadata": {"HTTPStatusCode": 200}}


def check(data: bytes, form: Format = format_sender) -> None:
    """The texts: a sender, a recipient, an address to answer to, and what the template prints."""
    sender, recipient, reply_to, printed = texts_of(data, 4)[:4]
    name, bare = split_sender(sender)
    try:
        from_ = form(name, normalise(bare, allow_reserved=True))
        subject = TEMPLATE.render({"name": printed}).subject
        to, answer_to = (normalise(text, allow_reserved=True) for text in (recipient, reply_to))
    except (AddressInvalid, InvalidFields):
        return
    assert parseaddr(from_)[1] == normalise(bare, allow_reserved=True)
    client = _Client()
    email = OutgoingEmail(
        request_tag=TAG, sender=from_, subject=subject, to=(to,), reply_to=(answer_to,), text="x"
    )
    mailer = SesMailer(cast("Any", client), "mail")
    assert mailer.send(email) == Accepted(provider_message_id="m")
    _each_is_one_line(client.request)


def _each_is_one_line(request: Request) -> None:
    simple = request["Content"]["Simple"]
    written = {
        "From": request["FromEmailAddress"],
        "To": ", ".join(request["Destination"]["ToAddresses"]),
        "Reply-To": ", ".join(request["ReplyToAddresses"]),
        "Subject": simple["Subject"]["Data"],
        **{header["Name"]: header["Value"] for header in simple["Headers"]},
    }
    for value in written.values():
        assert len(value.splitlines()) == 1, value
        assert "\0" not in value
    assert _read_again(written) == list(written)


def _read_again(written: Mapping[str, str]) -> list[str]:
    """Give the headers that a mail with these is seen to have by the standard library."""
    mail = EmailMessage(policy.SMTP)
    for name, value in written.items():
        mail[name] = value
    return message_from_bytes(mail.as_bytes(), policy=policy.SMTP).keys()


def seeds() -> Iterator[bytes]:
    """Give senders and names, plain and with lines in them."""
    plain = ("ada@example.com", "help@example.com", "Ada")
    for sender in ("Shop <shop@example.com>", "shop@example.com", '"Shop, Ltd" <shop@example.com>'):
        yield input_of(sender, *plain)
    yield input_of("Grüße <shop@example.com>", *plain)
    yield input_of("Shop\r\nBcc: b@example.com <shop@example.com>", *plain)
    yield input_of("shop@example.com", "ada@example.com\nBcc: b@example.com", *plain[1:])
    yield input_of("shop@example.com", *plain[:2], "Ada\r\nBcc: b@example.com")
