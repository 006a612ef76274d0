"""Every error this package raises on purpose.

::

    MailServiceError
    |-- SettingsError           the environment is not usable; names every bad key
    |-- RequestRefused          the caller's fault: api/errors.py turns it into a 4xx
    |   |-- InvalidFields       422, with one message per field
    |   |-- NotFound            404
    |   `-- Conflict            409
    |-- EnvelopeRefused         an SNS request we do not believe, with the cause that is counted
    |   |-- MalformedEnvelope   400
    |   `-- NotGenuine          403
    |-- Unavailable             a fault of ours that may pass: 503, and the caller tries again
    |   |-- Throttled           ... because we asked too often
    |   `-- CommitUnknown       ... and what was written may stand: look before doing it again
    `-- Impossible              a promise of ours was broken: a bug

Not errors, but values: a lost lease, a duplicate event, an unmatched event, a refused or unknown send.
"""

from collections.abc import Mapping


class MailServiceError(Exception):
    """Something this package raises on purpose."""


class SettingsError(MailServiceError):
    """The environment is not usable. ``problems`` maps each bad key to what is expected."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        lines = "\n".join(f"  {name}: {what}" for name, what in sorted(self.problems.items()))
        super().__init__(f"these settings need attention:\n{lines}")


class RequestRefused(MailServiceError):
    """The request can't be done as asked. The text is for the caller and holds no secret."""


class InvalidFields(RequestRefused):
    """Some fields are not usable. ``fields`` maps each to what was expected."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = dict(fields)
        super().__init__("; ".join(f"{name}: {what}" for name, what in self.fields.items()))


class NotFound(RequestRefused):
    """There is no such thing."""


class Conflict(RequestRefused):
    """What is asked does not go together with what stands."""


class EnvelopeRefused(MailServiceError):
    """An SNS request we do not act on. ``cause`` is the name under which it is counted.

    The text is for our log, never for the sender of the request.
    """

    def __init__(self, cause: str, detail: str = "") -> None:
        self.cause = cause
        super().__init__(f"{cause}: {detail}" if detail else cause)


class MalformedEnvelope(EnvelopeRefused):
    """Not an SNS message of the documented form."""


class NotGenuine(EnvelopeRefused):
    """Not signed by AWS for a topic of ours."""


class Unavailable(MailServiceError):
    """A fault on our side that may pass; the caller should try again."""


class Throttled(Unavailable):
    """The other side asks us to slow down."""


class CommitUnknown(Unavailable):
    """The database went away while it was told to commit: what was written may stand, or not."""


class Impossible(MailServiceError):
    """A promise of ours was broken. This is a bug: page someone."""
