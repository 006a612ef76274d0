"""What each mailbox-simulator address makes the sandbox do: the one table of behaviours."""

from dataclasses import dataclass
from typing import Literal

SIMULATOR_DOMAIN = "simulator.amazonses.com"

Answer = Literal["ordinary", "slow", "never", "reset", "garbage", "error"]
Fate = Literal["delivered", "bounced", "complained", "out_of_office", "rejected", "delayed"]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a call is answered, whether its mail is accepted, and what becomes of it then."""

    name: str
    promise: str
    accepted: bool = True
    answer: Answer = "ordinary"
    fate: Fate = "delivered"
    status: int = 200
    code: str = ""
    message: str = ""
    only_first_call: bool = False
    send_event_first: bool = False

    @property
    def decides_the_call(self) -> bool:
        """True when the caller's answer differs from an ordinary acceptance."""
        return not self.accepted or self.answer != "ordinary" or self.send_event_first


def _refusal(
    name: str, promise: str, status: int, code: str, message: str, *, once: bool = False
) -> Behaviour:
    return Behaviour(
        name,
        promise,
        accepted=False,
        answer="error",
        status=status,
        code=code,
        message=message,
        only_first_call=once,
    )


PAUSED = _refusal(
    "paused",
    "refused: sending is paused for the account",
    400,
    "MessageRejected",
    "Sending paused for this account. For more information, please check the inbox of the email "
    "address associated with your AWS account.",
)
THROTTLE = _refusal(
    "throttle",
    "refused: 429, maximum sending rate exceeded",
    429,
    "TooManyRequestsException",
    "Maximum sending rate exceeded.",
)
QUOTA = _refusal(
    "quota",
    "refused: daily quota exceeded",
    400,
    "LimitExceededException",
    "Daily message quota exceeded.",
)
EXPIRED = _refusal(
    "expired",
    "refused: the caller's credentials have expired",
    403,
    "ExpiredTokenException",
    "The security token included in the request is expired",
)
SUCCESS = Behaviour("success", "accepted and delivered")

_TABLE = (
    SUCCESS,
    Behaviour("bounce", "accepted, then a permanent bounce (550 5.1.1)", fate="bounced"),
    Behaviour("complaint", "accepted, delivered, then a complaint (abuse)", fate="complained"),
    Behaviour("ooto", "accepted, delivered, then an out-of-office reply", fate="out_of_office"),
    Behaviour(
        "suppressionlist",
        "accepted, then a permanent bounce as if on the global suppression list",
        fate="bounced",
    ),
    Behaviour("timeout", "accepted, never answered", answer="never"),
    Behaviour("slow", "accepted, answered after `slow_seconds`", answer="slow"),
    Behaviour("reset", "accepted, then the connection is reset", answer="reset"),
    Behaviour("lost", "not accepted, the connection is reset", accepted=False, answer="reset"),
    Behaviour("blackhole", "not accepted, never answered", accepted=False, answer="never"),
    Behaviour(
        "error500",
        "accepted, then answered with 500",
        answer="error",
        status=500,
        code="InternalServiceErrorException",
        message="An internal error occurred.",
    ),
    Behaviour(
        "error503",
        "accepted, then answered with 503",
        answer="error",
        status=503,
        code="ServiceUnavailable",
        message="Service is temporarily unavailable.",
    ),
    _refusal(
        "refuse503",
        "not accepted, answered with 503",
        503,
        "ServiceUnavailable",
        "Service is temporarily unavailable.",
    ),
    Behaviour("garbage", "accepted, answered 200 without a MessageId", answer="garbage"),
    THROTTLE,
    _refusal(
        "throttleonce",
        "429 on the first call for that exact address, accepted after that",
        429,
        "TooManyRequestsException",
        "Maximum sending rate exceeded.",
        once=True,
    ),
    QUOTA,
    _refusal(
        "rejected", "refused: the message is rejected", 400, "MessageRejected", "Message rejected"
    ),
    PAUSED,
    EXPIRED,
    _refusal(
        "unverified",
        "refused: the sender's address is not verified",
        400,
        "MessageRejected",
        "Email address is not verified. The following identities failed the check in region "
        "{region}: {sender}",
    ),
    Behaviour("virus", "accepted, then rejected as bad content", fate="rejected"),
    Behaviour("delayed", "accepted, delayed, then delivered", fate="delayed"),
    Behaviour(
        "early",
        "accepted; its Send event is delivered before the answer is written",
        send_event_first=True,
    ),
)

BEHAVIOURS: dict[str, Behaviour] = {behaviour.name: behaviour for behaviour in _TABLE}


def is_simulated(address: str) -> bool:
    """True for an address of the mailbox simulator."""
    return address[-len(SIMULATOR_DOMAIN) - 1 :].lower() == f"@{SIMULATOR_DOMAIN}"


def local_part(address: str) -> str:
    """The part before the @ without its +label, in lower case."""
    return address.rpartition("@")[0].partition("+")[0].lower()


def behaviour_of(address: str) -> Behaviour:
    """The behaviour that an address asks for; any address outside the simulator succeeds."""
    if not is_simulated(address):
        return SUCCESS
    return BEHAVIOURS.get(local_part(address), SUCCESS)
