"""A run of `kscheduler bench` as a file: on which machine, and every round's figures."""

import os
import platform
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from kscheduler.bench.apart import play_apart
from kscheduler.bench.figures import Figures
from kscheduler.bench.scenario import BenchmarkScenario

_REFERENCE_ROUNDS = 15


class Machine(msgspec.Struct, frozen=True):
    """What figures depend on, and nothing that tells whose machine it is."""

    cpu: str
    cores: int
    memory_gib: int
    python: str
    numpy: str
    load: float
    """Processes that wanted a core in the minute before; above the cores, figures are too high."""
    reference_us: float
    """CPU of a fixed piece of Python and numpy, as a decision has: how fast the machine is just now."""


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """All figures of a run; a scenario that was played in several rounds is there as often."""

    machine: Machine
    figures: tuple[Figures, ...]
    raised: dict[str, tuple[str, ...]] = {}
    """Of a baseline, by scenario: why it has become worse, each time."""

    def rounds(self) -> dict[str, list[Figures]]:
        """By scenario."""
        rounds: dict[str, list[Figures]] = {}
        for one in self.figures:
            rounds.setdefault(one.scenario, []).append(one)
        return rounds


def play_rounds(scenarios: Sequence[BenchmarkScenario], rounds: int) -> Iterator[Run]:
    """Play all of them, one round after the other: what disturbs the machine for a minute hits each scenario once.

    Yields the run so far after each scenario: one that is interrupted is not lost.
    """
    so_far = Run(machine(), ())
    for _ in range(rounds):
        for one in play_apart(scenarios):
            so_far = Run(so_far.machine, (*so_far.figures, one))
            yield so_far


def read(path: Path) -> Run:
    """A run that was written. Raises `SystemExit` with what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError) as error:
        raise SystemExit(f"{path}: {error}") from None


def write(path: Path, run: Run) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


def median(figures: Iterable[Figures], field: str) -> float:
    """Of a figure over rounds."""
    return statistics.median(float(getattr(one, field)) for one in figures)


def machine() -> Machine:
    """This one, now."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        memory_gib=round(memory / 2**30),
        python=platform.python_version(),
        numpy=np.__version__,
        load=round(os.getloadavg()[0], 1),
        reference_us=round(_reference_us(), 1),
    )


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _reference_us() -> float:
    """CPU microseconds, the best of some rounds."""
    taken = []
    for _ in range(_REFERENCE_ROUNDS):
        began = time.process_time()
        reference_work()
        taken.append(time.process_time() - began)
    return min(taken) * 1e6


def reference_work() -> int:
    """About a hundred decisions' worth: small arrays, small objects, dictionaries."""
    column = np.arange(5000, dtype=np.int64)
    found: dict[str, int] = {}
    for number in range(2000):
        found[f"node-{number}"] = int(((column * 100 + number) // 7 > number).argmax())
    return len(found)
