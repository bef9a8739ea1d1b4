"""The cache against a dictionary: whatever order the watch and the workers come in, no room is given away twice."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace as replaced

from kscheduler.api.core import ContainerStatus, Node, Pod
from kscheduler.api.meta import Condition
from kscheduler.api.quantity import QuantityError
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod, pod_info
from tests.framework.nodes.cluster_objects import node_fields, pod_fields
from tests.framework.nodes.naive_columns import Place, check

NODES = st.sampled_from(["a", "b", "c"])
UIDS = st.sampled_from([f"uid-{number}" for number in range(5)])
REPELS = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
}
WEB = pod_info("newcomer", labels={"app": "web"})
OTHER = pod_info("newcomer", labels={"app": "db"})


@dataclass(frozen=True)
class Counted:
    """Where the model has a pod."""

    pod: PodInfo
    node: str
    assumed: bool


def version(uid: str, node: str, fields: dict[str, Any], *, repels: bool) -> Pod:
    """A version of a pod. Two UIDs share a name, as when a StatefulSet creates a pod again."""
    name = f"pod-{int(uid[-1]) // 2}"
    return make_pod(name, uid=uid, node=node, **fields, **(REPELS if repels else {}))


def relabelled(pod: Pod) -> None:
    """Counters see another pod."""
    pod.metadata.labels = {"app": "web", "also": "changed"}


def terminating(pod: Pod) -> None:
    """It is being deleted."""
    pod.metadata.deletion_timestamp = "2026-11-29T12:00:00Z"


def without_containers(pod: Pod) -> None:
    """It asks for nothing any more."""
    pod.spec = replaced(pod.spec, containers=())


def reported(pod: Pod) -> None:
    """The kubelet was faster: what it says of containers may count."""
    status = ContainerStatus(name="main", allocated_resources={"cpu": "3"})
    pod.status = replaced(pod.status, container_statuses=(status,))


def being_resized(pod: Pod) -> None:
    """A resize is refused."""
    condition = Condition(type="PodResizePending", status="True", reason="Infeasible")
    pod.status = replaced(pod.status, conditions=(condition,))


# What may have changed beside the node when a Binding shows.
CHANGES_BESIDE = (None, None, relabelled, terminating, without_containers, reported, being_resized)


class CacheMachine(RuleBasedStateMachine):
    """Nodes and pods come, change and go in any order; pods are assumed, confirmed, forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Counted] = {}

    # --- nodes

    @rule(name=NODES, fields=node_fields)
    def node_comes_or_changes(self, name: str, fields: dict[str, Any]) -> None:
        self.nodes[name] = make_node(name, **fields)
        self.cache.add_node(self.nodes[name])

    @rule(name=NODES)
    def heartbeat(self, name: str) -> None:
        """Nothing that counts has changed: no generation moves, whose answers others keep."""
        if name in self.nodes:
            node = self.nodes[name]
            generation = self.cache.nodes.last_generation
            self.cache.update_node(Node(metadata=node.metadata, spec=node.spec, status=node.status))
            assert self.cache.nodes.last_generation == generation

    @rule(name=NODES)
    def unreadable_node(self, name: str) -> None:
        with pytest.raises(QuantityError):
            self.cache.add_node(make_node(name, cpu="four"))

    @rule(name=NODES)
    def node_goes(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cache.remove_node(name)

    # --- pods

    @rule(uid=UIDS, node=NODES, fields=pod_fields, repels=st.booleans())
    def assume(self, uid: str, node: str, fields: dict[str, Any], repels: bool) -> None:
        pod = PodInfo(version(uid, "", fields, repels=repels))
        if uid in self.pods:
            with pytest.raises(ValueError, match="cannot be assumed"):
                self.cache.assume_pod(pod, node)
            return
        self.cache.assume_pod(pod, node)
        self.pods[uid] = Counted(pod, node, assumed=True)

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        self.cache.forget_pod(uid)
        if uid in self.pods and self.pods[uid].assumed:
            del self.pods[uid]

    @rule(uid=UIDS)
    def confirm(self, uid: str) -> None:
        """The watch shows the pod as it was assumed."""
        if uid in self.pods:
            counted = self.pods[uid]
            seen = make_pod(
                counted.pod.name,
                uid=uid,
                node=counted.node,
                containers=[_plain(container) for container in counted.pod.pod.spec.containers],
                **(REPELS if counted.pod.pod.spec.affinity else {}),
            )
            assert self.cache.add_pod(seen) == ""
            self.pods[uid] = replace(counted, assumed=False, pod=PodInfo(seen))

    @rule(uid=UIDS, elsewhere=st.booleans(), change=st.sampled_from(CHANGES_BESIDE))
    def our_binding_shows(self, uid: str, elsewhere: bool, change: Callable[[Pod], None] | None) -> None:
        """As an informer shares the parts of both versions, perhaps with something else that has changed."""
        counted = self.pods.get(uid)
        if counted is None:
            return
        old = counted.pod.pod
        node = next(name for name in ("a", "b") if name != counted.node) if elsewhere else counted.node
        seen = Pod(metadata=replaced(old.metadata), spec=replaced(old.spec, node_name=node), status=old.status)
        if change is not None:
            change(seen)
        is_all = counted.assumed and not elsewhere and change is None
        assert self.cache.confirm(seen) == (is_all and not old.status.container_statuses)
        assert self.cache.add_pod(seen) == (counted.node if elsewhere else "")
        self.pods[uid] = Counted(PodInfo(seen), node, assumed=False)

    @rule(uid=UIDS, node=NODES, fields=pod_fields, repels=st.booleans())
    def pod_comes_or_changes(self, uid: str, node: str, fields: dict[str, Any], repels: bool) -> None:
        """The watch shows the pod on a node: another one than assumed, a second time, resized."""
        pod = version(uid, node, fields, repels=repels)
        before = self.pods.get(uid)
        assert self.cache.add_pod(pod) == (before.node if before is not None and before.node != node else "")
        self.pods[uid] = Counted(PodInfo(pod), node, assumed=False)

    @rule(uid=UIDS, node=NODES)
    def unreadable_pod(self, uid: str, node: str) -> None:
        with pytest.raises(QuantityError):
            self.cache.add_pod(version(uid, node, _querying_for("much"), repels=False))
        if uid not in self.pods:
            with pytest.raises(QuantityError):
                self.cache.assume_pod(PodInfo(version(uid, "", _querying_for("much"), repels=False)), node)

    @rule(uid=UIDS)
    def pod_goes(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.cache.remove_pod(uid)

    # --- what must hold

    def on(self, name: str) -> dict[str, PodInfo]:
        """The pods that the model counts on a node."""
        return {uid: counted.pod for uid, counted in self.pods.items() if counted.node == name}

    @invariant()
    def the_columns_are_the_sums_over_the_objects(self) -> None:
        check(self.cache.nodes, {name: Place(node, self.on(name)) for name, node in self.nodes.items()})

    @invariant()
    def every_pod_counts_where_it_should(self) -> None:
        for number in range(5):
            counted = self.pods.get(f"uid-{number}")
            assert self.cache.node_of(f"uid-{number}") == (counted.node if counted else "")
            assert self.cache.is_assumed(f"uid-{number}") is (counted is not None and counted.assumed)

    @invariant()
    def statistics_are_a_recount(self) -> None:
        sizes = self.cache.statistics()
        assumed = sum(counted.assumed for counted in self.pods.values())
        assert (sizes.nodes, sizes.pods, sizes.assumed_pods) == (len(self.nodes), len(self.pods), assumed)

    @invariant()
    def a_name_is_remembered_as_long_as_somebody_is_on_it(self) -> None:
        for name in ("a", "b", "c"):
            info = self.cache.node_info(name)
            assert (info is not None) is (name in self.nodes or bool(self.on(name)))
            assert self.cache.has_node(name) is (name in self.nodes)
            if info is not None:
                assert info.pods.keys() == self.on(name).keys()
                assert info.node is self.nodes.get(name) or name in self.nodes

    @invariant()
    def the_anti_affinity_of_pods_on_nodes_is_a_recount(self) -> None:
        """Pods on a node name without a node repel no pods: they are in no topology domain."""
        held = self.cache.counters.required_anti_affinity(WEB)
        (column,) = [term.holders for term in held] or [np.zeros(self.cache.nodes.capacity, dtype=np.int64)]
        for name in ("a", "b", "c"):
            if name in self.nodes:
                repelling = [info for info in self.on(name).values() if info.pod.spec.affinity is not None]
                assert column[self.cache.nodes.row_of(name)] == len(repelling)
        assert column.sum() == sum(column[self.cache.nodes.rows()])
        assert not self.cache.counters.required_anti_affinity(OTHER)


def _querying_for(amount: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]}


def _plain(container: Any) -> dict[str, Any]:
    ports = [
        {"hostPort": port.host_port, "protocol": port.protocol, "hostIP": port.host_ip} for port in container.ports
    ]
    return {"name": "c", "resources": {"requests": dict(container.resources.requests)}, "ports": ports}


TestCache = CacheMachine.TestCase


def test_a_pod_without_a_uid_is_known_by_its_key() -> None:
    cache = Cache()
    pod = make_pod("static", node="a")
    pod.metadata.uid = ""
    cache.add_pod(pod)
    assert cache.node_of("default/static") == "a"


@pytest.mark.parametrize("change", CHANGES_BESIDE[1:], ids=lambda change: change.__name__ if change else "nothing")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["where it was assumed", "elsewhere"])
def test_only_a_binding_that_shows_as_it_was_assumed_is_confirmed_without_a_comparison(
    change: Callable[[Pod], None] | None, elsewhere: bool
) -> None:
    cache = Cache()
    for name in ("a", "b"):
        cache.add_node(make_node(name))
    old = make_pod("web", requests={"cpu": "1"})
    seen = Pod(metadata=replaced(old.metadata), spec=replaced(old.spec, node_name="a"), status=old.status)
    if change is not None:
        change(seen)
    assert not cache.confirm(seen), "it was not assumed"
    cache.assume_pod(PodInfo(old), "b" if elsewhere else "a")
    before = cache.nodes.row_changes.position
    assert cache.confirm(seen) == (change is None and not elsewhere)
    if change is None and not elsewhere:
        assert not cache.is_assumed(seen.metadata.uid)
        confirmed = cache.pod_of(seen.metadata.uid)
        assert confirmed is not None
        assert confirmed.pod is seen
        assert cache.nodes.row_changes.position == before + 1
        assert not cache.confirm(seen), "once"
    else:
        assert cache.is_assumed(seen.metadata.uid)
        assert cache.nodes.row_changes.position == before
