"""Idle capacity of the devices of a trace's nodes, and how much of it the workload's typical tasks cannot use.

A task type can use none of a node's idle devices if it cannot run there (CPU, model, too few devices with enough left),
else all but those on which too little is left for it. *Fragmented*, as the FGD paper measures it, is the mean over all
types, by their number; those that ask for no device use none. *Unusable* is what no type that asks for one can use.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kscheduler.sweep.trace.playing import TaskPlacement
from kscheduler.sweep.trace.trace_objects import WHOLE, Run, TraceTask

_ABSENT: Final = -1


class IdleDevices(NamedTuple):
    """Thousandths of devices."""

    idle: int
    unusable: int
    fragmented: float


def idle_devices(run: Run, placements: Sequence[TaskPlacement], mix: Sequence[tuple[TraceTask, int]]) -> IdleDevices:
    """After the last task. `mix`: the typical tasks, with their counts."""
    rows = {f"{rank:04}-{machine.name}": rank for rank, machine in enumerate(run.nodes)}
    most = max((machine.gpus for machine in run.nodes), default=0)
    cpu = np.array([machine.cpu for machine in run.nodes], dtype=np.int64)
    free = np.full((len(run.nodes), most), _ABSENT, dtype=np.int64)  # [row, device]
    for rank, machine in enumerate(run.nodes):
        free[rank, : machine.gpus] = WHOLE
    for task, placement in zip(run.tasks, placements, strict=True):
        if placement.node:
            row = rows[placement.node]
            cpu[row] -= task.cpu
            for device in filter(None, placement.devices.split(",")):
                free[row, int(device)] -= task.milli
    idle = free.clip(0).sum(axis=1)
    models = np.array([machine.model for machine in run.nodes])
    unusable, fragmented = idle.copy(), np.zeros(len(run.nodes))
    for shape, count in mix:
        lost = idle
        if shape.gpus:
            has_room = free >= shape.milli
            runs = (cpu >= shape.cpu) & (has_room.sum(axis=1) >= shape.gpus)
            if shape.models:
                runs &= np.isin(models, shape.models.split("|"))
            lost = np.where(runs, np.where(has_room, 0, free.clip(0)).sum(axis=1), idle)
            unusable = np.minimum(unusable, lost)
        fragmented += lost * count
    total = sum(count for _, count in mix) or 1
    return IdleDevices(int(idle.sum()), int(unusable.sum()), float(fragmented.sum()) / total)
