"""How full each node is, and who was rejected there: the cycle is asked once for each kind of waiting pod."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kscheduler.api.core import Node, Pod, Taint
from kscheduler.devices.counting import NodeDevices
from kscheduler.explain.pending.reasons import template_of
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import PODS
from kscheduler.framework.status import Code
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.overcommit.excess import Excess, excesses
from kscheduler.scheduling.profile import Profile, device_counter
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache

API_VERSION: Final = "nodes.kscheduler.io/v1"
KIND: Final = "NodeUses"
# Kinds of waiting pods that are judged, those with most pods first.
MOST_KINDS: Final = 200


@dataclass(slots=True)
class NodeUse:
    """A node. Amounts in the scheduler's units (cpu in thousandths), `pods` among them."""

    name: str
    is_ready: bool
    is_cordoned: bool
    taints: tuple[Taint, ...]
    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    excesses: tuple[Excess, ...] = ()
    rejected_pods: Counter[str] = field(default_factory=Counter)
    """By plugin: how many waiting pods it has rejected here."""
    admits: int = 0
    """How many waiting pods would fit."""
    devices: NodeDevices = field(default_factory=NodeDevices)

    @property
    def fullness(self) -> float:
        """The largest share of a resource that is requested."""
        shares = [self.requested.get(name, 0) / amount for name, amount in self.allocatable.items() if amount]
        return max(shares, default=0.0)


@dataclass(frozen=True, slots=True)
class NodeUses:
    """All nodes by name."""

    nodes: tuple[NodeUse, ...]
    waiting: int
    """Pods that were judged."""
    not_evaluated: int
    """Waiting pods that were not: nobody here serves them, they are gated, or wait with a group."""


def node_uses(cache: Cache, profiles: Mapping[str, Profile], pods: Iterable[Pod]) -> NodeUses:
    """The nodes of the cache, and what it says of `pods` that have no node; others among them are skipped."""
    uses = {name: use for name in cache.node_names() if (use := _use_of(cache, name)) is not None}
    counter = device_counter(profiles.values())
    if counter is not None:
        for name, devices in counter.devices_on(info for name in uses if (info := cache.node_info(name))).items():
            uses[name].devices = devices
    kinds: dict[bytes, list[Pod]] = {}
    for pod in pods:
        if not (pod.spec.node_name or pod.is_terminal or pod.metadata.deletion_timestamp):
            kinds.setdefault(template_of(pod), []).append(pod)
    judged = total = 0
    for number, alike in enumerate(sorted(kinds.values(), key=len, reverse=True)):
        total += len(alike)
        record = _judged(alike[0], cache, profiles) if number < MOST_KINDS else None
        if record is not None:
            judged += len(alike)
            _count(record, len(alike), uses)
    return NodeUses(tuple(uses[name] for name in sorted(uses)), judged, total - judged)


def _use_of(cache: Cache, name: str) -> NodeUse | None:
    info = cache.node_info(name)
    if info is None or info.node is None:
        return None
    node = info.node
    requested = {**info.requested, PODS: len(info.pods)}
    named = {resource: requested.get(resource, 0) for resource in info.allocatable}
    return NodeUse(
        name,
        is_ready(node),
        node.spec.unschedulable,
        node.spec.taints,
        dict(info.allocatable),
        named,
        tuple(excesses(info)),
    )


def is_ready(node: Node) -> bool:
    """Whether the node's condition says so; a node without the condition is taken to be ready."""
    return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")


def _judged(pod: Pod, cache: Cache, profiles: Mapping[str, Profile]) -> SchedulingRecord | None:
    profile = profiles.get(pod.spec.scheduler_name)
    if profile is None or (cache.pod_groups.apis and cache.pod_groups.key_of(pod) is not None):
        return None
    info = PodInfo(pod)
    if cache.is_assumed(info.uid) or not profile.run_pre_enqueue(info).is_success:
        return None
    record = schedule(replace(profile, post_filter=()), info, cache)
    return None if record.status.code is Code.ERROR else record


def _count(record: SchedulingRecord, pods: int, uses: Mapping[str, NodeUse]) -> None:
    rejected = record.diagnosis.pre_filter
    if rejected.is_rejected:
        for use in uses.values():
            use.rejected_pods[rejected.plugin] += pods
        return
    for name, status in record.diagnosis.by_node():
        if name in uses:
            uses[name].rejected_pods[status.plugin] += pods
    for name in record.feasible_names():
        if name in uses:
            uses[name].admits += pods


def uses_tree(uses: NodeUses, notes: Iterable[str] = ()) -> dict[str, Any]:
    """As plain dicts and lists, always with the same keys."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "nodes": [
            {
                "name": use.name,
                "ready": use.is_ready,
                "cordoned": use.is_cordoned,
                "taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in use.taints],
                "allocatable": dict(use.allocatable),
                "requested": dict(use.requested),
                "use": round(use.fullness, 4),
                "overfilled": [
                    {"resource": each.resource, "requested": each.requested, "allocatable": each.allocatable}
                    for each in use.excesses
                ],
                "turnedAway": dict(use.rejected_pods),
                "letsIn": use.admits,
                **_devices_tree(use.devices),
            }
            for use in uses.nodes
        ],
        "waitingPods": uses.waiting,
        "podsNotJudged": uses.not_evaluated,
        "notes": list(notes),
    }


def _devices_tree(found: NodeDevices) -> dict[str, Any]:
    return {
        "devices": [
            {
                "class": each.device_class,
                "driver": each.driver,
                "devices": each.devices,
                "taken": each.taken,
                "tainted": each.tainted,
                "free": each.free,
            }
            for each in found.counts
        ],
        "incompletePools": list(map(str, found.incomplete)),
        "invalidPools": list(map(str, found.invalid)),
        "unclearClasses": list(found.unclear),
    }
