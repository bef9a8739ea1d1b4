"""A hint wakes a parked pod when the change may help it, and only then."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod, PodStatus
from kscheduler.api.meta import KubeObject
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.plugin_args import NodeAffinityArgs, NodeResourcesFitArgs
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.traits import traits_of
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.plugins.node_name import NodeName
from kscheduler.plugins.node_ports import NodePorts
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from kscheduler.plugins.node_unschedulable import NodeUnschedulable
from kscheduler.plugins.scheduling_gates import SchedulingGates
from kscheduler.plugins.taint_toleration import TaintToleration
from tests.plugins.made import HANDLE, node, pod, requesting, with_port


def node_update(action: ActionType) -> ClusterEvent:
    return ClusterEvent(Resource.NODE, action)


def pod_update(action: ActionType) -> ClusterEvent:
    return ClusterEvent(Resource.POD, action)


TAINTED = {"key": "gpu", "value": "", "effect": "NoSchedule"}
SOFT = {"key": "gpu", "value": "", "effect": "PreferNoSchedule"}
TOLERANT: dict[str, Any] = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
UNCORDONED: dict[str, Any] = {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}
TAINT = node_update(ActionType.UPDATE_NODE_TAINT)
LABEL = node_update(ActionType.UPDATE_NODE_LABEL)
ALLOCATABLE = node_update(ActionType.UPDATE_NODE_ALLOCATABLE)
TOLERATION = pod_update(ActionType.UPDATE_POD_TOLERATION)
SCALE_DOWN = pod_update(ActionType.UPDATE_POD_SCALE_DOWN)
GATES = pod_update(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
ZONE_A: dict[str, Any] = {"nodeSelector": {"zone": "a"}}
ONE_CPU: dict[str, Any] = {"requests": {"cpu": "1"}}
PODS_10 = {"cpu": "4", "pods": "10"}
ENFORCED = convert(
    {
        "addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x"]}]}]
            }
        }
    },
    NodeAffinityArgs,
)

unschedulable = NodeUnschedulable(None, HANDLE)
taints = TaintToleration(None, HANDLE)
affinity = NodeAffinity(None, HANDLE)
enforced = NodeAffinity(ENFORCED, HANDLE)
ports = NodePorts(None, HANDLE)
fit = NodeResourcesFit(None, HANDLE)
gates = SchedulingGates(None, HANDLE)
names = NodeName(None, HANDLE)

WAKES = {
    "cordon: a new open node": (unschedulable, NODE_ADD, pod(), None, node()),
    "cordon: an uncordoned node": (unschedulable, TAINT, pod(), node(unschedulable=True), node()),
    "cordon: the pod tolerates it now": (unschedulable, TOLERATION, pod(), pod(), pod(**UNCORDONED)),
    "taint: a new node without taints": (taints, NODE_ADD, pod(), None, node()),
    "taint: a new node with a taint that is tolerated": (
        taints,
        NODE_ADD,
        pod(**TOLERANT),
        None,
        node(taints=[TAINTED]),
    ),
    "taint: taken away": (taints, TAINT, pod(), node(taints=[TAINTED]), node()),
    "taint: softened": (taints, TAINT, pod(), node(taints=[TAINTED]), node(taints=[SOFT])),
    "taint: the pod has a new toleration": (taints, TOLERATION, pod(), pod(), pod(**TOLERANT)),
    "affinity: a new node that matches": (affinity, NODE_ADD, pod(**ZONE_A), None, node(labels={"zone": "a"})),
    "affinity: a node that matches now": (affinity, LABEL, pod(**ZONE_A), node(), node(labels={"zone": "a"})),
    "affinity: enforced and matching": (enforced, LABEL, pod(), None, node(labels={"pool": "x"})),
    "ports: the pod that held it is gone": (
        ports,
        ASSIGNED_POD_DELETE,
        with_port(port=80),
        with_port("other", port=80, nodeName="n"),
        None,
    ),
    "ports: any address conflicts with all": (
        ports,
        ASSIGNED_POD_DELETE,
        with_port(port=80, address="10.0.0.1"),
        with_port("other", port=80, nodeName="n"),
        None,
    ),
    "ports: a new node": (ports, NODE_ADD, with_port(port=80), None, node()),
    "name: a new node": (names, NODE_ADD, pod(nodeName="n"), None, node("n")),
    "fit: a pod leaves": (fit, ASSIGNED_POD_DELETE, requesting(**ONE_CPU), pod("other", nodeName="n"), None),
    "fit: a running pod gives back what is needed": (
        fit,
        SCALE_DOWN,
        requesting(**ONE_CPU),
        requesting("other", requests={"cpu": "2"}, nodeName="n"),
        requesting("other", requests={"cpu": "1"}, nodeName="n"),
    ),
    "fit: the pod itself is smaller": (
        fit,
        SCALE_DOWN,
        requesting(requests={"cpu": "2"}),
        requesting(requests={"cpu": "2"}),
        requesting(requests={"cpu": "1"}),
    ),
    "fit: a new node with room": (fit, NODE_ADD, requesting(**ONE_CPU), None, node()),
    "fit: a node grows": (fit, ALLOCATABLE, requesting(**ONE_CPU), node(allocatable={"cpu": "1", "pods": "9"}), node()),
    "fit: a node takes more pods": (fit, ALLOCATABLE, pod(), node(allocatable=PODS_10), node()),
    "gates: the pod's own are gone": (gates, GATES, pod(), pod(), pod()),
}

SLEEPS_ON = {
    "cordon: a new cordoned node": (unschedulable, NODE_ADD, pod(), None, node(unschedulable=True)),
    "cordon: a node that was open before": (unschedulable, TAINT, pod(), node(), node()),
    "cordon: another toleration": (unschedulable, TOLERATION, pod(), pod(), pod(**TOLERANT)),
    "cordon: another pod's toleration": (unschedulable, TOLERATION, pod(), pod("other"), pod("other", **UNCORDONED)),
    "taint: a new tainted node": (taints, NODE_ADD, pod(), None, node(taints=[TAINTED])),
    "taint: the node was open before": (taints, TAINT, pod(), node(taints=[SOFT]), node()),
    "taint: another pod's toleration": (taints, TOLERATION, pod(), pod("other"), pod("other", **TOLERANT)),
    "affinity: a new node that does not match": (affinity, NODE_ADD, pod(**ZONE_A), None, node(labels={"zone": "b"})),
    "affinity: a node that matched before": (
        affinity,
        LABEL,
        pod(**ZONE_A),
        node(labels={"zone": "a"}),
        node(labels={"zone": "a", "disk": "ssd"}),
    ),
    "affinity: matching but not enforced": (enforced, NODE_ADD, pod(**ZONE_A), None, node(labels={"zone": "a"})),
    "ports: the pod that is gone was nowhere": (
        ports,
        ASSIGNED_POD_DELETE,
        with_port(port=80),
        with_port("other", port=80),
        None,
    ),
    "ports: another address": (
        ports,
        ASSIGNED_POD_DELETE,
        with_port(port=80, address="10.0.0.1"),
        with_port("other", port=80, address="10.0.0.2", nodeName="n"),
        None,
    ),
    "ports: another port": (
        ports,
        ASSIGNED_POD_DELETE,
        with_port(port=80),
        with_port("other", port=81, nodeName="n"),
        None,
    ),
    "fit: a pod that was nowhere leaves": (fit, ASSIGNED_POD_DELETE, requesting(**ONE_CPU), pod("other"), None),
    "fit: a running pod gives back something else": (
        fit,
        SCALE_DOWN,
        requesting(**ONE_CPU),
        requesting("other", requests={"cpu": "1", "memory": "2Gi"}, nodeName="n"),
        requesting("other", requests={"cpu": "1", "memory": "1Gi"}, nodeName="n"),
    ),
    "fit: a waiting pod gets smaller": (
        fit,
        SCALE_DOWN,
        requesting(**ONE_CPU),
        requesting("other", requests={"cpu": "2"}),
        requesting("other", requests={"cpu": "1"}),
    ),
    "fit: a new node without room": (fit, NODE_ADD, requesting(requests={"cpu": "5"}), None, node()),
    "fit: a new node that takes no pods": (fit, NODE_ADD, pod(), None, node(allocatable={"cpu": "4", "pods": "0"})),
    "fit: a node grows where it does not matter": (
        fit,
        ALLOCATABLE,
        requesting(**ONE_CPU),
        node(allocatable={"cpu": "4", "memory": "1Gi", "pods": "110"}),
        node(),
    ),
    "fit: a node shrinks": (fit, ALLOCATABLE, requesting(**ONE_CPU), node(), node(allocatable=PODS_10)),
    "gates: another pod's are gone": (gates, GATES, pod(), pod("other"), pod("other")),
}


def queried(
    plugin: Any, event: ClusterEvent, waiting: Pod, old: KubeObject | None, new: KubeObject | None
) -> list[QueueingHint]:
    """What the plugin's registrations that match the event say, as the queue would ask them."""
    registered: Sequence[ClusterEventWithHint] = plugin.events_to_register()
    matching = [one for one in registered if one.event.matches(event)]
    return [one.hint(PodInfo(waiting), old, new) if one.hint else QueueingHint.QUEUE for one in matching]


@pytest.mark.parametrize("case", WAKES.values(), ids=WAKES)
def test_wakes_the_pod(case: Any) -> None:
    assert queried(*case) == [QueueingHint.QUEUE]


@pytest.mark.parametrize("case", SLEEPS_ON.values(), ids=SLEEPS_ON)
def test_lets_the_pod_sleep(case: Any) -> None:
    assert queried(*case) == [QueueingHint.SKIP]


def test_a_node_without_an_ignored_resource_wakes_the_pod() -> None:
    ignoring = NodeResourcesFit(NodeResourcesFitArgs(ignored_resource_groups=("example.com",)), HANDLE)
    waiting = requesting(requests={"cpu": "1", "example.com/gpu": "1"})
    assert queried(ignoring, NODE_ADD, waiting, None, node()) == [QueueingHint.QUEUE]
    assert queried(fit, NODE_ADD, waiting, None, node()) == [QueueingHint.SKIP]


def nominated(node_name: str = "node-1", *, requests: dict[str, str], **spec: Any) -> Pod:
    made = requesting(requests=requests, **spec)
    return Pod(metadata=made.metadata, spec=made.spec, status=convert({"nominatedNodeName": node_name}, PodStatus))


SMALL = {"cpu": "500m", "memory": "8Gi", "pods": "110"}
OF_GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}
LOST: dict[str, tuple[Any, Any, Any, bool]] = {
    "its own node": (nominated(**ONE_CPU), node(), node(allocatable=SMALL), True),
    "another node": (nominated("x", **ONE_CPU), node(), node(allocatable=SMALL), False),
    "not nominated": (requesting(**ONE_CPU), node(), node(allocatable=SMALL), False),
    "in a group": (nominated(**ONE_CPU, **OF_GROUP), node(), node(allocatable=SMALL), False),
    "too small before": (
        nominated(requests={"cpu": "5"}),
        node(),
        node(allocatable=SMALL),
        False,
    ),
    "another resource has gone": (
        nominated(requests={"cpu": "1", "example.com/gpu": "1"}),
        node(allocatable={"cpu": "4", "pods": "110", "example.com/gpu": "1"}),
        node(allocatable={"cpu": "4", "pods": "110"}),
        False,
    ),
    "both have gone": (
        nominated(requests={"cpu": "1", "example.com/gpu": "1"}),
        node(allocatable={"cpu": "4", "pods": "110", "example.com/gpu": "1"}),
        node(allocatable=SMALL),
        True,
    ),
    "no room for pods": (
        nominated(**ONE_CPU),
        node(),
        node(allocatable={"cpu": "4", "memory": "8Gi", "pods": "0"}),
        False,
    ),
    "new": (nominated(**ONE_CPU), None, node(allocatable=SMALL), False),
}


@pytest.mark.parametrize(("waiting", "old", "new", "wakes"), LOST.values(), ids=LOST)
def test_from_1_38_a_pod_wakes_whose_nominated_node_has_become_too_small(
    waiting: Pod, old: Node | None, new: Node, wakes: bool
) -> None:
    """(1.38: Q3) Before, it waited for a node that can never hold it."""
    for version in ("1.37", "1.38"):
        plugin = NodeResourcesFit(None, replace(HANDLE, behaviours=BEHAVIOURS[version]))
        event = NODE_ADD if old is None else node_update(ActionType.UPDATE_NODE_ALLOCATABLE)
        expected = QueueingHint.QUEUE if wakes and version == "1.38" else QueueingHint.SKIP
        assert queried(plugin, event, waiting, old, new) == [expected]


def elsewhere(waiting: Pod) -> Pod:
    """The same pod, with other labels, in another namespace."""
    metadata = replace(waiting.metadata, namespace="elsewhere", labels={"app": "other"})
    return Pod(metadata=metadata, spec=waiting.spec, status=waiting.status)


@pytest.mark.parametrize(
    ("plugin", "event", "waiting", "old", "new"), [*WAKES.values(), *SLEEPS_ON.values()], ids=[*WAKES, *SLEEPS_ON]
)
def test_labels_and_namespace_of_the_waiting_pod_change_no_answer_of_plugins_that_declare_so(
    plugin: Any, event: ClusterEvent, waiting: Pod, old: KubeObject | None, new: KubeObject | None
) -> None:
    assert traits_of(plugin).hints_by_spec or plugin is gates
    assert queried(plugin, event, elsewhere(waiting), old, new) == queried(plugin, event, waiting, old, new)


def test_nobody_registers_an_event_that_cannot_help() -> None:
    heartbeat = node_update(ActionType.UPDATE_NODE_CONDITION)
    for plugin in (unschedulable, taints, affinity, ports, fit, gates, names):
        assert queried(plugin, heartbeat, pod(), node(), node()) == []
