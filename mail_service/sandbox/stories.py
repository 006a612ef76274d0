"""Which events follow an accepted mail, recipient by recipient."""

from typing import Any

from mail_service.sandbox.events import Event, ses_time
from mail_service.sandbox.ids import new_ses_id
from mail_service.sandbox.simulator import BEHAVIOURS, Behaviour, behaviour_of

Reasons = dict[str, str]

_REMOTE = {"remoteMtaIp": "192.0.2.25", "reportingMTA": "a8-43.smtp-out.amazonses.com"}
_UNKNOWN_USER = "smtp; 550 5.1.1 user unknown"
_ON_LIST = (
    "Amazon SES did not send the message to this address because it is on the suppression list "
    "for your account."
)


def story(
    recipients: list[str], accepted_at: float, suppressed: Reasons, forced: str | None
) -> list[Event]:
    """The events of a mail in their natural order, Send first.

    `suppressed` gives the reason of each recipient on the account's suppression list; `forced`
    names a behaviour that all recipients have whatever their address says.
    """
    behaviours = {
        address: BEHAVIOURS[forced] if forced else behaviour_of(address) for address in recipients
    }
    if any(
        behaviour.fate == "rejected" and address not in suppressed
        for address, behaviour in behaviours.items()
    ):
        return [Event("Reject", recipients, {"reason": "Bad content"})]
    events = [Event("Send", recipients, {})]
    for address, behaviour in behaviours.items():
        if reason := suppressed.get(address):
            events.append(_suppressed(address, reason, accepted_at))
        else:
            events += _fate(address, behaviour, accepted_at)
    return events


def _fate(address: str, behaviour: Behaviour, accepted_at: float) -> list[Event]:
    delivery = _delivery(address, accepted_at + 0.001)
    match behaviour.fate:
        case "bounced":
            return [_bounce(address, accepted_at + 0.001)]
        case "complained":
            return [delivery, _complaint(address, accepted_at + 0.002)]
        case "out_of_office":
            return [delivery, _out_of_office(address, accepted_at + 0.002)]
        case "delayed":
            return [
                _delay(address, accepted_at + 0.001),
                _delivery(address, accepted_at + 0.002),
            ]
        case _:
            return [delivery]


def _delivery(address: str, at: float) -> Event:
    return Event(
        "Delivery",
        [address],
        {
            "timestamp": ses_time(at),
            "processingTimeMillis": 1,
            "recipients": [address],
            "smtpResponse": "250 2.6.0 Message received",
            **_REMOTE,
        },
    )


def _bounce_details(
    kind: str, subtype: str, recipient: dict[str, str], at: float
) -> dict[str, Any]:
    return {
        "feedbackId": new_ses_id(at),
        "bounceType": kind,
        "bounceSubType": subtype,
        "bouncedRecipients": [recipient],
        "timestamp": ses_time(at),
    }


def _bounce(address: str, at: float) -> Event:
    recipient = {
        "emailAddress": address,
        "action": "failed",
        "status": "5.1.1",
        "diagnosticCode": _UNKNOWN_USER,
    }
    details = _bounce_details("Permanent", "General", recipient, at)
    reporting = {"reportingMTA": f"dns; {_REMOTE['reportingMTA']}"}
    return Event("Bounce", [address], details | _REMOTE | reporting)


def _out_of_office(address: str, at: float) -> Event:
    details = _bounce_details("Transient", "General", {"emailAddress": address}, at)
    return Event("Bounce", [address], details)


def _complaint(address: str, at: float) -> Event:
    return Event(
        "Complaint",
        [address],
        {
            "feedbackId": new_ses_id(at),
            "complaintSubType": None,
            "complainedRecipients": [{"emailAddress": address}],
            "timestamp": ses_time(at),
            "userAgent": "Amazon SES Mailbox Simulator",
            "complaintFeedbackType": "abuse",
            "arrivalDate": ses_time(at),
        },
    )


def _delay(address: str, at: float) -> Event:
    return Event(
        "DeliveryDelay",
        [address],
        {
            "timestamp": ses_time(at),
            "delayType": "TransientCommunicationFailure",
            "expirationTime": ses_time(at + 14 * 3600),
            "delayedRecipients": [
                {
                    "emailAddress": address,
                    "status": "4.4.1",
                    "diagnosticCode": "smtp; 421 4.4.1 Unable to connect to remote host",
                }
            ],
        },
    )


def _suppressed(address: str, reason: str, accepted_at: float) -> Event:
    at = accepted_at + 0.001
    if reason == "COMPLAINT":
        return Event(
            "Complaint",
            [address],
            {
                "feedbackId": new_ses_id(at),
                "complaintSubType": "OnAccountSuppressionList",
                "complainedRecipients": [{"emailAddress": address}],
                "timestamp": ses_time(at),
            },
        )
    recipient = {
        "emailAddress": address,
        "action": "failed",
        "status": "5.1.1",
        "diagnosticCode": _ON_LIST,
    }
    details = _bounce_details("Permanent", "OnAccountSuppressionList", recipient, at)
    return Event("Bounce", [address], details | {"reportingMTA": "dns; amazonses.com"})
