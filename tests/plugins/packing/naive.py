"""The openb experiment as its README says it, one node and one task after the other: no columns, nothing kept."""

from dataclasses import dataclass, field
from math import exp, floor
from random import Random
from typing import Any

from kscheduler.sweep.trace.trace_objects import Machine, Run, TraceTask

MODELS = ("A10", "T4")
CPU_LARGEST, GPU_LARGEST = 128_000, 8_000


@dataclass
class NaiveNode:
    """A node with what is left."""

    machine: Machine
    cpu: int
    memory: int
    free: list[int] = field(default_factory=list)

    def has_room(self, task: TraceTask) -> bool:
        if self.cpu < task.cpu or self.memory < task.memory:
            return False
        if task.models and self.machine.model not in task.models.split("|"):
            return False
        return sum(left >= task.milli for left in self.free) >= task.gpus

    def fragments(self, types: list[tuple[TraceTask, int]]) -> float:
        """F of the README, in thousandths."""
        idle, total = sum(self.free), sum(count for _, count in types)
        lost = 0
        for task, count in types:
            accepted = not task.models or self.machine.model in task.models.split("|")
            enough = sum(left >= task.milli for left in self.free) >= task.gpus
            runs = bool(task.gpus) and accepted and self.cpu >= task.cpu and enough
            lost += count * (sum(left for left in self.free if left < task.milli) if runs else idle)
        return lost / total

    def stranded(self, types: list[tuple[TraceTask, int]]) -> float:
        """Idle thousandths beyond what the free CPU serves in the mix's ratio."""
        cpu = sum(task.cpu * count for task, count in types)
        gpu = sum(task.gpus * task.milli * count for task, count in types)
        return max(0.0, sum(self.free) - self.cpu / (cpu / gpu))

    def choices(self, task: TraceTask) -> list[list[int]]:
        """The devices that may be given to the task: each for a share, otherwise the first free ones."""
        fitting = [device for device, left in enumerate(self.free) if left >= task.milli]
        return [[device] for device in fitting] if 0 < task.milli < 1000 else [fitting[: task.gpus]]

    def take(self, task: TraceTask, devices: list[int], sign: int = 1) -> None:
        self.cpu -= sign * task.cpu
        self.memory -= sign * task.memory
        for device in devices:
            self.free[device] -= sign * task.milli


def tightest(node: NaiveNode, task: TraceTask) -> list[int]:
    return min(node.choices(task), key=lambda devices: [node.free[device] for device in devices])


def scored(policy: str, node: NaiveNode, task: TraceTask, types: list[tuple[TraceTask, int]]) -> tuple[int, list[int]]:
    """The points of a node, and the devices."""
    if policy in ("FGD", "FragmentationAware"):
        found = []
        for devices in node.choices(task):
            before = node.fragments(types), node.stranded(types)
            node.take(task, devices)
            grown = node.fragments(types) - before[0]
            if policy == "FragmentationAware":
                grown += node.stranded(types) - before[1]
            node.take(task, devices, -1)
            found.append((floor(100 / (1 + exp(grown / 1000) + 0.0)) if abs(grown) > 1e-9 else 50, devices))
        best = max(points for points, _ in found)
        devices = next(devices for points, devices in found if points == best)
        return (best if policy == "FGD" else 101 * best + best_fit(node, task)), devices
    points = {"BestFit": best_fit, "DotProd": dot_prod, "GpuPacking": gpu_packing}[policy](node, task)
    return points, tightest(node, task)


def best_fit(node: NaiveNode, task: TraceTask) -> int:
    left = (node.cpu - task.cpu) / CPU_LARGEST, (sum(node.free) - task.gpus * task.milli) / GPU_LARGEST
    return floor(100 * (1 - 0.5 * (left[0] + left[1])))


def dot_prod(node: NaiveNode, task: TraceTask) -> int:
    gpu = task.gpus * task.milli
    return floor(100 * (1 - 0.5 * (node.cpu * task.cpu / CPU_LARGEST**2 + sum(node.free) * gpu / GPU_LARGEST**2)))


def gpu_packing(node: NaiveNode, task: TraceTask) -> int:
    if not task.gpus:
        return 0
    if task.milli < 1000:
        shared = [left for left in node.free if task.milli <= left < 1000]
        if shared:
            return 100 - floor(min(shared) / 10 / 10)
    count = len(node.free)
    return max(33 - count, count) if min(node.free) == 1000 else max(50 - task.gpus, 33)


def play(run: Run, policy: str, types: list[tuple[TraceTask, int]]) -> list[tuple[str | None, list[int]]]:
    """Node and devices of each task."""
    nodes = [NaiveNode(machine, machine.cpu, machine.memory, [1000] * machine.gpus) for machine in run.nodes]
    placements: list[tuple[str | None, list[int]]] = []
    for task in run.tasks:
        rated = [(*scored(policy, node, task, types), node) for node in nodes if node.has_room(task)]
        if not rated:
            placements.append((None, []))
            continue
        best = max(points for points, _, _ in rated)
        _, devices, node = next(each for each in rated if each[0] == best)
        node.take(task, devices)
        placements.append((node.machine.name, devices))
    return placements


def random_run(seed: int, nodes: int = 12, tasks: int = 120) -> Run:
    """Nodes and tasks in sizes of the trace, more tasks than fit."""
    chance = Random(seed)
    machines = [
        Machine(f"m{number}", chance.choice((32_000, 64_000, 96_000)), 262_144, chance.choice((1, 2, 4, 8)), model)
        for number, model in enumerate(chance.choices(MODELS, k=nodes))
    ]
    arrivals: list[Any] = []
    for number in range(tasks):
        gpus = chance.choice((0, 1, 1, 1, 1, 2, 4))
        milli = chance.choice((230, 320, 470, 650, 810, 1000)) if gpus == 1 else 1000 * bool(gpus)
        models = chance.choice(("", "", "", "A10", "A10|T4", "T4")) if gpus else ""
        cpu = chance.choice((1_000, 4_000, 8_000, 11_400))
        arrivals.append(TraceTask(f"t{number}", cpu, 4_096, gpus, milli, models))
    return Run("random", seed, tuple(machines), tuple(arrivals))
