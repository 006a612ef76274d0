"""The command line: start, what it prints, and how it stops."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sandbox_receiver import call_json, simple_mail

COMMAND = [
    sys.executable,
    "-W",
    "error",
    "-c",
    "import typer; from mail_service.cli.sandbox import sandbox; typer.run(sandbox)",
]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_the_settings_serves_and_stops_on_a_signal(
    number: int, tmp_path: Path, client: Callable[..., Any]
) -> None:
    log = tmp_path / "log.jsonl"
    with subprocess.Popen(
        [*COMMAND, "--port", "0", "--log", str(log)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed: dict[str, str] = {}
        for line in process.stdout:
            name, equals, value = line.strip().partition("=")
            if equals:
                printed[name] = value
            if name == "SNS_TOPIC_ARNS":
                break
        url = printed["SES_ENDPOINT_URL"]
        assert printed == {
            "SES_ENDPOINT_URL": url,
            "SNS_ENDPOINT_URL": url,
            "SNS_CERT_ORIGINS": url,
            "SNS_TOPIC_ARNS": "arn:aws:sns:eu-west-1:000000000000:ses-events",
        }
        client("sesv2", url).send_email(**simple_mail("ada@example.com"))
        assert len(call_json(f"{url}/_sandbox/inbox")["items"]) == 1
        process.send_signal(number)
        assert process.wait(10) == 0
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()][:2] == [
        "arrived",
        "accepted",
    ]


def test_a_port_in_use_and_a_bad_topic_are_wrong_usage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments in (["--port", port], ["--port", "0", "--topic", "nonsense"]):
            done = subprocess.run(
                [*COMMAND, *arguments], capture_output=True, text=True, timeout=20, check=False
            )
            assert done.returncode == 2
            assert "cannot start" in done.stderr


def test_the_help_explains_every_option() -> None:
    done = subprocess.run(
        [*COMMAND, "--help"], capture_output=True, text=True, timeout=20, check=True
    )
    for option in ("--port", "--webhook", "--confirm", "--topic", "--log", "--delivery-log"):
        assert option in done.stdout
