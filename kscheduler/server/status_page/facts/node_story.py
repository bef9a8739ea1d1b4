"""One node: what it has, what is requested, and by whom."""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kscheduler.api.well_known import ZONE
from kscheduler.devices.counting import NodeDevices
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU, MEMORY, PODS
from kscheduler.framework.reasons.wording import amount_text, taint_text
from kscheduler.server.status_page.facts.devices import MAX_HOLDERS, DeviceHolder, holders_on
from kscheduler.server.status_page.facts.in_words import seconds_of
from kscheduler.server.status_page.sources import PageSources

MAX_PODS: Final = 500
MAX_LABELS: Final = 100


class ResourceUse(msgspec.Struct, frozen=True):
    """One resource of a node."""

    name: str
    allocatable: str
    requested: str
    free: str
    """With a minus sign where more is requested than there is."""
    share: float
    """Requested of allocatable; 2.0 where something is requested of nothing."""


class PodOnNode(msgspec.Struct, frozen=True):
    """A pod that counts on the node."""

    key: str
    priority: int
    cpu: str
    memory: str
    is_assumed: bool
    """It has the node here, and the watch has not shown it there yet."""
    is_terminating: bool
    created: float | None


class NodeStory(msgspec.Struct, frozen=True):
    """All that is known of a node without deciding again."""

    name: str
    exists: bool
    """False: pods are seen on a node of this name, which does not exist (any more)."""
    zone: str
    is_cordoned: bool
    taints: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    conditions: tuple[tuple[str, str, str], ...]
    """Type, status and message of those that are not as they should be."""
    resources: tuple[ResourceUse, ...]
    pods: Sequence[PodOnNode]
    """Those of the highest priority first."""
    more_pods: int
    nominated: tuple[str, ...]
    """Pods that are promised room here."""
    devices: NodeDevices
    """The devices that it reaches, by class."""
    holders: tuple[DeviceHolder, ...]
    """Its pods with devices, by name."""
    more_holders: int
    overcommitted: str
    created: float | None


def node_story(sources: PageSources, name: str) -> NodeStory | None:
    """The story of a node; `None`: nobody has seen it."""
    info = sources.cache.node_info(name)
    if info is None:
        return None
    node = info.node
    of_node = {} if node is None else node.metadata.labels
    holders = tuple(holders_on(info, sources.cache.devices.claims))
    return NodeStory(
        name=name,
        exists=node is not None,
        zone=of_node.get(ZONE, ""),
        is_cordoned=node is not None and node.spec.unschedulable,
        taints=tuple(taint_text(taint) for taint in info.taints),
        labels=tuple(sorted(of_node.items()))[:MAX_LABELS],
        conditions=_conditions(info),
        resources=tuple(_resources(info)),
        pods=tuple(_pods(sources, info)),
        more_pods=max(len(info.pods) - MAX_PODS, 0),
        nominated=tuple(sorted(pod.key for pod in sources.cache.nominator.nominated_pods(name))),
        devices=sources.devices_on(info),
        holders=holders[:MAX_HOLDERS],
        more_holders=max(len(holders) - MAX_HOLDERS, 0),
        overcommitted=sources.overcommitted().get(name, ""),
        created=None if node is None else seconds_of(node.metadata.creation_timestamp),
    )


def _conditions(info: NodeInfo) -> tuple[tuple[str, str, str], ...]:
    """Ready should be True, all others False."""
    conditions = info.node.status.conditions if info.node is not None else ()
    return tuple(
        (each.type, each.status, each.message)
        for each in conditions
        if each.status != ("True" if each.type == "Ready" else "False")
    )


def _resources(info: NodeInfo) -> Iterable[ResourceUse]:
    names = [CPU, MEMORY, PODS, *sorted({*info.allocatable, *info.requested} - {CPU, MEMORY, PODS})]
    for name in names:
        requested = len(info.pods) if name == PODS else info.requested.get(name, 0)
        allocatable = info.allocatable.get(name, 0)
        if not (requested or allocatable):
            continue
        free = allocatable - requested
        yield ResourceUse(
            name,
            amount_text(name, allocatable),
            amount_text(name, requested),
            ("-" if free < 0 else "") + amount_text(name, abs(free)),
            requested / allocatable if allocatable else 2.0,
        )


def _pods(sources: PageSources, info: NodeInfo) -> Iterable[PodOnNode]:
    first = heapq.nsmallest(MAX_PODS, info.pods.values(), key=lambda pod: (-pod.priority, pod.key))
    return (_pod(sources, pod) for pod in first)


def _pod(sources: PageSources, pod: PodInfo) -> PodOnNode:
    requested = pod.accounted
    return PodOnNode(
        key=pod.key,
        priority=pod.priority,
        cpu=amount_text(CPU, requested.get(CPU, 0)),
        memory=amount_text(MEMORY, requested.get(MEMORY, 0)),
        is_assumed=sources.cache.is_assumed(pod.uid),
        is_terminating=pod.is_terminating,
        created=seconds_of(pod.pod.metadata.creation_timestamp),
    )
