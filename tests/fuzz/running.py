"""Runs a target in a process of its own and reads from libFuzzer's words how it went."""

import hashlib
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.targets import Target

_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_COUNTED = re.compile(r"^#(\d+)\s", re.MULTILINE)
_CORPUS = re.compile(r"corp: (\d+)/")
_LAST_WORDS = 25  # lines: Python's go to one stream, libFuzzer's to the other
_SLOWEST = 10  # seconds for one input
_LONGEST = 4096  # bytes of one input


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a target's run ended."""

    name: str
    runs: int
    seconds: int
    corpus: int
    status: int
    findings: tuple[Path, ...]
    last_words: str

    @property
    def fine(self) -> bool:
        """Whether it ran, to its end, and found nothing."""
        return self.status == 0 and not self.findings and self.runs > 0


def run(target: Target, *, seconds: int, folder: Path) -> Ended:
    """Let a target run this long. What it learns is kept in ``folder`` and used by the next run."""
    learned, found = folder / "learned" / target.name, folder / "found" / target.name
    for path in (learned, found):
        path.mkdir(parents=True, exist_ok=True)
    for data in target.inputs():
        (learned / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    words = folder / f"{target.name}.dict"
    words.write_text("".join(f'"{_escaped(token)}"\n' for token in target.tokens))
    before = set(found.iterdir())
    process = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.one", target.name, str(found)),
            *(f"-max_total_time={seconds}", f"-max_len={_LONGEST}", f"-timeout={_SLOWEST}"),
            *(f"-dict={words}", f"-artifact_prefix={found}/", "-rss_limit_mb=2048"),
            *("-print_final_stats=1", "-use_value_profile=1", str(learned)),
        ],
        capture_output=True,
        text=True,
        errors="replace",
    )
    said = process.stdout + process.stderr
    executed = _EXECUTED.findall(said) or _COUNTED.findall(said) or ["0"]
    return Ended(
        name=target.name,
        runs=int(executed[-1]),
        seconds=seconds,
        corpus=int((_CORPUS.findall(said) or ["0"])[-1]),
        status=process.returncode,
        findings=tuple(sorted(set(found.iterdir()) - before)),
        last_words="\n".join((process.stdout or process.stderr).splitlines()[-_LAST_WORDS:]),
    )


def _escaped(token: str) -> str:
    """Give a token as libFuzzer's dictionaries want it."""
    return "".join(f"\\x{byte:02x}" for byte in token.encode("utf-8", "surrogateescape"))
