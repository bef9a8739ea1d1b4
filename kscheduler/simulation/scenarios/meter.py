"""Time and CPU of the measured phase.

Wall clock and CPU of the whole process from the arrival of the first measured pod to the binding of the last. That
includes the work of the stand-in, which is small, and not larger than the decoding that it replaces.
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
    """Duration of each attempt, from the pop to the reservation or the end of the failure's handling."""
    bound: int = 0
    rejected: int = 0
    scored_nodes: int = 0
    arriving: float = 0.0
    binding: float = 0.0
    watching: float = 0.0
    """Seconds in handlers of watch events."""
    wall: float = 0.0
    cpu: float = 0.0
    _began: tuple[float, float] = (0.0, 0.0)

    def start(self) -> None:
        """Begin the phase."""
        self._began = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """End the phase."""
        wall, cpu = self._began
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu

    def quantile(self, share: float) -> float:
        """The quantile of the attempts' durations, in seconds."""
        return float(np.quantile(np.asarray(self.attempts), share)) if self.attempts else 0.0


def resident_mebibytes() -> float:
    """The resident memory of the process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / _MEBIBYTE
