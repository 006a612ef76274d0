"""Messages that must not be believed, each with the row of the table it stands for (W1 to W21).

The table is research/reliability.md, section 4.2. Every attack starts from a message that would be
believed and would do harm, so that only what is wrong with it can refuse it.
"""
