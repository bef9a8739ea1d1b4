"""What the log tells of pods, level by level, on the embedded API server: each line occurs, as documented."""

import asyncio
from typing import Any

import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS, Code, Status
from kscheduler.scheduling.pod_log.lines import LINES
from tests.builders import node_tree, pod_tree
from tests.service.log.reading import LogText, log_at
from tests.service.preemption_stage import fill, options, pod, preemptor, victim
from tests.service.running import node_of, put, running, until

NOT_BUILT = "setting_not_honoured"


class Holds(Plugin):
    """Permit lets pods called `held...` wait."""

    name = "Holds"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        return PermitResult(Status(Code.WAIT) if pod.pod.metadata.name.startswith("held") else SUCCESS, 600.0)


class Prepares(Plugin):
    """PreBind of pods called `prepared...` takes until it is cancelled, or the pod is gone."""

    name = "Prepares"
    is_over = asyncio.Event()

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle
        type(self).is_over = asyncio.Event()

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS if pod.pod.metadata.name.startswith("prepared") else SKIP

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        await self.is_over.wait()
        return Status(Code.ERROR, ('persistentvolumeclaims "data" not found',))


def alarms(log: LogText) -> list[dict[str, Any]]:
    """Warnings and errors, but for those of the start, which tell what is not built."""
    return [line for line in log.lines() if line["level"] in ("warning", "error") and line["msg"] != NOT_BUILT]


# --- at -v 2, as most will run it


async def test_a_bound_pod_has_one_line_with_what_kube_scheduler_reports_and_more() -> None:
    with log_at(2) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            for name in ("n1", "n2"):
                put(server, "nodes", node_tree(name, cpu="4"))
            put(server, "nodes", node_tree("small", cpu="1"))
            async with running(server):
                put(server, "pods", pod_tree("web", requests={"cpu": "2"}))
                line = await log.until("pod_bound")
                assert line["node"] == node_of(server, "web")
    assert log.story("default/web") == ["pod_bound"]
    counts = {name: line[name] for name in ("evaluatedNodes", "feasibleNodes", "nodes", "attempts")}
    assert counts == {"evaluatedNodes": 3, "feasibleNodes": 2, "nodes": 3, "attempts": 1}
    assert (line["v"], line["uid"], line["level"]) == (2, "uid-of-web", "info")
    assert line["score"] > 0
    assert line["seconds"] >= 0


async def test_the_score_of_the_line_is_that_of_minus_v_10() -> None:
    """At -v 2 a class may know its best rows without looking at all; at -v 10 all points are worked out."""
    scores = []
    for verbosity in (2, 10):
        with log_at(verbosity) as log:
            async with EmbeddedAPIServer(seed=1) as server:
                for number in range(20):
                    put(server, "nodes", node_tree(f"n{number}", cpu="8"))
                async with running(server):
                    for name in ("a", "b", "c", "d"):
                        put(server, "pods", pod_tree(name, requests={"cpu": "1"}))
                        await log.until("pod_bound", pod=f"default/{name}")
        scores.append([(line["pod"], line["node"], line["score"]) for line in log.named("pod_bound")])
    assert scores[0] == scores[1]
    for name, node, score in scores[1]:
        (final,) = log.named("node_final_score", pod=name, chosen=True)
        assert (final["node"], final["score"]) == (node, score)
        points = [line["score"] for line in log.named("plugin_scored_node", pod=name, node=node)]
        assert sum(points) == score


async def test_a_pod_that_fits_nowhere_says_why_and_what_it_waits_for() -> None:
    with log_at(2) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("small", cpu="1"))
            async with running(server):
                put(server, "pods", pod_tree("big", requests={"cpu": "2"}))
                line = await log.until("pod_not_scheduled")
                await until(server, lambda: bool((pod(server, "big") or {})["status"].get("conditions")))
                stored = pod(server, "big")
    assert stored is not None
    (condition,) = stored["status"]["conditions"]
    assert line["message"] == condition["message"]
    assert (line["plugins"], line["attempts"], line["queue"]) == (["NodeResourcesFit"], 1, "unschedulable")
    assert "NodeAdd|UpdateNodeAllocatable" in line["waits_for"]
    assert alarms(log) == []


async def test_pods_that_are_rejected_with_their_class_share_a_line() -> None:
    with log_at(2) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("small", cpu="1"))
            async with running(server) as (app, _, _):
                for number in range(50):
                    put(server, "pods", pod_tree(f"big-{number:02}", requests={"cpu": "2"}))
                async with asyncio.timeout(20):
                    while app.parts.assembly.queue.statistics().unschedulable < 50:  # noqa: ASYNC110  # it tells nobody
                        await asyncio.sleep(0)
    judged = log.named("pod_not_scheduled")
    together = log.named("class_not_scheduled")
    assert len(judged) + sum(line["pods"] for line in together) == 50, "each pod is told of once"
    assert len(judged) + len(together) < 25, "in few lines"
    for line in together:
        assert line["message"] == judged[0]["message"]
        assert line["like"] in {one["pod"] for one in judged}
        assert 1 <= len(line["first"]) <= 5


async def test_when_a_class_is_judged_anew_its_parked_pods_are_reported_of_in_one_line() -> None:
    with log_at(2) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("small", cpu="1"))
            async with running(server) as (app, _, _):
                for number in range(10):
                    put(server, "pods", pod_tree(f"big-{number}", requests={"cpu": "2"}, nodeSelector={"disk": "ssd"}))
                async with asyncio.timeout(20):
                    while app.parts.assembly.queue.statistics().unschedulable < 10:  # noqa: ASYNC110
                        await asyncio.sleep(0)
                put(server, "nodes", node_tree("small-too", cpu="1", labels={"disk": "ssd"}))
                line = await log.until("pod_not_scheduled", attempts=2)
    assert line["message"].startswith("0/2 nodes")
    (together,) = [one for one in log.named("class_not_scheduled") if one["message"] == line["message"]]
    assert (together["pods"], together["like"]) == (9, line["pod"])


async def test_a_preemption_is_reported_from_both_sides_to_its_end() -> None:
    with log_at(2) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            fill(server)
            async with running(server):
                put(server, "pods", preemptor())
                await log.until("pod_bound", pod="default/big")
                await log.until("preemption_finished")
    (nominated,) = log.named("pod_nominated", pod="default/big")
    assert (nominated["node"], nominated["numVictims"], nominated["broken_budgets"]) == ("node", 2, 0)
    preempted = log.named("pod_preempted")
    assert sorted(line["pod"] for line in preempted) == sorted(nominated["victims"])
    for line in preempted:
        assert (line["preemptor"], line["preemptor_uid"], line["node"]) == ("default/big", "uid-of-big", "node")
        assert log.story(line["pod"]) == ["pod_preempted", "victim_gone"]
        assert log.named("victim_gone", pod=line["pod"], preemptor="default/big", how="deleted")
    story = log.story("default/big")
    assert story[:2] == ["pod_nominated", "pod_not_scheduled"]
    assert story[-1] == "pod_bound" or set(story[-2:]) == {"pod_bound", "preemption_finished"}
    assert log.named("pod_bound", pod="default/big", nominated=True, attempts=2)
    assert alarms(log) == []


@pytest.mark.parametrize(("plugin", "name"), [(Holds, "held"), (Prepares, "prepared")], ids=["Permit", "PreBind"])
async def test_a_victim_that_is_called_back_before_it_was_bound_is_no_error(plugin: type[Plugin], name: str) -> None:
    with log_at(2) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("node", cpu="2"))
            async with running(server, options(plugin)):
                put(server, "pods", victim(name, cpu="2"))
                await log.until("pod_waiting", pod=f"default/{name}", node="node")
                put(server, "pods", preemptor())
                await log.until("pod_bound", pod="default/big")
                await log.until("pod_not_scheduled", pod=f"default/{name}")
    (line,) = log.named("pod_preempted")
    assert line["how"] == "called back before it was bound"
    assert alarms(log) == []


@pytest.mark.parametrize(("plugin", "name"), [(Holds, "held"), (Prepares, "prepared")], ids=["Permit", "a volume"])
async def test_a_pod_that_is_deleted_while_it_waits_is_no_error(plugin: type[Plugin], name: str) -> None:
    with log_at(2) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("node", cpu="2"))
            async with running(server, options(plugin)) as (app, _, _):
                put(server, "pods", victim(name))
                await log.until("pod_waiting", pod=f"default/{name}", plugins=[plugin.name])
                server.store.remove("pods", ("default", name))
                async with asyncio.timeout(20):
                    while app.parts.assembly.queue.find(f"default/{name}") or app.parts._pod(f"default/{name}"):  # noqa: ASYNC110
                        await asyncio.sleep(0)
                Prepares.is_over.set()
                line = await log.until("pod_let_go")
    assert line["reason"] == "it was deleted"
    assert alarms(log) == []


async def test_a_pod_that_is_deleted_under_its_binding_is_no_error() -> None:
    with log_at(2) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("node", cpu="2"))
            server.faults.add(InjectedFault("answer", method="POST", path="*/binding", code=404, count=1))
            async with running(server):
                put(server, "pods", pod_tree("web"))
                line = await log.until("pod_not_scheduled")
                assert line["message"].endswith("404")
                await log.until("pod_bound", attempts=2)
    assert alarms(log) == []


async def test_an_error_is_one_line_at_any_verbosity_with_attempts_and_the_next_try() -> None:
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("node", cpu="2"))
            server.faults.add(InjectedFault("answer", method="POST", path="*/binding", code=403))
            async with running(server):
                put(server, "pods", pod_tree("web"))
                line = await log.until("attempt_failed")
    assert (line["pod"], line["uid"], line["attempts"], line["queue"]) == ("default/web", "uid-of-web", 1, "backoff")
    assert line["next_try_seconds"] > 0
    assert "injected fault" in line["err"]


async def test_a_quiet_log_says_nothing_of_pods() -> None:
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            fill(server)
            async with running(server):
                put(server, "pods", preemptor())
                put(server, "pods", pod_tree("huge", requests={"cpu": "99"}))
                await until(server, lambda: node_of(server, "big") == "node")
    assert [line for line in log.lines() if "pod" in line] == []


# --- everything


async def everything(log: LogText) -> None:
    """All that may happen to a pod, once."""
    async with EmbeddedAPIServer(seed=1) as server:
        fill(server, victims=4)
        put(server, "nodes", node_tree("other", cpu="3"))
        async with running(server, options(Holds, Prepares)):
            put(server, "pods", pod_tree("web", requests={"cpu": "1"}))
            await log.until("pod_bound", pod="default/web")
            for name in ("held", "prepared"):
                put(server, "pods", victim(name, cpu="100m"))
                await log.until("pod_waiting", pod=f"default/{name}")
            server.store.remove("pods", ("default", "held"))
            await log.until("pod_let_go")
            put(server, "pods", pod_tree("gated", schedulingGates=[{"name": "a/b"}]))
            await log.until("pod_gated", plugin="SchedulingGates")
            put(server, "pods", pod_tree("claims", resourceClaims=[{"name": "gpu", "resourceClaimName": "not-there"}]))
            await log.until("pod_kept_out", plugin="DynamicResources")
            put(server, "pods", preemptor(cpu="3500m"))
            await log.until("pod_bound", pod="default/big")
            await log.until("preemption_finished")
            await log.until("victim_gone")
            for name in ("huge-1", "huge-2"):
                put(server, "pods", pod_tree(name, requests={"cpu": "50"}))
            await log.until("class_not_scheduled")
            put(server, "nodes", node_tree("large", cpu="64"))
            await log.until("pod_woken", cluster_event="NodeAdd")
            await log.until("pod_bound", pod="default/huge-1")
            server.store.remove("pods", ("default", "gated"))
            await log.until("pod_deleted", pod="default/gated")
            server.faults.add(InjectedFault("apply_then_reset", method="POST", path="*/binding", count=1))
            put(server, "pods", pod_tree("doubtful"))
            await log.until("bind_settled", pod="default/doubtful", outcome="bound")
            going = pod_tree("going", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]})
            put(server, "pods", going)
            await log.until("pod_skipped", pod="default/going")
            Prepares.is_over.set()
            await log.until("pod_wait_over", pod="default/prepared", point="PreBind", status="Error")


# Played in process: tests/scheduling/test_pod_log.py.
NOT_PLAYED = {"victim_spared", "bind_not_sent"}


@pytest.mark.parametrize("verbosity", [3, 4, 5, 10])
async def test_each_line_comes_at_its_level_with_its_fields_and_no_other_line_reports_of_pods(verbosity: int) -> None:
    with log_at(10) as log:
        if verbosity == 10:
            await everything(log)
            seen = {line["msg"] for line in log.lines()}
            assert LINES.keys() - seen == NOT_PLAYED
        else:
            await some(log, verbosity)
    for line in log.lines():
        if ("pod" in line and line["level"] == "info") or line["msg"] in LINES:
            known = LINES[line["msg"]]
            expected = {known.level, 3} if line["msg"] == "pod_not_scheduled" else {known.level}
            assert line["v"] in expected, line
            assert line["v"] <= verbosity, line
            fields = line.keys() - {"ts", "level", "v", "msg", "logger", "pod", "uid"}
            assert fields <= set(known.fields), line


async def some(log: LogText, verbosity: int) -> None:
    """A pod that waits for a node, at a level of one's own."""
    from kscheduler.telemetry.logs.pipeline import configure

    configure(verbosity=verbosity, json=True, stream=log)
    async with EmbeddedAPIServer(seed=1) as server, running(server):
        put(server, "nodes", node_tree("small", cpu="500m"))
        put(server, "pods", pod_tree("web", requests={"cpu": "1"}))
        await log.until("pod_not_scheduled")
        for name in ("n1", "n2"):
            put(server, "nodes", node_tree(name, cpu="4"))
        await log.until("pod_bound")
    names = {line["msg"] for line in log.lines()}
    assert {name for name in names & LINES.keys() if LINES[name].level > verbosity} == set()
    assert ("pod_woken" in names) is (verbosity >= 4)
    assert "pod_attempt" in names
