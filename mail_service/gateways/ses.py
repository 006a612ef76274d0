"""SES behind the ``Mailer`` port: one email, one call, one outcome.

boto3's own retries are off in code, because SES has no idempotency token and a second request is a
second mail. Proxies (``HTTPS_PROXY``, ``NO_PROXY``), credentials and ``AWS_ENDPOINT_URL`` are read
from the environment as boto3 always does.

Connections are kept alive (:mod:`transport`). A close by the server that races our write ends as
Unknown and proves itself by its Send event.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, cast

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.session import get_session
from botocore.utils import parse_timestamp

from mail_service.domain.answers import classify
from mail_service.domain.outcomes import Outcome, Refused
from mail_service.errors import SettingsError, Unavailable
from mail_service.gateways import ses_answers, transport
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
    except (BotoCoreError, ValueError, OSError) as problem:
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
            answer = ses_answers.of_error(error, email.sender, recipients)
        else:
            answer = ses_answers.of_response(response, email.sender, recipients)
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
