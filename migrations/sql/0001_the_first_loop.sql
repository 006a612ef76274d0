-- The tables of the first whole loop: intake, sending, events, suppression, keys.
-- All times are the database's. Addresses and content stand only in the columns named for them.

-- The one clock. Tests replace this function in their own database; production has nothing to set.
CREATE FUNCTION mail_service.clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT now() $$;

CREATE TYPE mail_service.email_state AS ENUM
    ('pending', 'sending', 'submitted', 'failed', 'ambiguous', 'suppressed', 'cancelled');
CREATE TYPE mail_service.attempt_state AS ENUM
    ('started', 'unknown', 'accepted', 'retryable', 'permanent', 'held', 'released');
CREATE TYPE mail_service.ambiguity_policy AS ENUM ('hold', 'resend');
CREATE TYPE mail_service.recipient_kind AS ENUM ('to', 'cc', 'bcc');
CREATE TYPE mail_service.event_kind AS ENUM
    ('send', 'delivery', 'bounce', 'complaint', 'reject', 'delivery_delay', 'rendering_failure',
     'open', 'click', 'subscription', 'received', 'other');
CREATE TYPE mail_service.event_status AS ENUM
    ('matched', 'unmatched', 'foreign', 'quarantined', 'unparseable');
CREATE TYPE mail_service.suppression_reason AS ENUM ('manual', 'bounce', 'complaint');
CREATE TYPE mail_service.subscription_state AS ENUM
    ('offered', 'confirmed', 'expired', 'unsubscribed');

CREATE TABLE mail_service.accounts (
    id uuid PRIMARY KEY,
    email text,
    address_hash bytea NOT NULL,
    name text,
    created_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    CONSTRAINT accounts_one_per_address UNIQUE (address_hash)
);

-- The queue of record. Narrow, because it is rewritten at each move; the content stands beside it.
CREATE TABLE mail_service.email_outbox (
    id uuid PRIMARY KEY,
    account_id uuid REFERENCES mail_service.accounts,
    dedup_key text NOT NULL CONSTRAINT email_outbox_one_per_dedup_key UNIQUE,
    intent_hash bytea NOT NULL,
    template text NOT NULL,
    template_checksum text NOT NULL,
    sender text NOT NULL,
    state mail_service.email_state NOT NULL DEFAULT 'pending',
    reason text,
    on_ambiguous mail_service.ambiguity_policy NOT NULL DEFAULT 'hold',
    epoch integer NOT NULL DEFAULT 0 CONSTRAINT email_outbox_epoch_counts_up CHECK (epoch >= 0),
    priority smallint NOT NULL DEFAULT 5
        CONSTRAINT email_outbox_priority_in_range CHECK (priority BETWEEN 0 AND 9),
    attempts integer NOT NULL DEFAULT 0,    -- number of the newest attempt
    refusals integer NOT NULL DEFAULT 0,    -- of this epoch, counted against MAX_ATTEMPTS
    deferrals integer NOT NULL DEFAULT 0,   -- in a row, not counted: throttled or held
    due_at timestamptz NOT NULL DEFAULT mail_service.clock(),  -- when this epoch was first due
    next_attempt_at timestamptz DEFAULT mail_service.clock(),
    not_after timestamptz,
    lease_token uuid,
    lease_expires_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    finished_at timestamptz,
    CONSTRAINT email_outbox_leased_iff_sending
        CHECK ((state = 'sending') = (lease_token IS NOT NULL)
           AND (state = 'sending') = (lease_expires_at IS NOT NULL)),
    CONSTRAINT email_outbox_due_iff_pending
        CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL)),
    CONSTRAINT email_outbox_finished_iff_at_an_end
        CHECK ((state IN ('submitted', 'failed', 'suppressed', 'cancelled')) = (finished_at IS NOT NULL))
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX email_outbox_due ON mail_service.email_outbox (next_attempt_at) WHERE state = 'pending';
CREATE INDEX email_outbox_leased ON mail_service.email_outbox (lease_expires_at) WHERE state = 'sending';
CREATE INDEX email_outbox_doubtful ON mail_service.email_outbox (id) WHERE state = 'ambiguous';
CREATE INDEX email_outbox_ended_badly ON mail_service.email_outbox (state, reason)
    WHERE state IN ('failed', 'suppressed', 'cancelled');
CREATE INDEX email_outbox_newest ON mail_service.email_outbox (created_at, id);
CREATE INDEX email_outbox_account ON mail_service.email_outbox (account_id) WHERE account_id IS NOT NULL;

CREATE TABLE mail_service.email_payloads (
    email_id uuid PRIMARY KEY REFERENCES mail_service.email_outbox,
    data jsonb NOT NULL,
    reply_to text[] NOT NULL DEFAULT '{}'
);

CREATE TABLE mail_service.email_recipients (
    id uuid PRIMARY KEY,
    email_id uuid NOT NULL REFERENCES mail_service.email_outbox,
    position smallint NOT NULL,
    kind mail_service.recipient_kind NOT NULL,
    address text,
    address_hash bytea NOT NULL,
    delivered_at timestamptz,
    bounced_at timestamptz,
    bounce_type text,
    bounce_subtype text,
    complained_at timestamptz,
    complaint_type text,
    complaint_subtype text,
    delayed_at timestamptz,
    rejected_at timestamptz,
    suppressed_at timestamptz,
    CONSTRAINT email_recipients_one_per_position UNIQUE (email_id, position)
) WITH (fillfactor = 90);
CREATE INDEX email_recipients_address ON mail_service.email_recipients (address_hash);

-- One row per call to SES. Its random id is the lease token and the tag that SES gives back.
CREATE TABLE mail_service.send_attempts (
    id uuid PRIMARY KEY,
    email_id uuid NOT NULL REFERENCES mail_service.email_outbox,
    number integer NOT NULL,
    epoch integer NOT NULL,
    lease_token uuid NOT NULL GENERATED ALWAYS AS (id) STORED,
    request_tag text NOT NULL GENERATED ALWAYS AS (id::text) STORED,
    state mail_service.attempt_state NOT NULL DEFAULT 'started',
    provider_message_id text,
    error_class text,
    error_code text,
    hold_scope text,
    decision text NOT NULL DEFAULT 'calling',
    resolved_by text,
    started_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    finished_at timestamptz,
    CONSTRAINT send_attempts_numbered UNIQUE (email_id, number),
    CONSTRAINT send_attempts_message_id_only_if_accepted
        CHECK (provider_message_id IS NULL OR state = 'accepted')
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX send_attempts_one_per_message_id
    ON mail_service.send_attempts (provider_message_id) WHERE provider_message_id IS NOT NULL;
CREATE INDEX send_attempts_newest ON mail_service.send_attempts (started_at);

CREATE TABLE mail_service.attempt_recipients (
    attempt_id uuid NOT NULL REFERENCES mail_service.send_attempts,
    recipient_id uuid NOT NULL REFERENCES mail_service.email_recipients,
    PRIMARY KEY (attempt_id, recipient_id)
);
CREATE INDEX attempt_recipients_recipient ON mail_service.attempt_recipients (recipient_id);

-- Every genuine notification, once. facts holds what was read from it, addresses as keyed hashes,
-- so that an event can be matched after its payload is gone.
CREATE TABLE mail_service.ses_events (
    id uuid PRIMARY KEY,
    topic_arn text NOT NULL,
    sns_message_id text NOT NULL,
    kind mail_service.event_kind NOT NULL,
    status mail_service.event_status NOT NULL,
    provider_message_id text,
    request_tag text CONSTRAINT ses_events_tag_is_a_uuid
        CHECK (request_tag ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
    attempt_id uuid REFERENCES mail_service.send_attempts,
    occurred_at timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    facts jsonb NOT NULL DEFAULT '[]',
    payload text,
    CONSTRAINT ses_events_stored_once UNIQUE (topic_arn, sns_message_id),
    CONSTRAINT ses_events_attempt_iff_matched CHECK ((status = 'matched') = (attempt_id IS NOT NULL))
);
CREATE INDEX ses_events_attempt ON mail_service.ses_events (attempt_id) WHERE attempt_id IS NOT NULL;
CREATE INDEX ses_events_waiting_by_message_id ON mail_service.ses_events (provider_message_id)
    WHERE status IN ('unmatched', 'foreign') AND provider_message_id IS NOT NULL;
CREATE INDEX ses_events_unmatched ON mail_service.ses_events (received_at) WHERE status = 'unmatched';
CREATE INDEX ses_events_newest ON mail_service.ses_events (received_at, id);

CREATE TABLE mail_service.suppressions (
    id uuid PRIMARY KEY,
    address_hash bytea NOT NULL,
    address text,
    reason mail_service.suppression_reason NOT NULL,
    source text NOT NULL,
    note text,
    returns integer NOT NULL DEFAULT 0,     -- how often this mailbox came back after a release
    created_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    released_at timestamptz,
    released_by text,
    release_rule text,
    release_reason text,
    CONSTRAINT suppressions_release_is_accounted_for
        CHECK ((released_at IS NULL) = (released_by IS NULL)
           AND (released_at IS NULL) = (release_rule IS NULL))
);
CREATE UNIQUE INDEX suppressions_one_active
    ON mail_service.suppressions (address_hash) WHERE released_at IS NULL;
CREATE INDEX suppressions_history ON mail_service.suppressions (address_hash, released_at);
CREATE INDEX suppressions_newest ON mail_service.suppressions (created_at, id);

CREATE TABLE mail_service.email_transitions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email_id uuid NOT NULL,
    from_state mail_service.email_state,
    to_state mail_service.email_state NOT NULL,
    actor text NOT NULL,
    attempt_id uuid,
    at timestamptz NOT NULL DEFAULT mail_service.clock()
);
CREATE INDEX email_transitions_email ON mail_service.email_transitions (email_id);

CREATE FUNCTION mail_service.refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER email_transitions_append_only
    BEFORE UPDATE OR DELETE ON mail_service.email_transitions
    FOR EACH STATEMENT EXECUTE FUNCTION mail_service.refuse_rewriting();

CREATE TABLE mail_service.email_decisions (
    id uuid PRIMARY KEY,
    email_id uuid NOT NULL REFERENCES mail_service.email_outbox,
    attempt_id uuid REFERENCES mail_service.send_attempts,
    decision text NOT NULL,
    decided_by text NOT NULL,
    reason text NOT NULL,
    epoch_before integer NOT NULL,
    epoch_after integer NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT mail_service.clock()
);
CREATE INDEX email_decisions_email ON mail_service.email_decisions (email_id);

CREATE TABLE mail_service.api_keys (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    lookup text NOT NULL CONSTRAINT api_keys_one_per_lookup UNIQUE,
    secret_hash bytea NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    revoked_at timestamptz,
    CONSTRAINT api_keys_known_scopes CHECK (scopes <@ ARRAY['send', 'read', 'operate'] AND scopes <> '{}')
);

CREATE TABLE mail_service.idempotent_answers (
    api_key_id uuid NOT NULL REFERENCES mail_service.api_keys,
    route text NOT NULL,
    key_hash bytea NOT NULL,
    body_hash bytea NOT NULL,
    status smallint NOT NULL,
    answer text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    PRIMARY KEY (api_key_id, route, key_hash)
);
CREATE INDEX idempotent_answers_age ON mail_service.idempotent_answers (created_at);

CREATE TABLE mail_service.sns_subscriptions (
    id uuid PRIMARY KEY,
    topic_arn text NOT NULL,
    sns_message_id text NOT NULL,
    state mail_service.subscription_state NOT NULL DEFAULT 'offered',
    token text,
    subscription_arn text,
    tries integer NOT NULL DEFAULT 0,
    last_error text,
    offered_at timestamptz NOT NULL DEFAULT mail_service.clock(),
    settled_at timestamptz,
    CONSTRAINT sns_subscriptions_stored_once UNIQUE (topic_arn, sns_message_id),
    CONSTRAINT sns_subscriptions_token_only_while_offered CHECK (token IS NULL OR state = 'offered')
);

CREATE TABLE mail_service.webhook_rejections (
    hour timestamptz NOT NULL,
    cause text NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (hour, cause)
);

CREATE TABLE mail_service.heartbeats (
    name text PRIMARY KEY,
    at timestamptz NOT NULL
);
