"""What is written: the only SQL. A function takes a transaction, keeps one promise, never commits."""
