"""A bell that any thread may ring, and that a thread which waits for a descriptor hears."""

import os


class Bell:
    """Rung any number of times before it is heard, it is heard once."""

    def __init__(self) -> None:
        self._heard, self._rung = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._rung, False)

    def fileno(self) -> int:
        """Give the descriptor that is readable once the bell was rung."""
        return self._heard

    def ring(self) -> None:
        """Wake whoever waits."""
        try:
            os.write(self._rung, b"!")
        except BlockingIOError:
            return  # full of rings already

    def hush(self) -> None:
        """Forget the rings so far."""
        try:
            while os.read(self._heard, 4096):
                pass
        except BlockingIOError:
            return
