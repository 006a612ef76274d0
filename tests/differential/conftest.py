"""npm's sns-validator, AWS's own, as a function."""

import base64
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

PACKAGE = "sns-validator@0.3.5"

Npm = Callable[[Mapping[str, tuple[bytes, bytes]]], dict[str, str]]


@pytest.fixture(scope="session")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Npm:
    """Gives its verdict on bodies by name, each with the certificate that its address would give."""
    folder = tmp_path_factory.mktemp("npm")
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]
    subprocess.run([*install, str(folder), PACKAGE], check=True, capture_output=True, timeout=100)

    def judge(asked: Mapping[str, tuple[bytes, bytes]]) -> dict[str, str]:
        run = subprocess.run(
            ["node", str(Path(__file__).with_name("verdicts.js")), str(folder)],
            input=json.dumps(
                {
                    name: [base64.b64encode(part).decode() for part in both]
                    for name, both in asked.items()
                }
            ),
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return json.loads(run.stdout)

    return judge
