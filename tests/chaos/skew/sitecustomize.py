"""Sets the clock of one process ahead or behind; Python imports this at start where it is on the path."""

import os
import time

_AHEAD = float(os.environ.get("CHAOS_CLOCK_AHEAD", "0"))
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + _AHEAD
time.time_ns = lambda: _time_ns() + int(_AHEAD * 1e9)
