-- Events that found no call: bounded in what they take, and found again quickly.

-- How much payload of such events came in, by hour. Over its hourly share only the narrow row is kept,
-- so that another application's flood can't fill the database.
CREATE TABLE mail_service.payload_allowances (
    hour timestamptz NOT NULL,
    pool text NOT NULL,                     -- 'unattached' or 'unreadable'
    bytes bigint NOT NULL,                  -- offered, kept or not
    dropped bigint NOT NULL,                -- payloads that were not kept
    PRIMARY KEY (hour, pool)
);

DROP INDEX mail_service.ses_events_unmatched;
CREATE INDEX ses_events_not_matched ON mail_service.ses_events (status, received_at, id)
    WHERE status <> 'matched';
