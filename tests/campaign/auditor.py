"""Judges a campaign from the sandbox's log and the client's log; the database is the accused.

Pure: evidence in, verdicts out, so that each rule can be shown to fail.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mail_service.ports import TAG_NAME
from tests.campaign.load import Answered

Row = dict[str, Any]

NOT_ACCEPTED = {"retryable", "permanent", "held", "released"}


@dataclass(frozen=True)
class Evidence:
    """What is left when the campaign is over."""

    answered: list[Answered]
    unanswered: list[str]
    calls: list[Row]
    """Rows of the sandbox's log: arrived, accepted, refused, answered..."""
    deliveries: list[Row]
    """Rows of the sandbox's log of event deliveries."""
    accounts: list[Row]
    """id, email"""
    emails: list[Row]
    """id, account_id, state"""
    attempts: list[Row]
    """request_tag, email_id, number, epoch, state, provider_message_id, started_at"""
    transitions: list[Row]
    """email_id, from_state, to_state, actor"""
    never_called: set[str] = field(default_factory=set)
    """Tags of attempts whose worker was killed before the call."""


@dataclass
class Verdict:
    """One rule: how much it looked at, and what breaks it."""

    rule: str
    looked_at: int = 0
    violations: list[str] = field(default_factory=list)

    def check(self, right: bool, violation: str) -> None:
        """Look at one more thing."""
        self.looked_at += 1
        if not right:
            self.violations.append(violation)


def collect(sql: Any, **from_outside: Any) -> Evidence:
    """Read the database's side; ``sql`` runs a query and gives rows as dicts."""
    return Evidence(
        accounts=sql("SELECT id::text, email FROM mail_service.accounts"),
        emails=sql("SELECT id::text, account_id::text, state::text FROM mail_service.email_outbox"),
        attempts=sql(
            """
            SELECT request_tag, email_id::text, number, epoch, state::text, provider_message_id,
                   started_at
            FROM mail_service.send_attempts ORDER BY email_id, number
            """
        ),
        transitions=sql(
            """
            SELECT email_id::text, from_state::text, to_state::text, actor
            FROM mail_service.email_transitions ORDER BY id
            """
        ),
        **from_outside,
    )


def judge(found: Evidence) -> list[Verdict]:
    """Apply every rule."""
    return [
        _every_2xx_is_durable(found),
        _one_key_one_email(found),
        _one_email_per_account(found),
        _recorded_before_sent(found),
        _no_tag_twice(found),
        _one_acceptance_per_epoch(found),
        _refusals_are_sound(found),
        _acceptances_are_sound(found),
        _every_email_ended(found),
        _submitted_means_accepted(found),
        _ambiguous_means_no_evidence(found),
        _expiry_is_doubt(found),
        _a_new_attempt_needs_a_refusal(found),
        _killed_before_the_call(found),
    ]


def tag_of(call: Row) -> str:
    """Give the tag that a call bore."""
    return str(call["tags"].get(TAG_NAME, ""))


def _of(calls: Iterable[Row], event: str) -> list[Row]:
    return [call for call in calls if call["event"] == event]


def _accepted(found: Evidence) -> dict[str, set[str]]:
    """Give the MessageIds under which each tag was accepted."""
    accepted: dict[str, set[str]] = defaultdict(set)
    for call in _of(found.calls, "accepted"):
        accepted[tag_of(call)].add(call["message_id"])
    return accepted


def _every_2xx_is_durable(found: Evidence) -> Verdict:
    verdict = Verdict("every 2xx is in the database, with one outbox row")
    accounts = {row["id"]: row["email"] for row in found.accounts}
    emails: dict[str, list[str]] = defaultdict(list)
    for row in found.emails:
        emails[row["account_id"]].append(row["id"])
    for said in found.answered:
        verdict.check(
            accounts.get(said.account_id) == said.address
            and emails[said.account_id] == [said.email_id],
            f"{said.key}: account {said.account_id}, email {said.email_id}",
        )
    return verdict


def _one_key_one_email(found: Evidence) -> Verdict:
    verdict = Verdict("one key, one account and email; every sign-up was answered")
    given: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for said in found.answered:
        given[said.key].add((said.account_id, said.email_id))
    for key, ids in given.items():
        verdict.check(len(ids) == 1, f"{key} got {ids}")
    for key in found.unanswered:
        verdict.check(False, f"never answered: {key}")
    return verdict


def _one_email_per_account(found: Evidence) -> Verdict:
    verdict = Verdict("every account has exactly one email, and the reverse")
    owned = Counter(row["account_id"] for row in found.emails)
    for account in found.accounts:
        verdict.check(owned[account["id"]] == 1, f"account {account['id']}")
    known = {account["id"] for account in found.accounts}
    for account_id in owned:
        verdict.check(account_id in known, f"email of account {account_id}")
    return verdict


def _recorded_before_sent(found: Evidence) -> Verdict:
    verdict = Verdict("every request has one attempt, begun before it arrived")
    attempts: dict[str, list[Row]] = defaultdict(list)
    for row in found.attempts:
        attempts[row["request_tag"]].append(row)
    for call in _of(found.calls, "arrived"):
        rows = attempts[tag_of(call)]
        arrived = datetime.fromtimestamp(call["at"], UTC)
        verdict.check(
            len(rows) == 1 and rows[0]["started_at"] <= arrived,
            f"tag {tag_of(call)} arrived {arrived}, attempts: {[r['started_at'] for r in rows]}",
        )
    return verdict


def _no_tag_twice(found: Evidence) -> Verdict:
    verdict = Verdict("no tag arrived twice")
    for tag, times in Counter(tag_of(call) for call in _of(found.calls, "arrived")).items():
        verdict.check(times == 1 and tag != "", f"tag {tag!r} arrived {times} times")
    return verdict


def _one_acceptance_per_epoch(found: Evidence) -> Verdict:
    verdict = Verdict("at most one acceptance per email and epoch")
    accepted = _accepted(found)
    counts: Counter[tuple[str, int]] = Counter()
    for row in found.attempts:
        counts[row["email_id"], row["epoch"]] += len(accepted[row["request_tag"]])
    for (email, epoch), times in counts.items():
        verdict.check(times <= 1, f"email {email} was accepted {times} times in epoch {epoch}")
    return verdict


def _refusals_are_sound(found: Evidence) -> Verdict:
    verdict = Verdict("nothing recorded as not accepted was accepted")
    accepted = _accepted(found)
    for row in found.attempts:
        if row["state"] in NOT_ACCEPTED:
            verdict.check(
                not accepted[row["request_tag"]],
                f"attempt {row['request_tag']} is {row['state']} and was accepted",
            )
    return verdict


def _acceptances_are_sound(found: Evidence) -> Verdict:
    verdict = Verdict("what is recorded as accepted was, under that MessageId")
    accepted = _accepted(found)
    for row in found.attempts:
        if row["state"] == "accepted":
            given = row["provider_message_id"]
            known = accepted[row["request_tag"]]
            verdict.check(
                bool(known) and given in {None, *known},
                f"attempt {row['request_tag']} has {given}, SES gave {known}",
            )
    return verdict


def _every_email_ended(found: Evidence) -> Verdict:
    verdict = Verdict("every email is submitted or ambiguous")
    for row in found.emails:
        verdict.check(row["state"] in {"submitted", "ambiguous"}, f"{row['id']} is {row['state']}")
    return verdict


def _submitted_means_accepted(found: Evidence) -> Verdict:
    verdict = Verdict("whatever is submitted was accepted under one of its tags")
    accepted = _accepted(found)
    tags: dict[str, list[str]] = defaultdict(list)
    for row in found.attempts:
        tags[row["email_id"]].append(row["request_tag"])
    for row in found.emails:
        if row["state"] == "submitted":
            verdict.check(
                any(accepted[tag] for tag in tags[row["id"]]), f"{row['id']} was never accepted"
            )
    return verdict


def _ambiguous_means_no_evidence(found: Evidence) -> Verdict:
    verdict = Verdict("an accepted call whose Send event was answered 2xx is submitted")
    told = {
        row["provider_message_id"]
        for row in found.deliveries
        if row.get("event") == "Send" and row["status"] is not None and 200 <= row["status"] < 300
    }
    states = {row["id"]: row["state"] for row in found.emails}
    emails = {row["request_tag"]: row["email_id"] for row in found.attempts}
    for tag, message_ids in _accepted(found).items():
        if message_ids & told:
            state = states.get(emails.get(tag, ""))
            verdict.check(state == "submitted", f"tag {tag}: its email is {state}")
    return verdict


def _expiry_is_doubt(found: Evidence) -> Verdict:
    verdict = Verdict("the sweep never makes an email sendable")
    for row in found.transitions:
        if row["actor"] == "sweep":
            verdict.check(row["to_state"] != "pending", f"{row['email_id']} by the sweep")
    return verdict


def _a_new_attempt_needs_a_refusal(found: Evidence) -> Verdict:
    verdict = Verdict("a further attempt follows only recorded refusals")
    earlier: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in sorted(found.attempts, key=lambda row: row["number"]):
        for before in earlier[row["email_id"], row["epoch"]]:
            verdict.check(
                before["state"] in NOT_ACCEPTED,
                f"attempt {row['request_tag']} after {before['state']} {before['request_tag']}",
            )
        earlier[row["email_id"], row["epoch"]].append(row)
    return verdict


def _killed_before_the_call(found: Evidence) -> Verdict:
    verdict = Verdict("what was killed before its call never arrived")
    arrived = {tag_of(call) for call in _of(found.calls, "arrived")}
    for tag in found.never_called:
        verdict.check(tag not in arrived, f"tag {tag} arrived after all")
    return verdict
