"""One person is forgotten at once: no table holds the address afterwards. The keyed hash stays.

So a suppression still holds, a repeated dedup key is still recognised, and what comes later about the
mailbox is kept without its address. Safe to repeat; each step is a transaction of its own.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from mail_service.domain.address import keyed_hash, match_key
from mail_service.domain.states import EmailState
from mail_service.errors import Conflict, InvalidFields, NotFound
from mail_service.runtime import Runtime
from mail_service.store import accounts, erasure, outbox
from mail_service.store.database import Tx
from mail_service.workflows import decide, journal

BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What was done. ``in_call`` still run, and hold the address: erase again once they have ended.

    ``ambiguous`` stay on the desk without address and content, to be accepted or abandoned.
    """

    accounts: int = 0
    emails: int = 0
    cancelled: int = 0
    suppressions: int = 0
    payloads: int = 0
    answers: int = 0
    ambiguous: Sequence[UUID] = ()
    in_call: Sequence[UUID] = ()


def account(rt: Runtime, account_id: UUID, *, by: str) -> Erased:
    """Erase the person of an account, without waiting for a call under way. Raises NotFound."""
    with rt.db.transaction() as tx:
        found = accounts.by_id(tx, account_id)
    if found is None:
        raise NotFound("there is no such account")
    if found.email is None:
        return Erased()
    return address(rt, found.email, by=by)


def address(
    rt: Runtime, text: str, *, by: str, pause: Callable[[float], None] | None = None
) -> Erased:
    """Erase the person of an address. Raises InvalidFields.

    With ``pause`` calls under way are waited for, as long as one can last.
    """
    if match_key(text) is None:
        raise InvalidFields({"address": "expected an email address"})
    hashed = keyed_hash(rt.address_key, text)
    pattern = _pattern(text)

    def begin(tx: Tx) -> int:
        erasure.remember(tx, hashed, by)
        return erasure.forget_accounts(tx, hashed)

    forgotten = rt.db.transact(begin)
    emails: dict[UUID, EmailState] = {}
    cancelled: set[UUID] = set()
    waited = 0.0
    while True:
        _forget_emails(rt, hashed, pattern, by, emails, cancelled)
        in_call = [one for one, state in emails.items() if state is EmailState.SENDING]
        longest = rt.settings.lease_seconds + rt.settings.call_seconds
        if not in_call or pause is None or waited > longest:
            break
        pause(1.0)
        waited += 1.0
    done = Erased(
        accounts=forgotten,
        emails=len(emails) - len(in_call),
        cancelled=len(cancelled),
        suppressions=rt.db.transact(lambda tx: erasure.forget_suppressions(tx, hashed, pattern)),
        payloads=_forget_payloads(rt, pattern),
        answers=rt.db.transact(lambda tx: erasure.forget_answers(tx, pattern)),
        ambiguous=[one for one, state in emails.items() if state is EmailState.AMBIGUOUS],
        in_call=in_call,
    )
    journal.stage(
        "address.erased",
        by=by,
        emails=done.emails,
        cancelled=done.cancelled,
        ambiguous=len(done.ambiguous),
        in_call=len(done.in_call),
    )
    return done


def _forget_emails(
    rt: Runtime,
    hashed: bytes,
    pattern: str,
    by: str,
    emails: dict[UUID, EmailState],
    cancelled: set[UUID],
) -> None:
    """Forget each email to the mailbox, in the state that it is in; what is pending is cancelled first."""
    with rt.db.transaction() as tx:
        ids = erasure.emails_to(tx, hashed)
    for email_id in ids:
        try:
            decide.cancel(rt, email_id, by=by, why="its recipient asked to be erased")
            cancelled.add(email_id)
        except Conflict:
            pass  # it is no longer pending

        def forget(tx: Tx, email_id: UUID = email_id) -> EmailState:
            email = outbox.lock(tx, email_id)
            if email is None:
                raise NotFound("there is no such email")
            if email.state not in {EmailState.SENDING, EmailState.PENDING}:
                erasure.forget_email(tx, email_id, hashed, pattern)
            return email.state

        state = rt.db.transact(forget)
        # Given back in this very moment: to be cancelled in the next round, like a call that ends.
        emails[email_id] = EmailState.SENDING if state is EmailState.PENDING else state


def _forget_payloads(rt: Runtime, pattern: str) -> int:
    after: UUID | None = UUID(int=0)
    total = 0
    while after is not None:
        place = after
        after, changed = rt.db.transact(
            lambda tx, place=place: erasure.forget_payloads(tx, pattern, after=place, limit=BATCH)
        )
        total += changed
    return total


def _pattern(text: str) -> str:
    """Give the regular expression that finds the address in a text, whatever its capitals."""
    key = match_key(text) or ""
    spellings = {key, text.strip().lower()}
    return "|".join(re.escape(one) for one in sorted(spellings))
