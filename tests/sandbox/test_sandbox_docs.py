"""docs/sandbox.md keeps up with the code."""

import re
from pathlib import Path

from mail_service.sandbox import BEHAVIOURS, Knobs, Sandbox

TEXT = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text()


def first_cells(heading: str) -> set[str]:
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in rows for name in re.findall(r"`(\w+)`", cell)}


def test_every_address_is_listed() -> None:
    assert first_cells("Addresses") == set(BEHAVIOURS)


def test_every_knob_is_listed() -> None:
    assert first_cells("Knobs") == set(Knobs.model_fields)


def test_the_example_for_python_runs(sandbox: Sandbox) -> None:
    example = TEXT.split("```python\n")[1].split("```")[0]
    exec(compile(example, "docs/sandbox.md", "exec"), {})
