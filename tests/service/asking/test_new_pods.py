"""`POST /explain` of a running service: pods that do not exist yet, as they would be decided if they did."""

import asyncio
import json
from typing import Any

import aiohttp
import msgspec
import pytest
from jsonschema import Draft202012Validator

from kscheduler.api.kinds import PODS
from kscheduler.config.loader import from_tree
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.explain.queries.new_pods_request import MAX_EXPLAINED
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.plugin import Plugin, PreFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code, Status
from kscheduler.server.pages.query_pages import BODY_BYTES
from kscheduler.server.pages.zpages import description
from kscheduler.service import App
from tests.builders import node_tree, pod_tree
from tests.service.asking.test_claims_in_rehearsals import dumped
from tests.service.asking.test_questions import explained, until_true
from tests.service.preemption_stage import options
from tests.service.running import put, running
from tests.simulate.test_claims_to_devices import device_class, from_template, gpus, new_pod, template

Tree = dict[str, Any]
_WHOLE = description()
_ANSWER = Draft202012Validator(
    {**_WHOLE["components"]["schemas"]["ExplanationList"], "components": _WHOLE["components"]}
)


class Shy(Plugin):
    """Lets no pod of the app `shy` go anywhere: what only this service has."""

    name = "Shy"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        del cycle, nodes
        is_shy = pod.pod.metadata.labels.get("app") == "shy"
        return PreFilterResult(Status(Code.UNSCHEDULABLE, ("it is shy",)) if is_shy else Status())


async def queried(app: App, status: int = 200, **request: Any) -> Tree:
    url = f"http://127.0.0.1:{app.server.port}/explain"
    headers = {"Cache-Control": "no-cache"}
    async with aiohttp.ClientSession() as session, session.post(url, json=request, headers=headers) as response:
        tree: Tree = await response.json()
        assert response.status == status, tree
    if status == 200:
        assert [problem.message for problem in _ANSWER.iter_errors(tree)] == []
    return tree


def manifest(name: str, **spec: Any) -> Tree:
    tree = pod_tree(name, **spec)
    del tree["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "Pod", **tree}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"requests": {"cpu": "9"}}, id="too much"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, id="a label that no node has"),
        pytest.param({"metadata": {"labels": {"app": "shy"}}}, id="a plugin that only this service has"),
        pytest.param({"schedulingGates": [{"name": "example.com/quota"}]}, id="gated"),
        pytest.param({"schedulerName": "somebody-else"}, id="of another scheduler"),
    ],
)
async def test_a_pod_gets_the_answer_that_it_would_get_if_it_existed(spec: Tree) -> None:
    same = (
        "cycleOutcome",
        "profile",
        "nodeCount",
        "evaluatedCount",
        "rejections",
        "preEnqueue",
        "preFilter",
        "message",
    )
    async with EmbeddedAPIServer(seed=1) as server, running(server, options(Shy)) as (app, _, _):
        for name in ("a", "b"):
            put(server, "nodes", node_tree(name, cpu="2"))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == 2)
        before = dumped(server)
        (new,) = (await queried(app, objects=[manifest("big", **spec)]))["items"]
        assert dumped(server) == before
        standing = "NotServed" if "schedulerName" in spec else "New"
        assert (new["pod"]["uid"], new["situation"]["standing"], new["situation"]["inService"]) == ("", standing, None)
        put(server, "pods", pod_tree("big", **spec))
        await until_true(lambda: app.parts.informers.informer(PODS).store.get("default/big") is not None)
        there = await explained(app, "default/big")
        assert {key: new[key] for key in same} == {key: there[key] for key in same}
        kinds = [[each["kind"] for each in tree["suggestions"] or ()] for tree in (new, there)]
        assert kinds[0] == kinds[1]


async def test_what_comes_with_the_pods_is_there_for_the_plugins_of_the_service() -> None:
    """A node, devices with their class, a claim's template, a bound claim's volume: none is in the cluster."""
    disk: Tree = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"}}
    disk["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "pv"}
    volume: Tree = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}}
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["second"]}]}
    volume["spec"] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "claimRef": {"namespace": "default", "name": "disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    disk["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    second = {"apiVersion": "v1", "kind": "Node", **node_tree("second", cpu="4")}
    second["metadata"]["labels"] = {"kubernetes.io/hostname": "second"}
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    objects = [
        *(second, volume, disk, device_class(), gpus("second", 2), template()),
        new_pod("claiming", resourceClaims=from_template()),
        manifest("stored", volumes=volumes),
    ]
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("first", cpu="2"))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == 1)
        before = dumped(server)
        items = (await queried(app, objects=objects))["items"]
        found = [(each["pod"]["name"], each["node"]) for each in items]
        assert found == [("claiming", "second"), ("stored", "second")]
        assert dumped(server) == before
        assert len(app.parts.assembly.cache.nodes) == 1
        alone = (await queried(app, objects=[manifest("alone")]))["items"]
        assert [each["nodeCount"] for each in alone] == [1], "the next question finds the service as it was"


async def test_a_gang_is_answered_as_a_whole_with_the_members_that_are_there() -> None:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    of_volcano = {"podGroupAPIs": ["volcano"], "profiles": [{"schedulerName": "kscheduler"}]}
    config = from_tree({**head, "leaderElection": {"leaderElect": False}, **of_volcano}, "test")
    annotated: Tree = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "g"}}}
    gang: Tree = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    gang["spec"] = {"minMember": 3}
    new = [manifest(f"m-{number}", requests={"cpu": "1"}, **annotated) for number in range(2)]
    chosen = msgspec.structs.replace(options(), config=config)
    async with EmbeddedAPIServer(seed=1) as server, running(server, chosen) as (app, _, _):
        put(server, "nodes", node_tree("first", cpu="3"))
        put(server, "pods", pod_tree("there", requests={"cpu": "1"}, **annotated))
        queue = app.parts.assembly.queue
        await until_true(lambda: app.http_app.is_scheduling and queue.find("default/there") is not None)
        other = manifest("other", requests={"cpu": "9"})
        alone, answer = (await queried(app, objects=[*new, other, gang]))["items"]
        assert (alone["kind"], alone["outcome"]) == ("Explanation", "Unschedulable")
        nodes = {name: each.get("node") for name, each in answer["podGroupOutcome"]["pods"].items()}
        assert nodes == dict.fromkeys(("there", "m-0", "m-1"), "first")
        (short,) = (await queried(app, objects=[new[0], gang]))["items"]
        assert short["message"] == "2 of 3 members are there"
        many = [manifest(f"p-{number}") for number in range(MAX_EXPLAINED)]
        refused = (await queried(app, 400, objects=[*new, *many]))["message"]
        assert refused.startswith(
            f"objects: {MAX_EXPLAINED + 1} new pods and pod groups are more than {MAX_EXPLAINED}:"
        )


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        ({}, 400, "objects: no pod and nothing that makes pods: give some"),
        ({"objets": []}, 400, "object contains unknown field `objets`: do you mean objects?"),
        ({"objects": [{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}]}, 400, ""),
        ({"objects": [manifest("a")], "against": "nowhere"}, 404, "the service knows no node nowhere"),
        (
            {"objects": [manifest(f"p-{number}") for number in range(MAX_EXPLAINED + 1)]},
            400,
            f"objects: {MAX_EXPLAINED + 1} new pods are more than {MAX_EXPLAINED}: ask for some of them",
        ),
        (
            {"objects": [manifest("a", requests={"cpu": "four"})]},
            400,
            "objects[0] (Pod a): spec.containers[0].resources.requests.cpu: quantities must match",
        ),
        (
            {"objects": [manifest("a")], "places": ["web.yaml: document 1"], "admitted": ["it is forbidden"]},
            400,
            "web.yaml: document 1: the API server would not create it: it is forbidden",
        ),
        (
            {
                "objects": [{"kind": "List", "apiVersion": "v1", "items": [manifest("a"), manifest("b")]}],
                "admitted": ["x"],
            },
            400,
            "admitted: with it each member of a list has to be one of the objects",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
async def test_what_cannot_be_queried_is_refused_by_its_name(request_: Tree, status: int, message: str) -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("first"))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == 1)
        reported = (await queried(app, status, **request_))["message"]
        assert message.replace("`", "") in reported.replace("`", "")


async def test_a_body_has_its_bound_and_the_pod_of_the_dry_run_counts() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        put(server, "nodes", node_tree("first", cpu="2"))
        await until_true(lambda: app.http_app.is_scheduling and len(app.parts.assembly.cache.nodes) == 1)
        limited = manifest("a", requests={"cpu": "9"})
        (item,) = (await queried(app, objects=[manifest("a")], admitted=[limited]))["items"]
        assert item["outcome"] == "Unschedulable"
        url = f"http://127.0.0.1:{app.server.port}/explain"
        as_json = {"Content-Type": "application/json"}
        reader, writer = await asyncio.open_connection("127.0.0.1", app.server.port)
        writer.write(f"POST /explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY_BYTES + 1}\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        writer.close()
        async with aiohttp.ClientSession() as session:
            async with session.post(url, data=b"a=b", headers={"Content-Type": "text/plain"}) as other:
                assert other.status == 415
            body = json.dumps({"objects": [manifest("a"), manifest("b", requests={"cpu": "9"})]})
            headers = {"Accept": "text/plain", **as_json}
            async with session.post(url, data=body, headers=headers) as third:
                text = await third.text()
        assert "default/a: goes to first\n" in text
        assert "\n\ndefault/b: fits on no node\n" in text
