"""Builds a verifier from the model with spin and gcc, runs it, and reads what it prints."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.model.variants import Variant

MODEL = Path(__file__).with_name("sending.pml")
TOOLS = ("spin", "gcc")
DEPTH = 1_000_000
MEMORY_MB = 12_000
GIVEN_UP_AFTER_SECONDS = 3600

INCOMPLETE = (
    "max search depth too small",
    "Search not completed",
    "Bit statespace search",
    "-DMEMLIM bound",
    "out of memory",
    "truncated",
    "VECTORSZ",
)
"""What pan prints when it has not seen everything."""


class NotRun(Exception):
    """A step failed that is not about the protocol; the text says which and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one search found. ``broken`` names the promise, None where none was broken."""

    broken: str | None
    complete: bool
    states: int
    megabytes: float
    seconds: float
    edges: frozenset[tuple[int, int]]
    situations: dict[str, bool]


def missing() -> list[str]:
    """Name the tools that are not installed."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def search(variant: Variant, folder: Path) -> Found:
    """Search one variant, in a folder of its own. Raises NotRun."""
    _build(variant, folder)
    begun = time.monotonic()
    text = _run(_verifier(variant), folder)
    return read(text, variant, time.monotonic() - begun)


def retrace(folder: Path) -> list[tuple[str, str]]:
    """Give the steps to what was found broken: who took it, and the step as the model writes it."""
    steps_by_id: dict[int, tuple[str, str]] = {}
    who = ""
    for line in _run(["./pan", "-d"], folder).splitlines():
        if line.startswith("proctype"):
            who = line.split()[1]
        elif step := re.search(r"\[id +(\d+) .* D_STEP(\d+)$", line):
            steps_by_id[int(step[1])] = (who, _step_at(int(step[2])))
    steps: list[tuple[str, str]] = []
    trail = (folder / f"{MODEL.name}.trail").read_text()
    for number, _, step_id in (line.split(":") for line in trail.splitlines()):
        if number == "-1":
            steps.append(("", "from here on, for ever:"))
        elif int(step_id) in steps_by_id:
            steps.append(steps_by_id[int(step_id)])
    return steps


def _step_at(number: int) -> str:
    """Give the step that begins on a line of the model, without what all steps have."""
    text = ""
    for line in MODEL.read_text().splitlines()[number - 1 :]:
        text = f"{text} {line.strip()}"
        if text.count("{") == text.count("}"):
            break
    return text.strip(" :").removeprefix("d_step { ").removesuffix(" }").removesuffix("; SORT")


def read(text: str, variant: Variant, seconds: float) -> Found:
    """Read what pan printed. Raises NotRun where that is not the end of a search."""
    errors = re.search(r"errors: (\d+)\s*$", text, re.MULTILINE)
    stored = re.search(r"^\s*([\d.e+]+) states, stored", text, re.MULTILINE)
    memory = re.search(r"^\s*([\d.]+)\s+total actual memory usage", text, re.MULTILINE)
    if errors is None or stored is None:
        raise NotRun(f"{variant.name}: pan did not finish: {text[-500:].strip()}")
    broken: str | None = None
    if int(errors[1]):
        promise = re.search(r"^broken: (.+)$", text, re.MULTILINE)
        if promise is not None:
            broken = promise[1]
        elif "acceptance cycle" in text:
            broken = variant.claim
        else:
            why = re.search(r"^pan:\d+: (.+)$", text, re.MULTILINE)
            broken = why[1] if why is not None else "an error that pan did not name"
    full = variant.claim is not None or "Full statespace search for:" in text
    return Found(
        broken=broken,
        complete=full and not any(words in text for words in INCOMPLETE),
        states=int(float(stored[1])),
        megabytes=float(memory[1]) if memory is not None else 0.0,
        seconds=seconds,
        edges=frozenset(
            (int(a), int(b)) for a, b in re.findall(r"^edge: (\d) (\d)$", text, re.MULTILINE)
        ),
        situations={
            name: seen == "1"
            for seen, name in re.findall(r"^mark: ([01]) (.+)$", text, re.MULTILINE)
        },
    )


def _build(variant: Variant, folder: Path) -> None:
    shutil.copy(MODEL, folder)
    _run(["spin", *(f"-D{name}" for name in variant.defines), "-a", MODEL.name], folder)
    # No partial order reduction: every step touches shared rows, so it could only cost time.
    flags = ["-DNOREDUCE", f"-DMEMLIM={MEMORY_MB}"]
    if variant.claim is not None:
        flags += ["-DNFAIR=3"]
    else:
        flags += ["-DSAFETY"]
        # Breadth first finds a shortest way to what is broken.
        flags += [] if variant.correct else ["-DBFS"]
    _run(["gcc", "-O2", "-w", *flags, "-o", "pan", "pan.c"], folder)
    if not (folder / "pan").exists():
        raise NotRun(f"{variant.name}: gcc made no verifier")


def _verifier(variant: Variant) -> list[str]:
    fair = ["-a", "-f", "-N", variant.claim] if variant.claim is not None else []
    return ["./pan", f"-m{DEPTH}", *fair]


def _run(command: list[str], folder: Path) -> str:
    """Run one tool; gives what it printed. A verifier that found something does not exit with 0."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=GIVEN_UP_AFTER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise NotRun(f"{command[0]} did not end within {late.timeout:g} s") from late
    if done.returncode < 0:
        raise NotRun(f"{command[0]} was ended by signal {-done.returncode}")
    if done.returncode != 0 and command[0] in TOOLS:
        raise NotRun(f"{' '.join(command)}: {done.stdout[-500:].strip()}")
    return done.stdout
