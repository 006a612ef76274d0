"""Judges a weather from the sandbox's own log; the database is the accused.

Pure: evidence in, verdicts out, so that each rule can be shown to fail.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise

from mail_service.domain.holding import UNKNOWNS_THAT_HOLD
from tests.campaign.auditor import Row, Verdict, tag_of
from tests.weather.evidence import Evidence

A_MOMENT = timedelta(seconds=0.25)
"""How long after its beginning a claim may still see that a hold was cleared."""

OTHERS_WITHIN = 20.0
"""Seconds in which what the weather is not about must be out: less than any first probe takes."""

SEEN_WITHIN = 5.0
GOES_OUT_WITHIN = 45.0
"""Seconds from a clear sky, or the end of its hold, until the last email is out: the longest wait
after throttling (30), and the work itself."""


def judge(found: Evidence) -> list[Verdict]:
    """Apply every rule."""
    return [
        _came_to_rest(found),
        _nothing_failed(found),
        _all_went_out(found),
        _one_acceptance(found),
        _others_were_not_stopped(found),
        _the_hold_was_opened_and_cleared_by_a_probe(found),
        _one_alarm_per_hold(found),
        _only_probes_under_a_hold(found),
        _one_probe_at_a_time(found),
        _no_attempt_was_used_up(found),
        _out_soon_after_it_cleared(found),
        _no_person_was_needed(found),
        _doubt_is_real(found),
        _doubt_is_bounded(found),
        _doubt_is_seen(found),
    ]


def outside(found: Evidence) -> dict[str, str]:
    """Say of each call what its caller can know, by tag: accepted, refused, proved, or unknown."""
    known: dict[str, str] = {}
    names: dict[str, str] = {}
    for row in found.calls:
        tag = tag_of(row)
        if row["event"] == "arrived":
            known[tag] = "unknown"
        elif row["event"] == "accepted":
            names[row["message_id"]] = tag
        elif row["event"] == "answered" and row["status"] == 200:
            known[tag] = "unknown" if row["behaviour"] == "garbage" else "accepted"
        elif row["event"] == "answered" and 400 <= row["status"] < 500:
            known[tag] = "refused"
    for row in found.deliveries:
        tag = names.get(row.get("provider_message_id") or "", "")
        if known.get(tag) == "unknown" and row["status"] is not None and row["status"] // 100 == 2:
            known[tag] = "proved"
    return known


def in_doubt(found: Evidence) -> set[str]:
    """Give the emails that are ambiguous."""
    return {row["id"] for row in found.emails if row["state"] == "ambiguous"}


def in_flight(found: Evidence, hold: Row) -> int:
    """Count the attempts that were under way when a hold was opened, the last that opened it too."""
    return sum(
        row["started_at"] <= hold.get("told_at", hold["opened_at"])
        and (row["finished_at"] is None or row["finished_at"] >= hold["opened_at"])
        for row in found.attempts
    )


def last_out(found: Evidence) -> datetime | None:
    """Give when the last email was submitted."""
    return max((row["submitted_at"] for row in found.emails if row["submitted_at"]), default=None)


def _came_to_rest(found: Evidence) -> Verdict:
    verdict = Verdict("everything came to rest")
    verdict.check(not found.unfinished, found.unfinished)
    return verdict


def _nothing_failed(found: Evidence) -> Verdict:
    verdict = Verdict("nothing failed")
    for row in found.emails:
        right = row["state"] in {"pending", "sending", "submitted", "ambiguous"}
        verdict.check(right, f"{row['id']} is {row['state']}")
    return verdict


def _all_went_out(found: Evidence) -> Verdict:
    verdict = Verdict("all went out by themselves, or wait on the desk with reason")
    right = (
        {"submitted", "ambiguous"}
        if found.weather.doubt or found.weather.refused
        else {"submitted"}
    )
    for row in found.emails:
        verdict.check(row["state"] in right, f"{row['id']} is {row['state']}")
    return verdict


def _one_acceptance(found: Evidence) -> Verdict:
    verdict = Verdict("at most one acceptance per email")
    emails = {row["tag"]: row["email_id"] for row in found.attempts}
    accepted = Counter(
        emails.get(tag_of(row), tag_of(row)) for row in found.calls if row["event"] == "accepted"
    )
    for email, times in accepted.items():
        verdict.check(times == 1, f"{email} was accepted {times} times")
    return verdict


def _others_were_not_stopped(found: Evidence) -> Verdict:
    verdict = Verdict("what the weather is not about went on")
    if found.weather.stops is None:
        return verdict
    for row in found.emails:
        if row["sender"] != found.weather.stops:
            out = row["submitted_at"] or found.ended
            waited = (out - row["created_at"]).total_seconds()
            right = out < found.ended and waited <= OTHERS_WITHIN
            verdict.check(right, f"{row['id']} of {row['sender']} waited {waited:.0f} s")
    return verdict


def _the_hold_was_opened_and_cleared_by_a_probe(found: Evidence) -> Verdict:
    verdict = Verdict("the hold that is due is opened once, and cleared by a probe")
    opened = [(row["scope"], row["subject"]) for row in found.holds]
    if found.weather.may_hold:
        verdict.check(set(opened) <= {("endpoint", "")}, f"opened: {opened}")
    else:
        due = [found.weather.hold] if found.weather.hold else []
        verdict.check(opened == due, f"opened: {opened}, due: {due}")
    for row in found.holds:
        right = row["cleared_by"] == "probe" and row["probes"] >= 1
        verdict.check(right, f"{row['scope']} hold: {row['probes']} probes, by {row['cleared_by']}")
    return verdict


def _one_alarm_per_hold(found: Evidence) -> Verdict:
    verdict = Verdict("each hold raises one alarm, and nothing else does")
    alarms = Counter(found.alarms)
    held = alarms.pop("sending_held", 0)
    verdict.check(held == len(found.holds), f"{held} alarms, {len(found.holds)} holds")
    alarms.pop("quota_unknown", 0)  # true while SES can't be reached
    if found.weather.hold == ("account", ""):
        alarms -= Counter(["sending_disabled"])  # the quota may be read just before the hold opens
    verdict.check(not alarms, f"further alarms: {dict(alarms)}")
    return verdict


def _only_probes_under_a_hold(found: Evidence) -> Verdict:
    verdict = Verdict("only probes are called while a hold is open")
    for hold in found.holds:
        # A claim that begins when the hold's commit was told must see it.
        told = hold.get("told_at")
        until = (hold["cleared_at"] or found.ended) - A_MOMENT
        for row in found.attempts:
            stopped = hold["scope"] != "sender" or row["sender"] == hold["subject"]
            if stopped and told is not None and told < row["started_at"] < until:
                verdict.check(row["tag"] in found.probes, f"{row['tag']} is no probe")
    return verdict


def _one_probe_at_a_time(found: Evidence) -> Verdict:
    verdict = Verdict("one probe at a time, each by another email")
    rows = sorted(
        (row for row in found.attempts if row["tag"] in found.probes),
        key=lambda row: row["started_at"],
    )
    for before, after in pairwise(rows):
        over = before["finished_at"] or before["started_at"] + timedelta(seconds=found.lease)
        verdict.check(over <= after["started_at"], f"{after['tag']} began beside {before['tag']}")
    return verdict


def _no_attempt_was_used_up(found: Evidence) -> Verdict:
    verdict = Verdict("no email used up an attempt")
    for row in found.emails:
        verdict.check(row["refusals"] == 0, f"{row['id']} used up {row['refusals']}")
    return verdict


def _out_soon_after_it_cleared(found: Evidence) -> Verdict:
    verdict = Verdict("a clear sky is noticed in time, and then everything goes at once")
    noticed = found.ended
    for row in found.holds:
        if row["cleared_at"] is None:
            continue
        noticed = max(noticed, row["cleared_at"])
        waited = (row["cleared_at"] - max(found.ended, row["opened_at"])).total_seconds()
        most = found.probes_apart + found.call + SEEN_WITHIN
        verdict.check(waited <= most, f"{row['scope']} hold was cleared {waited:.0f} s late")
    last = last_out(found)
    if last is not None:
        took = (last - noticed).total_seconds()
        verdict.check(took <= GOES_OUT_WITHIN, f"the last was out {took:.0f} s later")
    return verdict


def _no_person_was_needed(found: Evidence) -> Verdict:
    verdict = Verdict("an accepted call whose event was answered 2xx is submitted without a person")
    states = {row["id"]: row["state"] for row in found.emails}
    emails = {row["tag"]: row["email_id"] for row in found.attempts}
    for tag, what in outside(found).items():
        if what in {"accepted", "proved"} and tag in emails:
            state = states[emails[tag]]
            verdict.check(state == "submitted", f"{tag} was {what}, its email is {state}")
    for row in found.decisions:
        verdict.check(False, f"{row['email_id']} was decided by {row['by']}")
    return verdict


def _doubt_is_real(found: Evidence) -> Verdict:
    verdict = Verdict("what is ambiguous can't be known, or was a killed worker's")
    newest = {row["email_id"]: row["tag"] for row in found.attempts}
    known = outside(found)
    for email in in_doubt(found):
        tag = newest[email]
        # Of a call that never arrived nobody can tell that it did not, save a killed worker's own.
        real = known.get(tag, "unknown") == "unknown" or tag in found.lost
        verdict.check(real, f"{email}: its call {tag} was {known.get(tag)}")
    return verdict


def _doubt_is_bounded(found: Evidence) -> Verdict:
    verdict = Verdict(
        "doubt is no more than unproved unknowns, what the killed had, and under a hold"
    )
    known = outside(found)
    unknown = {row["tag"] for row in found.attempts if known.get(row["tag"], "cut") in _UNKNOWN}
    unknown &= {row["tag"] for row in found.attempts if row["state"] in {"unknown", "started"}}
    most = len(unknown | found.lost)
    doubtful = len(in_doubt(found))
    verdict.check(doubtful <= most, f"{doubtful} in doubt, {most} unknown")
    for hold in found.holds if not found.weather.odd else ():
        # The last of those that opened it was under way; the others had ended.
        flying = in_flight(found, hold)
        most = UNKNOWNS_THAT_HOLD - 1 + flying + hold["probes"]
        verdict.check(doubtful <= most, f"{doubtful} in doubt, {most} in flight or probes")
        most = UNKNOWNS_THAT_HOLD - 1 + found.slots + hold["probes"]
        verdict.check(doubtful <= most, f"{doubtful} in doubt, {most} slots or probes")
    return verdict


_UNKNOWN = {"unknown", "cut"}


def _doubt_is_seen(found: Evidence) -> Verdict:
    verdict = Verdict("doubt is on the operator's list within lease, one sweep and 5 s")
    began = {row["email_id"]: row["started_at"] for row in found.attempts}
    most = found.lease + found.sweep + SEEN_WITHIN
    for email in in_doubt(found):
        verdict.check(email in found.desk, f"{email} is not on the list")
    for row in found.emails:
        if row["doubted_at"] is not None:
            took = (row["doubted_at"] - began[row["id"]]).total_seconds()
            verdict.check(took <= most, f"{row['id']} was doubtful after {took:.0f} s")
    others = found.desk & {row["id"] for row in found.emails if row["state"] != "ambiguous"}
    verdict.check(not others, f"on the list without doubt: {sorted(others)}")
    return verdict
