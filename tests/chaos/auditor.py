"""Judges a run: the crash campaign's rules, and those about what else can go wrong. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from mail_service.domain.states import TRANSITIONS, EmailState
from tests.campaign import auditor as campaign
from tests.campaign.auditor import Verdict
from tests.chaos import end_rules, event_rules, time_rules
from tests.chaos.evidence import Found
from tests.chaos.stage import LEASE

MAX_ATTEMPTS = 8
HOLD_SEEN_WITHIN = 1.0
"""Seconds between a hold's commit and its being seen, on a machine that is busy."""

_OF_ACCOUNTS = {
    "every 2xx is in the database, with one outbox row": "S1 S2",
    "one key, one account and email; every sign-up was answered": "S3",
    "every account has exactly one email, and the reverse": "S1",
}
_OF_ALL = {
    "every request has one attempt, begun before it arrived": "S4",
    "no tag arrived twice": "S4",
    "at most one acceptance per email and epoch": "S5",
    "a further attempt follows only recorded refusals": "S5",
    "nothing recorded as not accepted was accepted": "S6",
    "what is recorded as accepted was, under that MessageId": "S7",
    "the sweep never makes an email sendable": "S9",
    "what was killed before its call never arrived": "S9",
    "an accepted call whose Send event was answered 2xx is submitted": "L3",
}


def judge(found: Found) -> list[Verdict]:
    """Apply every rule."""
    of_accounts = [row for row in found.campaign.emails if row["account_id"]]
    verdicts: list[Verdict] = []
    for evidence, rules in (
        (replace(found.campaign, emails=of_accounts), _OF_ACCOUNTS),
        (found.campaign, _OF_ALL),
    ):
        for verdict in campaign.judge(evidence):
            if verdict.rule in rules:
                verdict.rule = f"{rules[verdict.rule]}: {verdict.rule}"
                verdicts.append(verdict)
    own = [
        _keys_are_durable(found),
        _epochs_are_decided(found),
        _submitted_has_a_reason(found),
        _the_token_moves(found),
        _leases_last(found),
        _edges_are_drawn(found),
        _work_is_bounded(found),
        _holds_hold(found),
        _decisions_are_audited(found),
        _attempts_are_accounted_for(found),
    ]
    return sorted(
        [
            *verdicts,
            *own,
            *event_rules.judge(found),
            *end_rules.judge(found),
            *time_rules.judge(found),
        ],
        key=lambda v: _order(v.rule),
    )


def _order(rule: str) -> tuple[str, int]:
    return (rule[0] != "S" and rule[0]) or "", int("".join(filter(str.isdigit, rule[:3])) or 99)


def _keys_are_durable(found: Found) -> Verdict:
    verdict = Verdict("S2 S3: a dedup key that was answered has its one email, of one payload")
    ids = {row["dedup_key"]: row["id"] for row in found.emails}
    for said in found.submitted:
        verdict.check(ids.get(said.key) == said.email_id, f"{said} but {ids.get(said.key)}")
    for key in found.payloads_taken_twice:
        verdict.check(False, f"{key} was taken with another payload")
    return verdict


def _epochs_are_decided(found: Found) -> Verdict:
    verdict = Verdict("S5: every epoch after the first was opened by one recorded decision")
    opened: dict[str, list[int]] = defaultdict(list)
    for row in found.decisions:
        if row["epoch_after"] != row["epoch_before"]:
            opened[row["email_id"]].append(row["epoch_after"])
    for email in found.emails:
        epochs = {attempt["epoch"] for attempt in found.of_email[email["id"]]}
        verdict.check(
            opened[email["id"]] == list(range(1, email["epoch"] + 1))
            and max(epochs, default=0) <= email["epoch"],
            f"{email['id']} in epoch {email['epoch']}, decided: {opened[email['id']]}",
        )
    return verdict


def _submitted_has_a_reason(found: Found) -> Verdict:
    verdict = Verdict("S7: submitted was accepted under one of its tags, or a person said so")
    said = {row["email_id"] for row in found.decisions if row["decision"] == "accepted"}
    for email in found.emails:
        if email["state"] == "submitted":
            taken = any(found.accepted(a["request_tag"]) for a in found.of_email[email["id"]])
            verdict.check(taken or email["id"] in said, f"{email['id']} was never accepted")
    return verdict


def _the_token_moves(found: Found) -> Verdict:
    verdict = Verdict("S8: a sending email moves only on the token that leased it")
    leased: dict[str, str] = {}
    for row in found.transitions:
        if row["to_state"] == "sending":
            leased[row["email_id"]] = row["attempt_id"]
        elif row["from_state"] == "sending":
            verdict.check(
                row["attempt_id"] == leased.get(row["email_id"]),
                f"{row['email_id']}: {row['actor']} moved it to {row['to_state']} on"
                f" {row['attempt_id']}, leased on {leased.get(row['email_id'])}",
            )
    return verdict


def _leases_last(found: Found) -> Verdict:
    verdict = Verdict("S8: a lease ends by the database's time, not before it is over")
    for row in found.transitions:
        attempt = found.by_tag.get(row["attempt_id"] or "")
        if row["actor"] == "sweep" and row["from_state"] == "sending" and attempt is not None:
            lasted = (row["at"] - attempt["started_at"]).total_seconds()
            verdict.check(lasted >= LEASE, f"{row['attempt_id']} was leased for {lasted:.1f} s")
    return verdict


def _edges_are_drawn(found: Found) -> Verdict:
    verdict = Verdict("S15: only the edges drawn, each from where the last one led")
    at: dict[str, str | None] = {}
    for row in found.transitions:
        before = row["from_state"]
        drawn = (
            row["to_state"] == "pending"
            if before is None
            else EmailState(row["to_state"]) in TRANSITIONS[EmailState(before)]
        )
        verdict.check(
            drawn and at.get(row["email_id"]) == before,
            f"{row['email_id']}: {at.get(row['email_id'])}, then {before} to {row['to_state']}",
        )
        at[row["email_id"]] = row["to_state"]
    for email in found.emails:
        verdict.check(at.get(email["id"]) == email["state"], f"{email['id']} left its journal")
    return verdict


def _work_is_bounded(found: Found) -> Verdict:
    verdict = Verdict("S16: counted refusals stay within the limit of an epoch")
    counts: Counter[tuple[str, int]] = Counter()
    for row in found.attempts:
        counted = row["state"] == "retryable" and row["error_class"] != "throttled"
        counts[row["email_id"], row["epoch"]] += counted
    for (email, epoch), times in counts.items():
        verdict.check(times <= MAX_ATTEMPTS, f"{email} was refused {times} times in {epoch}")
    return verdict


def _holds_hold(found: Found) -> Verdict:
    verdict = Verdict("S16: under an open hold of everything only probes are begun")
    probes = {tag for hold in found.holds for tag in hold["probes"]}
    for hold in found.holds:
        if hold["scope"] not in {"account", "endpoint"}:
            continue
        for row in found.attempts:
            under = (row["begun"] - hold["opened_at"]).total_seconds() > HOLD_SEEN_WITHIN and (
                hold["cleared_at"] is None or row["begun"] < hold["cleared_at"]
            )
            if under:
                probe = row["request_tag"] in probes
                verdict.check(probe, f"{row['request_tag']} at {row['begun']} under {hold}")
    return verdict


def _decisions_are_audited(found: Found) -> Verdict:
    verdict = Verdict("S18: each decision has one row and one effect")
    rows = Counter(
        (row["email_id"], row["attempt_id"], row["decision"])
        for row in found.decisions
        if row["decided_by"] != "policy"
    )
    asked = {(d.email_id, d.attempt_id, d.decision) for d in found.decided}
    for decided in found.decided:
        key = (decided.email_id, decided.attempt_id, decided.decision)
        verdict.check(rows[key] <= 1 and (rows[key] == 1 or not decided.sure), f"{decided}")
    for key in rows:
        verdict.check(key in asked, f"nobody asked for {key}")
    moves = Counter(
        row["email_id"]
        for row in found.transitions
        if row["actor"] not in {"worker", "sweep", "event"} and row["from_state"] is not None
    )
    decisions = Counter(row["email_id"] for row in found.decisions)
    verdict.check(moves == decisions, f"moves {moves - decisions}, rows {decisions - moves}")
    return verdict


def _attempts_are_accounted_for(found: Found) -> Verdict:
    verdict = Verdict("S19: attempts are the world's requests and those that never left")
    for email in found.emails:
        numbers = [attempt["number"] for attempt in found.of_email[email["id"]]]
        verdict.check(
            numbers == list(range(1, email["attempts"] + 1)), f"{email['id']} has {numbers}"
        )
    for row in found.attempts:
        if row["request_tag"] not in found.calls:
            spoiled = row["state"] == "permanent" and row["error_class"] == "template_failed"
            verdict.check(
                spoiled or row["state"] in {"released", "held", "unknown"},
                f"{row['request_tag']} never left and is {row['state']}",
            )
    return verdict
