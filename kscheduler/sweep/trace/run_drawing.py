"""Draws a run of the trace openb from the tasks of a workload, as the experiment does, and its typical tasks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

import msgspec

from kscheduler.sweep.trace.trace_objects import WHOLE, Machine, Run, TraceTask

# Of the workload's tasks: how many the typical ones must cover.
COVERED: Final = 0.95
# How much arrives in a run, of what the GPUs could take, unless something else is asked for.
DEFAULT_ARRIVAL: Final = 1.3


def drawn(
    workload: str, machines: Sequence[Machine], tasks: Iterable[TraceTask], seed: int, arrival: float = DEFAULT_ARRIVAL
) -> Run:
    """A run as the experiment draws it: tasks shuffled, then removed or drawn again until they ask for `arrival` of
    the GPUs; nodes permuted. Only `Random.random` is used, so that other programs can draw the same.
    """
    random = Random(seed).random  # noqa: S311  a seeded draw, nothing is secret
    tasks = sorted(tasks, key=lambda task: task.name)
    wanted = arrival * WHOLE * sum(machine.gpus for machine in machines)
    arrivals = [task for _, task in sorted([(random(), task) for task in tasks], key=lambda drawn: drawn[0])]
    demand = sum(task.gpus * task.milli for task in arrivals)
    if demand > wanted:
        while demand > wanted:
            gone = arrivals.pop(int(random() * len(arrivals)))
            demand -= gone.gpus * gone.milli
    else:
        # As published: the last draw is tested with the share of one of its GPUs.
        while demand + (again := tasks[int(random() * len(tasks))]).milli <= wanted:
            name = f"{again.name}-tuned-{len(arrivals) - len(tasks)}"
            arrivals.append(msgspec.structs.replace(again, name=name))
            demand += again.gpus * again.milli
    permuted = [machine for _, machine in sorted([(random(), each) for each in machines], key=lambda drawn: drawn[0])]
    return Run(workload, seed, tuple(permuted), tuple(arrivals))


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
