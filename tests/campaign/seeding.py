"""How a mistake is seeded: a patch of a copy of the tree, which goes before the installed package."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.journeys.programs import ROOT


@dataclass(frozen=True)
class Patch:
    """One replacement in one file; its text must occur exactly once."""

    path: str
    before: str
    after: str


def copied(names: Sequence[str], into: Path) -> Path:
    """Copy these files and directories of the tree into a new directory; gives it."""
    into.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, into / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, into / name)
    return into


def seed(name: str, patches: Sequence[Patch], source: Path) -> None:
    """Put the mistake of this name into a copy."""
    for patch in patches:
        file = source / patch.path
        text = file.read_text()
        if text.count(patch.before) != 1:
            raise SystemExit(f"{name}: its place in {patch.path} is not there any more")
        file.write_text(text.replace(patch.before, patch.after))
