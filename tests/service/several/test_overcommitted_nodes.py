"""A running scheduler beside one that overfills its nodes: what it reports, and what it repairs."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
import structlog

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import APIError
from kscheduler.client.pod_writes import PodWriter
from kscheduler.client.rest import APIClient
from kscheduler.election.rules import Role
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from tests.builders import Tree, node_tree, pod_tree
from tests.informers.test_audit import HastyClock
from tests.service.preemption_stage import events, pod
from tests.service.running import alone, answer, node_of, put, running, until
from tests.service.test_leader_election import replica, until_ready, until_role
from tests.service.test_reloading import until_true

OWNER: Tree = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-of-web", "controller": True}
OURS: Tree = {"requests": {"cpu": "3"}, "metadata": {"ownerReferences": [OWNER]}, "terminationGracePeriodSeconds": 0}
THEIRS: Tree = {"requests": {"cpu": "2"}, "schedulerName": "default-scheduler"}


def options(*, repairs: bool) -> Options:
    return Options(
        alone(), serving=HTTPServing.plain_on_loopback(), clock=HastyClock(), repairs_overcommitted_nodes=repairs
    )


async def overcommitted(server: EmbeddedAPIServer, app: App) -> None:
    """The pod `p` of ours is on the node, and then another scheduler places `q` there."""
    put(server, "nodes", node_tree("node"))
    put(server, "pods", pod_tree("p", **OURS, status={"phase": "Pending"}))
    await until(server, lambda: node_of(server, "p") == "node")
    await until_true(lambda: not app.parts.assembly.cache.is_assumed("uid-of-p"))
    await until_true(lambda: app.parts.overcommit.nodes._seen_amounts >= 0)
    put(server, "pods", pod_tree("q", **THEIRS))
    put(server, "pods", pod_tree("q", node="node", **THEIRS))


def lines_of(lines: Sequence[Any], event: str) -> list[Any]:
    return [line for line in lines if line["event"] == event]


def metric(page: str, name: str) -> list[str]:
    return [line.removeprefix(name) for line in page.splitlines() if line.startswith(name)]


async def test_an_overcommitted_node_is_reported_from_its_beginning_to_its_end_and_nothing_is_evicted() -> None:
    with structlog.testing.capture_logs() as lines:
        async with EmbeddedAPIServer(seed=1) as server, running(server, options(repairs=False)) as (app, _, _):
            await overcommitted(server, app)
            await until_true(lambda: lines_of(lines, "node_overfilled"))
            (line,) = lines_of(lines, "node_overfilled")
            assert line["log_level"] == "warning"
            assert {name: line[name] for name in ("node", "resource", "requested", "allocatable", "excess")} == {
                "node": "node",
                "resource": "cpu",
                "requested": "5000m",
                "allocatable": "4000m",
                "excess": "1000m",
            }
            assert (line["cause"], line["latest"]) == ("another_scheduler", ["default/q"])
            assert line["schedulers"] == ["default-scheduler"]
            status, text = await answer(app, "/readyz?verbose")
            assert status == 200, "it goes on scheduling"
            note = "node node is overfilled: 5000m of 4000m cpu requested: another scheduler has placed pods here"
            assert note in text
            page = (await answer(app, "/metrics"))[1]
            labels = '{cause="another_scheduler",resource="cpu"}'
            assert metric(page, "kscheduler_overfilled_nodes") == [f"{labels} 1.0"]
            assert metric(page, "kscheduler_node_overfills_total") == [f"{labels} 1.0"]
            await until_true(lambda: events(server, "NodeOverfilled"))
            (event,) = events(server, "NodeOverfilled")
            assert event["involvedObject"]["kind"] == "Node"
            assert event["involvedObject"]["name"] == "node"
            assert event["related"]["name"] == "q"
            assert "the last to come: default/q (default-scheduler)" in event["message"]
            put(server, "pods", pod_tree("q", node="node", **THEIRS, status={"phase": "Failed", "reason": "OutOfcpu"}))
            await until_true(lambda: lines_of(lines, "node_overfilled_ended"))
            page = (await answer(app, "/metrics"))[1]
            assert metric(page, "kscheduler_overfilled_nodes") == [f"{labels} 0.0"]
            assert pod(server, "p") is not None, "repair is off"
            assert "overfill_evictions_total{" not in page


async def test_our_pod_that_has_not_started_makes_room_and_its_successor_waits_for_room() -> None:
    with structlog.testing.capture_logs() as lines:
        async with EmbeddedAPIServer(seed=1) as server, running(server, options(repairs=True)) as (app, _, _):
            await overcommitted(server, app)
            await until(server, lambda: pod(server, "p") is None)
            await until_true(lambda: lines_of(lines, "node_overfilled_ended"))
            put(server, "pods", pod_tree("p-again", uid="uid-2", **OURS))  # as its controller does
            await until_true(lambda: app.parts.assembly.queue.statistics().unschedulable == 1)
            put(server, "nodes", node_tree("other"))
            await until(server, lambda: node_of(server, "p-again") == "other")
            await until_true(lambda: events(server, "EvictedFromOverfilledNode"))
            page = (await answer(app, "/metrics"))[1]
            assert metric(page, "kscheduler_overfill_evictions_total") == ['{result="evicted"} 1.0']
    (line,) = lines_of(lines, "pod_evicted_from_overfilled_node")
    assert (line["pod"], line["node"]) == ("default/p", "node")


async def test_a_running_pod_stays_whatever_the_node_has() -> None:
    with structlog.testing.capture_logs() as lines:
        async with EmbeddedAPIServer(seed=1) as server, running(server, options(repairs=True)) as (app, _, _):
            put(server, "nodes", node_tree("node", cpu="8"))
            runs = {**OURS, "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
            put(server, "pods", pod_tree("p", node="node", **runs))
            put(server, "pods", pod_tree("unstarted", **OURS, status={"phase": "Pending"}))
            await until(server, lambda: node_of(server, "unstarted") == "node")
            put(server, "pods", pod_tree("q", node="node", **{**THEIRS, "requests": {"cpu": "6"}}))
            await until(server, lambda: pod(server, "unstarted") is None)
            await until_true(lambda: len(lines_of(lines, "node_overfilled")) == 1)
            for _ in range(3):
                await app.parts.overcommit._repair.repair()  # type: ignore[union-attr]
            assert pod(server, "p") is not None
            assert lines_of(lines, "node_overfilled_ended") == []


async def test_of_two_replicas_one_speaks_and_the_leaders_binds_are_nobody_elses_to_the_other() -> None:
    async with EmbeddedAPIServer(seed=1) as server, replica(server) as (leader, _, _):
        put(server, "nodes", node_tree("node"))
        await until_role(leader, Role.LEADING)
        async with replica(server) as (follower, _, _):
            await until_ready(follower)
            await overcommitted(server, leader)
            for app in (leader, follower):
                await until_true(app.parts.overcommit.nodes.incidents)
            assert leader.parts.observations.node_overcommits == {("cpu", "another_scheduler"): 1}
            assert follower.parts.observations.node_overcommits == {}
            for app in (leader, follower):
                assert app.parts.observations.pods_taken[()] == 0
        assert len(events(server, "NodeOverfilled")) <= 1


async def test_two_schedulers_that_serve_one_name_notice_each_other() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node", cpu="100"))
        with structlog.testing.capture_logs() as lines:
            async with running(server) as (one, _, _), running(server) as (other, _, _):
                await until_true(lambda: one.http_app.is_scheduling and other.http_app.is_scheduling)
                for number in range(20):
                    put(server, "pods", pod_tree(f"p{number}"))
                await until(server, lambda: all(node_of(server, f"p{number}") for number in range(20)))
                await until_true(lambda: lines_of(lines, "pods_bound_by_another_scheduler"))
                assert sum(app.parts.observations.pods_taken[()] for app in (one, other)) > 0


async def test_the_eviction_api_is_queried_about_the_version_that_was_seen_and_about_budgets() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    async with EmbeddedAPIServer(seed=1) as server, APIClient(plain_connection(server.url)) as client:
        writer = PodWriter(client)
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        await client.post(path, json.dumps(budget).encode())
        put(server, "pods", pod_tree("p", labels={"app": "web"}, status={"phase": "Pending"}))
        seen = await writer.get_pod("default", "p")
        put(server, "pods", pod_tree("p", labels={"app": "web"}, status={"phase": "Running"}))
        running_now = await writer.get_pod("default", "p")
        for version, code in ((seen, 429), (running_now, 429)):
            with pytest.raises(APIError) as refused:
                await writer.evict_as_seen(version)
            assert refused.value.code == code
        await client.delete(f"{path}/b")
        with pytest.raises(APIError) as refused:
            await writer.evict_as_seen(seen)
        assert refused.value.code == 409, "it runs by now"
        await writer.evict_as_seen(running_now)  # the judgement that it must not run is the caller's
        left = pod(server, "p")
        assert left is None or left["metadata"].get("deletionTimestamp")
