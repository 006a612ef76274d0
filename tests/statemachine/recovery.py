"""After the faults: everything must come to its end (L1 to L4), and order must not have mattered (S12)."""

from __future__ import annotations

import random
from typing import Any

from tests.statemachine.auditor import require
from tests.statemachine.world import NAME, World

ROUNDS = 60
LONGEST_WAIT = 700.0  # just over RETRY_CAP_SECONDS, which bounds every wait of ours

_UNFINISHED = """
SELECT id, state, next_attempt_at FROM mail_service.email_outbox
WHERE state IN ('pending', 'sending')
"""

# L3: what SES accepted and told us by tag is submitted, without a person.
_NOT_SUBMITTED = """
SELECT o.id, o.state FROM mail_service.email_outbox o
JOIN mail_service.send_attempts a ON a.email_id = o.id
JOIN told t ON t.tag = a.request_tag AND t.honest AND t.taken AND t.by_tag
WHERE o.state <> 'submitted'
"""

# L4: each fact that was told about a recipient of a call we know of shows.
_NOT_SHOWN = """
SELECT t.sns_message_id, t.kind FROM told t
JOIN mail_service.send_attempts a ON a.request_tag = t.tag
JOIN mail_service.attempt_recipients c ON c.attempt_id = a.id
JOIN mail_service.email_recipients r ON r.id = c.recipient_id
 AND lower(r.address) = lower(t.address)
CROSS JOIN LATERAL (
    SELECT CASE t.kind WHEN 'Delivery' THEN r.delivered_at WHEN 'Bounce' THEN r.bounced_at
           WHEN 'Complaint' THEN r.complained_at WHEN 'DeliveryDelay' THEN r.delayed_at
           ELSE r.rejected_at END AS at) fact
WHERE t.honest AND t.taken AND t.kind NOT IN ('Send', 'Open')
  AND (t.by_tag OR a.provider_message_id IS NOT NULL)
  AND (fact.at IS NULL OR fact.at > t.at AND t.kind NOT IN ('Bounce', 'Complaint'))
"""

_FACTS = """
SELECT id, delivered_at, bounced_at, bounce_type, bounce_subtype, complained_at, complaint_type,
       complaint_subtype, delayed_at, rejected_at
FROM mail_service.email_recipients ORDER BY id
"""

_STOPS = """
SELECT address_hash, reason FROM mail_service.suppressions WHERE released_at IS NULL
ORDER BY address_hash
"""

# As if no event had ever come. What people did stays: their suppressions, and every release.
_UNTELL = """
DELETE FROM mail_service.ses_events;
DELETE FROM mail_service.suppressions WHERE released_at IS NULL AND source = 'event';
UPDATE mail_service.suppressions SET reason = 'manual' WHERE released_at IS NULL;
UPDATE mail_service.email_recipients
SET delivered_at = NULL, bounced_at = NULL, bounce_type = NULL, bounce_subtype = NULL,
    complained_at = NULL, complaint_type = NULL, complaint_subtype = NULL, delayed_at = NULL,
    rejected_at = NULL;
"""


def heal(world: World) -> None:
    """End every fault, and let the house do its work until nothing is left to do."""
    world.commits.heal()
    world.templates_gone = False
    for worker in world.workers:
        worker.paused = False
    for who, worker in enumerate(world.workers):
        world.record(who)
        for _ in range(len(worker.claims)):
            world.call(0, "accepted")
    for turn in range(ROUNDS):
        for who in range(len(world.workers)):
            world.record(who)
        world.take_probes(0)
        world.take(0, 20)
        while world.workers[0].claims:
            world.call(0, "accepted")
        world.record(0)
        world.sweep()
        world.look()
        if not world.auditor(_UNFINISHED):
            break
        world.advance(min(LONGEST_WAIT, 2.0**turn))
    left = world.auditor(_UNFINISHED)
    holds = world.auditor("SELECT scope, subject FROM mail_service.holds WHERE cleared_at IS NULL")
    require("L1", left, f"never ended, under {holds}")


def deliver_everything(world: World) -> None:
    """Bring every event there is; then what was accepted is submitted, and what was told shows."""
    for told in list(world.provider.events):
        if told.honest:
            require("L4", not world.postman.bring(told), "not taken after all faults had ended")
    world.sweep()
    world.look()
    require("L3", world.auditor(_NOT_SUBMITTED), "accepted, told and not submitted")
    require("L4", world.auditor(_NOT_SHOWN), "told and not shown")


_PEOPLE = ("ada@", "bo@", "cy@", "somebody-")

# Where addresses and names belong; journals, attempts, decisions and holds are not among them.
_PERSONAL = {
    "accounts",
    "email_recipients",
    "email_payloads",
    "idempotency_keys",
    "ses_events.payload",
    "suppressions.address",
}


def look_for_people(world: World) -> None:
    """Look for addresses and names in every column that is not meant for them (S17)."""
    for table, rows in world.auditor.dump().items():
        for row in rows:
            for column, value in row.items():
                told = str(value)
                if table in _PERSONAL or f"{table}.{column}" in _PERSONAL:
                    continue
                shown = NAME in told or any(
                    f"{who}@" in told.lower() for who in ("ada", "bo", "cy")
                )
                require("S17", shown, f"{table}.{column} holds {told}")


def what_is_known(world: World) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give all facts and all active suppressions."""
    return world.auditor(_FACTS), world.auditor(_STOPS)


def tell_it_again_in_another_order(world: World, seed: int) -> None:
    """Take all events back, bring them in another order, some twice: the same must be known (S12)."""
    before = what_is_known(world)
    world.auditor.run_all(_UNTELL)
    events = [told for told in world.provider.events if told.honest]
    order = random.Random(seed)
    again = events + order.sample(events, len(events) // 2)
    order.shuffle(again)
    for told in again:
        world.postman.bring(told)
    world.sweep()
    after = what_is_known(world)
    require("S12", after != before, f"the order mattered: {before} became {after}")


def come_to_an_end(world: World, seed: int) -> None:
    """Heal, deliver, compare."""
    heal(world)
    deliver_everything(world)
    look_for_people(world)
    world.auditor.note_reached()
    tell_it_again_in_another_order(world, seed)
