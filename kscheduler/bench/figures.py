"""The results of a scenario."""

import resource
import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

# Time and CPU of the measured phase.
#
# Wall clock and CPU of the whole process from the arrival of the first measured pod to the binding of the last. That
# includes the work of the stand-in, which is small, and not larger than the decoding that it replaces.

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


class Figures(msgspec.Struct, frozen=True):
    """The results of one run of a scenario."""

    scenario: str
    nodes: int
    pods: int
    """Measured pods."""
    bound: int
    """Measured pods that got a node: the decisions."""
    rejected: int
    """Attempts of the measured phase that ended without a node, including those of other pods."""
    decisions_per_second: float
    """Measured pods bound per second of the whole phase: arrival, queue, decision, binding's book-keeping, watch."""
    goal: int
    """The goal at the scenario's own size; 0 means none."""
    cpu_us_per_decision: float
    """CPU of the whole process in the phase, per measured pod bound."""
    p50_us: float
    """Duration of an attempt, from the pop to the reservation."""
    p99_us: float
    rss_mib: float
    scored_nodes_per_decision: float
    seconds: dict[str, float]
    """Parts of the phase: arriving, deciding, binding, watching, and all (the rest is the loop and churn)."""

    @property
    def is_complete(self) -> bool:
        """Whether every measured pod got a node."""
        return self.bound == self.pods


_WIDTH: Final = 54
HEADER: Final = (
    f"{'scenario':<{_WIDTH}}{'nodes':>8}{'pods':>8}{'bound':>8}{'rejected':>10}{'decisions/s':>13}{'goal':>8}"
    f"{'CPU us':>9}{'p50 us':>9}{'p99 us':>9}{'RSS MiB':>9}{'scored':>8}"
)


def row(figures: Figures) -> str:
    """A line under `HEADER`."""
    goal = f"{figures.goal:,}" if figures.goal else ""
    return (
        f"{figures.scenario:<{_WIDTH}}{figures.nodes:>8,}{figures.pods:>8,}{figures.bound:>8,}{figures.rejected:>10,}"
        f"{figures.decisions_per_second:>13,.0f}{goal:>8}{figures.cpu_us_per_decision:>9,.0f}{figures.p50_us:>9,.0f}"
        f"{figures.p99_us:>9,.0f}{figures.rss_mib:>9,.0f}{figures.scored_nodes_per_decision:>8,.0f}"
    )


_UPSTREAM_WIDTH: Final = 90
UPSTREAM_HEADER: Final = (
    f"{'workload':<{_UPSTREAM_WIDTH}}{'nodes':>8}{'pods':>9}{'threshold':>11}{'pods/s':>10}{'CPU us/pod':>12}"
)


def upstream_row(figures: Figures) -> str:
    """A line under `UPSTREAM_HEADER`."""
    threshold = f"{figures.goal:,}" if figures.goal else ""
    return (
        f"{figures.scenario:<{_UPSTREAM_WIDTH}}{figures.nodes:>8,}{figures.bound:>9,}{threshold:>11}"
        f"{figures.decisions_per_second:>10,.0f}{figures.cpu_us_per_decision:>12,.0f}"
    )


def as_json(figures: Iterable[Figures]) -> str:
    """All results as a JSON array."""
    return msgspec.json.format(msgspec.json.encode(list(figures)), indent=2).decode()
