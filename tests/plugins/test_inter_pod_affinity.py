"""InterPodAffinity: what its rules mean in plain cases, and which changes wake a pod that it rejected."""

from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Namespace, Node, Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.inter_pod_affinity import InterPodAffinity
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, make_pod, pod_info
from tests.plugins.made import HANDLE

POD, NODE = (
    ClusterEvent(Resource.POD, ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE),
    ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL),
)


def term(app: str = "web", key: str = "zone", **fields: Any) -> Tree:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def requiring(kind: str, *terms: Tree) -> Tree:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def near(*terms: Tree) -> Tree:
    return requiring("podAffinity", *terms)


def far(*terms: Tree) -> Tree:
    return requiring("podAntiAffinity", *terms)


def cluster(*pods: Pod) -> Cache:
    """Two nodes in zone a, one in zone b, one in none."""
    cache = Cache()
    for name, labels in (("a-1", {"zone": "a"}), ("a-2", {"zone": "a"}), ("b-1", {"zone": "b"}), ("nowhere", {})):
        cache.add_node(make_node(name, labels=labels))
    for pod in pods:
        cache.add_pod(pod)
    return cache


def plugin_of(cache: Cache) -> InterPodAffinity:
    return InterPodAffinity(None, Handle(cache, None, None, counters=cache.counters))  # type: ignore[arg-type]


def fitting(cache: Cache, pod: PodInfo) -> set[str]:
    """The nodes that the filter lets the pod on."""
    plugin, state, nodes = plugin_of(cache), CycleState(), cache.nodes
    if plugin.pre_filter(state, pod, nodes).status.is_skip:
        return {nodes.name_of(row) for row in nodes.rows().tolist()}
    codes = plugin.filter(state, pod, nodes, nodes.rows())
    assert codes is not None
    return {nodes.name_of(row) for row in nodes.rows()[codes == 0].tolist()}


def web(name: str, node: str, **fields: Any) -> Pod:
    return make_pod(name, node=node, labels={"app": "web"}, **fields)


def test_affinity_asks_for_the_whole_domain_of_a_pod_not_only_its_node() -> None:
    assert fitting(cluster(web("one", "a-1")), pod_info(affinity=near(term()))) == {"a-1", "a-2"}


def test_apart_by_host_names_holds_while_nodes_come_go_and_change_their_names() -> None:
    """As long as no two nodes share a host name nothing is summed up by it."""
    cache, apart = Cache(), pod_info(affinity=far(term(key="host")))
    plugin = plugin_of(cache)

    def rejected() -> set[str]:
        state, nodes = CycleState(), cache.nodes
        plugin.pre_filter(state, apart, nodes)
        codes = plugin.filter(state, apart, nodes, nodes.rows())
        assert codes is not None
        return {nodes.name_of(row) for row in nodes.rows()[codes != 0].tolist()}

    for name in "abc":
        cache.add_node(make_node(name, labels={"host": name}))
    cache.add_pod(web("one", "a"))
    assert rejected() == {"a"}
    cache.add_node(make_node("b", labels={"host": "a"}))
    assert rejected() == {"a", "b"}, "they are one domain now"
    cache.add_node(make_node("a"))
    assert rejected() == set(), "a is in no domain any more, and its pod is in nobody's way"
    cache.remove_node("a")
    cache.add_node(make_node("d", labels={"host": "d"}))
    cache.add_pod(web("two", "d"))
    assert rejected() == {"d"}


def test_points_are_the_askers_own() -> None:
    """Where each node is a domain of its own, what is counted lies as it is told: who writes to it must not count."""
    cache = cluster()
    for name in ("a-1", "a-2", "b-1", "nowhere"):
        cache.add_node(make_node(name, labels={"host": name}))
    drawn = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred("web")]}}
    cache.add_pod(web("one", "b-1"))
    plugin, pod, nodes = plugin_of(cache), pod_info(affinity=drawn), cache.nodes
    reported = []
    for _ in range(2):
        state = CycleState()
        assert plugin.pre_score(state, pod, nodes, nodes.rows()).is_success
        points = plugin.score(state, pod, nodes, nodes.rows())
        reported.append(points.tolist())
        points += 7
    assert reported == [[0, 0, 1, 0]] * 2


def preferred(app: str) -> Tree:
    return {"weight": 1, "podAffinityTerm": term(app, "host")}


def test_a_terminating_pod_still_draws_others_near() -> None:
    leaving = web("one", "b-1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert fitting(cluster(leaving), pod_info(affinity=near(term()))) == {"b-1"}


def test_the_first_of_a_group_may_go_wherever_the_label_is() -> None:
    first = pod_info(labels={"app": "web"}, affinity=near(term()))
    assert fitting(cluster(), first) == {"a-1", "a-2", "b-1"}
    assert fitting(cluster(web("one", "nowhere")), first) == {"a-1", "a-2", "b-1"}
    assert fitting(cluster(web("one", "b-1")), first) == {"b-1"}
    assert fitting(cluster(), pod_info(affinity=near(term()))) == set()


def test_a_single_pod_must_satisfy_all_terms() -> None:
    asks = pod_info(
        affinity=near(term("web"), {"topologyKey": "zone", "labelSelector": {"matchLabels": {"tier": "x"}}})
    )
    apart = cluster(web("one", "a-1"), make_pod("two", node="a-1", labels={"tier": "x"}))
    assert fitting(apart, asks) == set()
    both = make_pod("both", node="b-1", labels={"app": "web", "tier": "x"})
    apart.add_pod(both)
    assert fitting(apart, asks) == {"b-1"}


def test_anti_affinity_works_both_ways() -> None:
    holder = make_pod("holder", node="a-1", affinity=far(term()))
    assert fitting(cluster(holder), pod_info(labels={"app": "web"})) == {"b-1", "nowhere"}
    assert fitting(cluster(web("one", "a-1")), pod_info(affinity=far(term()))) == {"b-1", "nowhere"}


def test_the_namespace_of_the_newcomer_is_matched_by_its_labels_as_they_are() -> None:
    selector = {"matchLabels": {"team": "x"}}
    cache = cluster(make_pod("holder", node="a-1", affinity=far(term(namespaceSelector=selector))))
    newcomer = pod_info(namespace="shop", labels={"app": "web"})
    found = []
    for team in ("y", "x", "y"):
        tree = {"metadata": {"name": "shop", "labels": {"team": team}}}
        cache.counters.set_namespace(convert(tree, Namespace))
        found.append("a-1" in fitting(cache, newcomer))
    assert found == [True, False, True]


def test_without_counters_nothing_is_said() -> None:
    """Silence would mean that every node fits."""
    plugin = InterPodAffinity(None, HANDLE)
    with pytest.raises(LookupError, match="without topology counters"):
        plugin.pre_filter(CycleState(), pod_info(), Cache().nodes)


def test_a_pod_is_signed_by_its_own_terms_whatever_others_ask_of_it() -> None:
    """Those come and go; what they ask about, its namespace and labels, is compared in any case."""
    alone, beside = plugin_of(cluster()), plugin_of(cluster(make_pod("holder", node="a-1", affinity=far(term()))))
    signed = alone.sign(pod_info(labels={"app": "web"}))
    assert signed == beside.sign(pod_info(labels={"app": "web"}))
    assert hash(signed) == hash(beside.sign(pod_info(labels={"app": "web"})))
    assert beside.sign(pod_info(affinity=far(term()))) != signed


# --- hints ------------------------------------------------------------------------------------------------------------


def pod_on(node: str = "a-1", app: str = "web", **fields: Any) -> Pod:
    labels = {"app": app, **fields.pop("more", {})}
    return make_pod("other", node=node, labels=labels, **fields)


def hint(event: ClusterEvent, waiting: PodInfo, old: Any, new: Any) -> QueueingHint:
    holder = make_pod("holder", node="a-1", affinity=far(term("repelled", "rack")))
    registered = {one.event: one.hint for one in plugin_of(cluster(holder)).events_to_register()}
    queried = registered[event]
    assert queried is not None
    return queried(waiting, old, new)


SEEKS = pod_info("waiting", affinity=near(term()))
AVOIDS = pod_info("waiting", affinity=far(term("web"), term("db")))
PLAIN = pod_info("waiting", labels={"app": "web"})
TWO_TERMS = far(term("web"), term("db"))

POD_CHANGES: dict[str, tuple[PodInfo, Pod | None, Pod | None, bool]] = {
    "one that is wanted comes": (SEEKS, None, pod_on(), True),
    "another one comes": (SEEKS, None, pod_on(app="db"), False),
    "one that is wanted is nowhere yet": (SEEKS, None, pod_on(node=""), False),
    "one that is wanted is expected on a node": (
        SEEKS,
        None,
        pod_on(node="", status={"nominatedNodeName": "a-1"}),
        True,
    ),
    "one becomes what is wanted": (SEEKS, pod_on(app="db"), pod_on(), True),
    "one was wanted before": (SEEKS, pod_on(), pod_on(more={"x": "y"}), False),
    "one that is wanted goes": (SEEKS, pod_on(), None, False),
    "one that is avoided goes, by one of two terms": (AVOIDS, pod_on(), None, True),
    "one that is avoided by the other term goes": (AVOIDS, pod_on(app="db"), None, True),
    "one that nobody minds goes": (AVOIDS, pod_on(app="cache"), None, False),
    "one that is avoided changes its label": (AVOIDS, pod_on(), pod_on(app="cache"), True),
    "one that is avoided stays avoided": (AVOIDS, pod_on(), pod_on(more={"x": "y"}), False),
    "one that repels goes, by one of its two terms": (PLAIN, pod_on(app="cache", affinity=TWO_TERMS), None, True),
    "one that repels others goes": (PLAIN, pod_on(app="cache", affinity=far(term("db"))), None, False),
    "one that repels comes": (PLAIN, None, pod_on(app="cache", affinity=TWO_TERMS), False),
    "its own labels change": (PLAIN, PLAIN.pod, PLAIN.pod, True),
}


@pytest.mark.parametrize(("waiting", "old", "new", "wakes"), POD_CHANGES.values(), ids=POD_CHANGES)
def test_a_change_of_a_pod(waiting: PodInfo, old: Pod | None, new: Pod | None, wakes: bool) -> None:
    assert hint(POD, waiting, old, new) is (QueueingHint.QUEUE if wakes else QueueingHint.SKIP)


BLUE: Tree = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}


@pytest.mark.parametrize(
    ("namespace", "wakes"), [("blue", True), ("red", False), ("unknown", True)], ids=["selected", "other", "unknown"]
)
def test_a_change_in_a_namespace_that_a_term_selects_by_its_labels(namespace: str, wakes: bool) -> None:
    """(1.38: Q2) In kube-scheduler from 1.38 on: before, such pods waited for the flush. Here in every version."""
    cache = cluster()
    for name in ("default", "blue", "red"):
        cache.counters.set_namespace(convert({"metadata": {"name": name, "labels": {"team": name}}}, Namespace))
    hint = next(one.hint for one in plugin_of(cache).events_to_register() if one.event == POD)
    assert hint is not None
    expected = QueueingHint.QUEUE if wakes else QueueingHint.SKIP
    there = make_pod("other", namespace=namespace, node="a-1", labels={"app": "web"})
    avoids, seeks = (pod_info("waiting", affinity=kind(term(**BLUE))) for kind in (far, near))
    assert hint(avoids, there, None) is expected
    assert hint(seeks, None, there) is expected
    assert hint(seeks, make_pod("other", namespace=namespace, node="a-1"), there) is expected
    assert hint(pod_info("waiting", affinity=far(term("db", **BLUE))), there, None) is QueueingHint.SKIP
    holder = make_pod("holder", node="a-1", affinity=far(term(**BLUE)))
    assert hint(pod_info("waiting", namespace=namespace, labels={"app": "web"}), holder, None) is expected
    assert hint(pod_info("waiting", namespace=namespace, labels={"app": "db"}), holder, None) is QueueingHint.SKIP


REPELLED = pod_info("waiting", labels={"app": "repelled"})


def racked(rack: str) -> Node:
    return make_node("n", labels={"rack": rack})


def zoned(zone: str | None) -> Node:
    return make_node("n", labels={} if zone is None else {"zone": zone})


NODE_CHANGES: dict[str, tuple[PodInfo, Node | None, Node, bool]] = {
    "affinity, a node with the label comes": (SEEKS, None, zoned("a"), True),
    "affinity, a node without comes": (SEEKS, None, zoned(None), False),
    "affinity, a node gets the label": (SEEKS, zoned(None), zoned("a"), True),
    "affinity, a node moves": (SEEKS, zoned("a"), zoned("b"), True),
    "affinity, a node loses the label": (SEEKS, zoned("a"), zoned(None), False),
    "affinity, a node stays": (SEEKS, zoned("a"), zoned("a"), False),
    "anti-affinity, any node comes": (AVOIDS, None, zoned(None), True),
    "anti-affinity, a node gets the label": (AVOIDS, zoned(None), zoned("a"), False),
    "anti-affinity, a node moves": (AVOIDS, zoned("a"), zoned("b"), True),
    "anti-affinity, a node loses the label": (AVOIDS, zoned("a"), zoned(None), True),
    "anti-affinity, a node stays": (AVOIDS, zoned("a"), zoned("a"), False),
    "repelled by others, any node comes": (REPELLED, None, zoned(None), True),
    "repelled by others, a node leaves their domain": (REPELLED, racked("1"), racked("2"), True),
    "repelled by others, a node moves by another label": (REPELLED, zoned("a"), zoned("b"), False),
}


@pytest.mark.parametrize(("waiting", "old", "new", "wakes"), NODE_CHANGES.values(), ids=NODE_CHANGES)
def test_a_change_of_a_node(waiting: PodInfo, old: Node | None, new: Node, wakes: bool) -> None:
    assert hint(NODE, waiting, old, new) is (QueueingHint.QUEUE if wakes else QueueingHint.SKIP)


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
def test_a_selector_that_no_labels_satisfy_selects_by_the_namespaces_labels_all_the_same(operator: str) -> None:
    """kube-scheduler 1.36 lets every namespace match here (docs/differences.md)."""
    cache = cluster(web("theirs", "a-1", namespace="blue"))
    for name in ("blue", "green"):
        cache.counters.set_namespace(convert({"metadata": {"name": name, "labels": {"team": name}}}, Namespace))
    team: Tree = {"key": "team", "operator": operator}
    if operator == "NotIn":
        team["values"] = ["blue"]
    apart = far(term(namespaceSelector={"matchExpressions": [team]}))
    assert fitting(cache, pod_info(namespace="green", affinity=apart)) == {"a-1", "a-2", "b-1", "nowhere"}
    cache.add_pod(web("other", "b-1", namespace="green"))
    apart_from_green = {"a-1", "a-2", "nowhere"} if operator == "NotIn" else {"a-1", "a-2", "b-1", "nowhere"}
    assert fitting(cache, pod_info(namespace="green", affinity=apart)) == apart_from_green
