"""One idempotency key, one effect, one answer.

The answer is stored in the transaction that makes the rows, so either both are there or neither is;
"in flight" is a lock of that transaction and dies with it. An answer without effect is never stored,
because its exception takes the transaction down.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from mail_service.errors import Conflict, InvalidFields
from mail_service.runtime import Runtime
from mail_service.store import idempotency
from mail_service.store.database import Tx
from mail_service.store.idempotency import StoredAnswer
from mail_service.workflows.intake import Write

Effect = TypeVar("Effect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A caller's key for one request. ``body`` is the request's raw bytes."""

    api_key_id: UUID
    route: str
    key: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to answer: a status, a JSON text, whether mail became due by it, and whether it is a replay."""

    status: int
    text: str
    due: bool = False
    replayed: bool = False


def answer(
    rt: Runtime,
    key: Key | None,
    write: Write[Effect],
    present: Callable[[Effect], Answer],
) -> Answer:
    """Do the write and answer, or give the answer of the first time. Without a key: do and answer.

    Raises Conflict while a twin is in flight, InvalidFields when the key came with another body.
    """
    if key is None:
        return present(rt.db.transact(write, found=write.found))
    key_hash = hashlib.sha256(key.key.encode()).digest()
    body_hash = hashlib.sha256(key.body).digest()
    name = hashlib.sha256(b"\0".join([key.api_key_id.bytes, key.route.encode(), key_hash])).digest()
    lock = int.from_bytes(name[:8], signed=True)

    def once(tx: Tx) -> Answer:
        if not idempotency.take(tx, lock):
            raise Conflict("a request with this Idempotency-Key is being worked on")
        stored = idempotency.find(tx, api_key_id=key.api_key_id, route=key.route, key_hash=key_hash)
        if stored is not None:
            if stored.body_hash != body_hash:
                raise InvalidFields(
                    {"Idempotency-Key": "expected the same body as the first time with this key"}
                )
            return Answer(status=stored.status, text=stored.answer, replayed=True)
        made = present(write(tx))
        idempotency.save(
            tx,
            api_key_id=key.api_key_id,
            route=key.route,
            key_hash=key_hash,
            stored=StoredAnswer(body_hash=body_hash, status=made.status, answer=made.text),
        )
        return made

    def found(tx: Tx) -> Answer | None:
        stored = idempotency.find(tx, api_key_id=key.api_key_id, route=key.route, key_hash=key_hash)
        if stored is None:
            return None
        return Answer(status=stored.status, text=stored.answer, due=True)

    return rt.db.transact(once, found=found)
