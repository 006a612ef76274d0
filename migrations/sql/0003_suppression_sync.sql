-- Two suppression lists, ours and the SES account's, and what is known of the second.

CREATE TYPE mail_service.ses_list_state AS ENUM
    ('unknown', 'pending_put', 'listed', 'absent', 'pending_delete', 'deleted', 'kept');

ALTER TABLE mail_service.suppressions
    -- What SES's list has, or is still to be told. Pending ones are carried out by a worker.
    ADD COLUMN ses_state mail_service.ses_list_state NOT NULL DEFAULT 'unknown',
    -- The spelling under which SES lists the mailbox, where it is not `address`: SES deletes by
    -- spelling. Goes with the address at erasure, or once the entry is deleted.
    ADD COLUMN ses_address text,
    ADD COLUMN ses_put_at timestamptz,      -- when we put the entry there, or were about to
    ADD COLUMN ses_seen_at timestamptz,     -- when a sync last saw it listed
    ADD COLUMN ses_checked_at timestamptz,  -- when SES last answered for it
    ADD COLUMN ses_next_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    ADD COLUMN ses_tries integer NOT NULL DEFAULT 0,
    ADD COLUMN ses_error text,
    ADD CONSTRAINT suppressions_deleted_at_ses_once_released
        CHECK (released_at IS NOT NULL OR ses_state NOT IN ('pending_delete', 'deleted', 'kept'));
CREATE INDEX suppressions_ses_pending ON mail_service.suppressions (ses_next_at)
    WHERE ses_state IN ('pending_put', 'pending_delete');
CREATE INDEX suppressions_ses_absent ON mail_service.suppressions (ses_state)
    WHERE ses_state = 'absent' AND released_at IS NULL;

-- What people suppressed before this was known is put there; what they released, the first sync finds.
UPDATE mail_service.suppressions SET ses_state = 'pending_put'
WHERE released_at IS NULL AND reason = 'manual';

CREATE TABLE mail_service.suppression_syncs (
    id uuid PRIMARY KEY,
    scope text NOT NULL CONSTRAINT suppression_syncs_known_scope CHECK (scope IN ('full', 'recent')),
    since timestamptz,              -- recent: entries that SES changed since then
    started_by text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    alive_until timestamptz NOT NULL,   -- renewed with each page; past it, the sync counts as lost
    finished_at timestamptz,
    error text,
    pages integer NOT NULL DEFAULT 0,
    listed integer NOT NULL DEFAULT 0,      -- entries read
    added integer NOT NULL DEFAULT 0,       -- SES knew, we did not
    strengthened integer NOT NULL DEFAULT 0,
    released integer NOT NULL DEFAULT 0,    -- older than our release: deleted at SES, again
    unreadable integer NOT NULL DEFAULT 0,
    CONSTRAINT suppression_syncs_recent_iff_since CHECK ((scope = 'recent') = (since IS NOT NULL))
);
CREATE UNIQUE INDEX suppression_syncs_one_at_a_time ON mail_service.suppression_syncs ((true))
    WHERE finished_at IS NULL;
CREATE INDEX suppression_syncs_newest ON mail_service.suppression_syncs (started_at);
