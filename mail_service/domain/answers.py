"""What an answer of SES means: one pure function from how a call ended to an outcome.

Two mistakes are possible and they are not equal. Calling an accepted mail refused sends it twice;
calling a refused mail unknown asks a person. So a refusal needs proof: an answer with a 3xx or 4xx
status, or a failure that can only come before a byte of the request left. All else is ``Unknown``.

The order is fixed: whether an answer came and its status, then its text, then its code. The code
alone is not enough, because SES reports account faults (a pause, the daily quota) under codes of
the single message.
"""

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from mail_service.domain.address import match_key
from mail_service.domain.outcomes import (
    Accepted,
    Deferred,
    Held,
    HoldScope,
    Outcome,
    Pace,
    Refused,
    Unknown,
)

_Doubt = Literal["connection_lost", "no_message_id", "read_timeout", "server_error"]
_NewDoubt = Literal["unexpected_error", "unexpected_status"]
_Account = Literal[
    "account_suspended", "clock_skew", "credentials", "daily_quota", "sending_paused"
]
_Sender = Literal["access_denied", "mail_from_not_verified", "sender_not_verified"]
_Set = Literal["configuration_set_missing", "configuration_set_paused"]
_Endpoint = Literal["endpoint_unreachable", "endpoint_unusable", "tls", "unexpected_answer"]
_Later = Literal["limit_exceeded", "throttled", "unknown_refusal"]
_Never = Literal["bad_request", "parameters", "recipient_not_verified", "rejected", "too_large"]

ErrorClass = _Doubt | _NewDoubt | _Account | _Sender | _Set | _Endpoint | _Later | _Never
"""Every ``error_class`` a call can get. Each means one kind of outcome: :func:`_outcome`."""

SEND_OPERATION: Final = "SendEmail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one call ended, in words no library owns. ``repr`` leaves out what names a person."""

    fault: tuple[str, ...] = ()
    """Qualified class names of what was raised, most special first; empty when nothing was."""
    failed_connecting: bool | None = None
    """Whether the fault arose while the connection was made; None when nothing shows it."""
    operation: str = SEND_OPERATION
    """Whose answer it is: fetching credentials makes calls to other services inside ours."""
    status: int | None = None
    code: str | None = field(default=None, repr=False)
    text: str = field(default="", repr=False)
    from_ses: bool = False
    """Whether the answer has the form of an AWS JSON answer, not of a proxy's page."""
    message_id: str | None = field(default=None, repr=False)
    sender: str = field(default="", repr=False)
    recipients: tuple[str, ...] = field(default=(), repr=False)


def classify(answer: Answer) -> Outcome:
    """Say what a call taught us. Total and pure; what it does not know is Unknown.

    Source: design.md section 6; AWS, "Amazon SES API v2, SendEmail, Errors" and "troubleshoot error
    messages" (a 4xx answer means that the mail is not sent). A 5xx may come from a gateway that
    lost SES's acceptance, and a 408 from one that was slow to pass the request on.
    """
    # A 2xx is an acceptance only as a 200 that names the mail; botocore lets the rest pass too.
    if answer.status == 200 and _MESSAGE_ID.fullmatch(answer.message_id or ""):
        return Accepted(provider_message_id=answer.message_id or "")
    return _outcome(_reason(answer), _code_of(answer))


def _outcome(reason: ErrorClass, code: str | None) -> Outcome:
    match reason:
        case "connection_lost" | "no_message_id" | "read_timeout" | "server_error":
            return Unknown(error_class=reason, error_code=code)
        case "unexpected_error" | "unexpected_status":
            return Unknown(error_class=reason, error_code=code)
        case "account_suspended" | "clock_skew" | "credentials" | "daily_quota" | "sending_paused":
            return Held(scope=HoldScope.ACCOUNT, error_class=reason, error_code=code)
        case "access_denied" | "mail_from_not_verified" | "sender_not_verified":
            return Held(scope=HoldScope.SENDER, error_class=reason, error_code=code)
        case "configuration_set_missing" | "configuration_set_paused":
            return Held(scope=HoldScope.CONFIGURATION_SET, error_class=reason, error_code=code)
        case "endpoint_unreachable" | "endpoint_unusable" | "tls" | "unexpected_answer":
            return Held(scope=HoldScope.ENDPOINT, error_class=reason, error_code=code)
        case "throttled":
            return Deferred(error_class=reason, error_code=code, pace=Pace.THROTTLED)
        case "limit_exceeded" | "unknown_refusal":
            return Deferred(error_class=reason, error_code=code, pace=Pace.SLOW, alarm=True)
        case "parameters":
            return Refused(error_class=reason, error_code=code, alarm=True)
        case "bad_request" | "recipient_not_verified" | "rejected" | "too_large":
            return Refused(error_class=reason, error_code=code)


_MESSAGE_ID = re.compile(r"[\x21-\x7e]{1,256}")
_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,80}")


def _code_of(answer: Answer) -> str | None:
    """The provider's code if it looks like one (a proxy may send anything), else what is known."""
    if answer.code is not None and _CODE.fullmatch(answer.code):
        return answer.code
    if answer.status is not None:
        return str(answer.status)
    return answer.fault[0].rpartition(".")[2] if answer.fault else None


def _reason(answer: Answer) -> ErrorClass:
    status = answer.status
    if answer.operation != SEND_OPERATION:
        return "credentials"
    if status is None:
        return _fault(answer)
    if status == 408 or 500 <= status < 600:
        return "server_error"
    if not 200 <= status < 500:
        return "unexpected_status"
    if status < 300:
        return "no_message_id"
    if status >= 400 and answer.from_ses:
        return _by_text(answer) or _by_code(answer)
    # Somebody between us and SES said no, or the address is not SES's: the mail went no further.
    strangers: dict[int, ErrorClass] = {413: "too_large", 429: "throttled"}
    return strangers.get(status, "unexpected_answer")


# Of botocore.exceptions; subclasses are meant too. The first three are raised only before a request
# exists (1.44.8, read and run). "ConnectionError" is left out: a reset has a builtin of that name.
_FAULTS: Final[dict[ErrorClass, str]] = {
    "endpoint_unusable": "BaseEndpointResolverError EndpointProviderError UnknownRegionError"
    " InvalidRegionError ServiceNotInRegionError InvalidEndpointConfigurationError"
    " InvalidProxiesConfigError",
    "parameters": "ParamValidationError ValidationError MissingParametersError",
    "credentials": "NoCredentialsError PartialCredentialsError CredentialRetrievalError"
    " UnknownCredentialError NoAuthTokenError TokenRetrievalError UnknownTokenProviderError"
    " MetadataRetrievalError RefreshWithMFAUnsupportedError SSOError LoginError ProfileNotFound"
    " ConfigNotFound ConfigParseError InvalidConfigError InvalidIMDSEndpointError"
    " InvalidIMDSEndpointModeError InvalidSTSRegionalEndpointsConfigError"
    " UnknownSignatureVersionError UnsupportedSignatureVersionError",
    "endpoint_unreachable": "EndpointConnectionError ConnectTimeoutError ProxyConnectionError",
    "tls": "SSLError",
    "read_timeout": "ReadTimeoutError",
    "connection_lost": "HTTPClientError IncompleteReadError",
}
_FAULT_OF: dict[str, ErrorClass] = {
    f"botocore.exceptions.{n}": why for why, ns in _FAULTS.items() for n in ns.split()
}
_HANDSHAKE = re.compile(
    r"certificate.verify.failed|hostname .* doesn't match|wrong.version.number", re.I
)


def _fault(answer: Answer) -> ErrorClass:
    """No answer: only a fault that cannot come later than the first byte is a refusal.

    ProxyConnectionError and a TLS "wrong version" are believed unless it is known that the connection
    stood: both also come when the answer is lost after SES read the request (seen with urllib3 2.8, which
    forgets that it had reached the proxy; tests/gateways/test_ses_faults.py).
    """
    reason: ErrorClass | None = next(
        (_FAULT_OF[name] for name in answer.fault if name in _FAULT_OF), None
    )
    if reason == "endpoint_unreachable" and answer.failed_connecting is False:
        return "connection_lost"
    if reason == "tls" and not (
        _HANDSHAKE.search(answer.text)
        if answer.failed_connecting is None
        else answer.failed_connecting
    ):
        return "connection_lost"
    return reason or "unexpected_error"


# Matched from the start and only up to the first colon: further on a text may quote the mail, and
# one caller's display name must not be able to hold the account.
_TEXTS: Final[dict[ErrorClass, str]] = {
    "sending_paused": r"(email )?sending\b.{0,120}\b(paused|suspended|disabled)\b",
    "daily_quota": r"daily (message|sending) quota|sending quota .{0,40}exceeded",
    "throttled": r"(the )?maximum sending rate\b.{0,20}\bexceeded",
    "sender_not_verified": r"(the )?(email address|identity|domain)\b.{0,60}\bnot verified\b",
    "configuration_set_missing": r"(the )?configuration[ -]?set\b.*(does not|doesn't) exist",
}


def _by_text(answer: Answer) -> ErrorClass | None:
    """What the text says, where it says more than the code. None where it says nothing we know."""
    head = " ".join(answer.text.partition(":")[0].split())
    reason: ErrorClass | None = next(
        (why for why, text in _TEXTS.items() if re.match(text, head, re.I)), None
    )
    if reason == "sending_paused":
        return _paused(answer)
    if reason == "sender_not_verified":
        return _not_verified(answer)
    return reason


def _paused(answer: Answer) -> ErrorClass:
    named = re.search(r"configuration[ -]?set", f"{answer.code} {answer.text}", re.I)
    return "configuration_set_paused" if named else "sending_paused"


def _not_verified(answer: Answer) -> ErrorClass:
    """Blame a recipient only when every identity named is a recipient's, and the list is whole.

    Real texts list ``name <address>`` beside the bare address, and end in an ellipsis when cut
    (AWS, "troubleshoot error messages"). A display name is only ever the sender's.
    """
    _, _, listed = answer.text.partition(":")
    entries = (entry.strip(".'\"") for entry in re.split(r"[\s,;<>()]+", listed))
    named = {match_key(entry) for entry in entries if entry}
    own = match_key(answer.sender)
    theirs = {match_key(recipient) for recipient in answer.recipients} - {own, None}
    whole = "..." not in listed and "…" not in listed
    return (
        "recipient_not_verified" if whole and named and named <= theirs else "sender_not_verified"
    )


# Without the ending "Exception", which v1, v2 and STS use or not. AWS, "Common errors".
_CODES: Final[dict[ErrorClass, str]] = {
    "throttled": "TooManyRequests Throttling Throttled RequestThrottled RequestLimitExceeded"
    " SlowDown BandwidthLimitExceeded PriorRequestNotComplete",
    "limit_exceeded": "LimitExceeded",
    "credentials": "ExpiredToken UnrecognizedClient InvalidClientTokenId InvalidAccessKeyId"
    " InvalidSignature SignatureDoesNotMatch IncompleteSignature InvalidToken"
    " MissingAuthenticationToken AuthFailure OptInRequired TokenRefreshRequired",
    "clock_skew": "RequestExpired RequestTimeTooSkewed RequestInTheFuture",
    "access_denied": "AccessDenied NotAuthorized",
    "account_suspended": "AccountSuspended",
    "mail_from_not_verified": "MailFromDomainNotVerified",
    # A call that brings its own content names nothing else that could be missing.
    "configuration_set_missing": "NotFound ConfigurationSetDoesNotExist",
    "rejected": "MessageRejected",
    "bad_request": "BadRequest InvalidParameterValue",
}
_CODE_OF: dict[str, ErrorClass] = {
    code: why for why, codes in _CODES.items() for code in codes.split()
}
_DAILY = re.compile(r"\bdaily\b|\b24[ -]?hour|\bper day\b", re.I)


def _by_code(answer: Answer) -> ErrorClass:
    """What the code says; limits and signatures share theirs, so their texts decide again."""
    stem = (answer.code or "").removesuffix("Exception")
    if stem.endswith("SendingPaused"):
        return _paused(answer)
    unknown: ErrorClass = "throttled" if answer.status == 429 else "unknown_refusal"
    reason = _CODE_OF.get(stem, unknown)
    if reason in ("throttled", "limit_exceeded") and _DAILY.search(answer.text):
        return "daily_quota"
    if reason == "limit_exceeded" and re.search(r"\brate\b|per second", answer.text, re.I):
        return "throttled"
    if reason == "credentials" and re.match(r"signature (expired|not yet)", answer.text, re.I):
        return "clock_skew"
    return reason
