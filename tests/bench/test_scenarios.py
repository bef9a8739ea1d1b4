"""Benchmarks: every scenario does what it says, at a small size, and the figures count what happened."""

import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Kind
from kscheduler.api.well_known import ZONE
from kscheduler.bench import objects
from kscheduler.bench.catalogue import SCENARIOS
from kscheduler.bench.figures import Figures, as_json
from kscheduler.bench.own_scenarios import running_pods
from kscheduler.bench.player import Player, play
from kscheduler.bench.scenario import (
    BenchmarkScenario,
    Churn,
    CreateNodes,
    CreateObjects,
    CreatePods,
    DeletePods,
    Operation,
)
from kscheduler.bench.template import Template, TemplateError, template
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU, MEMORY

NODES_20, PODS_30 = 20, 30
OF_PREEMPTION = {"PreemptionBasic", "PreemptionPVs", "PreemptionOwnRows", "PreemptionWithConstraints"}


async def played(name: str, nodes: int = NODES_20, pods: int = PODS_30) -> tuple[Player, Figures]:
    player = Player(SCENARIOS[name].resized(nodes, pods))
    return player, await player.play()


def shown(player: Player, kind: Kind, key: str) -> Any:
    found = player.cluster.informers[kind].store.get(key)
    assert found is not None, key
    return found


def pods_of(player: Player, prefix: str = "") -> list[Pod]:
    return [pod for pod in player.cluster.informers[PODS].store.list() if pod.metadata.name.startswith(prefix)]


def measured(player: Player) -> list[Pod]:
    """The measured pods: those of the last operation's namespaces and names."""
    last = player.scenario.operations[-1]
    assert isinstance(last, CreatePods)
    assert isinstance(last.template, Template)
    name = re.compile(last.template.prefix.replace("$set", r"\d+").replace("$member", r"\d+"))
    namespace = last.namespace or f"namespace-{len(player.scenario.operations)}"
    return [pod for pod in pods_of(player) if pod.metadata.namespace == namespace and name.match(pod.metadata.name)]


def overcommitted(player: Player) -> list[str]:
    """Nodes that hold more than they have, by arithmetic of this test's own."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods_of(player):
        if pod.spec.node_name:
            requests = PodInfo(pod).requests
            used[pod.spec.node_name].update({CPU: requests.get(CPU, 0), MEMORY: requests.get(MEMORY, 0), "pods": 1})
    gives = {
        node.metadata.name: (4_000, 32 * 2**30, int(node.status.allocatable["pods"]))
        for node in player.cluster.informers[NODES].store.list()
    }
    return [name for name, held in used.items() if (held[CPU], held[MEMORY], held["pods"]) > gives[name]]


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_scenario_binds_all_that_it_measures(name: str) -> None:
    player, figures = await played(name)
    assert figures.is_complete
    assert 0 < figures.pods <= PODS_30
    assert len(measured(player)) == figures.pods
    assert all(pod.spec.node_name for pod in measured(player))
    assert overcommitted(player) == []
    assert figures.rejected == (figures.pods if name in OF_PREEMPTION else 0)
    assert figures.seconds["deciding"] < figures.seconds["all"]
    assert figures.decisions_per_second > 0
    assert 0 < figures.p50_us <= figures.p99_us
    assert figures.rss_mib > 10


@pytest.mark.parametrize("name", ["SchedulingBasic", "TopologySpreading", "SchedulingPreferredPodAntiAffinity"])
async def test_every_node_is_scored(name: str) -> None:
    _, figures = await played(name)
    assert figures.scored_nodes_per_decision == NODES_20


async def test_a_run_can_be_made_again() -> None:
    first, _ = await played("SchedulingBasic100Classes")
    second, _ = await played("SchedulingBasic100Classes")
    assert {pod.key: pod.spec.node_name for pod in pods_of(first)} == {
        pod.key: pod.spec.node_name for pod in pods_of(second)
    }


async def test_each_preemptor_takes_the_room_of_the_fewest() -> None:
    """0.4 of 4 CPUs are free beside four pods of 0.9, and 3 are needed: three of the four go."""
    player, _ = await played("PreemptionBasic")
    left = Counter(pod.spec.node_name for pod in pods_of(player, "pod-low-"))
    assert set(left.values()) == {1}
    assert len(left) == NODES_20
    assert Counter(pod.spec.node_name for pod in measured(player)) == dict.fromkeys(left, 1)


async def test_churn_goes_by_the_pace_and_its_rejections_are_counted_apart() -> None:
    """170 pods/s and 0.2 s: a hopeless pod after every 34 measured ones."""
    player, figures = await played("Unschedulable", pods=100)
    hopeless = pods_of(player, "pod-h-")
    assert len(hopeless) == 100 // 34
    assert not any(pod.spec.node_name for pod in hopeless)
    assert figures.bound == 100
    assert figures.rejected >= len(hopeless)


async def test_what_is_recreated_goes_again() -> None:
    scenario = replace(SCENARIOS["SchedulingWithMixedChurn"].resized(NODES_20, 50), pace=10.0)
    player = Player(scenario)
    assert (await player.play()).is_complete
    # 10 pods/s and 1 s: created after 10, 30 and 50 pods, deleted after 20 and 40.
    names = [node.metadata.name for node in player.cluster.informers[NODES].store.list()]
    assert [name for name in names if name.startswith("node-churn-")] == ["node-churn-00002"]
    assert [pod.metadata.name for pod in pods_of(player, "pod-h-")] == ["pod-h-00002"]


async def test_gated_pods_stay_and_the_others_are_deleted_beside_the_measured_ones() -> None:
    player, _ = await played("SchedulingWhileGated")
    gated = pods_of(player, "gated-pod-")
    assert len(gated) == 15
    assert not any(pod.spec.node_name for pod in gated)
    # 30 before, and 50 deletions a second at a pace of 130: one for every 2.6 measured pods.
    assert sum(pod.metadata.namespace == "deleted" for pod in pods_of(player)) == 30 - 11


async def test_what_a_finalizer_holds_terminates_and_stays() -> None:
    player, _ = await played("SchedulingDeletedPodsWithFinalizers")
    terminating = [pod for pod in pods_of(player, "finalized-pod-") if pod.metadata.deletion_timestamp]
    assert len(terminating) == 12  # of 20: 100 deletions a second at a pace of 250, and 30 pods
    assert len(pods_of(player, "finalized-pod-")) == NODES_20


async def test_a_claim_gets_its_volume_where_its_pod_goes() -> None:
    player, _ = await played("StatefulSetsWithClaims")
    for pod in measured(player):
        claim = shown(player, PERSISTENT_VOLUME_CLAIMS, f"default/data-{pod.metadata.name}")
        assert claim.is_fully_bound
        affinity = shown(player, PERSISTENT_VOLUMES, claim.spec.volume_name).spec.node_affinity.required
        zone = shown(player, NODES, pod.spec.node_name).metadata.labels[ZONE]
        assert affinity.node_selector_terms[0].match_expressions[0].values == (zone,)


async def test_daemon_pods_are_on_the_nodes_that_they_name() -> None:
    player, _ = await played("DaemonSetsEveryNode", pods=2 * NODES_20)
    by_set = Counter(pod.metadata.labels["name"] for pod in measured(player))
    assert by_set == {"agent-0": NODES_20, "agent-1": NODES_20}
    assert set(Counter(pod.spec.node_name for pod in measured(player)).values()) == {2}


async def test_pods_may_come_a_few_at_a_time() -> None:
    few = CreatePods(30, objects.DEFAULT_POD, measured=True, at_once=4)
    player = Player(BenchmarkScenario("few", "test", (NODE_20, few)))
    pending: list[int] = []
    binds = player.cluster.on_bound

    def on_bound(uid: str) -> None:
        pending.append(sum(not pod.spec.node_name for pod in pods_of(player)))
        binds(uid)

    player.cluster.on_bound = on_bound
    assert (await player.play()).is_complete
    assert pending == [4] * 27 + [3, 2, 1]


async def test_pods_that_run_already_are_spread_over_the_nodes() -> None:
    player = Player(running_pods(100, measured=10, nodes=10))
    figures = await player.play()
    assert figures.bound == 10
    there = [pod.spec.node_name for pod in pods_of(player) if pod.metadata.name.startswith("running-")]
    assert set(Counter(there).values()) == {10}


async def test_pods_of_a_settled_scenario_are_where_they_are_without_an_attempt() -> None:
    player = Player(SCENARIOS["TopologySpreading"].resized(20, 10).settled())
    figures = await player.play()
    assert (figures.bound, figures.rejected) == (10, 0)
    assert len(pods_of(player)) == 30
    before = [pod.spec.node_name for pod in pods_of(player) if pod.metadata.namespace == "namespace-2"]
    assert set(Counter(before).values()) == {1}
    assert len(before) == 20


async def test_measured_pods_without_room_are_reported_and_end_the_run() -> None:
    operations = (CreateNodes(1, objects.NODE), CreatePods(50, objects.DEFAULT_POD, measured=True))
    figures = await play(BenchmarkScenario("full", "test", operations, most_per_node=50.0))
    assert (figures.bound, figures.pods, figures.is_complete) == (40, 50, False)
    assert figures.rejected >= 10


async def test_pods_that_were_to_be_there_before_must_have_room() -> None:
    operations = (
        CreateNodes(1, objects.NODE),
        CreatePods(50, objects.DEFAULT_POD),
        CreatePods(1, objects.DEFAULT_POD, measured=True),
    )
    with pytest.raises(TemplateError, match="full: 10 pods found no node before it began"):
        await play(BenchmarkScenario("full", "test", operations))


# --- the figures ------------------------------------------------------------------------------------------------------


async def test_json_has_all_that_was_promised() -> None:
    _, figures = await played("SchedulingBasic")
    (row,) = msgspec.json.decode(as_json([figures]))
    assert {
        "scenario",
        "nodes",
        "pods",
        "decisions_per_second",
        "cpu_us_per_decision",
        "p50_us",
        "p99_us",
        "rss_mib",
        "scored_nodes_per_decision",
    } <= set(row)
    assert (row["scenario"], row["nodes"], row["pods"], row["goal"]) == ("SchedulingBasic", NODES_20, PODS_30, 0)


# --- scenarios as data ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        pytest.param(None, None, (5000, 1000, 2000, 4000), id="as declared, with its goal"),
        pytest.param(500, None, (500, 100, 200, 0), id="all in proportion"),
        pytest.param(None, 100, (5000, 1000, 100, 0), id="fewer measured ones"),
        pytest.param(10, 100, (10, 2, 8, 0), id="as many as have room"),
    ],
)
def test_a_scenario_of_another_size(nodes: int | None, pods: int | None, expected: tuple[int, ...]) -> None:
    made = SCENARIOS["SchedulingPodAntiAffinity"].resized(nodes, pods)
    (before,) = [one.count for one in made.operations if isinstance(one, CreatePods) and not one.measured]
    assert (made.nodes, before, made.pods, made.goal) == expected


def test_fixed_nodes_stay_as_they_are() -> None:
    made = SCENARIOS["SchedulingWhileGated"].resized(NODES_20, 200)
    assert made.nodes == 1
    assert [one.count for one in made.operations if isinstance(one, CreatePods)] == [100, 200, 200]


NODE_20 = CreateNodes(20, objects.NODE)
MEASURED = CreatePods(1, objects.DEFAULT_POD, measured=True)


@pytest.mark.parametrize(
    ("operations", "fields", "message"),
    [
        pytest.param((NODE_20,), {}, "one operation of measured pods", id="nothing is measured"),
        pytest.param((NODE_20, MEASURED, MEASURED), {}, "one operation of measured pods", id="two are measured"),
        pytest.param((MEASURED,), {}, "one operation of measured pods", id="no nodes"),
        pytest.param((CreateNodes(0, objects.NODE), MEASURED), {}, "count must be at least 1, not 0", id="count"),
        pytest.param((CreateNodes(1, objects.DEFAULT_POD), MEASURED), {}, "template of nodes, not of pods", id="node"),
        pytest.param((NODE_20, CreatePods(1, objects.NODE, measured=True)), {}, "not of nodes", id="pod"),
        pytest.param(
            (NODE_20, replace(MEASURED, arrival="running")), {}, "running cannot be measured", id="running, measured"
        ),
        pytest.param((NODE_20, replace(MEASURED, sets=0)), {}, "sets must be at least 1", id="no sets"),
        pytest.param(
            (NODE_20, replace(MEASURED, at_once=-1)), {}, "at_once must be at least 0", id="fewer than none at once"
        ),
        pytest.param((NODE_20, Churn((), 1.0), MEASURED), {}, "Churn needs templates", id="churn of nothing"),
        pytest.param((NODE_20, DeletePods("x", 0.0), MEASURED), {}, "above 0", id="no deletions"),
        pytest.param((NODE_20, replace(MEASURED, count=1000)), {}, "1000 pods have no room on 20 nodes", id="no room"),
        pytest.param((NODE_20, MEASURED), {"pace": 0.0}, "pace must be above 0", id="no pace"),
    ],
)
def test_a_scenario_that_makes_no_sense_is_refused(
    operations: tuple[Operation, ...], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(TemplateError, match=message):
        BenchmarkScenario("bad", "test", operations, **fields)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        pytest.param({"spec": {"nodeName": "$host"}}, r"unknown placeholder \$host", id="placeholder"),
        pytest.param({"spec": {"containers": {}}}, r"Expected `array`.*\$\.spec\.containers", id="shape"),
    ],
)
def test_a_template_is_checked_when_it_is_declared(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        template(PODS, "pod-", tree)


def test_objects_of_one_template_share_nothing_and_differ_in_name_and_uid() -> None:
    values = {"index": "1", "set": "0", "member": "1", "node": "", "namespace": "a"}
    one, again = objects.DEFAULT_POD.make(values), objects.DEFAULT_POD.make({**values, "namespace": "b"})
    assert (one.key, again.key) == ("a/pod-00001", "b/pod-00001")
    assert one.metadata.uid != again.metadata.uid
    assert one.spec.containers is not again.spec.containers


async def test_other_objects_are_made_in_the_namespace_that_they_are_for() -> None:
    services = CreateObjects(objects.SERVICE, 3, "web")
    player = Player(BenchmarkScenario("services", "test", (NODE_20, services, MEASURED)))
    await player.play()
    made = player.cluster.informers[objects.SERVICE.kind].store.keys()
    assert made == ["web/service-00000", "web/service-00001", "web/service-00002"]


async def test_nothing_is_created_twice() -> None:
    """Two operations with one template in one namespace would else be one lot of pods, some of them changed."""
    again = replace(MEASURED, namespace="web")
    player = Player(BenchmarkScenario("twice", "test", (NODE_20, replace(again, measured=False), again)))
    with pytest.raises(TemplateError, match="Pod web/pod-00000 is created twice"):
        await player.play()
