"""Pods that name their scheduler by the annotation of Kubernetes 1.5, where the configuration honours it."""

import json
from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.names import honor, honored
from kscheduler.config.changes import restart_problems
from kscheduler.config.loader import from_tree
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.explain.queries.explain_query import query_about
from kscheduler.explain.situation import PodState
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import ClusterObjects, parse_scenario
from kscheduler.scenario.serving import Serving
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options
from tests.builders import Tree, make_node, make_pod, node_tree, pod_tree
from tests.service.running import node_of, put, running, until

KEY = "scheduler.alpha.kubernetes.io/name"
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def config(**fields: Any) -> Tree:
    return {**HEAD, "leaderElection": {"leaderElect": False}, "profiles": [{"schedulerName": "old"}], **fields}


def pod(name: str = "pod", named: str = "old", spec: str = "default-scheduler") -> Tree:
    return pod_tree(name, schedulerName=spec, metadata={"annotations": {KEY: named}} if named else {})


@pytest.mark.parametrize(
    ("named", "spec", "expected"),
    [
        ("old", "default-scheduler", "old"),
        ("old", "", "old"),
        ("old", "another", "another"),
        ("", "default-scheduler", "default-scheduler"),
        ("default-scheduler", "default-scheduler", "default-scheduler"),
    ],
    ids=["annotated", "bare-object", "spec-wins", "no-annotation", "default"],
)
def test_whose_a_pod_is(named: str, spec: str, expected: str) -> None:
    made = convert(pod(named=named, spec=spec), Pod)
    assert honored(made).spec.scheduler_name == expected
    assert made.spec.scheduler_name == spec, "others may have seen this object"
    for _ in range(2):
        honor(made)
        assert made.spec.scheduler_name == expected


async def test_the_service_schedules_it_and_follows_the_annotation() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        loaded = from_tree(config(honorSchedulerNameAnnotation=True), "test")
        async with running(server, Options(loaded, serving=HTTPServing.plain_on_loopback())):
            put(server, "pods", pod("foreign", named="another"))
            put(server, "pods", pod("ours"))
            await until(server, lambda: node_of(server, "ours") == "node")
            assert not node_of(server, "foreign")
            put(server, "pods", pod("foreign", named="old"))
            await until(server, lambda: node_of(server, "foreign") == "node")


async def test_by_default_the_annotation_means_nothing() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        options = Options(from_tree(config(), "test"), serving=HTTPServing.plain_on_loopback())
        async with running(server, options):
            put(server, "pods", pod("annotated"))
            put(server, "pods", pod_tree("named", schedulerName="old"))
            await until(server, lambda: node_of(server, "named") == "node")
            assert not node_of(server, "annotated")


@pytest.mark.parametrize("honors", [True, False])
def test_explain_and_scenarios_see_the_same(honors: bool) -> None:
    tree = config(honorSchedulerNameAnnotation=honors)
    served = Serving(from_tree(tree, "test"), "test")
    objects = ClusterObjects(nodes=(make_node("node"),), pods=(make_pod("other"),))
    query = query_about(convert(pod(), Pod), objects, served, "test")
    assert query.situation.pod_state is (PodState.PENDING if honors else PodState.NOT_SERVED)
    line = {"id": "one", "config": tree, "objects": {"nodes": [node_tree("node")]}, "pod": pod()}
    decision = decide(parse_scenario(json.dumps(line).encode(), "test"))
    assert bool(decision.error) is not honors
    assert (decision.record is not None and decision.record.node_name == "node") is honors


def test_a_change_needs_a_restart_because_the_pods_are_stored_already() -> None:
    before, after = (from_tree(config(honorSchedulerNameAnnotation=value), "test") for value in (False, True))
    (problem,) = restart_problems(before, after)
    assert problem.path == "honorSchedulerNameAnnotation"
