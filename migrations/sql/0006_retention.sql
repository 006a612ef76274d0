-- What is deleted after its days is found without reading what was deleted before.

-- Ends only ever grow, so this one is written at its right edge alone.
CREATE INDEX email_outbox_ended ON mail_service.email_outbox (finished_at, id)
    WHERE finished_at IS NOT NULL;

-- How many mailboxes get no mail, by reason, is read for every look at the figures.
CREATE INDEX suppressions_active_by_reason ON mail_service.suppressions (reason)
    WHERE released_at IS NULL;

-- Mailboxes whose owner asked to be forgotten: what comes later about them is kept without their address.
CREATE TABLE mail_service.erased_addresses (
    address_hash bytea PRIMARY KEY,
    erased_by text NOT NULL,
    erased_at timestamptz NOT NULL DEFAULT mail_service.clock()
);
