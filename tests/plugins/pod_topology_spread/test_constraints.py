"""PodTopologySpread, case by case: what counts, and which constraints apply."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from kscheduler.api.codec import convert
from kscheduler.api.core import Node
from kscheduler.api.meta import OwnerReference
from kscheduler.api.releases import BEHAVIOURS, VERSION
from kscheduler.config.plugin_args import PodTopologySpreadArgs
from kscheduler.framework.cluster.lister import NO_WORKLOADS, WorkloadListers
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.framework.traits import traits_of
from kscheduler.plugins.pod_topology_spread import PodTopologySpread
from kscheduler.plugins.pod_topology_spread.scoring import go_log
from kscheduler.scenario.listed_kinds import listed_workloads
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod, pod_info

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"app": "web"}
SELECTOR = {"matchLabels": WEB}
Spread = dict[str, Any]


def spread(key: str = "zone", **fields: Any) -> Spread:
    """A hard constraint on web pods."""
    return {
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
        **fields,
    }


def web(*constraints: Spread, labels: Mapping[str, str] = WEB, **fields: Any) -> PodInfo:
    """A pod with these constraints, to be judged."""
    return pod_info("judged", labels=dict(labels), topologySpreadConstraints=list(constraints), **fields)


def zoned(name: str, zone: str | None, **fields: Any) -> Node:
    """A node in a zone, or in none."""
    return make_node(name, labels={} if zone is None else {"zone": zone, ZONE: zone, HOST: name}, **fields)


def cluster(*nodes: Node, **running: int) -> Cache:
    """These nodes with so many web pods on each, by the node's name."""
    cache = Cache()
    for node in nodes:
        cache.add_node(node)
    for name, count in running.items():
        for number in range(count):
            cache.add_pod(make_pod(f"{name}-{number}", node=name, labels=WEB))
    return cache


def plugin(
    cache: Cache,
    args: PodTopologySpreadArgs | None = None,
    workloads: WorkloadListers = NO_WORKLOADS,
    version: str = VERSION,
) -> PodTopologySpread:
    handle = Handle(cache, None, None, counters=cache.counters, workloads=workloads)  # type: ignore[arg-type]
    return PodTopologySpread(args, replace(handle, behaviours=BEHAVIOURS[version]))


def codes(cache: Cache, pod: PodInfo, judge: PodTopologySpread | None = None) -> dict[str, int]:
    """The code of each node."""
    judge = judge or plugin(cache)
    cycle, nodes = CycleState(), cache.nodes
    assert judge.pre_filter(cycle, pod, nodes).status.is_success
    answer = judge.filter(cycle, pod, nodes, nodes.rows())
    return by_name(nodes, np.zeros(len(nodes), dtype=np.int64) if answer is None else answer)


def points(cache: Cache, pod: PodInfo, judge: PodTopologySpread) -> dict[str, int]:
    """The normalised points of each node, all being feasible."""
    cycle, nodes = CycleState(), cache.nodes
    rows = nodes.rows()
    assert judge.pre_score(cycle, pod, nodes, rows).is_success
    return by_name(nodes, judge.normalize(cycle, pod, rows, judge.score(cycle, pod, nodes, rows)))


def by_name(nodes: NodeTable, values: NDArray[np.int64]) -> dict[str, int]:
    return {nodes.name_of(row): value for row, value in zip(nodes.rows().tolist(), values.tolist(), strict=True)}


# --- hard constraints -------------------------------------------------------------------------------------------------


def test_a_node_in_a_fuller_zone_is_rejected_and_one_without_a_zone_for_good() -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), zoned("c", None), a=1)
    judge = plugin(cache)
    assert codes(cache, web(spread())) == {"a": 1, "b": 0, "c": -1}
    too_full, unlabelled = (judge.status(CycleState(), code) for code in (1, -1))
    assert (too_full.code, too_full.reasons) == (
        Code.UNSCHEDULABLE,
        ("node(s) didn't match pod topology spread constraints",),
    )
    assert (unlabelled.code, unlabelled.reasons) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        ("node(s) didn't match pod topology spread constraints (missing required label)",),
    )


def test_the_first_constraint_that_objects_names_the_reason() -> None:
    racked = [make_node(name, labels={"zone": name, "rack": "r"}) for name in ("a", "c")]
    cache = cluster(*racked, make_node("b", labels={"zone": "a"}), a=2)
    loose = spread("rack", maxSkew=9)
    assert codes(cache, web(spread(), loose)) == {"a": 1, "b": 1, "c": 0}
    assert codes(cache, web(loose, spread())) == {"a": 1, "b": -1, "c": 0}


def test_a_node_without_all_keys_counts_for_none() -> None:
    cache = cluster(make_node("a", labels={"zone": "a", "rack": "r"}), zoned("b", "b"), b=5)
    assert codes(cache, web(spread(), spread("rack"))) == {"a": 0, "b": -1}


def test_a_pod_that_does_not_match_its_own_selector_does_not_count_itself() -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), a=1)
    assert codes(cache, web(spread(), labels={"app": "db"})) == {"a": 0, "b": 0}


def test_an_empty_selector_counts_nobody_and_still_matches_the_pod_itself() -> None:
    """Q23: with two zones and a skew of 1 there is always room, with minDomains or not."""
    cache = cluster(zoned("a", "a"), zoned("b", "b"), a=5)
    assert codes(cache, web(spread(labelSelector={}))) == {"a": 0, "b": 0}


def test_from_1_38_an_empty_selector_counts_all_pods_of_the_namespace_that_stay() -> None:
    """(1.38: D1) In the filter and in the score; not those of other namespaces, nor those that terminate."""
    cache = cluster(zoned("a", "a"), zoned("b", "b"), zoned("c", "c"), a=2, b=1)
    cache.add_pod(make_pod("unlabelled", node="b"))
    cache.add_pod(make_pod("elsewhere", node="c", namespace="other", labels=WEB))
    leaving = make_pod("leaving", node="c", labels=WEB)
    leaving.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    cache.add_pod(leaving)
    judged, newer = web(spread(labelSelector={})), plugin(cache, version="1.38")
    assert codes(cache, judged, plugin(cache, version="1.37")) == {"a": 0, "b": 0, "c": 0}
    assert codes(cache, judged, newer) == {"a": 1, "b": 1, "c": 0}
    soft = web(spread(labelSelector={}, whenUnsatisfiable="ScheduleAnyway"))
    assert len(set(points(cache, soft, plugin(cache, version="1.37")).values())) == 1
    assert points(cache, soft, newer) == {"a": 0, "b": 0, "c": 100}


def test_from_1_38_an_empty_selector_that_match_label_keys_narrow_is_none() -> None:
    """(1.38: D1)"""
    cache = cluster(zoned("a", "a"), zoned("b", "b"), a=5)
    cache.add_pod(make_pod("unlabelled", node="b"))
    for version in ("1.37", "1.38"):
        judge = plugin(cache, version=version)
        assert codes(cache, web(spread(labelSelector={}, matchLabelKeys=["app"])), judge) == {"a": 1, "b": 0}


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_no_selector_matches_nothing(version: str) -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), a=5)
    assert codes(cache, web(spread(labelSelector=None)), plugin(cache, version=version)) == {"a": 0, "b": 0}


@pytest.mark.parametrize(("least", "expected"), [(None, 0), (1, 0), (2, 0), (3, 1)], ids=str)
def test_too_few_domains_make_the_emptiest_count_as_empty(least: int | None, expected: int) -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), a=1, b=1)
    assert codes(cache, web(spread(minDomains=least))) == {"a": expected, "b": expected}


def test_terminating_pods_and_other_namespaces_do_not_count() -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"))
    cache.add_pod(make_pod("old", node="a", labels=WEB, metadata={"deletionTimestamp": "2026-11-21T00:00:00Z"}))
    cache.add_pod(make_pod("foreign", node="a", labels=WEB, namespace="other"))
    assert codes(cache, web(spread())) == {"a": 0, "b": 0}


@pytest.mark.parametrize(("policy", "expected"), [(None, 0), ("Honor", 0), ("Ignore", 1)], ids=str)
def test_a_zone_that_the_pod_cannot_choose_lowers_no_minimum(policy: str | None, expected: int) -> None:
    cache = cluster(make_node("a", labels={"zone": "a", "disk": "ssd"}), zoned("b", "b"), a=1)
    pod = web(spread(nodeAffinityPolicy=policy), nodeSelector={"disk": "ssd"})
    assert codes(cache, pod)["a"] == expected


@pytest.mark.parametrize(("policy", "expected"), [(None, 1), ("Honor", 0), ("Ignore", 1)], ids=str)
def test_a_tainted_zone_lowers_no_minimum_where_taints_are_honoured(policy: str | None, expected: int) -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    cache = cluster(zoned("a", "a"), zoned("b", "b", spec={"taints": [taint]}), a=1)
    assert codes(cache, web(spread(nodeTaintsPolicy=policy)))["a"] == expected
    tolerant = web(spread(nodeTaintsPolicy=policy), tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert codes(cache, tolerant)["a"] == 1


def test_match_label_keys_count_the_pods_of_the_same_version_only() -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), a=3)
    versioned = web(spread(matchLabelKeys=["version", "absent"]), labels={**WEB, "version": "2"})
    assert codes(cache, versioned) == {"a": 0, "b": 0}
    cache.add_pod(make_pod("two", node="a", labels={**WEB, "version": "2"}))
    assert codes(cache, versioned) == {"a": 1, "b": 0}


def test_a_pod_without_hard_constraints_is_skipped() -> None:
    cache = cluster(zoned("a", "a"))
    for pod in (web(), web(spread(whenUnsatisfiable="ScheduleAnyway"))):
        assert plugin(cache).pre_filter(CycleState(), pod, cache.nodes).status.is_skip


def test_a_selector_that_cannot_be_parsed_is_an_error() -> None:
    cache = cluster(zoned("a", "a"))
    wrong = {"matchExpressions": [{"key": "app", "operator": "Like"}]}
    hard, soft = spread(labelSelector=wrong), spread(labelSelector=wrong, whenUnsatisfiable="ScheduleAnyway")
    assert plugin(cache).pre_filter(CycleState(), web(hard), cache.nodes).status.code is Code.ERROR
    assert plugin(cache).pre_score(CycleState(), web(soft), cache.nodes, cache.nodes.rows()).code is Code.ERROR


def test_without_counters_a_constraint_fails_loudly() -> None:
    cache = cluster(zoned("a", "a"))
    bare = PodTopologySpread(None, Handle(cache, None, None))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="without topology counters"):
        bare.pre_filter(CycleState(), web(spread()), cache.nodes)


# --- soft constraints and defaults ------------------------------------------------------------------------------------


def workloads(**lists: Any) -> WorkloadListers:
    return listed_workloads(convert(lists, ClusterObjects))


SERVICE = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": WEB}}


def test_nodes_that_lack_a_key_get_nothing_for_the_pods_own_constraints() -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), zoned("c", None), a=2)
    soft = web(spread(whenUnsatisfiable="ScheduleAnyway"))
    assert points(cache, soft, plugin(cache)) == {"a": 0, "b": 100, "c": 0}


@pytest.mark.parametrize("most", [62, 63, 64, 70])
def test_points_by_host_go_by_the_number_of_pods_however_many_there_are(most: int) -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), zoned("c", "c"), a=most, b=3)
    soft = web(spread(HOST, whenUnsatisfiable="ScheduleAnyway", maxSkew=2))
    raw = {name: math.floor(count * go_log(5) + 1 + 0.5) for name, count in {"a": most, "b": 3, "c": 0}.items()}
    scored = {name: 100 * (raw["a"] + raw["c"] - its) // raw["a"] for name, its in raw.items()}
    assert points(cache, soft, plugin(cache)) == scored


def test_scores_of_a_plugin_made_of_this_one_are_normalised_as_they_are() -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), zoned("c", "c"), a=2)
    cycle, nodes, judge = CycleState(), cache.nodes, plugin(cache)
    soft = web(spread(HOST, whenUnsatisfiable="ScheduleAnyway"))
    judge.pre_score(cycle, soft, nodes, nodes.rows())
    assert judge.normalize(cycle, soft, nodes.rows(), np.array([4, 1, 2])).tolist() == [25, 100, 75]


def test_scores_that_a_plugin_made_of_this_one_writes_over_count() -> None:
    class Shunning(PodTopologySpread):
        """It writes into what its class has told, which is the same array then."""

        def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
            scores = super().score(cycle, pod, nodes, rows)
            scores[1] += 50
            return scores

    cache = cluster(zoned("a", "a"), zoned("b", "b"), zoned("c", "c"), a=2)
    shunning = Shunning(None, Handle(cache, None, None, counters=cache.counters))  # type: ignore[arg-type]
    scored = points(cache, web(spread(HOST, whenUnsatisfiable="ScheduleAnyway")), shunning)
    assert scored["b"] < scored["a"] < scored["c"]


def test_the_systems_defaults_score_a_node_by_the_keys_that_it_has() -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), make_node("c", labels={HOST: "c"}), a=2)
    scored = points(cache, pod_info("judged", labels=WEB), plugin(cache, workloads=workloads(services=[SERVICE])))
    assert scored["a"] < scored["b"] < scored["c"], "without a zone there is nothing to add"


def test_an_empty_zone_and_no_zone_are_one_domain_to_the_systems_defaults() -> None:
    """Upstream looks a missing label up as the empty string."""
    listers = workloads(services=[SERVICE])
    cache = cluster(make_node("a", labels={ZONE: ""}), make_node("b"), make_node("c", labels={ZONE: "c"}), b=3)
    apart = cluster(make_node("a", labels={ZONE: "x"}), make_node("b"), make_node("c", labels={ZONE: "c"}), b=3)
    pod = pod_info("judged", labels=WEB)
    scored = points(cache, pod, plugin(cache, workloads=listers))
    assert scored["a"] < scored["c"]
    scored = points(apart, pod, plugin(apart, workloads=listers))
    assert scored["a"] == scored["c"]


def owned(kind: str, version: str = "apps/v1", *, controller: bool | None = True) -> PodInfo:
    pod = make_pod("judged", labels=dict(WEB))
    pod.metadata.owner_references = (OwnerReference(kind, "o", "", version, controller),)
    return PodInfo(pod)


def owner(selector: Any) -> dict[str, Any]:
    return {"metadata": {"name": "o", "namespace": "default"}, "spec": {"selector": selector}}


SELECTED: dict[str, tuple[PodInfo, dict[str, Any], bool]] = {
    "by nobody": (pod_info(labels=WEB), {}, False),
    "by a service": (pod_info(labels=WEB), {"services": [SERVICE]}, True),
    "by a service of another namespace": (pod_info(labels=WEB, namespace="other"), {"services": [SERVICE]}, False),
    "by a service for other labels": (pod_info(labels={"app": "db"}), {"services": [SERVICE]}, False),
    "by a service without a selector": (pod_info(labels=WEB), {"services": [owner({})]}, False),
    "by its ReplicaSet": (owned("ReplicaSet"), {"replicasets": [owner(SELECTOR)]}, True),
    "by its StatefulSet": (owned("StatefulSet"), {"statefulsets": [owner(SELECTOR)]}, True),
    "by its ReplicationController": (
        owned("ReplicationController", "v1"),
        {"replicationcontrollers": [owner(WEB)]},
        True,
    ),
    "by an owner that does not control it": (
        owned("ReplicaSet", controller=None),
        {"replicasets": [owner(SELECTOR)]},
        False,
    ),
    "by an owner of another group": (owned("ReplicaSet", "x.io/v1"), {"replicasets": [owner(SELECTOR)]}, False),
    "by an owner of another kind": (owned("Job", "batch/v1"), {"replicasets": [owner(SELECTOR)]}, False),
    "by an owner that is gone": (owned("ReplicaSet"), {}, False),
    "by a ReplicaSet without a selector": (owned("ReplicaSet"), {"replicasets": [owner(None)]}, False),
}


@pytest.mark.parametrize(("pod", "lists", "is_spread"), SELECTED.values(), ids=SELECTED)
def test_default_constraints_apply_to_pods_that_are_selected(
    pod: PodInfo, lists: dict[str, Any], is_spread: bool
) -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"))
    judge = plugin(cache, workloads=workloads(**lists))
    skipped = judge.pre_score(CycleState(), pod, cache.nodes, cache.nodes.rows()).is_skip
    assert skipped is not is_spread


def test_a_controllers_selector_narrows_its_services_selector() -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), a=3)
    cache.add_pod(make_pod("two", node="b", labels={**WEB, "version": "2"}))
    pod = owned("ReplicaSet")
    pod.labels["version"] = "2"
    lists = {"services": [SERVICE], "replicasets": [owner({"matchLabels": {"version": "2"}})]}
    scored = points(cache, pod, plugin(cache, workloads=workloads(**lists)))
    assert scored["a"] > scored["b"], "the service's pods on a are of another version"


def test_constraints_of_the_pods_own_put_all_defaults_aside() -> None:
    cache = cluster(zoned("a", "a"))
    judge = plugin(cache, workloads=workloads(services=[SERVICE]))
    assert judge.pre_score(CycleState(), web(spread()), cache.nodes, cache.nodes.rows()).is_skip


def listed(**fields: Any) -> PodTopologySpreadArgs:
    one = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **fields}
    return convert({"defaultingType": "List", "defaultConstraints": [one]}, PodTopologySpreadArgs)


def test_default_constraints_of_the_profile_may_forbid_nodes() -> None:
    cache = cluster(zoned("a", "a"), zoned("b", "b"), a=1)
    judge = plugin(cache, listed(), workloads(services=[SERVICE]))
    assert codes(cache, pod_info("judged", labels=WEB), judge) == {"a": 1, "b": 0}
    with pytest.raises(ValueError, match="need services and controllers"):
        plugin(cache, listed())


def test_whether_constraints_of_the_profile_may_forbid_nodes_is_said_by_the_plugin() -> None:
    """Where other members of a group may satisfy them, nodes are judged without them."""
    cache, listers = cluster(zoned("a", "a")), workloads(services=[SERVICE])
    scoring = listed(whenUnsatisfiable="ScheduleAnyway")
    forbids, scores = plugin(cache, listed(), listers), plugin(cache, scoring, listers)
    assert traits_of(forbids).says_if_defaults_reject
    assert forbids.rejects_by_defaults(pod_info("judged", labels=WEB))
    assert not forbids.rejects_by_defaults(web(spread()))
    assert not scores.rejects_by_defaults(pod_info("judged", labels=WEB))


def test_no_default_constraints_at_all() -> None:
    cache = cluster(zoned("a", "a"))
    none = convert({"defaultingType": "List"}, PodTopologySpreadArgs)
    judge = plugin(cache, none, workloads(services=[SERVICE]))
    assert judge.pre_score(CycleState(), pod_info(labels=WEB), cache.nodes, cache.nodes.rows()).is_skip


# --- arithmetic -------------------------------------------------------------------------------------------------------

# `math.Log` of Go 1.26 on amd64; from 3 to 176 its last bit is not the C library's.
GO = {
    2: "0x1.62e42fefa39efp-1",
    3: "0x1.193ea7aad030ap+0",
    14: "0x1.51cca16d7bba8p+1",
    48: "0x1.ef8383c50bb74p+1",
    74: "0x1.1375cd6fcab1cp+2",
    176: "0x1.4ae935b3cb89ep+2",
    1000: "0x1.ba18a998fffa0p+2",
    5002: "0x1.10901f6dc84b9p+3",
    19999: "0x1.3ce8f5de1810ep+3",
}


@pytest.mark.parametrize(("number", "expected"), GO.items(), ids=str)
def test_the_logarithm_is_gos_to_the_last_bit(number: int, expected: str) -> None:
    assert go_log(number).hex() == expected
