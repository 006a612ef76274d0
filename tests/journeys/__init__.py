"""End to end: the Procfile's own processes, a real database, the sandbox in SES's and SNS's place."""
