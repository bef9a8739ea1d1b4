"""PodTopologySpread wakes a pod that it rejected when a change may help it, and only then."""

from typing import Any

import pytest

from kscheduler.api.core import Node, Pod
from kscheduler.framework.events import ActionType, QueueingHint
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.pod_topology_spread import PodTopologySpread
from tests.builders import make_node, make_pod, pod_info
from tests.plugins.made import HANDLE

WEB = {"app": "web"}
Spread = dict[str, Any]


def spread(**fields: Any) -> Spread:
    """A hard constraint on web pods."""
    wanted = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {**wanted, "labelSelector": {"matchLabels": WEB}, **fields}


def web(constraint: Spread) -> PodInfo:
    """A pod with this constraint, waiting."""
    return pod_info("judged", labels=WEB, topologySpreadConstraints=[constraint])


def zoned(name: str, zone: str | None, **fields: Any) -> Node:
    """A node in a zone, or in none."""
    return make_node(name, labels={} if zone is None else {"zone": zone}, **fields)


Change = tuple[PodInfo, Any, Any]
RUNNING, FOREIGN = make_pod("r", node="n", labels=WEB), make_pod("r", node="n", labels=WEB, namespace="other")
OTHER = make_pod("r", node="n", labels={"app": "db"})
TOLERANT = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
HONORING = spread(nodeTaintsPolicy="Honor")
OWN = make_pod("judged", labels=WEB, topologySpreadConstraints=[HONORING])
OWN_TOLERANT = make_pod("judged", labels=WEB, topologySpreadConstraints=[HONORING], **TOLERANT)
A, B, NOWHERE = zoned("x", "a"), zoned("x", "b"), zoned("x", None)
TAINTED = zoned("x", "a", spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
NOMINATED = make_pod("r", labels=WEB, status={"nominatedNodeName": "n"})

WAKES: dict[str, Change] = {
    "a matching pod came": (web(spread()), None, RUNNING),
    "a matching pod is expected on a node": (web(spread()), None, NOMINATED),
    "a matching pod went": (web(spread()), RUNNING, None),
    "a pod matches now": (web(spread()), OTHER, RUNNING),
    "a pod matches no longer": (web(spread()), RUNNING, OTHER),
    "a new toleration, and taints are honoured": (PodInfo(OWN), OWN, OWN_TOLERANT),
    "a new node in a domain": (web(spread()), None, A),
    "a node of a domain is gone": (web(spread()), A, None),
    "a node joins a domain": (web(spread()), NOWHERE, A),
    "a node leaves its domain": (web(spread()), A, NOWHERE),
    "a node moves to another domain": (web(spread()), A, B),
    "a node has other taints": (web(spread()), TAINTED, A),
}
SLEEPS: dict[str, Change] = {
    "a pod that does not match came": (web(spread()), None, OTHER),
    "a pod of another namespace came": (web(spread()), None, FOREIGN),
    "a pod without a node came": (web(spread()), None, make_pod("r", labels=WEB)),
    "a pod that does not match went": (web(spread()), OTHER, None),
    "a running pod changed, and no label": (web(spread()), RUNNING, RUNNING),
    "a new toleration, and taints are ignored": (
        web(spread()),
        make_pod("judged", labels=WEB),
        make_pod("judged", labels=WEB, **TOLERANT),
    ),
    "only a soft constraint matches": (web(spread(whenUnsatisfiable="ScheduleAnyway")), None, RUNNING),
    "a new node in no domain": (web(spread()), None, NOWHERE),
    "a node of no domain is gone": (web(spread()), NOWHERE, None),
    "a node changed elsewhere": (web(spread()), A, A),
}


def hint_of(change: Change) -> QueueingHint:
    pod, old, new = change
    of_pods, of_nodes = PodTopologySpread(None, HANDLE).events_to_register()
    hint = (of_pods if isinstance(new or old, Pod) else of_nodes).hint
    assert hint is not None
    return hint(pod, old, new)


@pytest.mark.parametrize("change", WAKES.values(), ids=WAKES)
def test_a_change_that_may_help_wakes_the_pod(change: Change) -> None:
    assert hint_of(change) is QueueingHint.QUEUE


@pytest.mark.parametrize("change", SLEEPS.values(), ids=SLEEPS)
def test_a_change_that_cannot_help_lets_the_pod_sleep(change: Change) -> None:
    assert hint_of(change) is QueueingHint.SKIP


def test_the_events_are_those_of_kube_scheduler_and_that_a_pod_begins_to_terminate() -> None:
    of_pods, of_nodes = PodTopologySpread(None, HANDLE).events_to_register()
    assert of_pods.event.action == (
        ActionType.ADD
        | ActionType.DELETE
        | ActionType.UPDATE_POD_LABEL
        | ActionType.UPDATE_POD_TOLERATION
        | ActionType.UPDATE_OTHER
    )
    assert of_nodes.event.action == (
        ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    )
