"""What the measured phase took.

Wall clock and CPU of the whole process from the arrival of the first measured pod to the binding of the last one. That
includes all that the stand-in does meanwhile: its share is small, and what it replaces (decoding) is not smaller.
"""

import resource
import time
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

_MEBIBYTE: Final = 2**20


@dataclass(slots=True)
class Meter:
    """Counts while pods are measured, in seconds."""

    attempts: "array[float]" = field(default_factory=lambda: array("d"))
    """From the pop to the reservation, or to the failure's being dealt with: each attempt of the phase."""
    bound: int = 0
    rejected: int = 0
    scored_nodes: int = 0
    arriving: float = 0.0
    binding: float = 0.0
    watching: float = 0.0
    """Handlers of what the watch shows meanwhile."""
    wall: float = 0.0
    cpu: float = 0.0
    _began: tuple[float, float] = (0.0, 0.0)

    def start(self) -> None:
        """The phase begins."""
        self._began = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """It is over."""
        wall, cpu = self._began
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu

    def quantile(self, share: float) -> float:
        """Seconds of an attempt that so large a share does not exceed."""
        return float(np.quantile(np.asarray(self.attempts), share)) if self.attempts else 0.0


def resident_mebibytes() -> float:
    """What the process holds of the machine's memory now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / _MEBIBYTE
