"""Every change of every watched kind reaches the queue as the cluster event that plugins register for it.

The handlers of all kinds stand before a queue with a pod that one plugin has rejected. What they are told must wake
the pod if, and only if, that plugin registered it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.kinds import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Kind,
)
from kscheduler.api.meta import KubeObject
from kscheduler.assembly import Assembly, Ports
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.scheduling.handlers.dependency_handlers import STORAGE_RESOURCES
from kscheduler.scheduling.observations import Observations
from tests.builders import Tree, make_node, make_pod
from tests.scheduling.plugins_for_tests import profile

PARKED = "default/parked"


class Picky(Plugin):
    """Rejects every node, until one of these events happens."""

    name = "Picky"

    def __init__(self, registered: tuple[ClusterEvent, ...]) -> None:
        self._registered = registered

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return tuple(map(ClusterEventWithHint, self._registered))

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return np.ones(len(rows), dtype=np.int64)


class _HeardArrivals(Observations):
    """Keeps the labels of what brought pods into a queue."""

    def __init__(self, labels: list[str]) -> None:
        super().__init__()
        self._labels = labels

    def queue_incoming_many(self, queue: str, event: str, pods: int, unasked: int) -> None:
        self._labels.append(event)


class Wired:
    """A queue with a pod that a plugin has rejected and one in flight, and the handlers of all kinds."""

    def __init__(self, *registered: ClusterEvent) -> None:
        self.clock = VirtualClock()
        self.labels: list[str] = []
        config, ports = default_configuration("kscheduler"), Ports(observations=_HeardArrivals(self.labels))
        ready = {"kscheduler": profile(Picky(registered))}
        assembly = Assembly(config, Registry(), ports, self.clock, build=lambda *_: ready)
        self.queue, self._handlers = assembly.queue, assembly.handlers
        self.queue.add(PodInfo(make_pod("parked")), self.clock.time())
        self._park()
        self.queue.add(PodInfo(make_pod("in-flight")), self.clock.time())
        assert self.queue.pop_nowait(self.clock.time()) is not None
        self.labels.clear()

    def _park(self) -> None:
        queued = self.queue.pop_nowait(self.clock.time())
        assert queued is not None
        queued.unschedulable_plugins = frozenset({"Picky"})
        self.queue.requeue(queued, self.clock.time())

    def report(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        """What the informer of a kind would."""
        handler = self._handlers[kind]
        if old is None:
            handler.on_add(new, initial=False)
        elif new is None:
            handler.on_delete(old)
        else:
            handler.on_update(old, new)

    @property
    def is_awake(self) -> bool:
        """Whether the parked pod was moved."""
        found = self.queue.find(PARKED)
        assert found is not None
        return found[0] != "unschedulable"


def stored(kind: Kind, version: str = "1", **fields: Any) -> KubeObject:
    """Some object of a kind."""
    where: Tree = {"namespace": "default"} if kind.namespaced else {}
    metadata = {"name": "one", "uid": "uid", "resourceVersion": version, **where, **fields.pop("metadata", {})}
    return convert({"metadata": metadata, **fields}, kind.type)


def assigned(**fields: Any) -> Pod:
    """A pod of somebody else's, on a node."""
    return make_pod("other", node="n", schedulerName="other", **fields)


def waiting(**fields: Any) -> Pod:
    return make_pod("parked", **fields)


NAMES = {
    PERSISTENT_VOLUMES: "PersistentVolume",
    PERSISTENT_VOLUME_CLAIMS: "PersistentVolumeClaim",
    CSI_NODES: "storage.k8s.io/CSINode",
    CSI_DRIVERS: "storage.k8s.io/CSIDriver",
    VOLUME_ATTACHMENTS: "storage.k8s.io/VolumeAttachment",
    CSI_STORAGE_CAPACITIES: "storage.k8s.io/CSIStorageCapacity",
    STORAGE_CLASSES: "storage.k8s.io/StorageClass",
}
TAINT = {"key": "k", "value": "", "effect": "NoSchedule"}
SMALL, LARGE = {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}
GATED: Tree = {"schedulingGates": [{"name": "g"}]}
TOLERANT: Tree = {"tolerations": [{"operator": "Exists"}]}
READY: Tree = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
FEATURES: Tree = {"status": {"declaredFeatures": ["Some"]}}
NOTE: Tree = {"metadata": {"annotations": {"a": "b"}}}
POD, NODE = Resource.ASSIGNED_POD, Resource.NODE
OWN = Resource.UNSCHEDULABLE_POD

Case = tuple[Kind, KubeObject | None, KubeObject | None, Resource, ActionType]
CASES: dict[str, Case] = {
    "AssignedPodAdd": (PODS, None, assigned(), POD, ActionType.ADD),
    "AssignedPodUpdatePodLabel": (*(PODS, assigned(), assigned(labels={"a": "b"}), POD, ActionType.UPDATE_POD_LABEL),),
    "AssignedPodUpdatePodScaleDown": (
        *(PODS, assigned(**LARGE), assigned(**SMALL), POD, ActionType.UPDATE_POD_SCALE_DOWN),
    ),
    "AssignedPodUpdatePodToleration": (
        *(PODS, assigned(), assigned(**TOLERANT), POD, ActionType.UPDATE_POD_TOLERATION),
    ),
    "AssignedPodUpdate": (PODS, assigned(), assigned(**NOTE), POD, ActionType.UPDATE_OTHER),
    "AssignedPodDelete": (PODS, assigned(), None, POD, ActionType.DELETE),
    "UnschedulablePodUpdatePodLabel": (
        *(PODS, waiting(), waiting(labels={"a": "b"}), OWN, ActionType.UPDATE_POD_LABEL),
    ),
    "UnschedulablePodUpdatePodScaleDown": (
        *(PODS, waiting(**LARGE), waiting(**SMALL), OWN, ActionType.UPDATE_POD_SCALE_DOWN),
    ),
    "UnschedulablePodUpdatePodToleration": (
        *(PODS, waiting(), waiting(**TOLERANT), OWN, ActionType.UPDATE_POD_TOLERATION),
    ),
    "UnschedulablePodUpdatePodSchedulingGatesEliminated": (
        *(PODS, waiting(**GATED), waiting(), OWN, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
    ),
    "UnschedulablePodUpdate": (PODS, waiting(), waiting(**NOTE), OWN, ActionType.UPDATE_OTHER),
    "NodeAdd": (NODES, None, make_node(), NODE, ActionType.ADD),
    "NodeUpdateNodeAllocatable": (*(NODES, make_node(), make_node(cpu="9"), NODE, ActionType.UPDATE_NODE_ALLOCATABLE),),
    "NodeUpdateNodeLabel": (NODES, make_node(), make_node(labels={"a": "b"}), NODE, ActionType.UPDATE_NODE_LABEL),
    "NodeUpdateNodeTaint": (
        *(NODES, make_node(), make_node(spec={"taints": [TAINT]}), NODE, ActionType.UPDATE_NODE_TAINT),
    ),
    "NodeUpdateNodeTaint, uncordoned": (
        *(NODES, make_node(spec={"unschedulable": True}), make_node(), NODE, ActionType.UPDATE_NODE_TAINT),
    ),
    "NodeUpdateNodeCondition": (NODES, make_node(), make_node(**READY), NODE, ActionType.UPDATE_NODE_CONDITION),
    "NodeUpdateNodeAnnotation": (NODES, make_node(), make_node(**NOTE), NODE, ActionType.UPDATE_NODE_ANNOTATION),
    "NodeUpdateNodeDeclaredFeature": (
        *(NODES, make_node(), make_node(**FEATURES), NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE),
    ),
    "NodeDelete": (NODES, make_node(), None, NODE, ActionType.DELETE),
    "NamespaceAdd": (NAMESPACES, None, stored(NAMESPACES), Resource.NAMESPACE, ActionType.ADD),
    "NamespaceUpdate": (
        *(NAMESPACES, stored(NAMESPACES), stored(NAMESPACES, "2", metadata={"labels": {"a": "b"}})),
        *(Resource.NAMESPACE, ActionType.UPDATE),
    ),
    "NamespaceDelete": (NAMESPACES, stored(NAMESPACES), None, Resource.NAMESPACE, ActionType.DELETE),
}
for kind, name in NAMES.items():
    resource = STORAGE_RESOURCES[kind]
    CASES[f"{name}Add"] = kind, None, stored(kind), resource, ActionType.ADD
    CASES[f"{name}Update"] = kind, stored(kind), stored(kind, "2"), resource, ActionType.UPDATE
    CASES[f"{name}Delete"] = kind, stored(kind), None, resource, ActionType.DELETE


def prepared(case: Case, *registered: ClusterEvent) -> Wired:
    """With the old object known before the story begins."""
    wired = Wired(*registered)
    kind, old = case[:2]
    if old is not None and old.key != PARKED:
        wired.report(kind, None, old)
    return wired


@pytest.mark.parametrize("label", CASES)
def test_a_change_is_the_event_that_its_kind_and_action_say(label: str) -> None:
    case = CASES[label]
    kind, old, new, resource, action = case
    wired = prepared(case, ClusterEvent(resource, action & ~ActionType.ADD or ActionType.ADD))
    wired.report(kind, old, new)
    assert wired.is_awake
    assert wired.labels == [label.partition(",")[0]]


@pytest.mark.parametrize("label", CASES)
def test_a_change_is_no_other_event(label: str) -> None:
    """A plugin that registered all else of the same kind, and all of every other kind, is not asked."""
    case = CASES[label]
    kind, old, new, resource, action = case
    family = (Resource.POD, POD, OWN)
    others = [
        one for one in Resource if one not in (resource, Resource.WILDCARD, *(family if resource in family else ()))
    ]
    registered = [ClusterEvent(resource, bit) for bit in _bits(ActionType.ALL & ~action) if bit is not ActionType.ADD]
    wired = prepared(case, *registered, *(ClusterEvent(one, ActionType.ALL) for one in others))
    wired.report(kind, old, new)
    assert not wired.is_awake


@pytest.mark.parametrize("label", [label for label in CASES if not label.startswith("UnschedulablePod")])
def test_nobody_is_reported_of_what_no_plugin_registered(label: str) -> None:
    """Not even kept for the pod in flight: a cluster whose plugins ask for little costs little."""
    case = CASES[label]
    wired = prepared(case)
    wired.report(*case[:3])
    assert not wired.is_awake
    assert wired.labels == []
    assert wired.queue.statistics().in_flight_events == {}


@pytest.mark.parametrize("label", [label for label in CASES if not label.startswith("UnschedulablePod")])
def test_what_happens_is_kept_for_the_pod_in_flight(label: str) -> None:
    case = CASES[label]
    wired = prepared(case, ClusterEvent(case[3], case[4]))
    before = dict(wired.queue.statistics().in_flight_events)
    wired.report(*case[:3])
    assert sum(wired.queue.statistics().in_flight_events.values()) == sum(before.values()) + 1


def test_a_heartbeat_is_no_event() -> None:
    wired = Wired(ClusterEvent(NODE, ActionType.UPDATE))
    first, second = make_node(metadata={"resourceVersion": "1"}), make_node(metadata={"resourceVersion": "2"})
    wired.report(NODES, None, first)
    wired.report(NODES, first, second)
    assert not wired.is_awake


def _bits(actions: ActionType) -> Iterator[ActionType]:
    every: Sequence[ActionType] = list(ActionType)
    return (bit for bit in every if bit in actions and bit.bit_count() == 1)
