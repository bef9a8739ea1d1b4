"""What authors of plugins test with: it decides as the scheduler does, and a failure shows the explanation."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kscheduler.api.core import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import Plugin, RefreshError
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, unschedulable
from kscheduler.scenario import decide
from kscheduler.state.cache import Cache
from kscheduler.testing import (
    APIServerAnswers,
    Cluster,
    assert_goes_to,
    assert_prefers,
    assert_rejected,
    make_node,
    make_pod,
)
from kscheduler.testing.cluster import UndecidedError


@plugin("PreferCheap")
def score(pod: PodInfo, node: NodeInfo) -> int:
    return max(0, 100 - int(float(node.annotations.get("cost", "1")) * 100))


class Limit(msgspec.Struct):
    most: int


@plugin("FewLabels")
def filter(pod: PodInfo, node: NodeInfo, args: Limit) -> str | None:  # noqa: A001  the field's word
    return None if len(node.labels) <= args.most else "node(s) had too many labels"


class Doorkeeper(Plugin):
    name = "Doorkeeper"

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return SUCCESS if pod.labels.get("ticket") else unschedulable("no ticket")


@pytest.fixture
def cluster() -> Cluster:
    dear = make_node("dear", labels={"a": "1", "b": "2"})
    return Cluster(dear, make_node("cheap", annotations={"cost": "0.1"}))


def test_a_policy_is_enabled_by_its_name() -> None:
    nodes = [make_node("dear", annotations={"price": "2"}), make_node("cheap", annotations={"price": "1"})]
    cluster = Cluster(*nodes).enable("NodeCost", weight=10, args={"key": "price"})
    assert_goes_to(cluster, make_pod("web"), "cheap")
    assert cluster.points(make_pod("web"), "NodeCost") == {"cheap": 1000, "dear": 0}


def test_a_score_decides_with_its_weight(cluster: Cluster) -> None:
    cluster.enable(score, weight=5)
    assert_goes_to(cluster, make_pod("web"), "cheap")
    assert cluster.points(make_pod("web"), "PreferCheap") == {"dear": 0, "cheap": 450}
    assert_prefers(cluster, make_pod("web"), "PreferCheap", better="cheap", worse="dear")


def test_a_filter_with_arguments_rejects(cluster: Cluster) -> None:
    cluster.enable(filter, args={"most": 1})
    pod = make_pod("web")
    assert_rejected(cluster, pod, "dear", by="FewLabels", reason="node(s) had too many labels")
    assert_goes_to(cluster, pod, "cheap")


def test_a_gate_holds_the_pod(cluster: Cluster) -> None:
    cluster.enable(Doorkeeper)
    assert_goes_to(cluster, make_pod("web"))
    assert cluster.node_for(make_pod("web", labels={"ticket": "yes"})) != ""


def test_all_plugins_of_a_file_are_enabled(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "never.py"
    head = "from kscheduler.framework.per_node import plugin\n@plugin('Never')\n"
    file.write_text(head + "def filter(pod, node):\n    return 'never'\n")
    assert_goes_to(cluster.enable(file), make_pod("web"))


def test_pods_that_are_scheduled_together_get_the_nodes_that_they_get_one_by_one() -> None:
    def cluster() -> Cluster:
        nodes = [make_node(name, cpu="3", labels={"kubernetes.io/hostname": name}) for name in "abc"]
        return Cluster(*nodes, make_pod("there", node="a", requests={"cpu": "1"}, labels={"app": "1"}))

    def pods() -> list[Pod]:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "1"}}}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        alone = [make_pod(f"alone-{n}", labels={"app": "1"}, affinity=apart) for n in range(3)]
        plain = [make_pod(f"plain-{n}", requests={"cpu": f"{n}500m"}) for n in range(3)]
        return [
            *alone,
            *plain,
            make_pod("there", requests={"cpu": "9"}),
            *(make_pod(f"last-{n}", requests={"cpu": "1"}) for n in range(4)),
        ]

    one_by_one = cluster()
    assert cluster().schedule(*pods()) == [one_by_one.schedule(pod)[0] for pod in pods()]


def test_of_pods_that_are_scheduled_together_none_has_a_cluster_built_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Cache] = []
    build = decide.cluster_cache

    def counted(*arguments: Any, **options: Any) -> Cache:
        built.append(build(*arguments, **options))
        return built[-1]

    monkeypatch.setattr(decide, "cluster_cache", counted)
    Cluster(make_node("a")).schedule(*(make_pod(str(number)) for number in range(5)))
    assert len(built) == 1


def test_pods_are_decided_on_what_others_have_left(cluster: Cluster) -> None:
    nodes = cluster.schedule(*(make_pod(name, requests={"cpu": "3"}) for name in "abc"))
    assert (sorted(nodes[:2]), nodes[2]) == (["cheap", "dear"], "")


def test_a_default_plugin_can_be_left_out(cluster: Cluster) -> None:
    pod = make_pod("big", requests={"cpu": "8"})
    assert_goes_to(cluster, pod)
    assert cluster.disable("NodeResourcesFit").node_for(pod) != ""


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (lambda cluster, pod: assert_goes_to(cluster, pod, "dear"), "default/web goes to cheap, not to dear"),
        (assert_goes_to, "default/web goes to cheap, not to no node"),
        (lambda cluster, pod: assert_rejected(cluster, pod, "cheap", by="X"), "no plugin rejects cheap"),
        (
            lambda cluster, pod: assert_rejected(cluster, pod, "dear", by="X"),
            "FewLabels rejects dear for default/web before X is asked",
        ),
        (
            lambda cluster, pod: assert_rejected(cluster, pod, "dear", by="FewLabels", reason="another"),
            "because of 'node(s) had too many labels'",
        ),
        (lambda cluster, pod: assert_prefers(cluster, pod, "PreferCheap", "dear", "cheap"), "dear does not fit"),
    ],
)
def test_a_failed_assertion_shows_the_explanation(cluster: Cluster, claim: Any, words: str) -> None:
    cluster.enable(score).enable(filter, args={"most": 1})
    with pytest.raises(AssertionError) as failed:
        claim(cluster, make_pod("web"))
    assert words in str(failed.value)
    assert "FewLabels rejected 1 node" in str(failed.value)


def test_a_plugin_that_fails_is_no_pod_that_fits_nowhere(cluster: Cluster) -> None:
    @plugin("Broken")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return 101

    with pytest.raises(UndecidedError, match="invalid score 101"):
        cluster.enable(score).node_for(make_pod("web"))


def test_a_plugin_that_fails_for_one_node_alone_fails_its_test() -> None:
    """The service gives no points there and goes on; a division by zero for one node is what a test looks for."""

    @plugin("Broken")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return 100 // int(node.annotations["cost"])

    cluster = Cluster(make_node("a", annotations={"cost": "2"}), make_node("b", annotations={"cost": "0"}))
    with pytest.raises(UndecidedError, match=r"node b.*ZeroDivisionError"):
        cluster.enable(score).points(make_pod("web"), "Broken")


class Prices(Plugin):
    """Fetches what is open from the API server."""

    name = "Prices"
    refresh_interval = 60.0

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._open: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        await asyncio.sleep(0)
        if self._handle.client is None:
            raise RefreshError("there is no API server")
        self._open = frozenset(msgspec.json.decode(await self._handle.client.get("/open")))

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return np.array([int(nodes.name_of(row) not in self._open) for row in rows.tolist()], dtype=np.int64)

    reasons = {1: "node(s) were not open"}  # noqa: RUF012


def test_data_of_its_own_are_fetched_before_the_decision() -> None:
    cluster = Cluster(make_node("dear"), make_node("cheap"), client=APIServerAnswers({"/open": ["cheap"]})).enable(
        Prices
    )
    assert_goes_to(cluster, make_pod("web"), "cheap")


async def test_also_in_a_test_that_runs_in_a_loop_and_a_source_that_is_away_is_said() -> None:
    cluster = Cluster(make_node("cheap")).enable(Prices)
    assert_rejected(cluster, make_pod("web"), "cheap", by="Prices", reason="node(s) were not open")
    assert cluster.explain(make_pod("web")).endswith("plugin Prices: no data of its own: there is no API server")


NO_REASON: dict[str, dict[str, Any]] = {
    "no reasons": {},
    "no text": {"reasons": {3: ""}},
    "an empty status": {"status": lambda *_: Status(Code.UNSCHEDULABLE)},
}


@pytest.mark.parametrize("declared", NO_REASON.values(), ids=NO_REASON)
def test_a_code_without_a_reason_is_reported_as_the_code_of_its_plugin(declared: dict[str, Any]) -> None:
    def everywhere(self: Any, cycle: Any, pod: Any, nodes: Any, rows: Any) -> Any:
        return rows * 0 + 3

    silent = type("Silent", (Plugin,), {"name": "Silent", "filter": everywhere, **declared})
    cluster = Cluster(make_node("a")).enable(silent)
    text = "node(s) didn't pass plugin Silent, which gives no reason for its code 3"
    assert_rejected(cluster, make_pod("web"), "a", by="Silent", reason=text)
    assert f"1 {text}." in cluster.explain(make_pod("web")).replace("\n      ", " ")


class Misspelt(Plugin):
    name = "Misspelt"
    refresh_intervall = 10

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Any:
        return rows * 0


async def test_a_test_of_a_plugin_with_a_misspelt_name_is_warned() -> None:
    cluster = Cluster(make_node("a")).enable(Misspelt)
    with pytest.warns(UserWarning, match=r"plugin Misspelt: `refresh_intervall` has no effect: did you mean"):
        assert cluster.decide(make_pod("web")).record is not None
    with pytest.warns(UserWarning, match=r"plugin Misspelt: `refresh_intervall` has no effect"):
        async with cluster.running():
            pass
