"""A TCP proxy in front of PostgreSQL that goes wrong on purpose, and counts how often it did.

It reads just enough of the protocol to know a commit when it passes, be it told or that of a statement
which commits itself, so that a connection can be lost exactly there: the commit is done and its answer
does not come, or the commit never arrives. The
client can't tell the two apart. Which connection meets what is drawn from the seed.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_STARTUPS = {80877103, 80877104}  # asks for TLS or GSS; the real startup follows
_READY = b"Z\x00\x00\x00\x05"
_CHUNK = 65536
_WRITES = re.compile(rb"\b(INSERT INTO|UPDATE|DELETE FROM)\b")
_DONE = re.compile(rb"(COMMIT|(SELECT|UPDATE|DELETE|INSERT \d+) \d+)\0")


@dataclass(frozen=True)
class Faults:
    """How often something goes wrong: shares of all chunks from clients, or of all commits."""

    late: float = 0
    late_seconds: float = 0.05
    cut: float = 0
    hole: float = 0
    hole_seconds: float = 12
    """A half-open connection: both ends are up and nothing passes."""
    answer_lost: float = 0
    commit_lost: float = 0


CALM = Faults()


class Speech:
    """What a client says: finds commits and its name in the bytes, however they are cut up."""

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._within = False
        self._writing: set[bytes] = set()
        """Names of statements that write: outside a transaction, each commits itself."""
        self.name = "?"
        self.options = ""

    def commits(self, data: bytes) -> bool:
        """Say whether a commit stands in what has come by now and was not seen before."""
        self._rest += data
        # All frames are taken, also those after the first commit.
        return sum(self._is_commit(kind, body) for kind, body in self._frames()) > 0

    def _is_commit(self, kind: bytes, body: bytes) -> bool:
        if kind == b"B":  # runs a statement that was parsed before
            return not self._within and body.split(b"\0")[1] in self._writing
        if kind == b"P":
            name, _, query = body.partition(b"\0")
            (self._writing.add if _WRITES.search(query) else self._writing.discard)(name)
        elif kind == b"Q":
            query = body
        else:
            return False
        word = query[:6].upper().rstrip(b"\0")
        if word in {b"BEGIN", b"COMMIT", b"ROLLBA"}:
            self._within = word == b"BEGIN"
        return word == b"COMMIT"

    def _frames(self) -> Iterator[tuple[bytes, bytes]]:
        while True:
            head = 5 if self._started else 4
            if len(self._rest) < head:
                return
            length = int.from_bytes(self._rest[head - 4 : head]) + head - 4
            if len(self._rest) < length:
                return
            kind, body = self._rest[: head - 4], self._rest[head:length]
            self._rest = self._rest[length:]
            if self._started:
                yield kind, body
            elif int.from_bytes(body[:4]) not in _STARTUPS:
                self._started = True
                words = body[4:].split(b"\0")
                told = dict(zip(words[::2], words[1::2], strict=False))
                self.name = told.get(b"application_name", b"?").decode()
                self.options = told.get(b"options", b"").decode()


class _Wire:
    """One connection through the proxy."""

    def __init__(
        self,
        proxy: Proxy,
        chance: random.Random,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._chance = chance
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self.speech = Speech()
        self.closed = False
        self._swallow: bytes | None = None
        self._hole: asyncio.Event | None = None

    @property
    def passes(self) -> bool:
        """Whether anything still passes."""
        return not self.closed and self._hole is None

    async def run(self) -> None:
        """Carry bytes both ways until either end closes or a fault ends it."""
        ways = [asyncio.create_task(self._up()), asyncio.create_task(self._down())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.cut()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    def cut(self) -> None:
        """Reset both ends."""
        self.closed = True
        self.fill()
        for writer in (self._to_client, self._to_server):
            wire: socket.socket = writer.get_extra_info("socket")
            with suppress(OSError):
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def fill(self) -> None:
        """End a black hole; the connection is cut."""
        if self._hole is not None:
            self._hole.set()

    async def _up(self) -> None:
        while data := await self._from_client.read(_CHUNK):
            faults, draw = self._proxy.faults, self._chance.random
            commits = self.speech.commits(data)
            if draw() < faults.late:
                self._count("late")
                await asyncio.sleep(faults.late_seconds * self._chance.uniform(0.2, 2))
            if draw() < faults.cut:
                self._count("cut")
                return
            if draw() < faults.hole:
                self._count("hole")
                await self._swallow_all(faults.hole_seconds)
                return
            if commits and draw() < faults.commit_lost:
                self._count("commit_lost")
                return
            if commits and draw() < faults.answer_lost:
                self._swallow = b""
            self._to_server.write(data)
            await self._to_server.drain()

    async def _down(self) -> None:
        while data := await self._from_server.read(_CHUNK):
            if self._hole is not None:
                continue
            if self._swallow is not None:
                self._swallow += data
                if _READY in self._swallow:
                    if _DONE.search(self._swallow):
                        self._count("answer_lost")
                    return
                continue
            self._to_client.write(data)
            await self._to_client.drain()

    async def _swallow_all(self, seconds: float) -> None:
        self._hole = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hole.wait(), seconds)

    def _count(self, fault: str) -> None:
        self._proxy.counts[fault] += 1
        self._proxy.by_client[self.speech.name, fault] += 1


class Proxy:
    """Listens on a free port of 127.0.0.1, on a thread of its own. ``faults`` may be set at any time."""

    def __init__(self, target_port: int, seed: int = 0) -> None:
        self.faults = CALM
        self.counts: Counter[str] = Counter()
        self.by_client: Counter[tuple[str, str]] = Counter()
        self._target = target_port
        self._seed = seed
        self._met = 0
        self._wires: set[_Wire] = set()
        self._by_port: dict[int, _Wire] = {}
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0)
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._wires)

    def passes(self, port: int) -> bool:
        """Whether anything passes on the connection that the server sees from this port."""
        wire = self._by_port.get(port)
        return wire is not None and wire.passes

    def options(self, port: int) -> str:
        """Give the options with which the client behind this port has connected."""
        wire = self._by_port.get(port)
        return "" if wire is None else wire.speech.options

    def cut_all(self) -> None:
        """Cut every connection at once."""
        self._loop.call_soon_threadsafe(lambda: [wire.cut() for wire in list(self._wires)])

    def heal(self) -> None:
        """No faults from now on, and what is half-open is cut."""
        self.faults = CALM
        self._loop.call_soon_threadsafe(lambda: [wire.fill() for wire in list(self._wires)])

    def close(self) -> None:
        """Cut everything and listen no more."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for wire in list(self._wires):
            wire.cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._met += 1
        chance = random.Random(f"wire {self._seed} {self._met}")
        try:
            server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            self.counts["refused"] += 1
            writer.transport.abort()
            return
        wire = _Wire(self, chance, (reader, writer), server)
        self._wires.add(wire)
        self._by_port[server[1].get_extra_info("sockname")[1]] = wire
        try:
            with suppress(OSError):
                await wire.run()
        finally:
            self._wires.discard(wire)
