"""`mail-service sandbox`: run the local SES and SNS until told to stop."""

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from mail_service.sandbox import DEFAULT_TOPIC_ARN, SIMULATOR_DOMAIN, Sandbox


def sandbox(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 4579,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    webhook: Annotated[
        str | None,
        typer.Option(help="Endpoint to subscribe to the events; asked until it answers."),
    ] = None,
    confirm: Annotated[
        bool,
        typer.Option(help="Send events only once the webhook has confirmed, as SNS does."),
    ] = True,
    topic: Annotated[
        str, typer.Option(help="ARN of the topic that events are published to.")
    ] = DEFAULT_TOPIC_ARN,
    validate: Annotated[bool, typer.Option(help="Check requests against the model of SES.")] = True,
    log: Annotated[
        Path | None,
        typer.Option(help="File to append the log of SendEmail calls to, as JSON lines."),
    ] = None,
    delivery_log: Annotated[
        Path | None,
        typer.Option(help="File to append the log of SNS deliveries to, as JSON lines."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
) -> None:
    """Run a local SES and SNS for development, with an inbox to look at."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for wanted in (signal.SIGINT, signal.SIGTERM):
        signal.signal(wanted, on_signal)
    try:
        running = Sandbox(
            port,
            host=host,
            topic_arn=topic,
            webhook_url=webhook,
            confirm=confirm,
            validate=validate,
            log=log,
            delivery_log=delivery_log,
            seed=seed,
        )
    except (OSError, ValueError) as error:
        typer.echo(f"The sandbox cannot start on {host}:{port}: {error}", err=True)
        raise typer.Exit(2) from error
    with running:
        typer.echo(_greeting(running, webhook))
        stop.wait()


def _greeting(running: Sandbox, webhook: str | None) -> str:
    events = webhook or f"nowhere yet; POST {running.url}/_sandbox/subscribe"
    return f"""\
SES and SNS   {running.url}
inbox         {running.url}/inbox
events go to  {events}
simulator     success@{SIMULATOR_DOMAIN} and others: {running.url}/_sandbox

Settings for a process that is to use it:
  SES_ENDPOINT_URL={running.url}
  SNS_ENDPOINT_URL={running.url}
  SNS_CERT_ORIGINS={running.url}
  SNS_TOPIC_ARNS={running.topic_arn}
"""
