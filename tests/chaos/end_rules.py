"""Rules about where emails are when everything has come to rest. Pure, like the rest of the auditor."""

from __future__ import annotations

from tests.campaign.auditor import Verdict
from tests.chaos.evidence import Found


def judge(found: Found) -> list[Verdict]:
    """Apply every rule."""
    return [
        _everything_ended(found),
        _failures_have_a_reason(found),
        _poison_is_set_aside(found),
        _proved_without_a_person(found),
        _doubt_has_a_reason(found),
        _doubt_is_within_its_budget(found),
    ]


def _everything_ended(found: Found) -> Verdict:
    verdict = Verdict("L1 L2 L5: every email is at an end or on the desk")
    for email in found.emails:
        verdict.check(
            email["state"] not in {"pending", "sending"}, f"{email['id']} is {email['state']}"
        )
    return verdict


def _failures_have_a_reason(found: Found) -> Verdict:
    verdict = Verdict("what failed was refused for good, or a person gave it up")
    abandoned = {row["email_id"] for row in found.decisions if row["decision"] == "abandon"}
    for email in found.emails:
        if email["state"] == "failed":
            calls = [
                c
                for a in found.of_email[email["id"]]
                for c in found.calls.get(a["request_tag"], ())
            ]
            refused = any(c["event"] == "refused" and c["behaviour"] == "rejected" for c in calls)
            spoiled = email["dedup_key"] in found.poisoned and email["reason"] == "template_failed"
            verdict.check(
                refused or spoiled or email["id"] in abandoned,
                f"{email['id']} failed: {email['reason']}",
            )
    return verdict


def _poison_is_set_aside(found: Found) -> Verdict:
    verdict = Verdict("L6 S16: mail that can't be rendered is never called and ends aside")
    for email in found.emails:
        if email["dedup_key"] in found.poisoned:
            called = [
                a["request_tag"]
                for a in found.of_email[email["id"]]
                if a["request_tag"] in found.calls
            ]
            aside = email["state"] in {"failed", "ambiguous", "suppressed"}
            verdict.check(aside and not called, f"{email['id']} is {email['state']}, {called}")
    return verdict


def _proved_without_a_person(found: Found) -> Verdict:
    verdict = Verdict("L3: an accepted call that only its event told of needed no person")
    said = {row["attempt_id"] for row in found.decisions if row["decision"] == "accepted"}
    for tag in found.proved:
        if not found.knowable(tag):
            verdict.check(tag not in said, f"{tag} was settled by a person")
    return verdict


def budget(found: Found) -> tuple[int, int, int, int]:
    """Give how many emails are ambiguous, and what may have made them so.

    Unproved unknowns, rows that killed workers had leased, and claims whose answer was lost.
    """
    ambiguous = sum(email["state"] == "ambiguous" for email in found.emails)
    unknown = {tag for tag in found.calls if not found.knowable(tag)} - found.proved
    killed = {
        row["request_tag"]
        for row in found.attempts
        if found.was_hurt(row) and row["state"] == "unknown"
    }
    unlearned = {row["request_tag"] for row in found.attempts if found.never_learned(row)}
    unlearned = {tag for tag in unlearned if found.by_tag[tag]["state"] == "unknown"} - killed
    return ambiguous, len(unknown), len(killed - unknown - found.proved), len(unlearned)


def _doubt_is_within_its_budget(found: Found) -> Verdict:
    verdict = Verdict(
        "ambiguous emails are no more than unknowns, rows of the killed, answers lost"
    )
    ambiguous, unknown, killed, unlearned = budget(found)
    most = unknown + killed + unlearned
    verdict.check(ambiguous <= most, f"{ambiguous} > {unknown} + {killed} + {unlearned}")
    verdict.check(unlearned <= found.answers_lost, f"{unlearned} > {found.answers_lost}")
    return verdict


def _doubt_has_a_reason(found: Found) -> Verdict:
    verdict = Verdict(
        "an ambiguous email had an unknown, a killed worker, or a claim's answer lost"
    )
    for email in found.emails:
        if email["state"] != "ambiguous":
            continue
        newest = found.of_email[email["id"]][-1]
        tag = newest["request_tag"]
        unknown = tag in found.calls and not found.knowable(tag)
        verdict.check(
            tag not in found.proved
            and (unknown or found.was_hurt(newest) or found.never_learned(newest)),
            f"{email['id']}: {tag} by {newest['worker']} (hurt {found.hurt.get(newest['worker'])}),"
            f" begun {newest['begun'].timestamp()}, {newest['error_class']},"
            f" proved: {tag in found.proved}, {[c['event'] for c in found.calls.get(tag, [])]}",
        )
    return verdict
