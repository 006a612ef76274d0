"""SES's own suppression list, one call at a time (:class:`mail_service.ports.SesList`).

The list is the account's: other applications of the same AWS account see and change it too. Nothing
is repeated here; whoever asks keeps the pace (SES takes about one of these calls a second).
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, cast

from botocore.exceptions import ClientError

from mail_service.domain.suppression import UNDATED, Listed, SuppressionReason
from mail_service.errors import SettingsError, Throttled, Unavailable
from mail_service.ports import ListPage

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client
    from mypy_boto3_sesv2.literals import SuppressionListReasonType
    from mypy_boto3_sesv2.type_defs import ListSuppressedDestinationsRequestTypeDef

PAGE_SIZE = 1000

_THROTTLED = {"TooManyRequestsException", "ThrottlingException", "Throttling"}
_DENIED = {"AccessDeniedException", "AccessDenied", "UnauthorizedException"}


class SesSuppressionList:
    """Implements :class:`mail_service.ports.SesList`; the client is built at the first call.

    Most processes and commands never make one, and building looks for credentials.
    """

    def __init__(self, build: Callable[[], "SESV2Client"]) -> None:
        self._build = build
        self._built: SESV2Client | None = None
        self._lock = Lock()

    def page(self, after: str | None, since: datetime | None) -> ListPage:
        """Give up to a thousand entries after a place."""
        asked: ListSuppressedDestinationsRequestTypeDef = {"PageSize": PAGE_SIZE}
        if after is not None:
            asked["NextToken"] = after
        if since is not None:
            asked["StartDate"] = since
        client = self._client()
        with _told("ListSuppressedDestinations"):
            answer = client.list_suppressed_destinations(**asked)
        summaries = _summaries(cast("Mapping[str, object]", answer))
        read = [_listed(summary) for summary in summaries]
        entries = tuple(entry for entry in read if entry is not None)
        return ListPage(
            entries=entries,
            unreadable=len(read) - len(entries),
            next=answer.get("NextToken") or None,
        )

    def find(self, address: str) -> Listed | None:
        """Give the entry of exactly this spelling, or None."""
        client = self._client()
        try:
            with _told("GetSuppressedDestination", absent=_Absent):
                answer = client.get_suppressed_destination(EmailAddress=address)
        except _Absent:
            return None
        found = _listed(answer.get("SuppressedDestination"))
        if found is None:
            raise Unavailable("SES answered GetSuppressedDestination with what is no entry")
        return found

    def put(self, address: str, reason: SuppressionReason) -> None:
        """List an address. SES knows two reasons: what is no complaint goes as a bounce."""
        listed: SuppressionListReasonType = (
            "COMPLAINT" if reason is SuppressionReason.COMPLAINT else "BOUNCE"
        )
        client = self._client()
        with _told("PutSuppressedDestination"):
            client.put_suppressed_destination(EmailAddress=address, Reason=listed)

    def delete(self, address: str) -> bool:
        """Take an address off the list; False when it was not there."""
        client = self._client()
        try:
            with _told("DeleteSuppressedDestination", absent=_Absent):
                client.delete_suppressed_destination(EmailAddress=address)
        except _Absent:
            return False
        return True

    def _client(self) -> "SESV2Client":
        with self._lock:
            if self._built is None:
                try:
                    self._built = self._build()
                except SettingsError as unusable:
                    # For a command whose environment names no region; workers check it at start.
                    raise Unavailable(
                        f"SES can't be asked: {'; '.join(unusable.problems.values())}. "
                        "Set AWS_REGION and the usual AWS_* settings."
                    ) from unusable
            return self._built


class _Absent(Exception):
    """SES has no such entry."""


@contextmanager
def _told(operation: str, *, absent: type[Exception] = Unavailable) -> Generator[None]:
    """Turn botocore's errors into ours. Their text is left behind: it quotes addresses and names."""
    try:
        yield
    except ClientError as refusal:
        said: Mapping[str, object] = refusal.response.get("Error", {})
        code = str(said.get("Code") or "an error without a code")
        if code == "NotFoundException":
            raise absent(f"SES refused {operation}: {code}") from None
        status = refusal.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in _THROTTLED or status == 429:
            raise Throttled(f"SES asks to call {operation} less often") from None
        if code in _DENIED:
            raise Unavailable(
                f"the AWS key may not call ses:{operation}: allow this action in its IAM policy"
            ) from None
        raise Unavailable(f"SES refused {operation}: {code}") from None
    # botocore's own kinds, and what it lets through: an answer that it can't parse is none of them.
    except Exception as fault:
        raise Unavailable(f"SES did not answer {operation}: {type(fault).__name__}") from None


def _summaries(answer: Mapping[str, object]) -> list[object]:
    """Give a page's entries. Raises Unavailable for what is no page: botocore takes any text for one."""
    found = answer.get("SuppressedDestinationSummaries")
    if isinstance(found, list):
        return cast("list[object]", found)
    about = cast("Mapping[str, Mapping[str, str]]", answer.get("ResponseMetadata", {}))
    if about.get("HTTPHeaders", {}).get("content-length") == str(len("{}")):
        return []
    raise Unavailable("SES answered ListSuppressedDestinations with what is no list")


def _listed(entry: object) -> Listed | None:
    """Read an entry; None where it names no address.

    A reason that we don't know counts as a bounce: whatever it is, SES does not deliver.
    """
    if not isinstance(entry, Mapping):
        return None
    known = cast("Mapping[str, object]", entry)
    address, at = known.get("EmailAddress"), known.get("LastUpdateTime")
    if not isinstance(address, str):
        return None
    complaint = known.get("Reason") == "COMPLAINT"
    reason = SuppressionReason.COMPLAINT if complaint else SuppressionReason.BOUNCE
    if not isinstance(at, datetime) or at.tzinfo is None:
        at = UNDATED
    return Listed(address=address, reason=reason, at=at)
