"""Runs in virtual time: pods arrive, wait for room, run and end. Recordings; `sweep.generated` has the generated pods.

A recording is played as `kscheduler replay --config` plays it.
"""

from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, RESOURCE_SLICES
from kscheduler.api.quantity import Quantity, nano_value
from kscheduler.recorder.alternatives.comparing import HASHED, RecordedRun
from kscheduler.recorder.alternatives.free_run import ExternalChange, FreeRun
from kscheduler.recorder.alternatives.run_measurements import RunMeasurements
from kscheduler.recorder.replaying.recorded_configuration import changed_plugins, configured_as
from kscheduler.recorder.replaying.replay import last_run_of
from kscheduler.recorder.step_clock import MICROS
from kscheduler.sweep.cluster_samples import SampleSeries, sample_of
from kscheduler.sweep.policies import configured
from kscheduler.sweep.run_spec import UNCHANGED, NodeShaping, PlayedPolicy, RecordedWorkload

_NANO: Final = 10**9


class TimedRun:
    """A run by one policy, and samples of its cluster."""

    def __init__(self, run: FreeRun, gpu: str) -> None:
        """`gpu`: the extended resource that counts GPUs."""
        self.run = run
        self.samples = SampleSeries()
        self.arrived = 0
        self.notes: tuple[str, ...] = ()
        """What a recording lacks."""
        self.has_device_claims = False
        """Whether there are devices that claims ask for, which no figure about GPUs counts."""
        self.gangs: int | None = None
        """How many gangs arrived; `None`: they are not counted."""
        self.gangs_waiting: int | None = None
        """Of these, gangs that never had a node for each member."""
        self.gpu = gpu
        self._seen: set[str] = set()

    def apply(self, change: ExternalChange, *, is_last: bool = True) -> None:
        """Apply a change; if a sample is due, it is taken before the change. `is_last`: see `FreeRun`."""
        now = change.micros / MICROS
        if self.samples.is_due(now):
            self._sample(now)
        new = change.new
        self.has_device_claims = self.has_device_claims or change.kind is RESOURCE_SLICES
        if isinstance(new, Pod) and not new.spec.node_name and not new.is_terminal:
            served = new.spec.scheduler_name in self.run.assembly.profiles
            if served and new.metadata.uid not in self._seen:
                self._seen.add(new.metadata.uid)
                self.arrived += 1
        self.run.apply_external(change, is_last=is_last)

    def end(self) -> RunMeasurements:
        """End the run."""
        self._sample(self.run.clock.time())
        return self.run.end()

    def _sample(self, now: float) -> None:
        self.samples.add(sample_of(self.run.assembly, self.run.pods(), self.gpu), now)


# --- recordings -------------------------------------------------------------------------------------------------------


def recorded_run(workload: RecordedWorkload, policy: PlayedPolicy) -> TimedRun:
    """The whole of it. Raises `RecordingError`, `SegmentError`, `ConfigError`, `OSError`."""
    recorded = RecordedRun(last_run_of(Path(workload.path)))
    description = recorded.description
    if policy.kind == "recorded":
        decides = configured_as(description)
        notes = tuple(changed_plugins(description, decides.origins))
    else:
        tree = yaml.safe_load(description.configuration)
        names = [profile["schedulerName"] for profile in tree["profiles"]]
        decides = configured(policy, names, description.feature_gates, beside=tree)
        notes = (HASHED,) if description.is_redacted else ()
    timed = TimedRun(FreeRun(decides, recorded.beginning.kinds, recorded.victims), workload.gpu)
    shaped = _Shaped(workload.shape)
    for change in recorded.external_changes():
        timed.apply(shaped.change(change))
    timed.notes = (*recorded.notes, *notes)
    return timed


class _Shaped:
    """Changes of nodes as the node shape has them. Nodes are counted in the order in which they are first seen."""

    def __init__(self, shape: NodeShaping) -> None:
        self._shape = shape
        self._places: dict[str, int] = {}

    def change(self, change: ExternalChange) -> ExternalChange:
        if change.kind is not NODES or self._shape == UNCHANGED:
            return change
        named: Any = change.new or change.old
        place = self._places.setdefault(named.metadata.name, len(self._places))
        if not self._shape.has_node(place):
            return ExternalChange(change.micros, None)
        new: Any = change.new
        return (
            change if new is None else ExternalChange(change.micros, NODES, change.old, shaped_node(new, self._shape))
        )


def shaped_node(node: Node, shape: NodeShaping) -> Node:
    """The node with what the shape makes of its resources."""
    allocatable = dict(node.status.allocatable)
    for resource, factor in shape.scale:
        if resource in allocatable:
            allocatable[resource] = _scaled(allocatable[resource], resource, factor)
    status = msgspec.structs.replace(node.status, allocatable=allocatable)
    return msgspec.structs.replace(node, status=status)


def _scaled(quantity: Quantity, resource: str, factor: float) -> str:
    nano = int(nano_value(quantity) * Fraction(str(factor)))
    return f"{nano // 10**6}m" if resource == "cpu" else str(nano // _NANO)
