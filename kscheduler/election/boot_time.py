"""A clock that goes on while the machine sleeps.

`time.monotonic` stands still while a laptop or a virtual machine is suspended; a lease runs out meanwhile. Linux has
`CLOCK_BOOTTIME`, which counts that time. On macOS, `time.monotonic` stands still during sleep, and there
`CLOCK_MONOTONIC` counts it. Elsewhere `time.monotonic` has to do: Windows' counts sleep by itself.
"""

import sys
import time
from collections.abc import Callable


def _best_clock() -> Callable[[], float]:
    number = getattr(time, "CLOCK_BOOTTIME", None)
    if number is None and sys.platform == "darwin":
        number = getattr(time, "CLOCK_MONOTONIC", None)
    if number is None:
        return time.monotonic
    try:
        time.clock_gettime(number)
    except OSError:  # a sandbox that knows no such clock
        return time.monotonic
    known: int = number
    return lambda: time.clock_gettime(known)


# Seconds since an arbitrary moment; never steps back, and counts suspension where the system can.
boot_time: Callable[[], float] = _best_clock()
