"""Who may not be written to, why, and by which rule a suppression may be lifted."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from mail_service.domain.events import FactKind
from mail_service.domain.facts import KnownFact, is_permanent, is_personal


class SuppressionReason(StrEnum):
    """Why a mailbox gets no mail, weakest first. Order and labels equal the enum in the database."""

    MANUAL = "manual"
    BOUNCE = "bounce"
    COMPLAINT = "complaint"


class ReleaseRule(StrEnum):
    """The stated ground on which a person lifts a suppression."""

    ADDRESS_CONFIRMED = "address_confirmed"
    CONSENT_RENEWED = "consent_renewed"
    OPERATOR_ERROR = "operator_error"


class SesListState(StrEnum):
    """What SES's own list has of a suppression. Order and labels equal the enum in the database."""

    UNKNOWN = "unknown"  # nobody has looked yet
    PENDING_PUT = "pending_put"
    LISTED = "listed"
    ABSENT = "absent"  # stands here, and SES does not list it
    PENDING_DELETE = "pending_delete"
    DELETED = "deleted"
    KEPT = "kept"  # released, and suppressed again before its entry was deleted


UNDATED = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of an entry of SES's list that has none, or an impossible one. It is older than any release,
so that it suppresses whom no person has released, and a person can lift it for good."""

_AHEAD = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One entry of SES's list. ``at`` is when SES last changed it, as it says; UNDATED for no time."""

    address: str = field(repr=False)
    reason: SuppressionReason
    at: datetime

    def dated(self, now: datetime) -> datetime:
        """Give when it was changed, as far as that can be: nothing is dated days ahead."""
        return UNDATED if self.at > now + _AHEAD else max(self.at, UNDATED)


def reason_in(fact: KnownFact) -> SuppressionReason | None:
    """Say whether a fact stops later mail, and why.

    A permanent bounce does, unless its entry says that the mail is merely delayed; so does a
    person's complaint. Transient and undetermined bounces, out-of-office replies and reports about
    authentication do not (design.md, section 8).
    """
    if fact.kind is FactKind.BOUNCED and is_permanent(fact.type) and fact.action != "delayed":
        return SuppressionReason.BOUNCE
    if fact.kind is FactKind.COMPLAINED and is_personal(fact.type):
        return SuppressionReason.COMPLAINT
    return None


def may_release(reason: SuppressionReason, rule: ReleaseRule, *, confirmed: bool) -> bool:
    """Say whether this rule lifts a suppression of this reason; complaints need renewed consent."""
    if reason is SuppressionReason.COMPLAINT:
        return rule is ReleaseRule.CONSENT_RENEWED and confirmed
    return True
