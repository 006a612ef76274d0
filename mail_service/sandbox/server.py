"""Accepts connections and gives each its own thread."""

import contextlib
import select
import socket
import threading
from collections.abc import Callable

import structlog

from mail_service.sandbox.connection import BadRequestError, Connection, Request, Response

Respond = Callable[[Request, Connection], None]
_log = structlog.get_logger(__name__)


class Server:
    """An HTTP server that calls `respond` for each request, on the connection's own thread."""

    def __init__(self, host: str, port: int, respond: Respond) -> None:
        self._respond = respond
        self._listener = socket.create_server((host, port), backlog=256, reuse_port=False)
        self.host, self.port = self._listener.getsockname()[:2]
        self._wake, self._woken = socket.socketpair()
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}
        self.stopping = False
        self._acceptor = threading.Thread(target=self._accept, name="sandbox-accept", daemon=True)

    def start(self) -> None:
        """Begin to accept connections."""
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            select.select([self._listener, self._woken], [], [])
            if self.stopping:
                return
            try:
                sock, address = self._listener.accept()
            except OSError:
                continue
            connection = Connection(sock, str(address[0]))
            thread = threading.Thread(
                target=self._serve, args=(connection,), name="sandbox-connection", daemon=True
            )
            with self._lock:
                self._connections[connection] = thread
            thread.start()

    def _serve(self, connection: Connection) -> None:
        try:
            while connection.open and (request := connection.read_request()):
                self._answer(request, connection)
                if not request.keep_alive:
                    break
        except BadRequestError as error:
            headers = {"Connection": "close"}
            text = str(error).encode()
            connection.write(Response(error.status, text, "text/plain", headers))
        except OSError:
            pass
        finally:
            connection.close()
            with self._lock:
                self._connections.pop(connection, None)

    def _answer(self, request: Request, connection: Connection) -> None:
        try:
            self._respond(request, connection)
        except Exception:
            if self.stopping:
                raise
            _log.exception("sandbox_request_failed", method=request.method, path=request.path)
            connection.write(Response(500, b'{"message": "The sandbox failed; see its log."}'))

    def close(self) -> None:
        """Stop accepting, end every connection and wait for their threads."""
        self.stopping = True
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        if self._acceptor.is_alive():
            self._acceptor.join()
        with self._lock:
            open_connections = dict(self._connections)
        for connection in open_connections:
            connection.interrupt()
        for thread in open_connections.values():
            thread.join(timeout=5)
        for sock in (self._listener, self._wake, self._woken):
            sock.close()
