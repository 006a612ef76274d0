"""The way to SES, which can be shut: then connections are refused, as by a machine that is down."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class _Way:
    """One client's connection. ``asked``: a request is under way."""

    writer: asyncio.StreamWriter
    asked: bool = False


class Gate:
    """Forwards to a port of this machine. When it is shut, calls under way still get their answer."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._ways: set[_Way] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gate", daemon=True)
        self._thread.start()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.open()

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Take connections."""
        self._do(self._open())

    def shut(self) -> None:
        """Refuse connections from now on, and end those that are idle."""
        self._do(self._shut())

    def close(self) -> None:
        """End everything."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _open(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for way in self._ways:
            if not way.asked:
                way.writer.close()

    async def _close(self) -> None:
        await self._shut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        way = _Way(writer)
        self._ways.add(way)
        onward: asyncio.StreamWriter | None = None
        try:
            answers, onward = await asyncio.open_connection("127.0.0.1", self._to_port)
            pumps = [
                asyncio.ensure_future(self._requests(way, reader, onward)),
                asyncio.ensure_future(self._answers(way, answers)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self._ways.discard(way)
            for end in (writer, onward):
                if end is not None:
                    end.close()

    async def _requests(
        self, way: _Way, reader: asyncio.StreamReader, onward: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                way.asked = True
                onward.write(data)
                await onward.drain()

    async def _answers(self, way: _Way, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            # The sandbox writes each answer at once, and each fits into one read.
            while data := await reader.read(1 << 20):
                way.writer.write(data)
                await way.writer.drain()
                way.asked = False
                if self._server is None:
                    return
