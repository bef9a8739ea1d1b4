"""One bad value, on a node or on a pod, stays where it is: other nodes get their points, other pods their node."""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

from kscheduler.assembly.plugin_files import run_file
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import PerNodeFactory, plugin
from kscheduler.framework.plugin import Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import StatusError
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.testing import Cluster
from kscheduler.testing.cluster import UndecidedError
from tests.builders import make_node, make_pod
from tests.effort import sampled
from tests.scheduling.runtime.plugin_cluster import PluginCluster

BAD, CHEAP, DEAR, MORE = "node-0", "node-1", "node-2", "node-3"
COSTS = {BAD: "free", CHEAP: "0.1", DEAR: "0.9", MORE: "0.8"}


def price(node: Any) -> int:
    return max(0, 100 - int(float(node.annotations.get("cost", "1")) * 100))


def cheap_function(sign: Any) -> Any:
    """README's own plugin."""

    def score(pod: PodInfo, node: NodeInfo) -> int:
        return price(node)

    return PerNodeFactory("Hostile", score, sign)(None, None)  # type: ignore[arg-type]


class Columnar(Plugin):
    """The same as a class that does not say for which node it raises."""

    name = "Hostile"

    def __init__(self) -> None:
        self.calls = 0

    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        self.calls += 1
        return np.array([price(nodes.info(row)) for row in rows.tolist()], dtype=np.int64)


class KeptColumnar(Columnar):
    depends_on = (Source.ROW,)

    def sign(self, pod: PodInfo) -> Any:
        return "all alike"


class Mixed(Columnar):
    """One NaN turns the whole array to float64, which is no answer."""

    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        costs = [nodes.info(row).annotations["cost"] for row in rows.tolist()]
        if "free" not in costs:
            return np.array([100 - int(float(cost) * 100) for cost in costs], dtype=np.int64)
        return np.array([np.nan if cost == "free" else 100 - float(cost) * 100 for cost in costs])


class OutOfRange(Columnar):
    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        costs = [nodes.info(row).annotations["cost"] for row in rows.tolist()]
        return np.array([-7 if cost == "free" else 100 - int(float(cost) * 100) for cost in costs], dtype=np.int64)


class KeptOutOfRange(OutOfRange):
    depends_on = (Source.ROW,)

    def sign(self, pod: PodInfo) -> Any:
        return "all alike"


class Normalizing(KeptColumnar):
    """The lowest raw points are the best: a node without an answer must not win by its 0."""

    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        return 1000 - super().score(cycle, pod, nodes, rows)

    def normalize(self, cycle: Any, pod: PodInfo, rows: Any, scores: Any) -> Any:
        return 100 - 100 * (scores - scores.min()) // max(1, scores.max() - scores.min())


class ReturnsAnError(Columnar):
    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        try:
            return super().score(cycle, pod, nodes, rows)
        except ValueError as mistake:
            raise StatusError(str(mistake)) from mistake


PLUGINS: dict[str, Any] = {
    "function": lambda: cheap_function(None),
    "signed function": lambda: cheap_function(lambda _pod: None),
    "columnar": Columnar,
    "kept columnar": KeptColumnar,
    "array that cannot be used": Mixed,
    "out of range": OutOfRange,
    "kept, out of range": KeptOutOfRange,
    "normalising": Normalizing,
}


def cluster_of(plugin: Any, **settings: Any) -> PluginCluster:
    cluster = PluginCluster(plugin, nodes=0, settings=settings)
    for name, cost in COSTS.items():
        cluster.cache.add_node(make_node(name, metadata={"annotations": {"cost": cost}}))
    return cluster


def record_of(cluster: PluginCluster, *, by_class: bool, pod: Any = None) -> Any:
    profile = cluster.profiles["kscheduler"]
    engine = ClassEngine(profile, cluster.cache, reports_all=True) if by_class else None
    return schedule(profile, PodInfo(pod or make_pod("asked")), cluster.cache, engine=engine)


def points_of(record: Any) -> dict[str, int]:
    (scores,) = [scores for scores in record.scores if scores.plugin == "Hostile"]
    return dict(zip(record.feasible_names(), scores.points.tolist(), strict=True))


@pytest.mark.parametrize("by_class", [False, True], ids=["plain", "by class"])
@pytest.mark.parametrize("kind", PLUGINS)
def test_a_node_with_a_bad_value_gets_no_points_and_the_others_get_theirs(kind: str, by_class: bool) -> None:
    cluster = cluster_of(PLUGINS[kind]())
    with structlog.testing.capture_logs() as lines:
        record = record_of(cluster, by_class=by_class)
    expected = {BAD: 0, CHEAP: 90, DEAR: 10, MORE: 20}
    if kind == "normalising":
        expected = {BAD: 0, CHEAP: 100, DEAR: 0, MORE: 13}
    assert points_of(record) == expected
    (left_out,) = record.left_out
    assert (left_out.plugin, left_out.nodes, left_out.total, left_out.node_names) == ("Hostile", 1, 4, (BAD,))
    (line,) = [line for line in lines if line["event"] == "plugin_failed"]
    assert (line["plugin"], line["pod"]) == ("Hostile", "default/asked")
    assert BAD in line["err"]
    assert cluster.assembly.circuits.quarantines() == []


@pytest.mark.parametrize("kind", PLUGINS)
async def test_pods_are_placed_at_once_and_a_mended_node_has_points_again(kind: str) -> None:
    """Each pod of the profile was kept waiting, also after the value was gone."""
    cluster = cluster_of(PLUGINS[kind](), onFailure="Fail")
    pods = [make_pod(f"p{number}", namespace=f"n{number % 5}", uid=f"u{number}") for number in range(20)]
    with structlog.testing.capture_logs():
        cluster.add(*pods)
        async with cluster.at_work():
            await cluster.settle()
            assert len(cluster.bound) == 20
            assert cluster.assembly.circuits.quarantines() == []
            for cost, points in (("0.5", 50), ("none of your business", 0), ("0.02", 98)):
                cluster.cache.update_node(make_node(BAD, metadata={"annotations": {"cost": cost}}))
                engine = cluster.assembly.scheduler.engines["kscheduler"]
                record = schedule(cluster.profiles["kscheduler"], PodInfo(make_pod("x")), cluster.cache, engine=engine)
                assert bool(record.left_out) is (points == 0)
                if kind != "normalising" and "out of range" not in kind:
                    assert points_of(record_of(cluster, by_class=True))[BAD] == points


def test_a_failure_is_not_kept_for_the_rows_where_it_was() -> None:
    """What the plugin itself knows may heal, and no event of the node says so."""
    broken = {"it": True}

    class HasData(KeptColumnar):
        def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
            if broken["it"] and nodes.row_of(BAD) in rows:
                raise LookupError("no datum")
            return np.full(len(rows), 50, dtype=np.int64)

    cluster = cluster_of(HasData())
    profile, cache = cluster.profiles["kscheduler"], cluster.cache
    engine = ClassEngine(profile, cache, reports_all=True)
    with structlog.testing.capture_logs():
        for is_broken, points in ((True, 0), (True, 0), (False, 50), (False, 50)):
            broken["it"] = is_broken
            record = schedule(profile, PodInfo(make_pod("p")), cache, engine=engine)
            assert points_of(record)[BAD] == points
            assert bool(record.left_out) is is_broken


@pytest.mark.parametrize("nodes", [1, 2, 3, 50, 1000])
@pytest.mark.parametrize("bad", [1, 2, 5])
def test_bad_rows_are_found_in_few_calls(nodes: int, bad: int) -> None:
    plugin = Columnar()
    cluster = PluginCluster(plugin, nodes=0, settings={})
    rows = {f"node-{number}": "free" if number * bad % nodes < bad and number else "0.5" for number in range(nodes)}
    for name, cost in rows.items():
        cluster.cache.add_node(make_node(name, metadata={"annotations": {"cost": cost}}))
    with structlog.testing.capture_logs():
        record = record_of(cluster, by_class=False)
    if nodes > 1:
        assert points_of(record) == {name: 0 if cost == "free" else 50 for name, cost in rows.items()}
    assert plugin.calls <= 130


def test_a_plugin_that_fails_for_the_pod_is_not_queried_about_each_node() -> None:
    calls = []

    def score(pod: PodInfo, node: NodeInfo) -> int:
        calls.append(node.name)
        return int(pod.labels["rank"])

    cluster = PluginCluster(PerNodeFactory("Hostile", score)(None, None), nodes=1000, settings={})  # type: ignore[arg-type]
    with structlog.testing.capture_logs():
        record = record_of(cluster, by_class=False, pod=make_pod("p", labels={"rank": "abc"}))
    assert record.node_name
    (left_out,) = record.left_out
    assert left_out.nodes == left_out.total == 1000
    assert "invalid literal for int() with base 10: 'abc'" in left_out.message
    assert len(calls) < 20


def test_points_that_only_make_sense_together_are_queried_for_together() -> None:
    """Its answers depend on which nodes it is asked about: halves are asked to find the bad row, and not used."""

    class Ranks(Columnar):
        def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
            costs = np.array([float(nodes.info(row).annotations["cost"]) for row in rows.tolist()])
            return (100 * (costs.argsort().argsort() + 1) // len(costs)).astype(np.int64)

    with structlog.testing.capture_logs():
        record = record_of(cluster_of(Ranks()), by_class=False)
    assert points_of(record) == {BAD: 0, CHEAP: 33, MORE: 66, DEAR: 100}


class Filters(Plugin):
    """A rule that reads a number from the node."""

    name = "Hostile"

    def filter(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        if pod.labels.get("rank"):
            int(pod.labels["rank"])
        return np.array(
            [int(float(nodes.info(row).annotations["cost"]) > 0.85) for row in rows.tolist()], dtype=np.int64
        )

    def status(self, cycle: Any, code: int) -> Any:
        from kscheduler.framework.status import unschedulable

        return unschedulable("too expensive")


class KeptFilters(Filters):
    depends_on = (Source.ROW,)

    def sign(self, pod: PodInfo) -> Any:
        return pod.labels.get("rank")


def filter_function(sign: Any) -> Any:
    def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # noqa: A001  the name is the contract
        if pod.labels.get("rank"):
            int(pod.labels["rank"])
        return "too expensive" if float(node.annotations["cost"]) > 0.85 else None

    return PerNodeFactory("Hostile", filter, sign)(None, None)  # type: ignore[arg-type]


FILTERS: dict[str, Any] = {
    "columnar": Filters,
    "kept columnar": KeptFilters,
    "function": lambda: filter_function(None),
    "signed function": lambda: filter_function(lambda pod: pod.labels.get("rank")),
}


@pytest.mark.parametrize("by_class", [False, True], ids=["plain", "by class"])
@pytest.mark.parametrize("kind", FILTERS)
def test_a_node_that_a_filter_cannot_judge_is_used_by_nobody_and_the_others_are(kind: str, by_class: bool) -> None:
    cluster = cluster_of(FILTERS[kind]())
    with structlog.testing.capture_logs() as lines:
        record = record_of(cluster, by_class=by_class)
        assert record.feasible_names() == [CHEAP, MORE]
        for node in (CHEAP, MORE):
            cluster.cache.update_node(make_node(node, metadata={"annotations": {"cost": "1"}}))
        record = record_of(cluster, by_class=by_class)
    assert "1 node(s) for which plugin Hostile failed" in record.message
    assert "3 too expensive" in record.message
    assert [BAD in line["err"] for line in lines if line["event"] == "plugin_failed"] == [True]


@pytest.mark.parametrize("kind", FILTERS)
async def test_a_filter_that_fails_for_a_pod_fails_that_pod_alone_and_ever_more_seldom(kind: str) -> None:
    cluster = cluster_of(FILTERS[kind](), onFailure="Fail")
    with structlog.testing.capture_logs():
        cluster.add(make_pod("bad", labels={"rank": "abc"}), make_pod("good"), make_pod("too", labels={"rank": "1"}))
        async with cluster.at_work():
            assert cluster.place_of("bad") == "backoff"
            assert cluster.place_of("good") == cluster.place_of("too") == "bound"
            for _ in range(100):
                await cluster.advance(10.0)
            found = cluster.queue.find("default/bad")
            assert found is not None
            assert found[1].attempts < 15, "up to five minutes apart"
            (first, *_) = cluster.conditions_of("bad")
            assert (first.reason, "filter plugin: " in first.message) == ("SchedulerError", True)
            assert cluster.assembly.circuits.quarantines() == []
            cluster.add(make_pod("late"))
            cluster.workers.wake()
            await cluster.settle()
            assert cluster.place_of("late") == "bound"


# --- a thousand hostile pods ------------------------------------------------------------------------------------------


def _odd(pod: PodInfo) -> Any:
    """What a label or an annotation of the pod makes the plugin do."""
    way = pod.labels.get("way") or pod.pod.metadata.annotations.get("way", "")
    if way == "int":
        int(pod.labels["rank"])
    if way == "key":
        return dict[str, int]()["missing"]
    if way == "zero":
        return 1 // 0
    if way == "recursion":
        return _odd(pod)
    if way == "exit":
        raise SystemExit(3)
    if way == "slow":
        end = time.perf_counter() + 10.0
        while time.perf_counter() < end:
            pass
    return {"nan": float("nan"), "none": None, "huge": 10**30, "negative": -1, "text": "100", "bool": True}.get(way, 50)


WAYS = ("int", "key", "zero", "recursion", "exit", "nan", "none", "huge", "negative", "text", "bool")


class OddScores(Plugin):
    name = "Hostile"

    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        return np.full(len(rows), _odd(pod))


class OddFilters(Plugin):
    name = "Hostile"

    def filter(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        return np.full(len(rows), 0 if _odd(pod) == 50 else "odd")


class OddEverywhere(Plugin):
    """At the points that are about one pod."""

    name = "Hostile"

    def pre_filter(self, cycle: Any, pod: PodInfo, nodes: Any) -> Any:
        from kscheduler.framework.plugin import SKIPPED

        return SKIPPED if _odd(pod) == 50 else None

    def reserve(self, cycle: Any, pod: PodInfo, node_name: str) -> Any:
        from kscheduler.framework.status import SUCCESS

        return SUCCESS if _odd(pod) == 50 else None

    def unreserve(self, cycle: Any, pod: PodInfo, node_name: str) -> None:
        _odd(pod)

    def pre_enqueue(self, pod: PodInfo) -> Any:
        from kscheduler.framework.status import SUCCESS

        return SUCCESS if _odd(pod) == 50 or pod.name.endswith("0") else None


@pytest.mark.parametrize("order", sampled(["before", "beside", "of two namespaces, before"], 1, "a thousand pods"))
@pytest.mark.parametrize("kind", [OddScores, OddFilters, OddEverywhere], ids=["score", "filter", "everywhere"])
async def test_a_thousand_hostile_pods_stop_no_pod_of_another_namespace(
    kind: Any, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pytest's hook writes a traceback, which the time budget of a plugin at its deepest recursion may cut off.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    cluster = PluginCluster(kind(), nodes=20, settings={"onFailure": "Fail", "timeBudget": "50ms"})
    hostile = [
        make_pod(
            f"h{number}",
            namespace="evil" if number % 2 or order != "of two namespaces, before" else "evil-too",
            uid=f"h{number}",
            requests={"cpu": "1m"},
            labels={"way": (*WAYS, "slow")[number % 12], "rank": f"abc{number}"},
        )
        for number in range(1000)
    ]
    sound = [make_pod(f"s{number}", uid=f"s{number}", requests={"cpu": "1m"}) for number in range(100)]
    with structlog.testing.capture_logs():
        if order == "beside":
            for number, pod in enumerate(sound):
                cluster.add(*hostile[number * 10 : number * 10 + 10], pod)
        else:
            cluster.add(*hostile)
        async with cluster.at_work():
            for _ in range(40):
                await cluster.settle()
            if order != "beside":
                cluster.add(*sound)
                cluster.workers.wake()
            for _ in range(10):
                await cluster.advance(1.0)
                await cluster.settle()
            waiting = [pod.key for pod in sound if pod.key not in cluster.bound]
            assert waiting == [], [(cluster.queue.find(key), cluster.reported.reports[-1]) for key in waiting]
            if "two" not in order:  # else it has answered nobody since
                assert cluster.assembly.circuits.quarantines() == []
            overruns = sum(cluster.observations.plugin_overruns.values())
            assert overruns <= 20, "the namespace is held back: its slow pods do not eat the loop"


def test_explain_says_which_plugin_gave_no_points_and_why() -> None:
    cluster = Cluster(*(make_node(name, metadata={"annotations": {"cost": cost}}) for name, cost in COSTS.items()))

    @plugin("PreferCheap")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return price(node)

    cluster.enable(score, weight=50)
    with pytest.raises(UndecidedError, match=f"node {BAD}"):
        cluster.node_for(make_pod("web"))
    expected = f"plugin PreferCheap gives no points to 1 of 4 nodes ({BAD}): for node {BAD} it raised ValueError: "
    assert expected in " ".join(cluster.explain(make_pod("web")).split())


PLUGIN_FILE = """
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import Plugin, PreFilterResult


@plugin("Hostile")
def {kind}(pod, node):
    return {answer}
"""
CLASS_FILE = """
from kscheduler.framework.plugin import Plugin


class Hostile(Plugin):
    name = "Hostile"

    def {kind}(self, cycle, pod, nodes, *rows):
        return {answer}
"""
BY_LABEL = {
    "filter": (PLUGIN_FILE, "filter", 'int(pod.labels["rank"])', 8),
    "filter of the wrong type": (PLUGIN_FILE, "filter", 'pod.labels["rank"] == "abc"', 7),
    "score": (PLUGIN_FILE, "score", 'int(pod.labels["rank"])', 8),
    "score of the wrong type": (PLUGIN_FILE, "score", 'pod.labels["rank"]', 7),
    "score out of range": (PLUGIN_FILE, "score", 'ord(pod.labels["rank"][0]) + 9', 7),
    "class filter": (CLASS_FILE, "filter", 'int(pod.labels["rank"])', 9),
    "class score": (CLASS_FILE, "score", 'int(pod.labels["rank"])', 9),
    "class pre_filter": (CLASS_FILE, "pre_filter", 'int(pod.labels["rank"])', 9),
    "class pre_score": (CLASS_FILE, "pre_score", 'int(pod.labels["rank"])', 9),
}


@pytest.mark.parametrize("kind", BY_LABEL)
async def test_what_a_pods_own_label_does_is_blamed_on_no_node_and_reported_with_the_plugins_line(
    kind: str, tmp_path: Path
) -> None:
    """It was said that a plugin had failed `for node node-0`, and of a filter the log named no line."""
    text, method, answer, line_number = BY_LABEL[kind]
    file = tmp_path / "rank.py"
    file.write_text(text.format(kind=method, answer=answer))
    cluster = cluster_of(run_file(str(file), file.read_bytes()).plugins["Hostile"]({}, None))  # type: ignore[arg-type]
    with structlog.testing.capture_logs() as lines:
        cluster.add(make_pod("bad", labels={"rank": "abc"}))
        async with cluster.at_work():
            await cluster.settle()
    (line,) = [line for line in lines if line["event"] == "plugin_failed"]
    assert line["pod"] == "default/bad"
    reported = [line["err"], *(condition.message for condition in cluster.conditions_of("bad"))]
    assert len(reported) == (2 if "filter" in kind else 1)
    for said in reported:
        assert said.endswith(f"(rank.py:{line_number})")
        assert said.count("rank.py") == 1
        assert "for node" not in said
        assert "node-" not in said or f", while looking at node {BAD}" in said
