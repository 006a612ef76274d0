"""One HTTP answer as it comes in: status, headers and body, whole or not."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_ANSWER: Final = 1 << 20
"""Bytes, of head and body. SES's are a few hundred."""


class HttpAnswer:
    """Read with :meth:`feed` until it is whole; then botocore takes it as its ``raw``."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.whole = False
        self.keeps_connection = False
        self._body: list[bytes] = []
        self._read = 0
        self._parser = HttpResponseParser(self)

    def feed(self, piece: bytes) -> None:
        """Take the next bytes; empty ones are the end of the connection."""
        self._read += len(piece)
        if self._read > MAX_ANSWER:
            raise HttpParserError(f"an answer of more than {MAX_ANSWER} bytes")
        if not piece:
            # Only an answer that states no length may end so.
            if not self.status or {"content-length", "transfer-encoding"} & self.headers.keys():
                raise ConnectionResetError("closed before the answer was whole")
            self.whole = True
            return
        parser = self._parser
        try:
            parser.feed_data(piece)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.whole:  # else it is about what came after
                raise HttpParserError("no HTTP") from error
            self.keeps_connection = False

    def stream(self) -> Iterator[bytes]:
        """Give the body."""
        yield from self._body

    # What the parser calls.

    def on_message_begin(self) -> None:
        # Bytes after the answer are nobody's: what follows on this connection can't be trusted.
        self.keeps_connection = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.whole:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if not self.whole:
            self.status = self._parser.get_status_code()

    def on_body(self, piece: bytes) -> None:
        if not self.whole:
            self._body.append(piece)

    def on_message_complete(self) -> None:
        if self.whole:
            return
        if self.status < HTTPStatus.OK:  # an interim answer; the real one follows
            self.status, self.headers = 0, {}
            return
        self.whole = True
        # Another status may be of the connection and not of our request: a 408 that crossed it on its way
        # leaves the answer to it still to come, for the next mail to take as its own.
        self.keeps_connection = self.status == HTTPStatus.OK and self._parser.should_keep_alive()
        del self._parser  # it holds us
