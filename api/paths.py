"""Ids in paths."""

from uuid import UUID

from mail_service.errors import NotFound


def identifier(text: str, what: str) -> UUID:
    """Give the id that a path names. Raises NotFound, as for an id that is nobody's."""
    try:
        found = UUID(text)
    except ValueError:
        raise NotFound(f"there is no such {what}") from None
    # UUID() also reads braces and urn:uuid:, which would be further names for the same thing.
    if str(found) != text.lower():
        raise NotFound(f"there is no such {what}")
    return found
