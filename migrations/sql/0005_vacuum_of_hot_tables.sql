-- Vacuum keeps step with the queue. A fifth of a table of millions, the default, would be days of dead
-- rows; and at the default pace a vacuum of one of these would take hours.

ALTER TABLE mail_service.email_outbox SET (
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE mail_service.send_attempts SET (
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE mail_service.email_recipients SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE mail_service.ses_events SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE mail_service.email_payloads SET (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Written once and never again: only its pages' marks need a vacuum, so that no freeze of all comes at once.
ALTER TABLE mail_service.email_transitions SET (autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE mail_service.attempt_recipients SET (autovacuum_vacuum_insert_scale_factor = 0.05);

-- One row that every claim writes: its versions stay on its page as long as there is room.
ALTER TABLE mail_service.send_rate SET (fillfactor = 10, autovacuum_vacuum_threshold = 500);
