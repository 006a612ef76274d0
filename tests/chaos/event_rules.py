"""Rules about events, suppression and what is not genuine. Pure, like the rest of the auditor."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

from mail_service.domain.suppression import SuppressionReason
from tests.campaign.auditor import Verdict, tag_of
from tests.chaos.evidence import Found

COMMIT_SEEN_WITHIN = 1.0
"""Seconds between a commit's own time and its being seen, on a machine that is busy."""

CALLED_WITHIN = 3.0
"""Seconds in which a call may still arrive: the check may be 1 s old, the rest is the machine's."""

_FACTS = {
    "Delivery": "delivered_at",
    "Bounce": "bounced_at",
    "Complaint": "complained_at",
    "DeliveryDelay": "delayed_at",
}
_STRENGTH = [reason.value for reason in SuppressionReason]


def judge(found: Found) -> list[Verdict]:
    """Apply every rule."""
    return [
        _nobody_writes_to_the_suppressed(found),
        _no_claim_after_a_suppression(found),
        _suppression_only_grows(found),
        _evidence_suppresses(found),
        _suppressed_has_a_reason(found),
        _told_is_stored_once(found),
        _nobody_waits_for_long(found),
        _forgeries_do_nothing(found),
        _matches_agree(found),
        _facts_show(found),
    ]


def _nobody_writes_to_the_suppressed(found: Found) -> Verdict:
    verdict = Verdict("S10: an address that was suppressed before its email is never called")
    called = {address for row in found.campaign.calls for address in row["recipients"]}
    for stopped in found.stopped:
        verdict.check(stopped.address not in called, stopped.address)
    return verdict


def _no_claim_after_a_suppression(found: Found) -> Verdict:
    verdict = Verdict("S10: no claim is begun after a suppression, no call much later")
    since: dict[str, datetime] = {}
    for row in found.suppressed:
        if row["at"] is not None:
            since.setdefault(row["address"], row["at"])
    for attempt in found.attempts:
        for address in attempt["addresses"]:
            if address in since:
                late = attempt["begun"] - since[address] > timedelta(seconds=COMMIT_SEEN_WITHIN)
                verdict.check(not late, f"{attempt['request_tag']} to {address}")
    for call in found.campaign.calls:
        attempt = found.by_tag.get(tag_of(call))
        if call["event"] != "arrived" or attempt is None or found.was_hurt(attempt):
            continue
        arrived = datetime.fromtimestamp(call["at"], UTC)
        for address in call["recipients"]:
            if address in since:
                late = arrived - since[address] > timedelta(seconds=CALLED_WITHIN)
                verdict.check(not late, f"{tag_of(call)} called {address}")
    return verdict


def _suppression_only_grows(found: Found) -> Verdict:
    verdict = Verdict("S11: a suppression is never lifted, deleted or weakened by itself")
    for row in found.suppressed:
        right = row["became"] is not None and not row["released"]
        if right and row["was"] is not None:
            right = _STRENGTH.index(row["became"]) >= _STRENGTH.index(row["was"])
        verdict.check(right, f"{row}")
    return verdict


def _evidence_suppresses(found: Found) -> Verdict:
    verdict = Verdict("S11: whoever asked for it, bounced or complained is suppressed at the end")
    active = {row["address"]: row["reason"] for row in found.suppressions if row["active"]}
    for stopped in found.stopped:
        verdict.check(stopped.address in active, stopped.address)
    for message, kind in found.told:
        attempt = found.by_tag.get(found.tag_of_message[message])
        for address in attempt["addresses"] if attempt else ():
            if kind == "Complaint":
                verdict.check(active.get(address) == "complaint", f"{address} complained")
            if kind == "Bounce" and address.startswith("bounce+"):
                verdict.check(address in active, f"{address} bounced")
    return verdict


def _suppressed_has_a_reason(found: Found) -> Verdict:
    verdict = Verdict("S10: what ended as suppressed has only suppressed recipients")
    active = {row["address"] for row in found.suppressions if row["active"]}
    ended = {row["id"] for row in found.emails if row["state"] == "suppressed"}
    for row in found.recipients:
        if row["email_id"] in ended:
            verdict.check(row["address"] in active, f"{row['email_id']} to {row['address']}")
    return verdict


def _told_is_stored_once(found: Found) -> Verdict:
    verdict = Verdict("S12 L4: what was answered 2xx is stored, once; genuine is never refused")
    stored = Counter(row["sns_message_id"] for row in found.events)
    statuses: dict[str, set[int]] = defaultdict(set)
    for row in found.campaign.deliveries:
        if row["type"] == "Notification" and row["status"] is not None:
            statuses[row["message_id"]].add(row["status"])
    for sns_id, given in statuses.items():
        verdict.check(not any(400 <= status < 500 for status in given), f"{sns_id}: {given}")
        if any(status < 300 for status in given):
            verdict.check(stored[sns_id] == 1, f"{sns_id} is stored {stored[sns_id]} times")
    for sns_id, times in stored.items():
        verdict.check(times == 1, f"{sns_id} is stored {times} times")
    return verdict


def _nobody_waits_for_long(found: Found) -> Verdict:
    verdict = Verdict("L8: no delivery waits for 15 s, whatever hangs behind the webhook")
    for row in found.campaign.deliveries:
        waited = row.get("error") or ""
        verdict.check(not waited.startswith("TimeoutError"), f"{row['message_id']}: {waited}")
    return verdict


def _forgeries_do_nothing(found: Found) -> Verdict:
    verdict = Verdict("S13: what is not genuine is refused and leaves no event")
    genuine = {row["message_id"] for row in found.campaign.deliveries}
    for sns_id, statuses in found.forged.items():
        verdict.check(all(status >= 400 for status in statuses), f"{sns_id}: {statuses}")
    for row in found.events:
        verdict.check(row["sns_message_id"] in genuine, f"{row} was never published")
    return verdict


def _matches_agree(found: Found) -> Verdict:
    verdict = Verdict("S14: an event is attached to the attempt of its tag and MessageId")
    for row in found.events:
        if row["status"] == "matched":
            attempt = found.by_tag.get(row["attempt_id"])
            verdict.check(
                attempt is not None
                and row["request_tag"] in {None, attempt["request_tag"]}
                and attempt["provider_message_id"] == row["provider_message_id"]
                and found.tag_of_message.get(row["provider_message_id"]) == row["attempt_id"],
                f"{row}",
            )
        else:
            verdict.check(False, f"{row} is {row['status']}")
    return verdict


def _facts_show(found: Found) -> Verdict:
    verdict = Verdict("L4: each fact that was told shows on its recipient")
    facts = {(row["email_id"], row["address"]): row for row in found.recipients}
    for message, kind in found.told:
        attempt = found.by_tag.get(found.tag_of_message[message])
        if kind not in _FACTS:
            continue
        verdict.check(attempt is not None, f"{kind} of {message}: its attempt is gone")
        for address in attempt["addresses"] if attempt else ():
            row = facts[attempt["email_id"], address] if attempt else {}
            verdict.check(row[_FACTS[kind]] is not None, f"{kind} of {message} to {address}")
    return verdict
