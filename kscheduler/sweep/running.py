"""Executes a run, which is a function of its spec and of nothing else."""

import hashlib
import os
import platform
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.aio.synchronous import run_synchronously
from kscheduler.assembly import Assembly
from kscheduler.recorder.alternatives.run_measurements import RunMeasurements, quantile
from kscheduler.recorder.replaying.replay import last_run_of
from kscheduler.state.cache import Cache
from kscheduler.sweep.cluster_samples import sample_of
from kscheduler.sweep.generated import generated_run
from kscheduler.sweep.plugin_sources import changed_module
from kscheduler.sweep.policies import configured
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import (
    UNCHANGED,
    NodeShaping,
    RecordedWorkload,
    RunSpec,
    SyntheticWorkload,
    TraceWorkload,
    code_version,
    digest_of,
)
from kscheduler.sweep.timed import TimedRun, recorded_run
from kscheduler.sweep.trace.idle_devices import idle_devices
from kscheduler.sweep.trace.openb import drawn_run, node_file, task_file, tasks_of
from kscheduler.sweep.trace.playing import TracePlayer, curve
from kscheduler.sweep.trace.profiles import SCHEDULER, trace_policy
from kscheduler.sweep.trace.run_drawing import typical_shapes
from kscheduler.sweep.trace.synthetic import synthetic_run
from kscheduler.sweep.trace.trace_objects import GPU, WHOLE, Machine, Run, TraceTask, as_typical_pods

_SHOWN: Final = (95, 100, 130)
# A run ends with the task that would exceed the demand: its last point may be this much below.
_TOLERANCE_PERCENT: Final = 5
_MAX_ERROR: Final = 1000
_MAX_REASON: Final = 300


class FailedPluginError(RuntimeError):
    """A plugin failed, so the placements are not those of the policy."""


class StaleDataError(ValueError):
    """The data or the code differs from that of the spec."""


def run(spec: RunSpec) -> SweepRow:
    """Execute a run and return its row. If it fails, `error` of the row says why."""
    began, began_cpu = time.perf_counter(), time.process_time()
    row = empty_row(spec)
    try:
        values = _row_values(spec)
    except Exception as failure:  # noqa: BLE001  a run that fails must not end the others
        row = msgspec.structs.replace(row, error=f"{type(failure).__name__}: {failure}"[:_MAX_ERROR])
    else:
        row = msgspec.structs.replace(row, **values)
    return msgspec.structs.replace(
        row,
        run_seconds=time.perf_counter() - began,
        cpu_seconds=time.process_time() - began_cpu,
        worker=f"{platform.node()}:{os.getpid()}",
    )


def empty_row(spec: RunSpec, error: str = "") -> SweepRow:
    """The row of a run that has no result."""
    workload = spec.workload
    return SweepRow(
        spec.key,
        spec.policy.name,
        workload.name,
        workload.shape.name,
        spec.seed,
        spec.version,
        error[:_MAX_ERROR],
    )


def _row_values(spec: RunSpec) -> dict[str, Any]:
    if spec.version != code_version():
        raise StaleDataError(
            f"the run is one of kscheduler {spec.version}, and this process has {code_version()}: "
            "install the same kscheduler here, or start the command again if its source was changed"
        )
    if changed := changed_module((*spec.policy.plugins, *spec.policy.installed)):
        raise StaleDataError(
            f"module {changed} is not the one that the sweep began with: install the same here, or start the command "
            "again if its source was changed"
        )
    workload = spec.workload
    if isinstance(workload, TraceWorkload | SyntheticWorkload):
        return _trace_values(spec, workload)
    if isinstance(workload, RecordedWorkload):
        if recording_digest(Path(workload.path)) != workload.digest:
            raise StaleDataError(
                f"{workload.path}: the recording is not the one that the sweep began with: if a scheduler still writes "
                "into it, copy it and name the copy in the sweep file; if it was replaced, start the command again"
            )
        return _timed_values(recorded_run(workload, spec.policy))
    return _timed_values(generated_run(workload, spec.policy, spec.seed))


def recording_digest(path: Path) -> str:
    """Of the segments of the run that is played. Raises `RecordingError`, `OSError`."""
    return digest_of([segment.path for segment in last_run_of(path)])


def trace_digest(directory: Path, workload: str) -> str:
    """Of the files of a workload. Raises `TraceError`, `OSError`."""
    return digest_of([node_file(directory), task_file(directory, workload)])


# --- traces -----------------------------------------------------------------------------------------------------------


def _trace_values(spec: RunSpec, workload: TraceWorkload | SyntheticWorkload) -> dict[str, Any]:
    run, tasks = _drawn(workload, spec.seed)
    run = msgspec.structs.replace(run, nodes=_shaped(run.nodes, workload.shape))
    if not any(machine.gpus for machine in run.nodes):
        raise ValueError(f"node shape {workload.shape.name} leaves no GPU: figures of a trace are shares of its GPUs")
    mix = typical_shapes(tasks)
    if spec.policy.kind == "trace":
        decides = trace_policy(spec.policy.configuration, mix, spec.seed)
    else:
        decides = configured(spec.policy, (SCHEDULER,), typical_pods=as_typical_pods(mix), has_shared_devices=True)
    player = TracePlayer(run, decides)
    placements = run_synchronously(player.placements())
    _check_plugins(player.assembly)
    points = dict(curve(run, placements))
    idle = idle_devices(run, placements, mix)
    # What did not fit is gone from the cluster, but belongs to the pods that are typical.
    waiting = [
        task.as_pod(number, SCHEDULER)
        for number, (task, placement) in enumerate(zip(run.tasks, placements, strict=True))
        if not placement.node
    ]
    sample = sample_of(player.assembly, [*player.cluster.pods(), *waiting], GPU)
    total = WHOLE * sum(machine.gpus for machine in run.nodes)
    return {
        **msgspec.structs.asdict(sample),
        "pods": len(run.tasks),
        "placed": len(run.tasks) - len(waiting),
        "waiting": len(waiting),
        "evicted": 0,
        "nodes": len(run.nodes),
        "gpu_allocated": 100 * (total - idle.idle) / total,
        **{f"gpu_allocated_{percent}": _point_at(points, percent) for percent in _SHOWN},
        "gpu_unusable": 100 * idle.unusable / idle.idle if idle.idle else 0.0,
        "gpus_free": idle.idle / WHOLE,
        "gpus_unusable": idle.unusable / WHOLE,
        "gpu_fragmented": 100 * idle.fragmented / idle.idle if idle.idle else 0.0,
        "placements": _digest(f"{each.task} {each.node} {each.devices}" for each in placements),
    }


def _point_at(points: dict[int, float], percent: int) -> float | None:
    """The point at this percent, or on few nodes, of which each is several percent, the last one before it."""
    before = [each for each in points if each <= percent]
    return points[max(before)] if before and max(points) >= percent - _TOLERANCE_PERCENT else None


def _drawn(workload: TraceWorkload | SyntheticWorkload, seed: int) -> tuple[Run, list[TraceTask]]:
    if isinstance(workload, SyntheticWorkload):
        return synthetic_run(seed, workload.scale, workload.arrival)
    directory = Path(workload.directory)
    if trace_digest(directory, workload.list) != workload.digest:
        raise StaleDataError(
            f"{directory}: the trace is not the one that the sweep began with: start the command again, "
            "or put the same files there if this is another machine"
        )
    run = drawn_run(directory, workload.list, seed, workload.arrival)
    return run, tasks_of(directory, workload.list)


def _shaped(nodes: tuple[Machine, ...], shape: NodeShaping) -> tuple[Machine, ...]:
    """The same tasks come, whatever the shape."""
    if shape == UNCHANGED:
        return nodes
    factors = dict(shape.scale)
    return tuple(
        msgspec.structs.replace(
            machine,
            cpu=int(machine.cpu * factors.get("cpu", 1.0)),
            memory=int(machine.memory * factors.get("memory", 1.0)),
            gpus=int(machine.gpus * factors.get(GPU, 1.0)),
        )
        for place, machine in enumerate(nodes)
        if shape.has_node(place)
    )


# --- workloads in virtual time ---------------------------------------------------------------------------------------


def _timed_values(timed: TimedRun) -> dict[str, Any]:
    measured = timed.end()
    _check_plugins(timed.run.assembly)
    waits = measured.queue_seconds
    cache: Cache = timed.run.assembly.cache
    return {
        **timed.samples.mean(),
        "pods": timed.arrived,
        "placed": len(measured.placed),
        "waiting": len(measured.pending),
        "gangs": timed.gangs,
        "gangs_waiting": timed.gangs_waiting,
        "evicted": len(measured.evicted),
        "nodes": len(cache.nodes.rows()),
        "queue_seconds_mean": sum(waits) / len(waits) if waits else 0.0,
        "queue_seconds_p99": quantile(waits, 0.99),
        "notes": "; ".join((*timed.notes, *_notes(timed, measured))),
        "placements": _digest(f"{uid} {placement.node}" for uid, placement in sorted(measured.placed.items())),
    }


def _notes(timed: TimedRun, measured: RunMeasurements) -> Iterator[str]:
    if timed.has_device_claims:
        yield f"the gpu columns count {timed.gpu} of nodes: devices that claims ask for are not in them"
    if measured.pending:
        counts = Counter(measured.pending.values())
        reason = min(counts, key=lambda reason: (-counts[reason], reason))
        yield f"most frequent reason of waiting: {reason[:_MAX_REASON]}"


def _check_plugins(assembly: Assembly) -> None:
    """Raises `FailedPluginError`: also a call that exceeded its time budget on a busy machine is a failure."""
    failures = assembly.ports.observations.plugin_failures
    calls = [f"{plugin} ({point}) {count:g} times" for (plugin, point), count in sorted(failures.items()) if count]
    if calls:
        raise FailedPluginError(f"plugins failed: {', '.join(calls)}")


def _digest(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()[:32]
