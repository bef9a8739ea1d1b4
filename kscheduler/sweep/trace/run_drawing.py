"""A run of the trace openb is drawn from the tasks of a workload as the experiment draws it; typical tasks, too."""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

import msgspec

from kscheduler.sweep.trace.trace_objects import WHOLE, Machine, Run, TraceTask

# Of the workload's tasks: how many the typical ones must cover.
COVERED: Final = 0.95
# How much arrives in a run, of what the GPUs could take, unless something else is asked for.
ARRIVING: Final = 1.3


def drawn(
    workload: str, machines: Sequence[Machine], tasks: Iterable[TraceTask], seed: int, arriving: float = ARRIVING
) -> Run:
    """A run as the experiment draws it: tasks shuffled, then removed or drawn again until they ask for `arriving` of
    the GPUs; nodes permuted. Only `Random.random` is used, so that other programs can draw the same.
    """
    chance = Random(seed).random  # noqa: S311  a seeded draw, nothing is secret
    tasks = sorted(tasks, key=lambda task: task.name)
    wanted = arriving * WHOLE * sum(machine.gpus for machine in machines)
    coming = [task for _, task in sorted([(chance(), task) for task in tasks], key=lambda drawn: drawn[0])]
    demand = sum(task.gpus * task.milli for task in coming)
    if demand > wanted:
        while demand > wanted:
            gone = coming.pop(int(chance() * len(coming)))
            demand -= gone.gpus * gone.milli
    else:
        # As published: the last draw is tested with the share of one of its GPUs.
        while demand + (again := tasks[int(chance() * len(tasks))]).milli <= wanted:
            name = f"{again.name}-tuned-{len(coming) - len(tasks)}"
            coming.append(msgspec.structs.replace(again, name=name))
            demand += again.gpus * again.milli
    permuted = [machine for _, machine in sorted([(chance(), each) for each in machines], key=lambda drawn: drawn[0])]
    return Run(workload, seed, tuple(permuted), tuple(coming))


def typical_shapes(tasks: Iterable[TraceTask]) -> list[tuple[TraceTask, int]]:
    """The most frequent shapes, which cover `COVERED` of the tasks, and their counts. They have no name and memory."""
    shapes = Counter((task.cpu, task.milli, task.gpus, task.models) for task in tasks)
    wanted, found = COVERED * shapes.total(), 0
    mix: list[tuple[TraceTask, int]] = []
    for (cpu, milli, gpus, models), count in sorted(shapes.items(), key=lambda entry: entry[::-1], reverse=True):
        if found >= wanted:
            break
        mix.append((TraceTask("", cpu, 0, gpus, milli, models), count))
        found += count
    return mix
