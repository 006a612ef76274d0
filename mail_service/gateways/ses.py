"""SES behind the ``Mailer`` port: one email, one call, one outcome.

boto3's own retries are off in code, because SES has no idempotency token and a second request is a
second mail. Proxies (``HTTPS_PROXY``, ``NO_PROXY``), credentials and ``AWS_ENDPOINT_URL`` are read
from the environment as boto3 always does.

Connections are kept alive (:mod:`transport`). A close by the server that races our write ends as
Unknown and proves itself by its Send event.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, cast

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, SSLError
from botocore.session import get_session
from botocore.utils import parse_timestamp

from mail_service.domain.answers import SEND_OPERATION, Answer, classify
from mail_service.domain.outcomes import Outcome, Refused
from mail_service.errors import SettingsError, Unavailable
from mail_service.gateways import transport
from mail_service.gateways.connecting import Unconnected
from mail_service.ports import TAG_HEADER, TAG_NAME, OutgoingEmail, SendingQuota

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client
    from mypy_boto3_sesv2.type_defs import (
        BodyTypeDef,
        ContentTypeDef,
        DestinationTypeDef,
        SendEmailRequestTypeDef,
    )


def ses_client(
    region: str | None,
    endpoint_url: str | None,
    connect_timeout: float,
    read_timeout: float,
    slots: int,
) -> "SESV2Client":
    """Build the one client of a process, to be shared by its threads: building costs 100 ms.

    One request per call, whatever AWS_MAX_ATTEMPTS, AWS_RETRY_MODE or a profile say: botocore lets
    a count in Config win over them, but not a mode alone (seen in 1.43.11 and 1.44.8). The library
    checks no parameters: :meth:`SesMailer.send` builds them from typed fields, and that saves a
    tenth of the CPU. The time-out for connecting holds for all addresses and the handshake, that for
    reading for a whole exchange; behind a proxy for each address and each read. Looks for
    credentials at once, on the machine's metadata address too where the environment has none. Raises
    SettingsError for an unusable region, profile or AWS setting.
    """
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=connect_timeout,
        read_timeout=read_timeout,
        max_pool_connections=slots,
        tcp_keepalive=True,
        parameter_validation=False,
    )
    try:
        # A session of its own: the module-level one is shared and not thread-safe.
        core = get_session()
        parsers = core.get_component("response_parser_factory")
        parsers.set_parser_defaults(timestamp_parser=_time)
        session = Session(region_name=region, botocore_session=core)
        # The stubs of the services we do not use are not installed: one overload of 400 is known.
        client = session.client("sesv2", endpoint_url=endpoint_url, config=config)  # pyright: ignore[reportUnknownMemberType]
        bundle = core.get_config_variable("ca_bundle")
        transport.install(client, parsers, bundle, connect_timeout, read_timeout)
        return client
    except (BotoCoreError, ValueError) as problem:
        what = f"boto3 can't use these settings: {type(problem).__name__}"
        raise SettingsError({"AWS_*": what}) from problem


def _time(told: str) -> datetime | None:
    """Read a time; None for an impossible one, or a single entry would make a whole page unreadable."""
    try:
        return parse_timestamp(told)
    except Exception:
        return None


class SesMailer:
    """Implements :class:`mail_service.ports.Mailer`. Safe to share between threads."""

    def __init__(self, client: "SESV2Client", configuration_set: str | None) -> None:
        self._client = client
        self._configuration_set = configuration_set

    def send(self, email: OutgoingEmail) -> Outcome:
        """Make one call and say what it taught us. Never raises, never calls twice."""
        recipients = (*email.to, *email.cc, *email.bcc)
        if not recipients or (email.text is None and email.html is None):
            return Refused(error_class="parameters", alarm=True)
        try:
            response = self._client.send_email(**self._request(email))
        except Exception as error:
            answer = _answer_of(error, email.sender, recipients)
        else:
            answer = Answer(
                status=_status_of(response),
                message_id=_text(_mapping(response).get("MessageId")) or None,
                sender=email.sender,
                recipients=recipients,
            )
        return classify(answer)

    def quota(self) -> SendingQuota:
        """Ask SES what this account may send. Raises Unavailable for whatever goes wrong."""
        try:
            account = self._client.get_account()
            quota = cast("Mapping[str, float]", account["SendQuota"])
            per_day = float(quota["Max24HourSend"])
            return SendingQuota(
                max_per_second=float(quota["MaxSendRate"]),
                max_per_day=None if per_day < 0 else per_day,  # -1 is "no limit"
                sent_last_day=float(quota["SentLast24Hours"]),
                sending_enabled=bool(account["SendingEnabled"]),
                production_access=bool(account["ProductionAccessEnabled"]),
            )
        except Exception as error:
            # Its class only: this text may be shown, and AWS's own names the caller's identity.
            raise Unavailable(f"SES did not tell its quota: {type(error).__name__}") from error

    def _request(self, email: OutgoingEmail) -> "SendEmailRequestTypeDef":
        body: BodyTypeDef = {}
        if email.text is not None:
            body["Text"] = _utf8(email.text)
        if email.html is not None:
            body["Html"] = _utf8(email.html)
        destination: DestinationTypeDef = {}
        if email.to:
            destination["ToAddresses"] = email.to
        if email.cc:
            destination["CcAddresses"] = email.cc
        if email.bcc:
            destination["BccAddresses"] = email.bcc
        request: SendEmailRequestTypeDef = {
            "FromEmailAddress": email.sender,
            "Destination": destination,
            "Content": {
                "Simple": {
                    "Subject": _utf8(email.subject),
                    "Body": body,
                    "Headers": [
                        {"Name": name, "Value": value}
                        for name, value in ((TAG_HEADER, email.request_tag), *email.headers)
                    ],
                }
            },
            "EmailTags": [{"Name": TAG_NAME, "Value": email.request_tag}],
        }
        if email.reply_to:
            request["ReplyToAddresses"] = email.reply_to
        if self._configuration_set is not None:
            request["ConfigurationSetName"] = self._configuration_set
        return request


def _utf8(text: str) -> "ContentTypeDef":
    return {"Data": text, "Charset": "UTF-8"}


def _answer_of(error: Exception, sender: str, recipients: tuple[str, ...]) -> Answer:
    """Describe what was raised without believing that any part of it is there.

    A ClientError may come without "Error" (boto/botocore#1277), and HTTPClientError has a
    ``response`` that is None.
    """
    fault = tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    if not isinstance(error, ClientError):
        return Answer(
            fault=fault,
            failed_connecting=_failed_connecting(error),
            text=str(error) if isinstance(error, SSLError) else "",
            sender=sender,
            recipients=recipients,
        )
    response = _mapping(getattr(error, "response", None))
    said = _mapping(response.get("Error"))
    headers = _mapping(_mapping(response.get("ResponseMetadata")).get("HTTPHeaders"))
    code = _text(said.get("Code")) or None
    return Answer(
        fault=fault,
        operation=_text(getattr(error, "operation_name", None)) or SEND_OPERATION,
        status=_status_of(response),
        code=code,
        text=_text(said.get("Message")),
        from_ses=_is_aws_form(code, headers),
        sender=sender,
        recipients=recipients,
    )


def _is_aws_form(code: str | None, headers: Mapping[str, object]) -> bool:
    """Whether an error has the form of AWS: a named type, in a header or in a JSON body.

    botocore 1.44.8 gives the status as the code where the body names none, and takes any body as
    the message. A JSON page of a proxy without a code is no answer of SES.
    """
    if "x-amzn-errortype" in headers:
        return True
    kind = _text(headers.get("content-type"))
    return code is not None and not code.isdigit() and ("json" in kind or not headers)


def _failed_connecting(error: Exception) -> bool | None:
    """Whether the connection was still being made, by our own word or urllib3's traceback.

    None where neither shows it. botocore raises ProxyConnectionError and SSLError for
    faults before and after the request alike (seen with 1.44.8 and urllib3 2.8). A name that
    urllib3 changes one day turns a hold into a doubt, never a doubt into a second mail.
    """
    causes = list(_causes(error))
    if any(isinstance(cause, Unconnected) for cause in causes):
        return True
    frames = [name for cause in causes for name in _functions(cause.__traceback__)]
    return "connect" in frames if "urlopen" in frames else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    waiting: list[BaseException | None] = [error.__cause__, error.__context__]
    while waiting:
        cause = waiting.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            waiting += [cause.__cause__, cause.__context__]
            yield cause


def _functions(traceback: TracebackType | None) -> Iterator[str]:
    while traceback is not None:
        yield traceback.tb_frame.f_code.co_name
        traceback = traceback.tb_next


def _status_of(response: object) -> int | None:
    status = _mapping(_mapping(response).get("ResponseMetadata")).get("HTTPStatusCode")
    return status if isinstance(status, int) and not isinstance(status, bool) else None


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
