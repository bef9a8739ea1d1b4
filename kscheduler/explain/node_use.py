"""How full each node is, and who was rejected there: the cycle is asked once for each kind of waiting pod."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from kscheduler.api.core import Node, Pod
from kscheduler.devices.counting import NodeDevices
from kscheduler.explain.cluster_answers import DeviceCounts, NodeTaint, NodeUse, NodeUses, Overfilled
from kscheduler.explain.pending import template_of
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import PODS
from kscheduler.framework.status import Code
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.overcommit.excess import excesses
from kscheduler.scheduling.profile import Profile, device_counter
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache

# Kinds of waiting pods that are judged, those with most pods first.
MAX_KINDS: Final = 200


class _Judged(NamedTuple):
    """What the cycle says of the waiting pods. By node name."""

    rejected_pods: Mapping[str, Counter[str]]
    admitted: Counter[str]
    judged: int
    not_judged: int


def node_uses(
    cache: Cache, profiles: Mapping[str, Profile], pods: Iterable[Pod], version: str, notes: Iterable[str] = ()
) -> NodeUses:
    """The nodes of the cache, and what it says of `pods` that have no node; others among them are skipped.

    `version`: of the kube-scheduler whose rules the profiles have.
    """
    infos = {name: info for name in sorted(cache.node_names()) if (info := cache.node_info(name)) is not None}
    nodes = {name: (info, info.node) for name, info in infos.items() if info.node is not None}
    counter = device_counter(profiles.values())
    devices = {} if counter is None else counter.devices_on(info for info, _ in nodes.values())
    judged = _judge(cache, profiles, pods, nodes)
    return NodeUses(
        nodes=tuple(
            _use(name, info, node, judged, devices.get(name, NodeDevices())) for name, (info, node) in nodes.items()
        ),
        waiting_pods=judged.judged,
        pods_not_judged=judged.not_judged,
        emulation_version=version,
        notes=tuple(notes),
    )


def _judge(cache: Cache, profiles: Mapping[str, Profile], pods: Iterable[Pod], nodes: Collection[str]) -> _Judged:
    """The cycle is asked once for each kind of pod, those of most pods first."""
    kinds: dict[bytes, list[Pod]] = {}
    for pod in pods:
        if not (pod.spec.node_name or pod.is_terminal or pod.metadata.deletion_timestamp):
            kinds.setdefault(template_of(pod), []).append(pod)
    rejected: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    admitted: Counter[str] = Counter()
    judged = total = 0
    for number, alike in enumerate(sorted(kinds.values(), key=len, reverse=True)):
        total += len(alike)
        record = _record_of(alike[0], cache, profiles) if number < MAX_KINDS else None
        if record is None:
            continue
        judged += len(alike)
        whole = record.diagnosis.pre_filter
        by_node = (
            ((name, whole.plugin) for name in nodes)
            if whole.is_rejected
            else ((name, status.plugin) for name, status in record.diagnosis.by_node())
        )
        for name, plugin in by_node:
            if name in rejected:
                rejected[name][plugin] += len(alike)
        if not whole.is_rejected:
            admitted.update(dict.fromkeys(record.feasible_names(), len(alike)))
    return _Judged(rejected, admitted, judged, total - judged)


def _use(name: str, info: NodeInfo, node: Node, judged: _Judged, devices: NodeDevices) -> NodeUse:
    every = {**info.requested, PODS: len(info.pods)}
    requested = {resource: every.get(resource, 0) for resource in info.allocatable}
    shares = [requested[resource] / amount for resource, amount in info.allocatable.items() if amount]
    return NodeUse(
        name=name,
        is_ready=is_ready(node),
        is_cordoned=node.spec.unschedulable,
        taints=tuple(NodeTaint(each.key, each.value, each.effect) for each in node.spec.taints),
        allocatable=dict(info.allocatable),
        requested=requested,
        use=round(max(shares, default=0.0), 4),
        overfilled=tuple(Overfilled(each.resource, each.requested, each.allocatable) for each in excesses(info)),
        rejected_pods=dict(judged.rejected_pods[name]),
        admits=judged.admitted[name],
        devices=tuple(
            DeviceCounts(each.device_class, each.driver, each.devices, each.taken, each.tainted, each.free)
            for each in devices.counts
        ),
        incomplete_pools=tuple(map(str, devices.incomplete)),
        invalid_pools=tuple(map(str, devices.invalid)),
        unclear_classes=tuple(devices.unclear),
    )


def is_ready(node: Node) -> bool:
    """Whether the node's condition says so; a node without the condition is taken to be ready."""
    return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")


def _record_of(pod: Pod, cache: Cache, profiles: Mapping[str, Profile]) -> SchedulingRecord | None:
    profile = profiles.get(pod.spec.scheduler_name)
    if profile is None or (cache.pod_groups.apis and cache.pod_groups.key_of(pod) is not None):
        return None
    info = PodInfo(pod)
    if cache.is_assumed(info.uid) or not profile.run_pre_enqueue(info).is_success:
        return None
    record = schedule(replace(profile, post_filter=()), info, cache)
    return None if record.status.code is Code.ERROR else record
