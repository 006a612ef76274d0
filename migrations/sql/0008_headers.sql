-- Names and values in order, as the caller gave them. Goes with the payload.
ALTER TABLE mail_service.email_payloads ADD COLUMN headers jsonb NOT NULL DEFAULT '[]';
