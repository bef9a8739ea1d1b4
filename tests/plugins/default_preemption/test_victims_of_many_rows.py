"""Nodes that are tried out together, each with counts of its own, give what each gives by itself."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Namespace, Pod
from kscheduler.api.storage import PersistentVolumeClaim
from kscheduler.assembly import profiles_over
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.pod_columns import PodColumns
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis, FitError
from kscheduler.plugins.default_preemption.budgets import BudgetRules
from kscheduler.plugins.default_preemption.victims import Tried, VictimSearch
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, make_pod
from tests.effort import example_count

NODES = 5
WEB = {"matchLabels": {"app": "web"}}
CLAIM = [{"name": "v", "persistentVolumeClaim": {"claimName": "alone"}}]


def cluster(nodes: list[Tree], pods: list[Pod], nominated: list[Pod]) -> Cache:
    cache = Cache()
    for name in ("default", "other"):
        cache.counters.set_namespace(convert({"metadata": {"name": name}}, Namespace))
        spec = {"accessModes": ["ReadWriteOncePod"], "volumeName": "pv"}
        meta = {"name": "alone", "namespace": name}
        cache.volumes.put(convert({"metadata": meta, "spec": spec}, PersistentVolumeClaim))
    for fields in nodes:
        cache.add_node(make_node(**fields))
    for pod in pods:
        cache.add_pod(pod)
    for pod in nominated:
        cache.nominator.add(PodInfo(pod))
    return cache


def judged(cache: Cache, pod: Pod) -> SchedulingRecord:
    """By default plugins without those that ask for a claim's volume (there is none here), and without those that
    reject every node whose pods a spread constraint skips.
    """
    profile = profiles_over(cache, default_configuration("kscheduler"), registry())["kscheduler"]
    off = {"VolumeBinding", "VolumeZone", "NodeVolumeLimits", "NodeAffinity", "TaintToleration"}
    profile = replace(
        profile,
        pre_filter=tuple(one for one in profile.pre_filter if one.name not in off),
        filter=tuple(one for one in profile.filter if one.name not in off),
    )
    return schedule(profile, PodInfo(pod), cache)


def reported(tried: Tried, cache: Cache) -> object:
    found = {
        candidate.node_name: ([pod.name for pod in candidate.victims], candidate.broken_budgets)
        for one in tried.found
        for candidate in (one.at(place, cache.nodes) for place in range(len(one)))
    }
    rejected = sorted(row for one in tried.rejections for row in one.rows.tolist())
    words = FitError(NODES, Diagnosis(rejections=tried.rejections)).message
    return found, rejected, words, sorted(tried.errors)


def term(*keys: str) -> Tree:
    terms = [{"topologyKey": key, "labelSelector": WEB} for key in keys]
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


keys = st.sampled_from(["zone", "host"])
policies = st.sampled_from([None, "Honor", "Ignore"])


@st.composite
def nodes(draw: st.DrawFn, number: int) -> Tree:
    zone = draw(st.sampled_from([{}, {"zone": "a"}, {"zone": "a"}, {"zone": "b"}]))
    taints = draw(st.sampled_from([[], [], [{"key": "k", "effect": "NoSchedule"}]]))
    host = draw(st.sampled_from([{}, {"host": f"n{number}"}, {"host": f"n{number}"}]))
    labels = {"disk": draw(st.sampled_from(["ssd", "hdd"])), **host, **zone}
    return {"name": f"n{number}", "cpu": "2", "labels": labels, "spec": {"taints": taints}}


@st.composite
def pods(draw: st.DrawFn, number: int) -> Pod:
    averse: Any = draw(st.sampled_from([{}, {}, {"affinity": {"podAntiAffinity": term("zone")}}]))
    claims = draw(st.sampled_from([{}, {}, {"volumes": CLAIM}]))
    return make_pod(
        f"p{number}",
        namespace=draw(st.sampled_from(["default", "default", "other"])),
        node=f"n{draw(st.integers(0, NODES - 1))}",
        labels=draw(st.sampled_from([{}, {"app": "web"}, {"app": "web", "of": str(number)}])),
        requests={"cpu": draw(st.sampled_from(["0", "1"]))},
        priority=draw(st.integers(0, 3)),
        metadata=draw(st.sampled_from([{}, {}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])),
        **averse,
        **claims,
    )


@st.composite
def preemptors(draw: st.DrawFn) -> Pod:
    spread = {
        "maxSkew": 1,
        "topologyKey": draw(keys),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        "nodeTaintsPolicy": draw(policies),
        "nodeAffinityPolicy": draw(policies),
    }
    wanted: list[Tree] = [
        {"topologySpreadConstraints": [spread]},
        {"topologySpreadConstraints": [spread, {**spread, "topologyKey": "host"}]},
        {"affinity": {"podAntiAffinity": term(draw(keys))}},
        {"affinity": {"podAffinity": term(draw(keys))}},
        {"affinity": {"podAffinity": term("zone", "host")}},
        {"volumes": CLAIM},
        {"volumes": CLAIM, "topologySpreadConstraints": [spread]},
    ]
    spec = draw(st.sampled_from(wanted))
    chosen = draw(st.sampled_from([{}, {"nodeSelector": {"disk": "ssd"}}]))
    labels = draw(st.sampled_from([{}, {"app": "web"}]))
    return make_pod("new", priority=2, labels=labels, requests={"cpu": "1"}, **spec, **chosen)


@settings(max_examples=example_count(150))
@given(st.data())
def test_rows_tried_out_together_are_as_each_by_itself(data: st.DataObject) -> None:
    made = [data.draw(nodes(number)) for number in range(NODES)]
    there = [data.draw(pods(number)) for number in range(data.draw(st.integers(3, 12)))]
    expected = [
        make_pod("nominated", priority=3, labels={"app": "web"}, status={"nominatedNodeName": name}, uid=name)
        for name in data.draw(st.sampled_from([[], ["n0"], ["n0", "n1"]]))
    ]
    cache = cluster(made, there, expected)
    record = judged(cache, data.draw(preemptors()))
    filters = record.state.find(DryRun)
    if filters is None:
        return
    outcomes = []
    for one in (filters, msgspec.structs.replace(filters, move_pods=None)):
        rows = cache.nodes.rows()
        search = VictimSearch(record.pod, cache.nodes, record.state, one, PodColumns(), BudgetRules(None))
        outcomes.append(reported(search.on(rows), cache))
    assert outcomes[0] == outcomes[1]


def test_every_default_plugin_that_counts_pods_can_keep_rows_apart() -> None:
    """One that cannot would have each node judged by itself: a hundred times slower."""
    pod = make_pod("new", priority=2, requests={"cpu": "1"}, affinity={"podAntiAffinity": term("host")})
    there = [make_pod(f"p{number}", node=f"n{number}", labels={"app": "web"}) for number in range(2)]
    record = judged(
        cluster([{"name": f"n{number}", "labels": {"host": str(number)}} for number in range(2)], there, []), pod
    )
    filters = record.state.read(DryRun)
    assert filters.counts_pods
    assert filters.move_pods is not None
    assert {one.node_name for one in record.state.read(PreemptionSearch).candidates()} == {"n0", "n1"}


@pytest.mark.parametrize("namespace", ["default", "other"])
def test_a_claim_for_one_pod_only_is_freed_where_its_user_stands(namespace: str) -> None:
    """Every node is rejected for the claim, and all their pods are less important: only the user's going helps."""
    there = [make_pod(f"p{number}", node=f"n{number}", requests={"cpu": "1"}) for number in range(3)]
    there.append(make_pod("user", namespace=namespace, node="n1", volumes=CLAIM))
    cache = cluster([{"name": f"n{number}", "cpu": "2"} for number in range(3)], there, [])
    record = judged(cache, make_pod("new", priority=2, requests={"cpu": "1"}, volumes=CLAIM))
    if namespace == "other":
        assert record.status.is_success, "another namespace's claim of that name is another claim"
        return
    assert record.nominated_node_name == "n1"
    assert [pod.name for pod in record.state.read(PreemptionSearch).chosen.victims] == ["user"]


def test_the_first_of_a_group_is_first_only_where_nobody_of_it_is_left_in_any_domain() -> None:
    """Its victim was the only one on its host that it could join; one more in the zone is on a node without a host."""
    there = [
        make_pod("victim", node="n0", labels={"app": "web"}, requests={"cpu": "1"}),
        make_pod("stays", node="n0", priority=3, requests={"cpu": "1"}),
        make_pod("in-zone", node="n1", priority=3, labels={"app": "web"}),
    ]
    made: list[Tree] = [
        {"name": "n0", "cpu": "2", "labels": {"zone": "a", "host": "n0"}},
        {"name": "n1", "labels": {"zone": "a"}},
    ]
    affinity = {"podAffinity": term("zone", "host")}
    pod = make_pod("new", priority=2, labels={"app": "web"}, requests={"cpu": "1"}, affinity=affinity)
    assert judged(cluster(made, there, []), pod).state.find(PreemptionSearch) is None
    assert judged(cluster(made, there[:2], []), pod).nominated_node_name == "n0"
