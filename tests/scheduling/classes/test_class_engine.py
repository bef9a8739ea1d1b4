"""What the class engine keeps, whom it asks again, and when it leaves a pod to the cycle alone."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import UNSIGNABLE, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS
from kscheduler.scheduling.classes.class_engine import BUDGET_BYTES, ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.timing import UNTIMED
from kscheduler.state.cache import Cache
from tests.builders import make_node, pod_info
from tests.scheduling.classes.test_signatures import default_profile
from tests.scheduling.plugins_for_tests import Looks, cluster, profile

ABC = ("a", "b", "c")


class PodSelection(Plugin):
    """A filter and a score that write down which nodes they are asked about."""

    depends_on = (Source.ROW,)
    reads_spec_only = True

    def __init__(self, name: str = "PodSelection", *sources: Source, signature: Hashable = None) -> None:
        self.name = name
        if sources:
            self.depends_on = sources  # type: ignore[misc, assignment]  # one per instance here
        self.signature = signature
        self.filtered: list[list[str]] = []
        self.scored: list[list[str]] = []

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.priority if self.signature is None else self.signature

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        self.filtered.append([nodes.name_of(row) for row in rows.tolist()])
        return np.zeros(len(rows), dtype=np.int64)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        self.scored.append([nodes.name_of(row) for row in rows.tolist()])
        return nodes.pod_count[rows]


class Decider:
    """A cluster, a profile of these plugins, and the engine of it."""

    def __init__(self, cache: Cache, *plugins: Plugin) -> None:
        self.cache = cache
        self.profile = profile(*plugins)
        self.engine = ClassEngine(self.profile, cache)

    def decide(self, pod: PodInfo | None = None) -> SchedulingRecord:
        return schedule(self.profile, pod or pod_info(), self.cache, engine=self.engine)


def test_a_plugin_is_queried_again_about_changed_rows_only() -> None:
    queried = PodSelection()
    decider = Decider(cluster(*ABC), queried)
    decider.decide()
    decider.cache.assume_pod(pod_info("one"), "b")
    assert decider.decide().node_name == "b"
    decider.decide()
    assert queried.filtered == queried.scored == [["a", "b", "c"], ["b"]]


def test_what_only_reads_nodes_is_not_queried_when_pods_come() -> None:
    class ReadsNodes(PodSelection):
        reads_pods = False

    queried = ReadsNodes()
    decider = Decider(cluster(*ABC), queried)
    decider.decide()
    decider.cache.assume_pod(pod_info("one"), "b")
    decider.decide()
    decider.cache.add_node(make_node("c", labels={"new": "label"}))
    decider.decide()
    assert queried.filtered == [["a", "b", "c"], ["c"]]


def test_what_only_reads_amounts_is_queried_once_for_rows_with_equal_amounts() -> None:
    queried = PodSelection("PodSelection", Source.AMOUNTS)
    decider = Decider(cluster(*ABC), queried)
    decider.decide()
    for name, node in (("one", "b"), ("two", "a")):
        decider.cache.assume_pod(pod_info(name, requests={"cpu": "1"}), node)
        decider.decide()
    decider.cache.add_node(make_node("c", labels={"new": "label"}))
    decider.decide()
    assert queried.scored == [["a", "b", "c"], ["b"]], "a gives and takes what b did, and c what it did before"


def test_a_node_that_comes_goes_or_takes_another_s_row_is_seen() -> None:
    queried = PodSelection()
    decider = Decider(cluster(*ABC), queried)
    decider.decide()
    decider.cache.remove_node("c")
    assert decider.decide().feasible_names() == ["a", "b"]
    decider.cache.add_node(make_node("d"))
    assert decider.decide().feasible_names() == ["a", "b", "d"]
    assert queried.filtered[-1] == ["d"]


class JudgesOtherwise(PodSelection):
    """It may read what the class that it has `sign` from does not."""

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return super().filter(cycle, pod, nodes, rows)


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(JudgesOtherwise(), id="judges otherwise than what signs"),
        pytest.param(PodSelection("PodSelection", Source.ANYTHING), id="depends on anything"),
        pytest.param(PodSelection("PodSelection", Source.ROW, Source.TOPOLOGY_COUNTERS), id="depends on other rows"),
        pytest.param(PodSelection("PodSelection", signature=UNSIGNABLE), id="does not sign this pod"),
    ],
)
def test_a_plugin_whose_answers_cannot_be_kept_is_queried_about_all_rows_for_each_pod(plugin: PodSelection) -> None:
    decider = Decider(cluster(*ABC), plugin)
    for _ in range(2):
        decider.decide()
    assert plugin.filtered == plugin.scored == [["a", "b", "c"], ["a", "b", "c"]]


class NeedsVolumes(PodSelection):
    """Asked live, because of what it depends on; and only about pods with volumes."""

    depends_on = (Source.VOLUMES,)
    needs_volumes = True

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        self.pre_filtered = [*getattr(self, "pre_filtered", []), pod.pod.metadata.name]
        return PreFilterResult(SUCCESS if pod.pod.spec.volumes else SKIP)


def test_a_plugin_that_needs_volumes_is_queried_about_pods_that_have_some() -> None:
    plugin = NeedsVolumes()
    decider = Decider(cluster(*ABC), plugin)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    for name, volumes in (("bare", []), ("with", [volume]), ("bare-too", []), ("with-too", [volume])):
        assert decider.decide(pod_info(name, volumes=volumes)).node_name
    assert plugin.pre_filtered == ["with", "with-too"]
    assert len(plugin.filtered) == 2


class AsksAlways(NeedsVolumes):
    """Made of one that needs volumes, it may judge otherwise."""

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return super().filter(cycle, pod, nodes, rows)


def test_a_plugin_made_of_one_that_needs_volumes_is_queried_about_every_pod() -> None:
    plugin = AsksAlways()
    Decider(cluster(*ABC), plugin).decide(pod_info("bare"))
    assert plugin.pre_filtered == ["bare"]


def test_classes_that_a_plugin_signs_alike_share_its_column() -> None:
    shared, own = PodSelection("Shared", signature="all"), PodSelection("Own")
    decider = Decider(cluster(*ABC), shared, own)
    for priority in (1, 2, 1, 2):
        decider.decide(pod_info(priority=priority))
    assert len(decider.engine) == 2
    assert len(shared.filtered) == 1
    assert len(own.filtered) == 2


def test_a_pod_that_prefilter_narrows_is_judged_by_the_cycle_alone() -> None:
    class Narrows(Looks):
        depends_on = (Source.ROW,)

        def sign(self, pod: PodInfo) -> Hashable:
            return ()

    decider = Decider(cluster(*ABC), Narrows("Narrows", names=frozenset({"b"})))
    assert decider.decide().node_name == "b"
    assert len(decider.engine) == 0


def test_where_only_a_share_of_the_nodes_is_searched_no_cycle_repeats_the_one_before() -> None:
    decider = Decider(cluster(*(f"node-{number}" for number in range(300))), PodSelection())
    decider.profile = replace(decider.profile, percentage_of_nodes_to_score=50)
    decider.engine = ClassEngine(decider.profile, decider.cache)
    assert [decider.decide().num_evaluated_nodes for _ in range(3)] == [150, 150, 150]


def test_memory_is_bounded_and_the_class_not_queried_about_for_longest_goes() -> None:
    queried = PodSelection()
    decider = Decider(cluster(*ABC), queried)
    for _ in range(4):  # what it takes is counted as it grows
        decider.decide(pod_info(priority=0))
    budget = decider.engine.bytes * 7 // 2
    decider.engine = ClassEngine(decider.profile, decider.cache, budget_bytes=budget)
    for priority in (0, 1, 2, 0, 3):
        decider.decide(pod_info(priority=priority))
    queried.filtered.clear()
    for priority in (0, 3, 2):
        decider.decide(pod_info(priority=priority))
    assert queried.filtered == []
    decider.decide(pod_info(priority=1))
    assert queried.filtered == [list(ABC)]
    assert len(decider.engine) == 3


def test_the_budget_follows_the_cluster() -> None:
    decider = Decider(cluster(*ABC), PodSelection())
    decider.decide(pod_info(priority=0))
    small = decider.engine.budget_bytes
    assert small < 3 * 2**20
    for number in range(2000):
        decider.cache.add_node(make_node(f"more-{number}"))
    decider.decide(pod_info(priority=1))
    large = decider.engine.budget_bytes
    assert 60 * 2**20 < large < BUDGET_BYTES
    for number in range(2000):
        decider.cache.remove_node(f"more-{number}")
    decider.decide(pod_info(priority=2))
    assert decider.engine.budget_bytes == small


def test_classes_of_releases_that_are_gone_fill_the_budget_and_no_more() -> None:
    decider = Decider(cluster(*ABC), PodSelection())
    decider.engine = ClassEngine(decider.profile, decider.cache, budget_bytes=100_000)
    counts = []
    for priority in range(200):
        for _ in range(3):
            decider.decide(pod_info(priority=priority))
        assert decider.engine.bytes <= 100_000
        counts.append(len(decider.engine))
    assert 1 < max(counts[:100]) == max(counts[100:]) < 40


def test_each_column_knows_how_many_classes_share_its_cost() -> None:
    decider = Decider(cluster(*ABC), PodSelection("Own"), PodSelection("Shared", signature="all"))
    decider.engine = ClassEngine(decider.profile, decider.cache, budget_bytes=60_000)
    for priority in (*range(30), *range(0, 30, 3)):
        decider.decide(pod_info(priority=priority))
    classes = decider.engine._classes.values()
    for answers in decider.engine._answers.values():
        assert answers.users == sum(answers in known.answers for known in classes)
    assert {answers.users for answers in decider.engine._answers.values()} == {1, len(decider.engine)}


STATEFUL = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-{}"}}]}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"labels": {"statefulset.kubernetes.io/pod-name": "web-{}"}}, id="StatefulSet"),
        pytest.param(STATEFUL, id="StatefulSet with claims"),
        pytest.param({"labels": {"batch.kubernetes.io/job-completion-index": "{}"}}, id="Indexed Job"),
        pytest.param({"namespace": "namespace-{}"}, id="namespaces"),
    ],
)
def test_pods_that_differ_in_what_no_kept_plugin_reads_are_one_class(fields: dict[str, Any]) -> None:
    cache = cluster(*ABC)
    engine = ClassEngine(default_profile(cache), cache)
    for number in range(3):
        assert engine.known(pod_info(f"web-{number}", **_numbered(fields, number)), UNTIMED) is not None
    assert len(engine) == 1


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        return {key: _numbered(one, number) for key, one in value.items()}
    if isinstance(value, list):
        return [_numbered(one, number) for one in value]
    return value.format(number) if isinstance(value, str) else value


class ByLabel(PodSelection):
    """Made of a plugin that signs the spec, and signs more than that."""

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.labels.get("wants", "")

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return np.array([nodes.name_of(row) != pod.labels["wants"] for row in rows.tolist()], dtype=np.int64)


class NormalizesByLabel(PodSelection):
    """Made of a plugin that signs, and reads what that one does not, after the points are given."""

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        wanted = "abc".index(pod.labels["wants"])
        return np.where(rows == wanted, 100, 0).astype(np.int64)


@pytest.mark.parametrize("kind", [ByLabel, NormalizesByLabel], ids=["sign", "normalize"])
def test_a_class_says_nothing_for_those_made_of_it_that_read_more(kind: type[PodSelection]) -> None:
    decider = Decider(cluster(*ABC), kind())
    assert [decider.decide(pod_info(name, labels={"wants": name})).node_name for name in ABC] == [*ABC]
