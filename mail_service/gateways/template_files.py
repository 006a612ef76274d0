"""Reads a directory of templates from disk, as plain bytes: what they mean is domain/catalogue.py."""

from pathlib import Path

from mail_service.errors import SettingsError

BUNDLED = Path(__file__).resolve().parent.parent / "templates"
"""The templates that come with the package; used when TEMPLATE_DIR is not set."""

MAX_FILE_BYTES = 512 * 1024


def read_directory(path: Path) -> dict[str, dict[str, bytes]]:
    """Give each sub-directory's files by name. Raises SettingsError for TEMPLATE_DIR.

    Names that begin with a dot or end in ``~`` are left out (editors, Kubernetes' ``..data``), as
    are plain files beside the sub-directories, such as a README.
    """
    try:
        return {
            entry.name: {
                file.name: _read(file) for file in sorted(entry.iterdir()) if not _hidden(file.name)
            }
            for entry in sorted(path.iterdir())
            if entry.is_dir() and not _hidden(entry.name)
        }
    except OSError as problem:
        what = (
            f"expected a readable directory of templates: {problem.strerror} ({problem.filename})"
        )
        raise SettingsError({"TEMPLATE_DIR": what}) from problem


def _hidden(name: str) -> bool:
    return name.startswith(".") or name.endswith("~")


def _read(file: Path) -> bytes:
    # One byte more than allowed is read, never a whole device or a forgotten archive.
    with file.open("rb") as stream:
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError({"TEMPLATE_DIR": f"{file} is larger than {MAX_FILE_BYTES} bytes"})
    return content
