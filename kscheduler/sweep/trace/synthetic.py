"""Nodes and tasks like those of openb, without its files: drawn from the figures that are published about it.

Node models are those of the trace, in proportion. Of the tasks, kind (CPU only, a share, one GPU, several) and size of
the share have the trace's frequencies. CPU and memory come from quantiles of the kind, both from the same place, as
they go together in the trace. Names, times, and lists of models that a task accepts are not imitated.
"""

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from kscheduler.sweep.trace.run_drawing import DEFAULT_ARRIVAL, drawn
from kscheduler.sweep.trace.trace_objects import WHOLE, Machine, Run, TraceTask

WORKLOAD: Final = "synthetic"
# By count: CPU in thousandths, memory in MiB, GPUs, model.
_MACHINES: Final = (
    (549, 96_000, 393_216, 8, "G2"),
    (387, 104_000, 524_288, 2, "T4"),
    (107, 16_000, 122_880, 2, "P100"),
    (39, 128_000, 786_432, 8, "G3"),
    (28, 32_000, 131_072, 4, "V100M16"),
    (22, 64_000, 262_144, 2, "P100"),
    (21, 96_000, 786_432, 8, "V100M32"),
    (19, 8_000, 32_768, 1, "V100M16"),
    (17, 96_000, 393_216, 4, "T4"),
    (9, 48_000, 376_832, 4, "V100M32"),
    (7, 64_000, 262_144, 8, "V100M16"),
)
# Shares of a GPU in thousandths, and how many of the trace's tasks ask for them.
_SHARES: Final = (
    (810, 1078), (470, 750), (320, 328), (650, 253), (230, 140), (460, 128), (590, 75), (160, 74), (550, 72), (220, 62),
    (370, 47), (110, 24), (480, 19),
)  # fmt: skip
_SEVERAL: Final = ((8, 44), (2, 16), (4, 15))


class _Kind(NamedTuple):
    """Tasks that are alike. `sizes`: CPU and memory, each of as many hundredths of the tasks."""

    tasks: int
    sizes: tuple[tuple[int, int, int], ...]


_CPU_ONLY: Final = _Kind(1088, ((25, 8_000, 30_517), (50, 12_500, 51_200), (25, 32_000, 57_344)))
_SHARE: Final = _Kind(3078, ((40, 3_152, 5_600), (25, 4_000, 15_258), (25, 8_000, 30_517), (10, 11_908, 47_104)))
_ONE: Final = _Kind(
    3911,
    (
        (20, 3_152, 5_600),
        (20, 9_810, 24_576),
        (30, 11_400, 48_128),
        (20, 12_000, 49_152),
        (8, 16_000, 64_512),
        (2, 24_200, 93_184),
    ),
)
_TASKS: Final = 8152


def synthetic_run(seed: int, scale: float = 1.0, arrival: float = DEFAULT_ARRIVAL) -> tuple[Run, list[TraceTask]]:
    """A run, and the tasks of which it is drawn. `scale`: how many nodes and tasks there are, of those of the trace."""
    tasks = list(_tasks(Random(seed), max(1, round(_TASKS * scale))))  # noqa: S311  a seeded draw, nothing is secret
    return drawn(WORKLOAD, list(_machines(scale)), tasks, seed, arrival), tasks


def _machines(scale: float) -> Iterator[Machine]:
    for count, cpu, memory, gpus, model in _MACHINES:
        for number in range(round(count * scale) or int(model == "G2")):
            yield Machine(f"{model.lower()}-{cpu // 1000}-{number:04}", cpu, memory, gpus, model)


def _tasks(rng: Random, count: int) -> Iterator[TraceTask]:
    kinds = (_CPU_ONLY, _SHARE, _ONE, None)
    weights = [kind.tasks if kind is not None else sum(many for _, many in _SEVERAL) for kind in kinds]
    for number in range(count):
        name = f"task-{number:05}"
        kind = rng.choices(kinds, weights)[0]
        if kind is None:
            gpus = _picked(rng, _SEVERAL)
            yield TraceTask(name, 11_000 * gpus, 48_128 * gpus, gpus, WHOLE, "")
            continue
        _, cpu, memory = rng.choices(kind.sizes, [each[0] for each in kind.sizes])[0]
        milli = _picked(rng, _SHARES) if kind is _SHARE else WHOLE
        yield TraceTask(name, cpu, memory, int(kind is not _CPU_ONLY), 0 if kind is _CPU_ONLY else milli, "")


def _picked(rng: Random, weighted: tuple[tuple[int, int], ...]) -> int:
    return rng.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]
