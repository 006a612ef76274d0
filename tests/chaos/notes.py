"""What no column tells, written down in the transactions themselves, by triggers.

Who claimed and when the statement began, which transaction suppressed whom or opened a hold, which calls
were its probes. The product knows nothing of them. One spoils data that no worker then can render.
"""

ROLE = "product"
SPOILED = "spoiled"
"""A name that becomes one that no subject may have, once it is in the database."""

NOTES = f"""
CREATE SCHEMA campaign;
GRANT USAGE ON SCHEMA campaign TO {ROLE};
CREATE TABLE campaign.claims (attempt_id uuid PRIMARY KEY, worker text, begun timestamptz);
CREATE TABLE campaign.suppressions
    (address text, was text, became text, released boolean, xid xid8, at timestamptz);
CREATE TABLE campaign.holds (hold_id uuid, probe uuid, opened boolean, xid xid8);
CREATE FUNCTION campaign.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO campaign.claims
    VALUES (NEW.id, current_setting('campaign.worker', true), statement_timestamp());
    RETURN NEW;
END $$;
CREATE FUNCTION campaign.note_suppression() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO campaign.suppressions
    VALUES (COALESCE(NEW.address, OLD.address), OLD.reason, NEW.reason,
            NEW.released_at IS NOT NULL, pg_current_xact_id(), clock_timestamp());
    RETURN COALESCE(NEW, OLD);
END $$;
CREATE FUNCTION campaign.note_hold() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO campaign.holds
    VALUES (NEW.id, NEW.probe_attempt_id, TG_OP = 'INSERT', pg_current_xact_id());
    RETURN NEW;
END $$;
CREATE FUNCTION campaign.spoil() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.data = jsonb_build_object('name', E'no\nsubject');
    RETURN NEW;
END $$;
CREATE TRIGGER campaign_spoil BEFORE INSERT ON mail_service.email_payloads
    FOR EACH ROW WHEN (NEW.data->>'name' = '{SPOILED}') EXECUTE FUNCTION campaign.spoil();
CREATE TRIGGER campaign_note AFTER INSERT OR UPDATE ON mail_service.holds
    FOR EACH ROW EXECUTE FUNCTION campaign.note_hold();
CREATE TRIGGER campaign_note AFTER INSERT ON mail_service.send_attempts
    FOR EACH ROW EXECUTE FUNCTION campaign.note();
CREATE TRIGGER campaign_note AFTER INSERT OR UPDATE OR DELETE ON mail_service.suppressions
    FOR EACH ROW EXECUTE FUNCTION campaign.note_suppression();
"""
