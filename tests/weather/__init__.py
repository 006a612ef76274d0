"""Weather: SES turns bad in the middle of the work, clears up, and everything must be as promised."""
