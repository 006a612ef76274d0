"""Everything goes wrong at once: processes, database, wire, SES and SNS; an auditor judges from outside."""
