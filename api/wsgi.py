"""The web process's entry: settings, then a runtime, then ``application``.

The only file of the edge that reads the environment. ``gunicorn.conf.py`` imports it in gunicorn's
master, so that a bad setting ends the process at once, before there is a worker to start again.
"""

import atexit
import os
import sys
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

import structlog

from api.app import create_app
from api.nudge import Nudge
from mail_service import logs, wiring
from mail_service.errors import SettingsError
from mail_service.settings import Process, Settings
from mail_service.workflows import submit

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

CANT_START = 4
"""The exit status by which gunicorn knows that starting again is of no use (APP_LOAD_ERROR)."""


class Web:
    """The WSGI application with what it holds open: from the first request in a process to its end."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._db = wiring.database(settings, Process.WEB)
        rt = wiring.runtime(settings, Process.WEB, self._db)
        self._nudge = Nudge(lambda: submit.wake(rt))
        self._app = create_app(rt, self._nudge)
        self._opening = Lock()
        self._open = False

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        """Answer one request."""
        if not self._open:
            self._begin()
        return self._app(environ, start_response)

    def _begin(self) -> None:
        """Open the pool. Not before a request: connections and threads don't survive a fork."""
        with self._opening:
            if not self._open:
                self._db.open()
                atexit.register(self._end)
                self._open = True

    def _end(self) -> None:
        self._nudge.stop()
        self._db.close()


def _cant_start(why: str) -> NoReturn:
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    sys.exit(CANT_START)


def _build() -> Web:
    try:
        settings = wiring.settings_for(os.environ, Process.WEB)
        logs.configure(settings.log_level, process="web")
        wiring.refuse_to_forget(settings)
        return Web(settings)
    except SettingsError as bad:
        _cant_start(str(bad))
    except Exception as fault:
        # Texts of libraries may quote a setting, so only the kind of fault and its place are told.
        structlog.get_logger("api").error("web.not_started", exc_info=fault)
        _cant_start(f"the web process can't start: {type(fault).__name__}")


application = _build()
