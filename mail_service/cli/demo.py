"""``mail-service demo``: the whole service on this machine, with nothing to install or sign up for."""

import signal
from contextlib import ExitStack
from types import FrameType
from typing import Annotated

import typer

from mail_service.cli.demo_run import Demo
from mail_service.cli.demo_screen import Screen
from mail_service.errors import MailServiceError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Stop(BaseException):
    """Somebody asked the demo to end."""


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="Check where each account ends, then stop.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the processes' logs as they are written.")
    ] = False,
) -> None:
    """Run it all here: PostgreSQL, a local SES and SNS, the Procfile's processes, five sign-ups.

    It needs no AWS account, runs until Ctrl-C, and leaves nothing behind. With --once the exit
    status says whether each account ended where it should.
    """
    screen = Screen(verbose=verbose)
    for number in _SIGNALS:
        signal.signal(number, _stop)
    status = 0
    with ExitStack() as stack:
        running = Demo(screen, stack, verbose=verbose)
        try:
            running.start()
            running.watch(once=once)
        except _Stop:
            # Ctrl-C is how the demo ends; before it has shown everything, it is a failure.
            status = 0 if running.settled and not once else 130
        except MailServiceError as problem:
            screen.say(f"\nThe demo failed: {problem}\n")
            screen.say(running.log_tails())
            status = 1
        finally:
            # Nothing may interrupt the cleaning up, each step of which has an end of its own.
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            screen.say("\nstopping: worker and web finish what they have begun ...")
    screen.say("Everything is stopped, and nothing is left behind.")
    raise typer.Exit(status)


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _Stop
