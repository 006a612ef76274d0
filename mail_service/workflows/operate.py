"""What people decide: keys, suppressions and their release, cancelling what is still pending."""

import base64
import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field
from uuid import UUID

from mail_service.domain.address import AddressInvalid, keyed_hash, normalise
from mail_service.domain.suppression import ReleaseRule, SuppressionReason, may_release
from mail_service.errors import Conflict, InvalidFields, NotFound
from mail_service.runtime import Runtime
from mail_service.store import keys, suppressions
from mail_service.store.database import Transactions, Tx
from mail_service.store.keys import ApiKey
from mail_service.store.suppressions import Suppression
from mail_service.workflows import journal
from mail_service.workflows.checks import check_reason

SCOPES = ("send", "read", "operate")

KEY_GOOD_FOR_SECONDS = 0.25
"""How old the last look at a key may be when a request begins. Counted from the look, however often it is
used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key just made. ``key`` is shown once and stored nowhere."""

    id: UUID
    name: str
    scopes: tuple[str, ...]
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a request: a key and what it may do."""

    key_id: UUID
    name: str
    scopes: frozenset[str]


def create_key(db: Transactions, *, key_id: UUID, name: str, scopes: tuple[str, ...]) -> NewKey:
    """Make a key with these scopes. Only the hash of its secret is kept.

    The secret has 256 random bits, so a plain hash is enough (OWASP ASVS 5.0, 11.4).
    """
    if not 0 < len(name) <= 100:
        raise InvalidFields({"name": "expected 1 to 100 characters"})
    if not scopes or not set(scopes) <= set(SCOPES):
        raise InvalidFields({"scope": "expected one or more of send, read, operate"})
    lookup = base64.b32encode(secrets.token_bytes(10)).decode().lower()
    secret = secrets.token_urlsafe(32)
    with db.transaction() as tx:
        keys.add(
            tx,
            key_id=key_id,
            name=name,
            lookup=lookup,
            secret_hash=_hash(secret),
            scopes=sorted(set(scopes)),
        )
    return NewKey(id=key_id, name=name, scopes=scopes, key=f"ms_{lookup}_{secret}")


def list_keys(db: Transactions) -> list[ApiKey]:
    """Give every key, newest first."""
    with db.transaction() as tx:
        return keys.listed(tx)


def revoke_key(db: Transactions, key_id: UUID) -> None:
    """Take a key out of use: when this returns, nobody takes it any more.

    Raises NotFound when there is no such key in use.
    """
    with db.transaction() as tx:
        if not keys.revoke(tx, key_id):
            raise NotFound("there is no such key in use")
    # As long as a process may go by a look that was before the commit.
    time.sleep(KEY_GOOD_FOR_SECONDS)


def authenticate(db: Transactions, presented: str) -> Caller | None:
    """Give who a presented key belongs to; None when it opens nothing.

    Unknown look-ups are compared as well, so that time does not tell whether one exists.
    """
    prefix, _, rest = presented.partition("_")
    lookup, _, secret = rest.partition("_")
    if prefix != "ms" or not lookup or not secret or not presented.isascii():
        return None
    with db.statement() as tx:
        credential = keys.credential(tx, lookup)
    stored = credential.secret_hash if credential is not None else bytes(32)
    if not hmac.compare_digest(stored, _hash(secret)) or credential is None:
        return None
    return Caller(key_id=credential.id, name=credential.name, scopes=frozenset(credential.scopes))


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def suppress(rt: Runtime, *, address: str, note: str | None, by: str) -> tuple[Suppression, bool]:
    """Stop mail to an address; gives the standing suppression and whether this call made it.

    A worker puts it on SES's list too, so that no other application of the account writes there.
    """
    hashed, normal = _known(rt, address)
    if note is not None and len(note) > 500:
        raise InvalidFields({"note": "expected at most 500 characters"})

    def write(tx: Tx) -> tuple[Suppression, bool]:
        new_id = rt.new_id()
        standing = suppressions.suppress(
            tx,
            new_id=new_id,
            address_hash=hashed,
            address=normal,
            reason=SuppressionReason.MANUAL,
            source=by,
            note=note,
            put_at_ses=True,
        )
        row = suppressions.by_id(tx, standing) if standing is not None else None
        if row is None:
            raise NotFound("the suppression was released in the same moment")
        return row, row.id == new_id

    row, created = rt.db.transact(write)
    journal.stage("suppression.added", suppression_id=row.id, by=by, created=created)
    return row, created


def release(
    rt: Runtime,
    suppression_id: UUID,
    *,
    rule: ReleaseRule,
    reason: str,
    confirmed: bool,
    by: str,
) -> Suppression:
    """Lift a suppression by a stated rule. Raises NotFound, or Conflict where the rule does not reach.

    It is lifted at once here, and on SES's list by a worker, however long that takes.
    """
    check_reason(reason)

    def write(tx: Tx) -> Suppression:
        row = suppressions.by_id(tx, suppression_id, for_update=True)
        if row is None:
            raise NotFound("there is no such suppression")
        if row.released_at is not None:
            raise Conflict("this suppression was released before")
        if not may_release(row.reason, rule, confirmed=confirmed):
            raise Conflict('a complaint is released only by "consent_renewed" with "confirm": true')
        released = suppressions.release(tx, suppression_id, rule=rule, reason=reason, by=by)
        if released is None:
            raise Conflict("this suppression was released before")
        return released

    row = rt.db.transact(write)
    journal.stage("suppression.released", suppression_id=row.id, by=by, rule=rule)
    return row


def _known(rt: Runtime, address: str) -> tuple[bytes, str]:
    try:
        normal = normalise(address, allow_reserved=True)
    except AddressInvalid as invalid:
        raise InvalidFields({"address": str(invalid)}) from invalid
    return keyed_hash(rt.address_key, normal), normal
