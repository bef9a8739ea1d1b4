"""The demo's result: computed from the API server's objects with the simulation's own arithmetic, shown as a table.

The scheduler's reasons are shown but not trusted: whether a pending pod could have been bound is found by trying
every node, and whether a node is overcommitted by summing up its pods.
"""

import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TextIO

from kscheduler.api.core import Node, Pod
from kscheduler.api.machinery.resources import PODS
from kscheduler.api.well_known import ZONE
from kscheduler.embedded.hollow.node_capacity import NodeCapacity, fits, needs_other_rules
from kscheduler.embedded.objects.store import Change, ChangeType, ObjectStore
from kscheduler.telemetry.logs.clean import one_line

# Pods that nobody will schedule are told as they come: who tries a policy forgets its schedulerName first of all.

# Scheduler names that are told, once each.
MAX_NAMES: Final = 100


def tell(line: str, out: TextIO) -> None:
    """Write a line to a terminal. It may be gone (`kscheduler cluster | head`), which does not end the cluster."""
    with suppress(OSError):
        out.write(f"{line}\n")
        out.flush()


@contextmanager
def telling_unserved(store: ObjectStore, served: Collection[str], out: TextIO) -> Iterator[None]:
    """Write a line for each scheduler name that a pending pod asks for and that is not served; without any, nothing."""
    reported: set[str] = set()

    def look_at(change: Change) -> None:
        if change.type is not ChangeType.ADDED:
            return
        spec, metadata = change.record.value["spec"], change.record.value["metadata"]
        name = spec.get("schedulerName", "")
        if spec.get("nodeName") or name in served or name in reported or len(reported) >= MAX_NAMES:
            return
        reported.add(name)
        pod = f"{metadata['namespace']}/{metadata['name']}"
        line = one_line(f"pod {pod} waits for schedulerName {name}")
        tell(f"{line}, which no profile here serves: {', '.join(served)} are served", out)

    if not served:
        yield
        return
    store.subscribe(PODS.collection, look_at)
    try:
        yield
    finally:
        store.unsubscribe(PODS.collection, look_at)


_SHOWN_NODES = 3
_SHOWN_NAMES = 5
_TEXT_WIDTH = 105


@dataclass(frozen=True, slots=True)
class PendingGroup:
    """Pods that wait for the same reason."""

    reason: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """The load of a node, as shares of its allocatable."""

    name: str
    instance_type: str
    zone: str
    pods: int
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The result of a run."""

    nodes: int
    pods: int
    bound: int
    finished: int
    missed: tuple[str, ...]
    """Pods that are pending although a node has room for them."""
    pending: tuple[PendingGroup, ...]
    rejected: tuple[str, ...]
    """Pods that failed on their node: `pod on node`."""
    overcommitted: tuple[str, ...]
    """Overcommitted nodes: `node: resource used of allocatable`."""
    loads: tuple[NodeLoad, ...]
    """All nodes, fullest first (by the larger share of cpu and memory)."""
    latencies: tuple[float, ...]
    """Seconds from creation to binding, sorted."""
    seconds: float
    """From the first creation to the last binding."""

    @property
    def is_good(self) -> bool:
        """Whether all pods that could be bound are bound, no node is overcommitted and no pod was rejected."""
        return not (self.missed or self.overcommitted or self.rejected)

    def percentile(self, share: float) -> float:
        """The quantile of the bound pods' latencies; 0 if no pod is bound."""
        if not self.latencies:
            return 0.0
        return self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))]


def could_ever_be_bound(pods: Iterable[Pod], nodes: Iterable[Node]) -> set[str]:
    """Keys of the pods that would fit on an empty node, without pods whose place depends on other pods."""
    rooms = [NodeCapacity(node) for node in nodes]
    return {pod.key for pod in pods if _is_ours_to_judge(pod) and any(fits(pod, room) for room in rooms)}


def judge(nodes: Sequence[Node], pods: Sequence[Pod], latencies: Mapping[str, float], seconds: float) -> DemoOutcome:
    """Evaluate the API server's objects. `latencies`: by key, of the pods that were seen being bound."""
    rooms = {node.metadata.name: NodeCapacity(node) for node in nodes}
    for pod in pods:
        room = rooms.get(pod.spec.node_name)
        if room is not None and not pod.is_terminal:
            room.add(pod)
    waiting = [pod for pod in pods if not pod.spec.node_name]
    return DemoOutcome(
        nodes=len(nodes),
        pods=len(pods),
        bound=len(pods) - len(waiting),
        finished=sum(pod.status.phase == "Succeeded" for pod in pods),
        missed=tuple(_missed(waiting, list(rooms.values()))),
        pending=tuple(_pending(waiting)),
        rejected=tuple(f"{pod.key} on {pod.spec.node_name}" for pod in pods if pod.status.phase == "Failed"),
        overcommitted=tuple(_overcommitted(rooms.values())),
        loads=tuple(sorted(map(_load, rooms.values()), key=lambda load: -max(load.cpu, load.memory))),
        latencies=tuple(sorted(latencies.values())),
        seconds=seconds,
    )


def _is_ours_to_judge(pod: Pod) -> bool:
    held_back = pod.spec.scheduling_gates or pod.metadata.deletion_timestamp
    return not held_back and not needs_other_rules(pod)


def _missed(waiting: Iterable[Pod], rooms: Sequence[NodeCapacity]) -> Iterator[str]:
    for pod in filter(_is_ours_to_judge, waiting):
        room = next((room for room in rooms if fits(pod, room)), None)
        if room is not None:
            yield f"{pod.key} fits on {room.node.metadata.name}"


def _overcommitted(rooms: Iterable[NodeCapacity]) -> Iterator[str]:
    for room in rooms:
        for lack in room.overcommitted():
            yield f"{room.node.metadata.name}: {lack.resource} {lack.used} of {lack.allocatable}"


def _pending(waiting: Iterable[Pod]) -> Iterator[PendingGroup]:
    by_reason = sorted((pending_reason(pod), pod.key) for pod in waiting)
    groups = [
        PendingGroup(reason, tuple(key for _, key in group))
        for reason, group in groupby(by_reason, lambda entry: entry[0])
    ]
    yield from sorted(groups, key=lambda group: -len(group.pods))


def pending_reason(pod: Pod) -> str:
    """The pod's PodScheduled condition as text; empty if there is none."""
    conditions = [
        condition
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and condition.status == "False"
    ]
    return f"{conditions[0].reason}: {conditions[0].message}" if conditions else ""


def _load(room: NodeCapacity) -> NodeLoad:
    labels = room.node.metadata.labels
    return NodeLoad(
        name=room.node.metadata.name,
        instance_type=labels.get("node.kubernetes.io/instance-type", ""),
        zone=labels.get(ZONE, ""),
        pods=len(room),
        cpu=room.share("cpu"),
        memory=room.share("memory"),
    )


# --- as text ----------------------------------------------------------------------------------------------------------


def report(outcome: DemoOutcome) -> str:
    """The table, and the verdict as its last line."""
    rows = [*_figures(outcome), *_problems(outcome)]
    width = max(len(name) for name, _ in rows)
    figures = [f"  {name:{width}}   {text}".rstrip() for name, text in rows]
    return "\n".join(["", *figures, "", *_pending_lines(outcome), *_node_lines(outcome), verdict(outcome), ""])


def _figures(outcome: DemoOutcome) -> Iterator[tuple[str, str]]:
    rate = len(outcome.latencies) / outcome.seconds if outcome.seconds > 0 else 0.0
    yield "pods", f"{outcome.pods:,} on {outcome.nodes:,} nodes"
    yield "bound", f"{outcome.bound:,}" + (f" ({outcome.finished:,} have finished)" if outcome.finished else "")
    yield "pending", f"{outcome.pods - outcome.bound:,}"
    yield "speed", f"{rate:,.0f} pods/s ({outcome.seconds:.1f} s from the first creation to the last binding)"
    shares = ((50, 0.5), (90, 0.9), (99, 0.99))
    steps = ", ".join(f"p{number} {outcome.percentile(share) * 1000:,.0f} ms" for number, share in shares)
    yield "creation to binding", steps


def _problems(outcome: DemoOutcome) -> Iterator[tuple[str, str]]:
    yield "overcommitted nodes", _counted(outcome.overcommitted)
    yield "rejected by kubelets", _counted(outcome.rejected)
    yield "pending despite room", _counted(outcome.missed)


def _counted(things: Sequence[str]) -> str:
    if not things:
        return "0"
    shown = "; ".join(things[:_SHOWN_NAMES])
    return f"{len(things):,}: {shown}" + (" ..." if len(things) > _SHOWN_NAMES else "")


def _pending_lines(outcome: DemoOutcome) -> Iterator[str]:
    if not outcome.pending:
        return
    yield "  pending because"
    for group in outcome.pending:
        kinds = Counter(key.rpartition("/")[2].rpartition("-")[0] for key in group.pods)
        text = f"{', '.join(kinds)}: {group.reason or '(no reason reported)'}"
        first, *rest = textwrap.wrap(text, _TEXT_WIDTH)
        yield f"    {len(group.pods):4,} x {first}"
        yield from (f"           {line}" for line in rest)
    yield ""


def _node_lines(outcome: DemoOutcome) -> Iterator[str]:
    yield f"  {'':10} {'node':14} {'type':12} {'zone':8} {'pods':>5} {'cpu':>6} {'memory':>7}"
    full, empty = outcome.loads[:_SHOWN_NODES], outcome.loads[_SHOWN_NODES:][-_SHOWN_NODES:]
    for title, loads in (("busiest", full), ("emptiest", empty)):
        for place, load in enumerate(loads):
            shares = f"{load.pods:5} {load.cpu:6.0%} {load.memory:7.0%}"
            yield f"  {'' if place else title:10} {load.name:14} {load.instance_type:12} {load.zone:8} {shares}"
    yield ""


def verdict(outcome: DemoOutcome) -> str:
    """A line with the verdict."""
    if outcome.is_good:
        return "OK: every pod that could be bound is bound, no node is over its allocatable, no kubelet rejected a pod."
    parts = (
        (outcome.missed, "pods are pending although there is room for them"),
        (outcome.overcommitted, "nodes are over their allocatable"),
        (outcome.rejected, "pods were rejected by kubelets"),
    )
    return "FAILED: " + "; ".join(f"{len(found)} {text}" for found, text in parts if found) + "."
