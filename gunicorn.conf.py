"""How gunicorn serves the API: threaded workers, a stop that lets requests end, JSON logs.

Read by ``gunicorn api.wsgi:application`` in the repository's root. Importing the application here,
in the master, checks the settings once: bad ones are named and the process ends with status 4. The
workers inherit it; each opens its own pool with its first request (``api/wsgi.py``).
"""

import socket
import struct
from pathlib import Path
from typing import Any

from gunicorn.glogging import Logger

from api.wsgi import application

_settings = application.settings


class _JsonLogger(Logger):
    """Hands gunicorn's lines to the one handler of this process (``mail_service.logs``).

    Its texts may quote a request's target or header, and with it an address or a key, so what was
    formatted into a line about a request is left out.
    """

    def setup(self, cfg: Any) -> None:  # noqa: ANN401 - gunicorn's own, untyped
        super().setup(cfg)
        for log in (self.error_log, self.access_log):
            log.handlers.clear()
            log.propagate = True

    def warning(self, msg: str, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        if msg.startswith("Invalid request"):
            msg, args = "Invalid request", ()
        super().warning(msg, *args, **kwargs)

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        if msg.startswith("Socket error"):
            # A client that went silent in the middle of a request, not a fault of ours.
            super().info("A client stalled or went away")
        elif msg.startswith("Error handling request"):
            super().exception("Error handling request", **kwargs)
        else:
            super().exception(msg, *args, **kwargs)


bind = f"0.0.0.0:{_settings.port}"
proc_name = "mail-service"
preload_app = True

# Two pooled connections serve the threads: most of a request is not spent in the database. There are
# many, because a slow client holds one until it has sent its request or is cut off.
worker_class = "api.serving.Worker"
workers = _settings.web_concurrency
threads = 64

# The heartbeat of a worker's main thread, which no request can hold up.
timeout = 30
# The platform kills 30 s after SIGTERM; ours ends before 25. A second SIGTERM changes nothing.
graceful_timeout = 20
# Longer than the idle timeouts of the routers in front (Heroku 90 s, AWS 60 s): whoever may reuse a
# connection must be the first to close it.
keepalive = 95

# Heartbeat files on a disk that stalls look like a dead worker.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108

limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190

# Nothing here asks for the client's address or the scheme, so no header may claim to know them.
secure_scheme_headers: dict[str, str] = {}
forwarder_headers = ""
header_map = "drop"
control_socket_disable = True

logger_class = _JsonLogger
loglevel = _settings.log_level.lower()
errorlog = "-"
accesslog = None  # the lines of each stage tell more, and hold no query strings

_STALL_SECONDS = 5


def when_ready(server: Any) -> None:  # noqa: ANN401 - gunicorn's Arbiter, untyped
    """Let no client hold a thread by going silent: accepted sockets inherit this read timeout."""
    for listener in server.LISTENERS:
        listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _STALL_SECONDS, 0)
        )
