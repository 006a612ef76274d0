"""Append-only records kept outside anybody's database, for auditors."""

import json
import os
import tempfile
import threading
import time
from array import array
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def rfc3339(seconds: float) -> str:
    """The UTC time of `seconds` since the epoch with microseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


class Ledger:
    """Rows with a rising `seq`, each written to the file before `append` returns.

    Only the offset of each row stays in memory. An existing file is continued.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            self._fd, name = tempfile.mkstemp(prefix="sandbox-ledger-")
            Path(name).unlink()
        else:
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._lock = threading.Lock()
        self._ends = array("Q", [0])
        self._index_existing()

    def _index_existing(self) -> None:
        size = os.fstat(self._fd).st_size
        position, tail = 0, b""
        while position < size:
            chunk = os.pread(self._fd, 1 << 20, position)
            start = 0
            while (newline := chunk.find(b"\n", start)) >= 0:
                start = newline + 1
                self._ends.append(position + start)
            tail = chunk[start:]
            position += len(chunk)
        os.lseek(self._fd, 0, os.SEEK_END)
        if tail:
            os.write(self._fd, b"\n")
            self._ends.append(size + 1)

    def append(self, row: dict[str, Any]) -> int:
        """Write one row stamped with seq and time; return its seq."""
        with self._lock:
            at = time.time()
            seq = len(self._ends)
            line = json.dumps(
                {"seq": seq, "at": at, "time": rfc3339(at), **row}, separators=(",", ":")
            ).encode()
            self._write(line + b"\n")
            self._ends.append(self._ends[-1] + len(line) + 1)
            return seq

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    def read(self, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """The rows with a seq above `after`, oldest first, at most `limit`."""
        with self._lock:
            last = len(self._ends) - 1
            first = min(max(after, 0), last)
            until = last if limit is None else min(first + limit, last)
            start, end = self._ends[first], self._ends[until]
            lines = os.pread(self._fd, end - start, start) if end > start else b""
        rows: list[dict[str, Any]] = []
        for line in lines.splitlines():
            # A process killed while writing leaves half a line, sealed at the next start.
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
        return rows

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
