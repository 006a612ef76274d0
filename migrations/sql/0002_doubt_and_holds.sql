-- Doubt is resolved by decisions, sending stops by holds, and all workers share one rate.

CREATE TYPE mail_service.hold_scope AS ENUM
    ('account', 'sender', 'configuration_set', 'template', 'endpoint');

ALTER TABLE mail_service.email_outbox
    ADD COLUMN recipient_count smallint NOT NULL DEFAULT 1,
    -- Refused once: from then on it waits in the lane below its own, so that retries starve nobody.
    ADD COLUMN demoted boolean NOT NULL DEFAULT false,
    ADD COLUMN lane smallint NOT NULL GENERATED ALWAYS AS (
        LEAST(2, CASE WHEN priority >= 7 THEN 0 WHEN priority >= 4 THEN 1 ELSE 2 END
                 + CASE WHEN demoted THEN 1 ELSE 0 END)) STORED,
    ADD COLUMN sender_address text NOT NULL GENERATED ALWAYS AS (
        lower(COALESCE(substring(sender FROM '<([^<>]*)>$'), sender))) STORED,
    ADD COLUMN template_version text NOT NULL GENERATED ALWAYS AS (
        template || '@' || left(template_checksum, 12)) STORED,
    -- Why the stated policy leaves a doubt to a person.
    ADD COLUMN policy_note text;

DROP INDEX mail_service.email_outbox_due;
CREATE INDEX email_outbox_due ON mail_service.email_outbox (lane, next_attempt_at)
    WHERE state = 'pending';

CREATE TABLE mail_service.holds (
    id uuid PRIMARY KEY,
    scope mail_service.hold_scope NOT NULL,
    subject text NOT NULL,
    error_class text NOT NULL,
    error_code text,
    opened_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    probes integer NOT NULL DEFAULT 0,
    next_probe_at timestamptz,
    probe_attempt_id uuid,          -- the one probe under way
    probed_sender text,             -- whose email the last probe was
    cleared_at timestamptz,
    cleared_by text,
    clear_reason text,
    CONSTRAINT holds_probed_while_open CHECK ((cleared_at IS NULL) = (next_probe_at IS NOT NULL)),
    CONSTRAINT holds_clearing_is_accounted_for CHECK ((cleared_at IS NULL) = (cleared_by IS NULL)),
    CONSTRAINT holds_subject_iff_scope_has_one
        CHECK ((scope IN ('account', 'endpoint')) = (subject = ''))
);
CREATE UNIQUE INDEX holds_one_open ON mail_service.holds (scope, subject) WHERE cleared_at IS NULL;
CREATE INDEX holds_newest ON mail_service.holds (opened_at, id);

-- One row for all workers, taken inside the claim.
CREATE TABLE mail_service.send_rate (
    one boolean PRIMARY KEY DEFAULT true CONSTRAINT send_rate_is_one_row CHECK (one),
    per_second double precision NOT NULL CONSTRAINT send_rate_is_positive CHECK (per_second > 0),
    tokens double precision NOT NULL DEFAULT 1,
    filled_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    factor double precision NOT NULL DEFAULT 1
        CONSTRAINT send_rate_factor_in_range CHECK (factor BETWEEN 0.125 AND 1),
    throttled_at timestamptz,
    day_left double precision,      -- recipients left of the daily quota; NULL: no limit, or not known
    quota_read_at timestamptz,
    unknowns_in_a_row integer NOT NULL DEFAULT 0
);
INSERT INTO mail_service.send_rate (per_second) VALUES (14);

CREATE INDEX send_attempts_unfinished ON mail_service.send_attempts (email_id)
    WHERE finished_at IS NULL;
