"""``python -m tests.fuzz.one TARGET FOLDER [libFuzzer's options]``: one target, in this process.

Inputs that break the promise are written to FOLDER.
"""

import hashlib
import sys
from pathlib import Path

import atheris  # pyright: ignore[reportMissingImports] - installed by `make fuzz` alone

# Before the targets are imported: what these modules do leads the way.
with atheris.instrument_imports(
    include=["mail_service.domain", "mail_service.gateways", "email_validator", "idna", "email"],
    enable_loader_override=False,
):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Run until libFuzzer ends the process."""
    name, folder, *options = sys.argv[1:]
    check = TARGETS[name].check

    def keep(data: bytes) -> None:
        try:
            check(data)
        except BaseException:
            # libFuzzer writes it under this name, too, if it gets that far: its alarm may end us first.
            (Path(folder) / f"crash-{hashlib.sha1(data).hexdigest()}").write_bytes(data)
            raise

    atheris.Setup([sys.argv[0], *options], keep)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
