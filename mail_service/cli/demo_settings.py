"""The environment of the demo's processes: everything from here, nothing from who runs it."""

import os
import secrets
import shlex
import socket
import sys
from pathlib import Path

# Time-outs short enough to be watched. The lease is the least that they allow.
_SPEED = {
    "SES_CONNECT_TIMEOUT": "1",
    "SES_READ_TIMEOUT": "1",
    "LEASE_SECONDS": "5",
    "RECONCILE_AFTER_SECONDS": "10",
    "RETRY_BASE_SECONDS": "0.5",
    "RETRY_CAP_SECONDS": "5",
    "SWEEP_SECONDS": "1",
}


def environment(run: Path, given: dict[str, str]) -> dict[str, str]:
    """Give a whole environment. The user's own settings and AWS profile must have no say in it."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(run),
        "TMPDIR": str(run),
        "LC_ALL": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        **given,
    }


def settings(*, database_url: str, port: int, sandbox_url: str, topic_arn: str) -> dict[str, str]:
    """Give the settings of interface.md alone, with secrets of this run."""
    return {
        "APP_ENV": "development",
        "DATABASE_URL": database_url,
        "PORT": str(port),
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "demo",
        "AWS_SECRET_ACCESS_KEY": "demo",
        "AWS_EC2_METADATA_DISABLED": "true",
        "MAIL_FROM": "Demo Shop <shop@example.com>",
        "SES_CONFIGURATION_SET": "mail-service",
        "SES_ENDPOINT_URL": sandbox_url,
        "SNS_ENDPOINT_URL": sandbox_url,
        "SNS_CERT_ORIGINS": sandbox_url,
        "SNS_TOPIC_ARNS": topic_arn,
        "ADDRESS_KEY": secrets.token_urlsafe(32),
        "CONSOLE_SECRET": secrets.token_urlsafe(32),
        **_SPEED,
    }


def as_shell(environ: dict[str, str], *, programs: Path) -> str:
    """Give settings as lines that a shell can source, which finds the programs of that directory then."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environ.items()]
    return "\n".join([*lines, f"export PATH={shlex.quote(str(programs))}:$PATH", ""])


def free_port(wished: int) -> int:
    """Give the port one would expect if it is free, else any that is."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", wished))  # noqa: S104 - as gunicorn will, and closed at once
        except OSError:
            probe.close()
            return free_port(0)
        return int(probe.getsockname()[1])
