"""The targets: one module each, with what must hold, where to start from, and words worth knowing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import (
    addresses,
    canonical_string,
    certificate_address,
    envelope,
    headers,
    ses_event,
)

FOUND = Path(__file__).parent / "found"
"""Inputs that once broke a promise, one folder for each target."""


@dataclass(frozen=True, slots=True)
class Target:
    """``check`` returns for every input, or a promise is broken."""

    name: str
    check: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    tokens: Iterable[str]
    promise: str

    def inputs(self) -> Iterator[bytes]:
        """Give the seeds, and what was ever found."""
        yield from self.seeds()
        for path in sorted((FOUND / self.name).glob("*")):
            yield path.read_bytes()


TARGETS = {
    module.__name__.rpartition(".")[2]: Target(
        name=module.__name__.rpartition(".")[2],
        check=module.check,
        seeds=module.seeds,
        tokens=module.TOKENS,
        promise=str(module.__doc__).partition("\n")[0],
    )
    for module in (envelope, certificate_address, canonical_string, ses_event, addresses, headers)
}
