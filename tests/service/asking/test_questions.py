"""`/explain` and `/simulate` of a running service: true at this moment, and nothing comes of them."""

import asyncio
import json
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from jsonschema import Draft202012Validator

from kscheduler.cli import main
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.explain.schema import schema_text
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code, Status
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from kscheduler.service.asking.live_copies import LiveCopies
from kscheduler.service.asking.query_errors import CopyLimits
from kscheduler.simulate.simulation_result import schema_text as simulation_schema
from tests.builders import node_tree, pod_tree
from tests.service.preemption_stage import options
from tests.service.running import SECONDS, alone, answer, node_of, put, running, until

Tree = dict[str, Any]
_EXPLANATION = Draft202012Validator(json.loads(schema_text()))
_SIMULATION = Draft202012Validator(json.loads(simulation_schema()))


def _condition_of(server: EmbeddedAPIServer, name: str) -> bool:
    record = server.store.get("pods", "default", name)
    return record is not None and bool(record.value.get("status", {}).get("conditions"))


async def explained(app: App, path: str) -> Tree:
    status, text = await answer(app, f"/explain?pod={path}")
    assert status == 200, text
    tree: Tree = json.loads(text)
    assert [problem.message for problem in _EXPLANATION.iter_errors(tree)] == []
    return tree


async def simulated(app: App, status: int = 200, **request: Any) -> Tree:
    url = f"http://127.0.0.1:{app.server.port}/simulate"
    async with aiohttp.ClientSession() as session, session.post(url, json=request) as response:
        tree: Tree = await response.json()
        assert response.status == status, tree
    if status == 200:
        assert [problem.message for problem in _SIMULATION.iter_errors(tree)] == []
        tree["notes"] = [note for note in tree["notes"] if not note.startswith("as of ")]
    return tree


async def test_a_parked_pod_says_its_attempts_what_it_awaits_and_what_would_free_it() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        put(server, "pods", pod_tree("big", requests={"cpu": "9"}))
        await until(server, lambda: _condition_of(server, "big"))
        tree = await explained(app, "default/big")
        known = tree["situation"]["inService"]
        assert (tree["outcome"], known["place"], known["attempts"]) == ("Unschedulable", "unschedulable", 1)
        assert known["rejectedBy"] == ["NodeResourcesFit"]
        assert any("NodeAdd" in event for event in known["awaitsEvents"])
        assert known["leads"]
        assert tree["suggestions"][0]["kind"] == "request"
        assert (await explained(app, "default/big&suggestions=false"))["suggestions"] is None


async def test_a_gated_pod_says_who_keeps_it_out() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        put(server, "pods", pod_tree("gated", schedulingGates=[{"name": "example.com/quota"}]))
        await until_true(lambda: app.http_app.is_scheduling and bool(app.parts.assembly.queue.find("default/gated")))
        known = (await explained(app, "default/gated"))["situation"]["inService"]
        assert (known["place"], known["gatedBy"]) == ("gated", "SchedulingGates")


class Holds(Plugin):
    """Lets nobody through for a while."""

    name = "Holds"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        del cycle, pod, node_name
        return PermitResult(Status(Code.WAIT), 60.0)


async def test_a_pod_at_permit_says_for_subject_it_waits_and_where() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server, options(Holds)) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        put(server, "pods", pod_tree("held"))
        await until_true(lambda: len(app.parts.assembly.waiting) == 1)
        known = (await explained(app, "default/held"))["situation"]["inService"]
        assert (known["place"], known["assumedOn"]) == ("permit", "node")
        assert 0 < known["permitRejectsInSeconds"]["Holds"] <= 60


async def until_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  what is waited for rings no bell
            await asyncio.sleep(0.01)


async def test_a_bound_pod_is_judged_as_if_it_were_pending_and_set_beside_another_node() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("large", cpu="8"))
        put(server, "nodes", node_tree("small", cpu="2"))
        put(server, "pods", pod_tree("web", requests={"cpu": "1"}))
        await until(server, lambda: bool(node_of(server, "web")))
        await until_true(lambda: not app.parts.assembly.cache.is_assumed("uid-of-web"))
        tree = await explained(app, "default/web&against=small")
        assert (tree["outcome"], tree["cycleOutcome"], tree["node"]) == ("Bound", "Placed", "large")
        assert tree["against"]["node"] == "small"
        assert tree["situation"]["inService"]["place"] == "none"
        status, text = await answer(app, "/explain?pod=default/web&against=nowhere")
        assert (status, json.loads(text)["message"]) == (404, "the service knows no node nowhere")


async def test_text_for_whoever_asks_for_text() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        put(server, "pods", pod_tree("big", requests={"cpu": "9"}))
        await until(server, lambda: _condition_of(server, "big"))
        url = f"http://127.0.0.1:{app.server.port}/explain?pod=default/big"
        headers = {"Accept": "text/plain, */*"}
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
            text = await response.text()
        assert response.content_type == "text/plain"
        assert text.startswith("default/big: fits on no node\n")
        assert "after 1 attempt; it is tried again when a node is added" in " ".join(text.split())
        assert "1. request 2 of cpu instead of 9" in text


WRONG_QUERIES = [
    ("", 400, "pod: NAMESPACE/NAME was expected"),
    ("?pod=web", 400, "pod: NAMESPACE/NAME was expected"),
    ("?pod=a/b/c", 400, "pod: NAMESPACE/NAME was expected"),
    ("?pod=default/web&node=x", 400, "unknown parameter node: there are pod, podGroup, against, suggestions"),
    ("?pod=default/web&suggestions=2", 400, "suggestions: true or false was expected"),
    ("?pod=default/web", 404, "the service knows no pod default/web"),
]  # fmt: skip


async def test_what_is_wrong_with_a_query_is_said() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        await until_true(lambda: app.http_app.is_scheduling)
        for query, status, message in WRONG_QUERIES:
            got, text = await answer(app, f"/explain{query}")
            tree = json.loads(text)
            assert (got, tree["code"], tree["status"]) == (status, status, "Failure"), query
            assert tree["message"].startswith(message), query


def _manifest(name: str = "new", cpu: str = "1", **spec: Any) -> Tree:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    whole = {"schedulerName": "kscheduler", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


_ALL_ON_ONE = {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def _deployment(**spec: Any) -> Tree:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": _manifest(**spec)["spec"]}
    whole = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": whole}


WRONG_REHEARSALS: list[tuple[Tree, str]] = [
    ({"drian": ["a"]}, "object contains unknown field drian: do you mean drain?"),
    ({"drain": ["nodes"]}, "drain[0]: there is no node nodes: do you mean node?"),
    ({"addNodes": [{"count": 0, "like": "node"}]}, "addNodes[0].count: expected int >= 1"),
    ({"addNodes": [{"count": 20000, "like": "node"}]}, "addNodes: 20000 nodes are more than 10000"),
    ({"taints": [{"node": "node", "key": "a", "effect": "Never"}]}, "taints[0].effect: 'Never' is none of NoSchedule"),
    ({"capacity": True}, "capacity counts pods like the first new one: give one"),
    ({"replicas": 3}, "replicas requires objects, and there are none"),
    ({"replicas": 3, "objects": [{"kind": "Pod", "metadata": {}}]}, "objects[0] (Pod): metadata.name: Required value"),
    ({"objects": [{"apiVersion": "v1"}]}, "objects[0]: kind: is missing"),
    ({"objects": [_manifest(cpu="1x")]}, "objects[0] (Pod new): spec.containers[0].resources.requests.cpu"),
    ({"objects": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                  "spec": {"replicas": -3}}]},
     "objects[0]: spec.replicas: -3 is not from 0 to 20000"),
    ({"objects": [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
                  "spec": {"parallelism": 10**9}}]},
     "objects[0]: spec.parallelism: 1000000000 is not from 0 to 20000"),
    ({"config": {"kind": "Pod"}}, "config."),
    ({"config": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
                 "pluginSources": [{"module": "antigravity"}]}},
     "config.pluginSources: a request loads no plugins"),
    ({"namespace": "A B/../"}, 'namespace: Invalid value: "A B/../": a lowercase RFC 1123 label must consist of'),
    ({"objects": [_manifest("A B")]}, 'objects[0] (Pod A B): metadata.name: Invalid value: "A B": a lowercase RFC'),
    ({"objects": [_manifest(cpu="-5")]},
     'objects[0] (Pod new): spec.containers[0].resources.requests[cpu]: Invalid value: "-5": must be greater than or'),
    ({"objects": [_deployment(topologySpreadConstraints=[_ALL_ON_ONE])]},
     "objects[0] (Deployment d): spec.template.spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be"),
    ({"objects": [{**_manifest("A B"), "apiVersion": None}]}, "objects[0] (Pod A B): metadata.name: Invalid value:"),
    ({"objects": [_manifest(containers=5)]},
     "objects[0] (Pod new): json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type []v1.C"),
    ({"labels": [{"node": "node", "labels": {"a b": "c"}}]}, 'node node: metadata.labels: Invalid value: "a b": name'),
    ({"taints": [{"node": "node", "key": "a b", "effect": "NoSchedule"}]}, "node node: metadata.taints[0].key: Inv"),
    ({"objects": [_manifest("a"), _manifest("b")], "replicas": 10_001}, "objects[1]: more than 20000 new pods"),
    ({"apiVersion": "v1"}, "apiVersion, kind: expected simulate.kscheduler.io/v1, SimulationRequest"),
]  # fmt: skip


async def test_what_is_wrong_with_a_rehearsal_is_said_with_its_field() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == 1)
        said = [((await simulated(app, 400, **request_))["message"], message) for request_, message in WRONG_REHEARSALS]
    assert [(text, message) for text, message in said if message not in text] == []


async def test_all_that_is_wrong_with_new_objects_is_said_at_once() -> None:
    gold, silver = (_manifest(name, priorityClassName=name) for name in ("gold", "silver"))
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == 1)
        refused = await simulated(app, 400, objects=[_manifest("A B"), _manifest(), _manifest(cpu="-5")])
        unknown = await simulated(app, objects=[gold, silver])
    lines = refused["message"].split("\n")
    assert [line.partition(": Invalid value: ")[0] for line in lines] == [
        "objects[0] (Pod A B): metadata.name",
        "objects[2] (Pod new): spec.containers[0].resources.requests[cpu]",
    ]
    assert unknown["notes"] == [
        f"objects[{index}]: PriorityClass {name} is not known here: priority 0 is presumed"
        for index, name in enumerate(("gold", "silver"))
    ], "as the command notes them, beside the answer"


async def test_a_priority_class_is_known_from_the_pods_that_have_it_and_from_the_request() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="1"))
        put(server, "pods", pod_tree("low", requests={"cpu": "1"}, priorityClassName="gold", priority=100))
        await until(server, lambda: bool(node_of(server, "low")))
        same = await simulated(app, objects=[_manifest(priorityClassName="gold")])
        platinum = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "platinum"}}
        higher = await simulated(app, objects=[{**platinum, "value": 200}, _manifest(priorityClassName="platinum")])
        assert (same["placed"], same["evicted"]) == ([], [])
        assert [each["pod"] for each in higher["evicted"]] == ["default/low"]


async def test_a_play_whose_time_is_up_reports_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.simulate.simulated_cluster.perf_counter", lambda: inf)
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == 1)
        tree = await simulated(app, objects=[_manifest()], replicas=3, capacity=True, drain=["node"])
        assert not tree["complete"]
        assert {each["message"] for each in tree["pending"]} == {"not tried: the simulation was ended before"}
        assert (len(tree["pending"]), tree["drains"]) == (3, [])
        assert tree["capacity"] == {"pods": 0, "groups": None, "group": None, "isMore": True}
        assert tree["notes"][-1].startswith("the simulation was ended after ")
        monkeypatch.undo()
        assert (await simulated(app, objects=[_manifest()]))["complete"]


@pytest.mark.parametrize("path", ["/nodes?sort=cpu", "/pending?ns=shop"])
async def test_an_unknown_parameter_is_refused_by_name(path: str) -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        await until_true(lambda: app.http_app.is_scheduling)
        status, text = await answer(app, path)
        assert (status, json.loads(text)["message"].partition(":")[0]) == (
            400,
            f"unknown parameter {path.partition('?')[2].partition('=')[0]}",
        )
        url = f"http://127.0.0.1:{app.server.port}/simulate?dryRun=All"
        async with aiohttp.ClientSession() as session, session.post(url, json={}) as response:
            assert (response.status, (await response.json())["message"]) == (
                400,
                "unknown parameter dryRun: there are none here",
            )


async def test_a_body_that_is_too_large_or_no_json_is_refused() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        await until_true(lambda: app.http_app.is_scheduling)
        reader, writer = await asyncio.open_connection("127.0.0.1", app.server.port)
        writer.write(b"POST /simulate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()
        url = f"http://127.0.0.1:{app.server.port}/simulate"
        async with aiohttp.ClientSession() as session:
            async with session.post(url, data=b"{", headers={"Content-Type": "application/json"}) as response:
                assert "the body is not JSON" in (await response.json())["message"]
            async with session.post(url, data=b"x", headers={"Content-Type": "text/yaml"}) as response:
                assert response.status == 415
                assert (await response.json())["message"].endswith("send Content-Type: application/json")


def _dump(server: EmbeddedAPIServer) -> str:
    """The cluster as kubectl prints it."""
    items = [
        {"apiVersion": "v1", "kind": kind, **record.value}
        for collection, kind in (("nodes", "Node"), ("pods", "Pod"))
        for record in server.store.collection(collection).records.values()
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


async def test_a_rehearsal_of_the_service_is_that_of_the_command_and_nothing_comes_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The service's own cache, adapted, says the same as a cluster that is built from the objects."""
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        for number in range(5):
            put(server, "nodes", node_tree(f"node-{number}", cpu=str(2 + number % 2)))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
        for number in range(8):
            metadata = {"ownerReferences": [owner]}
            put(server, "pods", pod_tree(f"web-{number}", requests={"cpu": "1"}, metadata=metadata))
        put(server, "pods", pod_tree("big", requests={"cpu": "9"}))
        placed = [f"web-{number}" for number in range(8)]
        await until(server, lambda: all(node_of(server, name) for name in placed) and _condition_of(server, "big"))
        await until_true(lambda: not app.parts.assembly.cache.statistics().assumed_pods)
        before = _dump(server)
        source = tmp_path / "cluster.json"
        source.write_text(before)
        manifest = tmp_path / "new.json"
        manifest.write_text(json.dumps(_manifest()))
        drained = node_of(server, "web-0")
        plays: list[tuple[Tree, list[str]]] = [
            ({}, []),
            (
                {"objects": [_manifest()], "replicas": 3, "capacity": True},
                ["-f", str(manifest), "--replicas", "3", "--capacity"],
            ),
            ({"addNodes": [{"count": 2, "like": "node-1"}]}, ["--add-nodes", "2:node-1"]),
            ({"drain": [drained]}, ["--drain", drained]),
            ({"removeNodes": [drained], "cordon": ["node-4"]}, ["--remove-node", drained, "--cordon", "node-4"]),
            ({"labels": [{"node": "node-0", "labels": {"kubernetes.io/hostname": None}}]},
             ["--label-node", "node-0:kubernetes.io/hostname-"]),
            ({"taints": [{"node": "node-0", "key": "a", "value": "b", "effect": "NoExecute"}],
              "objects": [_manifest()], "replicas": 2},
             ["--taint-node", "node-0:a=b:NoExecute", "-f", str(manifest), "--replicas", "2"]),
        ]  # fmt: skip
        for request, flags in plays:
            tree = await simulated(app, **request)
            assert await asyncio.to_thread(main, ["simulate", "--from", str(source), "-o", "json", *flags]) == 0
            lines = capsys.readouterr().out.splitlines()  # the service logs there, too
            assert tree == json.loads(next(line for line in lines if line.startswith("{"))), flags
        assert _dump(server) == before


async def test_another_configuration_decides_in_the_rehearsal_alone() -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "kscheduler", "pluginConfig": [fit]}],
    }
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        for name in ("a", "b"):
            put(server, "nodes", node_tree(name))
        put(server, "pods", pod_tree("runs", requests={"cpu": "1"}))
        await until(server, lambda: bool(node_of(server, "runs")))
        on = node_of(server, "runs")
        spread = await simulated(app, objects=[_manifest()])
        packed = await simulated(app, objects=[_manifest()], config=config)
        assert [each["node"] for each in spread["placed"]] != [on]
        assert [each["node"] for each in packed["placed"]] == [on]


async def test_pods_that_are_being_bound_count_on_their_node() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == 1)
        assembly = app.parts.assembly
        put(server, "pods", pod_tree("under-way", requests={"cpu": "2"}, schedulingGates=[{"name": "a/b"}]))
        await until_true(lambda: assembly.queue.find("default/under-way") is not None)
        found = assembly.queue.find("default/under-way")
        assert found is not None
        assembly.cache.assume_pod(found[1].pod, "node")
        tree = await simulated(app, objects=[_manifest()])
        assembly.cache.forget_pod("uid-of-under-way")
        assert [each["pod"] for each in tree["pending"]] == ["default/new"]
        assert tree["placed"] == []


async def test_without_the_flag_there_are_no_such_paths() -> None:
    deaf = Options(alone(), serving=HTTPServing.plain_on_loopback(), serves_queries=False)
    async with EmbeddedAPIServer(seed=1) as server, running(server, deaf) as (app, _, _):
        assert (await answer(app, "/explain?pod=a/b"))[0] == 404
        assert "/explain" not in (await answer(app, "/"))[1]
        await simulated_status(app, 404)


async def simulated_status(app: App, status: int) -> None:
    url = f"http://127.0.0.1:{app.server.port}/simulate"
    async with aiohttp.ClientSession() as session, session.post(url, json={}) as response:
        assert response.status == status


async def test_a_service_that_knows_no_cluster_yet_says_when_to_ask_again() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        app.http_app.queries._has_synced = lambda: False
        url = f"http://127.0.0.1:{await port_of(app)}/explain?pod=a/b"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "5")
            assert (await response.json())["message"] == "the service has not read the cluster yet"


async def port_of(app: App) -> int:
    await answer(app, "/livez")
    return app.server.port


async def test_too_many_questions_and_those_that_take_too_long_are_reported_when_to_come_again() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        await until_true(lambda: app.http_app.is_scheduling)
        live = LiveCopies(limits=CopyLimits(seconds=0.01, waiting=0, at_once=1))
        app.http_app.queries._copies = live
        url = f"http://127.0.0.1:{app.server.port}/simulate"
        async with aiohttp.ClientSession() as session:

            async def ask() -> tuple[int, str]:
                async with session.post(url, json={}) as response:
                    return response.status, response.headers["Retry-After"]

            answers = await asyncio.gather(ask(), ask(), ask())
            await live.aclose()
        assert sorted(answers) == [(429, "1"), (429, "1"), (503, "10")]
        metrics = (await answer(app, "/metrics"))[1]
        assert 'kscheduler_questions_total{outcome="busy",question="simulate"} 2.0' in metrics
        assert 'kscheduler_questions_total{outcome="timeout",question="simulate"} 1.0' in metrics


async def test_the_end_of_the_service_does_not_wait_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two that are worked on and the one that waits for its turn are told, and nobody after them is asked."""
    monkeypatch.setattr("kscheduler.service.asking.answers_in_copy.nodes", lambda *_: time.sleep(60))
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        await until_true(lambda: app.http_app.is_scheduling)
        queries, live = app.http_app.queries, app.http_app.copies
        queried = [asyncio.create_task(queries.nodes()) for _ in range(3)]
        await until_true(lambda: live.waiting == 3 and live.forks == 2)
        app.http_app.begin_stopping()
        answers = [*await asyncio.gather(*queried), await queries.nodes()]
        assert {(each.status, each.body) for each in answers} == {
            (503, b"the service is stopping: ask again in a moment")
        }
        assert live.forks == 2


async def test_a_client_that_leaves_takes_its_query_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.service.asking.answers_in_copy.nodes", lambda *_: time.sleep(60))
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == 1)
        live, url = app.http_app.copies, f"http://127.0.0.1:{app.server.port}/nodes"
        async with aiohttp.ClientSession() as session:
            queried = [asyncio.ensure_future(session.get(url)) for _ in range(3)]  # of which one waits for its turn
            await until_true(lambda: live.waiting == 3)
            for each in queried:
                each.cancel()
            await until_true(lambda: live.waiting == 0)
        metrics = (await answer(app, "/metrics"))[1]
    assert 'kscheduler_questions_total{outcome="left",question="nodes"} 3.0' in metrics


@pytest.mark.parametrize(
    "path", ["/explain?pod=default/a&pod=default/b", "/pending?suggestions=true&suggestions=false"]
)
async def test_a_parameter_that_is_given_twice_is_refused(path: str) -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        status, text = await answer(app, path)
    assert status == 400
    assert "is given 2 times: once is enough" in text
