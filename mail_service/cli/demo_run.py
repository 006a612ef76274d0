"""One run of the demo: what is started in which order, what is signed up, and when it is done."""

import sys
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from mail_service import wiring
from mail_service.cli import demo_settings
from mail_service.cli.demo_cast import Json, World, cast_of_the_demo
from mail_service.cli.demo_client import ApiRefused, DemoClient
from mail_service.cli.demo_processes import ProcfileProcesses
from mail_service.cli.demo_screen import Screen
from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.errors import MailServiceError
from mail_service.sandbox import Sandbox
from mail_service.settings import Process, Settings
from mail_service.workflows import operate

DEADLINE_SECONDS = 90.0
QUIET_SECONDS = 15.0
"""When nothing has changed for this long, nothing will: the accounts are where they end."""

DOUBT_SECONDS = 4.0
"""How long a person gets to see the mail in doubt before its events are let go."""

_PAUSE = 0.15
_REST = 0.5
_OPEN = ("", "pending", "sending", "ambiguous")


class DemoFailed(MailServiceError):
    """The demo did not show what it promises."""


class Demo:
    """One run. What it starts is stopped by ``stack``, in the opposite order."""

    def __init__(self, screen: Screen, stack: ExitStack, *, verbose: bool) -> None:
        self.settled = False
        self._screen = screen
        self._stack = stack
        self._echo = screen.say if verbose else None
        self._deadline = time.monotonic() + DEADLINE_SECONDS
        self._roles = cast_of_the_demo()
        self._others: list[Json] = []
        self._processes: ProcfileProcesses | None = None

    def start(self) -> None:
        """Start everything, until the webhook has confirmed that events reach it."""
        step = self._screen.step
        with step("PostgreSQL: make and start one"):
            postgres = self._stack.enter_context(EmbeddedPostgres())
            database_url = postgres.create_database("mail")
        port = demo_settings.free_port(8000)
        url = f"http://127.0.0.1:{port}"
        with step("sandbox: a local SES and SNS"):
            self._sandbox = self._stack.enter_context(
                Sandbox(
                    demo_settings.free_port(4579),
                    webhook_url=f"{url}/webhooks/ses/sns",
                    log=postgres.directory / "ses-calls.jsonl",
                )
            )
        given = demo_settings.settings(
            database_url=database_url,
            port=port,
            sandbox_url=self._sandbox.url,
            topic_arn=self._sandbox.topic_arn,
        )
        processes = ProcfileProcesses(
            postgres.run, demo_settings.environment(postgres.directory, given), self._echo
        )
        self._processes = processes
        self._stack.callback(processes.stop)
        with step("release: migrate the database"):
            processes.release()
        key = _make_key(Settings.from_env(given, Process.COMMAND))
        self._client = DemoClient(url, key)
        self._stack.callback(self._client.close)
        with step("web, worker, clock: start, until the API is ready"):
            processes.start()
            self._wait("the API to be ready", self._client.ready)
        with step("webhook: until it has confirmed its subscription to the events"):
            self._wait("the webhook's confirmation", lambda: self._sandbox.wait_confirmed(0))
        shell = postgres.directory / "env"
        shell.write_text(demo_settings.as_shell(given, programs=Path(sys.executable).parent))
        self._introduce(url, key, shell)

    def watch(self, *, once: bool) -> None:
        """Sign up and show what becomes of it. Raises DemoFailed when it ends otherwise."""
        # Any event proves that SES took the mail, so the whole story of that one call is held back.
        self._sandbox.knobs(hold_events=("Send", "Delivery"), hold_local_parts=("timeout",))
        suppressed = next(role for role in self._roles if role.name == "suppressed")
        self._client.suppress(suppressed.address, "asked for no more mail")
        with self._screen.watching():
            for role in self._roles:
                role.see(self._client.open_account(role.address, role.name.title()))
                self._screen.show(self._roles, [], "signing up")
            self._settle(1.0 if once else DOUBT_SECONDS)
            self.settled = True
            while not once:
                self._look("all five ended where they should; Ctrl-C stops everything")
                time.sleep(_REST)
        self._screen.final(self._roles)

    def log_tails(self) -> str:
        """Give the end of each process's log."""
        return self._processes.tails() if self._processes is not None else ""

    def _introduce(self, url: str, key: str, shell: Path) -> None:
        command = Path(sys.executable).parent / "mail-service"
        self._screen.say(f"""
API docs         {url}/docs
sandbox's inbox  {self._sandbox.url}/inbox
logs             {shell.parent}/logs/
sign up          curl -s {url}/v1/accounts -H 'Authorization: Bearer {key}' \\
                   -H 'Content-Type: application/json' -d '{{"email": "grace@example.com"}}'
look inside      . {shell} && {command} emails list
""")

    def _settle(self, patience: float) -> None:
        """Watch until each account is where it should be; let the held events go on the way."""
        doubtful = next(role for role in self._roles if role.name == "timeout")
        world = World(self._client.suppressed, self._sandbox.log)
        in_doubt_since: float | None = None
        released = False
        awaited = "awaiting SES's answers; one call will get none"
        problems: list[str] = []
        changed, seen = time.monotonic(), ""
        while True:
            self._look(awaited)
            now = time.monotonic()
            state = repr([role.email for role in self._roles])
            if state != seen:
                changed, seen = now, state
            if not released and doubtful.state == "ambiguous":
                in_doubt_since = in_doubt_since or now
                awaited = (
                    "in doubt: no answer came, so nobody may send it again until an event tells"
                )
                if now - in_doubt_since >= patience:
                    released = True
                    self._sandbox.knobs(hold_events=())
                    self._sandbox.release()
                    awaited = "awaiting the events"
            elif all(role.state not in _OPEN for role in self._roles):
                problems = [text for role in self._roles for text in role.problems(world)]
                if not problems:
                    return
            if now > self._deadline or now - changed > QUIET_SECONDS:
                self._give_up(problems, world)

    def _give_up(self, problems: list[str], world: World) -> None:
        problems = problems or [text for role in self._roles for text in role.problems(world)]
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise DemoFailed(f"these did not end where they should:\n{lines}")

    def _look(self, awaited: str) -> None:
        """Look once at every email, show it, and rest a little."""
        self._running().check()
        try:
            found = self._client.emails()
        except ApiRefused as fault:
            # It may pass; if not, the deadline or the process's end tells.
            awaited = str(fault)
        else:
            roles = {role.email["id"]: role for role in self._roles}
            for email in found:
                if email["id"] in roles:
                    roles[email["id"]].see(email)
            self._others = [email for email in found if email["id"] not in roles]
        self._screen.show(self._roles, self._others, awaited)
        time.sleep(_PAUSE)

    def _wait(self, what: str, there: Callable[[], bool]) -> None:
        while not there():
            self._running().check()
            if time.monotonic() > self._deadline:
                raise DemoFailed(f"waited {DEADLINE_SECONDS:.0f} s for {what}")
            time.sleep(0.05)

    def _running(self) -> ProcfileProcesses:
        if self._processes is None:
            raise DemoFailed("nothing was started")
        return self._processes


def _make_key(settings: Settings) -> str:
    db = wiring.database(settings, Process.COMMAND)
    db.open()
    try:
        made = operate.create_key(db, key_id=uuid.uuid4(), name="demo", scopes=operate.SCOPES)
    finally:
        db.close()
    return made.key
