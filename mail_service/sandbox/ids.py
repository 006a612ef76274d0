"""Ids that are new every time, also after a restart with the same seed."""

import random
import uuid

# Receivers take a repeated SNS id for a repeated message, so ids never come from the seed. One
# generator seeded by the system is several times faster than asking the system for each id.
_random = random.Random()  # noqa: S311


def new_uuid() -> str:
    """A random UUID in its usual form."""
    return str(uuid.UUID(int=_random.getrandbits(128), version=4))


def new_ses_id(seconds: float) -> str:
    """An id as SES makes them: the time in milliseconds, then a random part."""
    return f"0102{int(seconds * 1000):012x}-{new_uuid()}-000000"
