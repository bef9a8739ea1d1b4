"""A user's first plugin, with the mistakes that first plugins have, in the whole service."""

from typing import Any

import pytest
import structlog

from kscheduler.config.loader import from_tree
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.plugins import in_tree
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options
from tests.builders import Tree, node_tree, pod_tree
from tests.service.running import answer, node_of, put, running, until


def options(name: str, factory: Any, point: str, *, args: Tree | None = None) -> Options:
    """The service with one plugin of a user, enabled at one extension point."""
    registry = in_tree.registry()
    registry.register(name, factory)
    at_point: Tree = {"enabled": [{"name": name}]}
    if point == "queueSort":
        at_point["disabled"] = [{"name": "*"}]
    config = [{"name": name, "args": args}] if args is not None else []
    profile = {"schedulerName": "kscheduler", "plugins": {point: at_point}, "pluginConfig": config}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    tree = from_tree({**kind, "profiles": [profile]}, "test")
    return Options(tree, serving=HTTPServing.plain_on_loopback(), registry=registry)


def message_of(server: EmbeddedAPIServer, name: str) -> str:
    """Why the pod is not scheduled, as its condition says it."""
    record = server.store.get("pods", "default", name)
    assert record is not None
    conditions = record.value["status"].get("conditions", [])
    return "".join(one.get("message", "") for one in conditions if one["type"] == "PodScheduled")


@plugin("Mine")
def filter(pod: PodInfo, node: NodeInfo) -> Any:  # noqa: A001  the name is the contract
    """A newcomer's: True for "it fits"."""
    return True if pod.name == "bad" else None


@plugin("Mine")
def score(pod: PodInfo, node: NodeInfo, args: Any) -> int:
    """Points as the configuration says; far too many for one pod."""
    points: int = args["points"] * (100 if pod.name == "bad" else 1)
    return points


class BreaksTheQueue(Plugin):
    """Sorts by an annotation that not every pod has."""

    name = "Mine"

    def sort_key(self, queued: QueuedPodInfo) -> float:
        return float(queued.pod.pod.metadata.annotations["rank"])


async def test_an_answer_of_the_wrong_type_is_reported_to_the_pod_and_costs_the_others_nothing() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        with structlog.testing.capture_logs() as lines:
            async with running(server, options("Mine", filter, "filter")):
                put(server, "pods", pod_tree("bad"))
                put(server, "pods", pod_tree("good"))
                await until(server, lambda: node_of(server, "good") == "node" and bool(message_of(server, "bad")))
        message = message_of(server, "bad")
        assert message.startswith(
            'running "Mine" filter plugin: it returned True, while looking at node node: return the reason'
        )
        assert [(one["plugin"], one["extension_point"]) for one in lines if one["event"] == "plugin_failed"] == [
            ("Mine", "Filter")
        ]


async def test_points_out_of_range_are_left_out_and_the_pod_is_placed() -> None:
    """kube-scheduler would fail the pod; here a plugin's wrong points cost its pod nothing but these points."""
    async with EmbeddedAPIServer(seed=1) as server:
        for name in ("node-0", "node-1"):
            put(server, "nodes", node_tree(name))
        with structlog.testing.capture_logs() as lines:
            async with running(server, options("Mine", score, "score", args={"points": 7})):
                put(server, "pods", pod_tree("bad"))
                put(server, "pods", pod_tree("good"))
                await until(server, lambda: bool(node_of(server, "good")) and bool(node_of(server, "bad")))
        said = [str(line["err"]) for line in lines if line["event"] == "plugin_failed"]
        assert any("it returns an invalid score 700, while looking at node node-" in err for err in said)
        assert all("it should be in the range of [0, 100]" in err for err in said)


@pytest.mark.parametrize("annotations", [{}, {"rank": "first"}, {"rank": "nan"}], ids=["none", "text", "nan"])
async def test_a_sort_key_that_fails_ends_no_service_and_loses_no_pod(annotations: dict[str, str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        options_ = options("Mine", lambda *_: BreaksTheQueue(), "queueSort")
        with structlog.testing.capture_logs() as lines:
            async with running(server, options_) as (app, _, _):
                put(server, "pods", pod_tree("unranked", metadata={"annotations": annotations}))
                put(server, "pods", pod_tree("ranked", metadata={"annotations": {"rank": "1"}}))
                await until(server, lambda: all(node_of(server, name) for name in ("ranked", "unranked")))
                metrics = (await answer(app, "/metrics"))[1]
        assert 'kscheduler_plugin_failures_total{extension_point="QueueSort",plugin="Mine"}' in metrics
        (line,) = [one for one in lines if one["event"] == "plugin_failed"]
        assert (line["plugin"], line["extension_point"], line["pod"]) == ("Mine", "QueueSort", "default/unranked")
