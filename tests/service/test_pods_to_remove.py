"""Preemption on the embedded API server: the right victims, once, whatever the API server does meanwhile."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.config.errors import ConfigError
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS, Code, Status
from kscheduler.service import App
from tests.builders import node_tree
from tests.service.preemption_stage import MESSAGE, events, fill, options, pod, preemptor, victim, watched
from tests.service.running import SECONDS, answer, node_of, put, running, until


class Holds(Plugin):
    """Permit for pods of priority 0: wait until somebody says so."""

    name = "Holds"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        return PermitResult(SUCCESS if pod.priority else Status(Code.WAIT), 600.0)


class Prepares(Plugin):
    """PreBind for pods of priority 0 takes forever."""

    name = "Prepares"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SKIP if pod.priority else SUCCESS

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        await asyncio.get_running_loop().create_future()
        return SUCCESS


async def test_victims_get_condition_event_and_deletion_and_the_preemptor_their_room() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        fill(server)
        with watched(server) as seen:
            async with running(server) as (app, _, _):
                put(server, "pods", preemptor())
                await until(server, lambda: node_of(server, "big") == "node")
                text = (await answer(app, "/metrics"))[1]
    assert len(seen.deleted) == 2
    for name in seen.deleted:
        (condition,) = seen.conditions[name]
        assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
        assert condition["message"] == MESSAGE
    assert seen.conditions.keys() == set(seen.deleted)
    assert seen.nominations["big"][:2] == ["", "node"]
    preempted = events(server, "Preempted")
    assert {event["involvedObject"]["name"] for event in preempted} == set(seen.deleted)
    for event in preempted:
        assert (event["type"], event["action"]) == ("Normal", "Preempting")
        assert event["message"] == "Preempted by pod uid-of-big on node node"
        assert (event["related"]["name"], event["related"]["uid"]) == ("big", "uid-of-big")
    assert "scheduler_preemption_victims_sum 2.0" in text
    assert 'scheduler_preemption_goroutines_execution_total{result="success"} 1.0' in text


async def test_the_preemptor_waits_for_victims_that_take_their_time_and_takes_no_others() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        fill(server, grace_seconds=30)
        with watched(server) as seen:
            async with running(server):
                put(server, "pods", preemptor())
                await until(server, lambda: len(seen.deleted) == 2)
                put(server, "pods", preemptor("later", cpu="1"))
                await until(server, lambda: len(seen.deleted) == 3)
                assert node_of(server, "big") == ""
                for name in tuple(seen.deleted):
                    server.store.remove("pods", ("default", name))
                await until(server, lambda: node_of(server, "big") == "node" == node_of(server, "later"))
        assert len(seen.deleted) == 3


FAULTS = [
    pytest.param(
        InjectedFault("answer", method="DELETE", path="*/pods/v*", code=503, count=1), id="503-to-the-deletion"
    ),
    pytest.param(
        InjectedFault("answer", method="DELETE", path="*/pods/v*", code=409, count=2), id="409-to-the-deletion"
    ),
    pytest.param(
        InjectedFault("answer", method="DELETE", path="*/pods/v*", code=403, count=3), id="403-to-the-deletion"
    ),
    pytest.param(InjectedFault("answer", method="DELETE", path="*/pods/v*", code=500, count=9), id="500-for-a-while"),
    pytest.param(
        InjectedFault("answer", method="DELETE", path="*/pods/v*", code=429, retry_after_seconds=1, count=1), id="429"
    ),
    pytest.param(InjectedFault("reset", method="DELETE", path="*/pods/v*", count=2), id="deletion-cut"),
    pytest.param(
        InjectedFault("apply_then_reset", method="DELETE", path="*/pods/v*", count=2), id="deletion-done-and-cut"
    ),
    pytest.param(
        InjectedFault("answer", method="PATCH", path="*/pods/v*/status", code=500, count=2), id="500-to-the-condition"
    ),
    pytest.param(
        InjectedFault("apply_then_reset", method="PATCH", path="*/pods/v*/status", count=1), id="condition-cut"
    ),
    pytest.param(
        InjectedFault("answer", method="PATCH", path="*/pods/big/status", code=500, count=2), id="500-to-nomination"
    ),
]


@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_fails_the_preemptor_comes_to_its_node(fault: InjectedFault) -> None:
    """An eviction that failed may leave a victim standing and take another one: never more than that failure's."""
    async with EmbeddedAPIServer(seed=1) as server:
        fill(server)
        server.faults.add(fault)
        with watched(server) as seen:
            async with running(server):
                put(server, "pods", preemptor())
                await until(server, lambda: node_of(server, "big") == "node")
    assert len(seen.deleted) == 2, "the failed try left its victims where they were, and they were chosen again"
    assert seen.conditions.keys() == set(seen.deleted)


async def test_two_preemptors_get_victims_of_their_own() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        fill(server, grace_seconds=30)
        with watched(server) as seen:
            async with running(server):
                put(server, "pods", preemptor("one"))
                put(server, "pods", preemptor("two"))
                await until(server, lambda: len(seen.deleted) == 4)
                for name in tuple(seen.deleted):
                    server.store.remove("pods", ("default", name))
                await until(server, lambda: node_of(server, "one") == "node" == node_of(server, "two"))
        assert len(set(seen.deleted)) == 4


async def test_who_is_outbid_loses_its_nomination() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        fill(server, grace_seconds=30)
        with watched(server) as seen:
            async with running(server):
                put(server, "pods", preemptor("middle", cpu="3", priority=50))
                await until(server, lambda: seen.nominations.get("middle", [""])[-1] == "node")
                put(server, "pods", preemptor("high", cpu="4", priority=200))
                await until(server, lambda: seen.nominations.get("high", [""])[-1] == "node")
                await until(server, lambda: seen.nominations["middle"][-1] == "")
                for number in range(4):
                    if pod(server, f"v{number}") is not None:
                        server.store.remove("pods", ("default", f"v{number}"))
                await until(server, lambda: node_of(server, "high") == "node")
                assert node_of(server, "middle") == ""


async def test_a_stop_in_the_middle_is_orderly_and_the_next_run_finishes() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        fill(server)
        server.faults.add(InjectedFault("delay", method="DELETE", path="*/pods/v*", seconds=0.3))
        with watched(server) as seen:
            async with running(server):
                put(server, "pods", preemptor())
                await until(server, lambda: bool(seen.conditions))
            assert len(seen.deleted) == 2, "what had begun came to its end"
            async with running(server):
                await until(server, lambda: node_of(server, "big") == "node")
        assert len(seen.deleted) == 2


async def test_a_victim_that_waits_for_permit_is_preempted_in_memory_and_scheduled_later() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node", cpu="2"))
        with watched(server) as seen:
            async with running(server, options(Holds)):
                put(server, "pods", victim("held", cpu="2"))
                await until(server, lambda: seen.nominations["held"][-1] == "node")
                put(server, "pods", preemptor())
                await until(server, lambda: node_of(server, "big") == "node")
                await until(server, lambda: seen.nominations["held"][-1] == "")
                server.store.remove("pods", ("default", "big"))
                await until(server, lambda: seen.nominations["held"][-1] == "node")
    assert seen.deleted == ["big"]
    assert "held" not in seen.conditions
    (event,) = events(server, "Preempted")
    assert event["message"] == "Preempted by pod uid-of-big on node node (in kube-scheduler memory)."
    notes = {event["message"] for event in events(server, "FailedScheduling")}
    assert "waiting on permit for pod: preempted" in notes


async def test_a_victim_in_pre_bind_is_called_back_in_memory() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node", cpu="2"))
        with watched(server) as seen:
            async with running(server, options(Prepares)):
                put(server, "pods", victim("preparing", cpu="2"))
                await until(server, lambda: seen.nominations["preparing"][-1] == "node")
                put(server, "pods", preemptor())
                await until(server, lambda: node_of(server, "big") == "node")
    assert seen.deleted == []
    assert "preparing" not in seen.conditions
    notes = {event["message"] for event in events(server, "FailedScheduling")}
    assert 'running PreBind plugin "Prepares": preempted by DefaultPreemption' in notes


async def test_with_the_gate_off_a_victim_in_pre_bind_is_deleted() -> None:
    """As in kube-scheduler, where the one feature comes with the other (Q27)."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node", cpu="2"))
        with watched(server) as seen:
            async with running(server, options(Prepares, gates="NominatedNodeNameForExpectation=false")) as (app, _, _):
                put(server, "pods", victim("preparing", cpu="2"))
                async with asyncio.timeout(SECONDS):
                    while not app.parts.assembly.cache.statistics().assumed_pods:  # noqa: ASYNC110  # nobody is told
                        await asyncio.sleep(0)
                put(server, "pods", preemptor())
                await until(server, lambda: "preparing" in seen.deleted)
    assert seen.nominations["preparing"] == [""]


# --- Permit by hand


@pytest.mark.parametrize("content", [None, "", "short"], ids=["missing", "empty", "short"])
async def test_a_token_that_cannot_be_used_ends_the_start(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match="--permit-token-file"):
        App(options(token_file=str(path)), plain_connection("http://127.0.0.1:1"))


async def test_a_waiting_pod_is_let_go_or_rejected_over_http(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a token of some length")
    authorized = {"Authorization": "Bearer a token of some length"}
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        with watched(server) as seen:
            async with running(server, options(Holds, token_file=str(token))) as (app, _, _):
                for name in ("goes", "stays"):
                    put(server, "pods", victim(name))
                    await until(server, lambda name=name: seen.nominations[name][-1] == "node")  # type: ignore[misc]
                async with aiohttp.ClientSession(f"http://127.0.0.1:{app.server.port}", headers=authorized) as client:
                    async with client.get("/waiting-pods") as response:
                        items = (await response.json())["items"]
                    assert [(item["name"], item["node"]) for item in items] == [("goes", "node"), ("stays", "node")]
                    assert len(app.parts.assembly.cache.nominator) == 0, "who counts on a node is expected nowhere"
                    verdict = {"plugin": "Holds", "message": "not today"}
                    async with client.post("/waiting-pods/default/goes/allow", json={"plugin": "Holds"}) as response:
                        assert response.status == 200
                    async with client.post("/waiting-pods/uid-of-stays/reject", json=verdict) as response:
                        assert response.status == 200
                await until(server, lambda: node_of(server, "goes") == "node")
                await until(server, lambda: seen.nominations["stays"][-1] == "")
                assert node_of(server, "stays") == ""
    notes = {event["message"] for event in events(server, "FailedScheduling")}
    assert "0/1 nodes are available: 1 not today." in notes
