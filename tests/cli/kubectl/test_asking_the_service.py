"""`kubectl kscheduler` through a proxy as the API server has it: who is let in, who answers, and what is said."""

import asyncio
import copy
import io
import json
import re
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml
from aiohttp import web

from kscheduler.answers.pending_in_queue import PendingInQueue
from kscheduler.api.machinery.api_errors import Object
from kscheduler.cli.kubectl.pending import pending_lines
from kscheduler.cli.kubectl.service import service_address
from kscheduler.cli.kubectl.top import TopReading, samples_in, screen, without_common_beginning
from kscheduler.cli.kubectl_plugin import main
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.login.authentication import BEHIND_PROXY
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from kscheduler.text import PLAIN, Style
from tests.builders import node_tree, pod_tree
from tests.service.running import SECONDS, alone, node_of, put, running, until
from tests.simulate.test_claims_to_devices import device_class, from_template, gpus, new_pod, template

PROCESSES = pytest.mark.slow("starts kscheduler as a process for each verb")

Tree = dict[str, Any]

ASKERS = Path(__file__).parents[3] / "deploy" / "examples" / "askers.yaml"
_PROXY = "/api/v1/namespaces/kscheduler-system/services/https:kscheduler:10259/proxy"
_HOP = ("Host", "Authorization", "Content-Length", "Transfer-Encoding", "Connection", "Accept-Encoding")


@dataclass
class Front:
    """An API server with a proxy: the embedded one, and before it what a real one does with such paths."""

    server: EmbeddedAPIServer
    url: str = ""
    app: App | None = None
    seen: list[tuple[str, str, bool]] = field(default_factory=list)
    """Method, path, and whether the service got credentials."""
    """The service's paths that were asked for an answer of the state from then on."""
    refuses_proxy: bool = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if not request.path.startswith(_PROXY):
            target, headers, context = f"{self.server.url}{request.path_qs}", dict(request.headers), None
            self.seen.append((request.method, request.path, False))
        elif self.refuses_proxy or self.app is None:
            text = 'services "https:kscheduler:10259" is forbidden: User "jane" cannot get resource "services/proxy"'
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text, "code": 403}
            return web.json_response(status, status=403)
        else:
            path = request.path_qs.removeprefix(_PROXY)
            target, context = f"https://127.0.0.1:{self.app.server.port}{path}", _trusting_anybody()
            headers = {name: value for name, value in request.headers.items() if name not in _HOP}
            self.seen.append((request.method, request.path.removeprefix(_PROXY), BEHIND_PROXY in headers))
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(request.method, target, data=body, headers=headers, ssl=context or True) as answer,
        ):
            return web.Response(
                body=await answer.read(), status=answer.status, content_type=answer.content_type or "text/plain"
            )


def _trusting_anybody() -> ssl.SSLContext:
    """As the API server's proxy does not check certificates of services."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@asynccontextmanager
async def cluster(*, grants: bool = True) -> AsyncIterator[Front]:
    """A scheduler over HTTPS with a login, and who may ask it as deploy/examples has it."""
    async with EmbeddedAPIServer(seed=1) as server:
        front = Front(server)
        if grants:
            for tree in yaml.safe_load_all(ASKERS.read_text()):
                server.store.put(_collection_of(tree), tree)
        routes = web.Application()
        routes.router.add_route("*", "/{tail:.*}", front.handle)
        runner = web.AppRunner(routes)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        front.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        options = Options(alone(), serving=HTTPServing(bind_address="127.0.0.1", secure_port=0))
        try:
            async with running(server, options) as (app, _, _):
                front.app = app
                async with asyncio.timeout(SECONDS):
                    while not app.http_app.is_scheduling:  # noqa: ASYNC110  it rings no bell
                        await asyncio.sleep(0.01)
                yield front
        finally:
            await runner.cleanup()


def _collection_of(tree: Object) -> str:
    plural = f"{tree['kind'].lower()}s"
    return plural if tree["apiVersion"] == "v1" else f"{plural}.rbac.authorization.k8s.io"


async def plugin(front: Front, *words: str) -> int:
    return await asyncio.to_thread(main, [words[0], "--master", front.url, *words[1:]])


def _answer_in(out: str) -> Tree:
    """The command's line of JSON; the service logs to the same place."""
    tree: Tree = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    return tree


async def test_why_is_answered_by_the_service_in_the_name_of_the_asker(capsys: pytest.CaptureFixture[str]) -> None:
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        put(front.server, "pods", pod_tree("big", requests={"cpu": "9"}))
        await _has_condition(front, "big")
        assert await plugin(front, "why", "default/big") == 0
        out, err = capsys.readouterr()
        assert "default/big: fits on no node" in out
        assert "parked since" in out
        assert "1. request 2 of cpu instead of 9" in out
        server = f"kubectl --server={front.url}"
        assert f"     {server} get pod big -n default -o yaml | {server} patch --local" in out
        assert "kscheduler: answered by the service kscheduler-system/kscheduler:10259\n" in err
        assert ("GET", "/explain", True) in front.seen
        assert await plugin(front, "why", "default/big", "-o", "json") == 0
        tree = _answer_in(capsys.readouterr().out)
        assert tree["situation"]["inService"]["place"] == "unschedulable"
        assert tree["suggestions"][0]["command"].count(f"{server} ") == 3
        assert await plugin(front, "pending") == 0
        assert f"  {server} get pod big -n default -o yaml | {server} patch --local" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        pytest.param(("why", "a/b/c"), "'a/b/c' is not NAMESPACE/POD, such as default/web-0", id="name"),
        pytest.param(
            ("whatif", "-f", "/not/there"), "/not/there: cannot be read: No such file or directory", id="file"
        ),
    ],
)
async def test_what_cannot_be_queried_is_refused_in_a_line_and_nobody_is_said_to_have_answered(
    words: tuple[str, ...], refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with cluster() as front:
        assert await plugin(front, *words) == 2
        reported = [line for line in capsys.readouterr().err.splitlines() if line.startswith("kscheduler: ")]
        assert reported == [f"kscheduler: {refusal}"]


async def test_templates_of_claims_that_the_manifests_name_are_read_in_the_users_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The service does not watch templates, and needs no right to read them."""
    manifest = tmp_path / "new.yaml"
    pods = [new_pod(name, resourceClaims=from_template(each)) for name, each in (("one", "gpu"), ("two", "none"))]
    manifest.write_text(yaml.safe_dump_all(pods))
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node"))
        for collection, tree in (("deviceclasses", device_class()), ("resourceslices", gpus("node", 2))):
            front.server.store.put(f"{collection}.resource.k8s.io", tree)
        front.server.store.put("resourceclaimtemplates.resource.k8s.io", template())
        await _knows(front, 1)
        assert await plugin(front, "whatif", "-f", str(manifest), "-o", "json") == 0
        tree = _answer_in(capsys.readouterr().out)
    assert [each["pod"] for each in tree["placed"]] == ["shop/one"]
    assert [each["message"] for each in tree["pending"]] == [
        "gated: ResourceClaimTemplate shop/none is not known, so the pod has no claim"
    ]


@pytest.mark.parametrize("queried", ["the service", "by itself"])
async def test_priority_classes_that_no_pod_has_yet_are_read_in_the_users_name(
    queried: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The service does not watch them; one that is the default is that of pods without a class."""
    manifest = tmp_path / "new.yaml"
    named: Tree = {"priorityClassName": "urgent"}
    pods = [pod_tree(name, requests={"cpu": "2"}, **spec) for name, spec in (("urgent", named), ("usual", {}))]
    manifest.write_text(yaml.safe_dump_all([{"apiVersion": "v1", "kind": "Pod", **each} for each in pods]))
    who = () if queried == "the service" else ("--direct",)
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        put(front.server, "pods", pod_tree("cheap", node_name="node", requests={"cpu": "2"}, priority=-5))
        for name, value, is_default in (("urgent", 1000, False), ("low", -10, True)):
            priority_class: Tree = {"metadata": {"name": name}, "value": value, "globalDefault": is_default}
            front.server.store.put("priorityclasses.scheduling.k8s.io", priority_class)
        await _knows(front, 0)
        assert await plugin(front, "whatif", "-f", str(manifest), *who, "-o", "json") == 0
        tree = _answer_in(capsys.readouterr().out)
    assert [each["pod"] for each in tree["placed"]] == ["default/urgent"]
    assert [each["pod"] for each in tree["pending"]] == ["default/usual"]


async def _knows(front: Front, slices: int) -> None:
    assert front.app is not None
    cache = front.app.parts.assembly.cache
    async with asyncio.timeout(SECONDS):
        while len(cache.devices.slices()) < slices or not len(cache.nodes):  # noqa: ASYNC110  it rings no bell
            await asyncio.sleep(0.01)


async def test_what_if_pending_nodes_and_top_are_answered_by_the_service(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    manifest = tmp_path / "new.yaml"
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "kscheduler", "containers": [container]}
    manifest.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": spec}))
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        put(front.server, "pods", pod_tree("big", requests={"cpu": "9"}))
        await _has_condition(front, "big")
        flags = ("-f", str(manifest), "--replicas", "3", "--add-nodes", "1:node", "--label-node", "node:disk=ssd")
        assert await plugin(front, "whatif", *flags, "-o", "json") == 0
        assert len(_answer_in(capsys.readouterr().out)["placed"]) == 3
        assert await plugin(front, "whatif", *flags, "--taint-node", "node:a=b:NoSchedule", "-o", "json") == 0
        assert len(_answer_in(capsys.readouterr().out)["pending"]) == 4
        capsys.readouterr()
        assert await plugin(front, "whatif", "--remove-node", "gone") == 2
        assert "--remove-node: there is no node gone" in capsys.readouterr().err
        assert await plugin(front, "whatif", "--replicas", "3") == 2
        assert "--replicas is how many pods each manifest of -f FILE makes" in capsys.readouterr().err
        assert await plugin(front, "whatif", "--drain", "node") == 0
        text = capsys.readouterr().out
        assert "node would be empty: 0 pods are evicted" in text
        assert "\n\nby the rules of kube-scheduler 1.36\n" in text
        assert await plugin(front, "pending") == 0
        out = capsys.readouterr().out
        assert "1 pod is pending (reasons as the last attempt left them; --direct judges now)\n" in out
        assert "1  unschedulable (NodeResourcesFit)" in out
        assert "default/big would fit: request 2 of cpu instead of 9 (1 node)" in out
        assert "(the command deletes pod big and creates it again: it cannot be changed in place)" in out
        assert await plugin(front, "nodes") == 0
        assert "NodeResourcesFit 1" in capsys.readouterr().out
        assert await plugin(front, "top", "--once") == 0
        out = capsys.readouterr().out
        assert "1 pod pending" in out
        assert "alone (no leader election)" in out
        queried = {(method, path) for method, path, has_token in front.seen if has_token}
        assert {("POST", "/simulate"), ("GET", "/pending"), ("GET", "/nodes"), ("GET", "/metrics")} <= queried
        assert not [path for method, path, _ in front.seen if method not in ("GET", "POST")]


def _manifests(folder: Path, *trees: Tree) -> str:
    """A file with these objects, each a document."""
    file = folder / "new.yaml"
    file.write_text(yaml.safe_dump_all([{"apiVersion": "v1", "kind": "Pod", **tree} for tree in trees]))
    return str(file)


async def test_why_of_manifests_is_answered_by_the_service_as_of_pods_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file's other objects go along, the templates and classes of the cluster, and what its admission makes."""
    container = {"name": "c", "image": "app", "resources": {"requests": {"cpu": "9"}}}
    template_of_pod: Tree = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    web: Tree = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    web["spec"] = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template_of_pod}
    template_of_pod["spec"]["schedulerName"] = "kscheduler"
    claiming = new_pod("claiming", resourceClaims=from_template())
    urgent = pod_tree("urgent", priorityClassName="urgent", uid="")
    del urgent["metadata"]["uid"]
    manifests = _manifests(tmp_path, web, claiming, urgent, device_class())
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        front.server.store.put("resourceslices.resource.k8s.io", gpus("node", 2))
        front.server.store.put("resourceclaimtemplates.resource.k8s.io", template())
        front.server.store.put("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "urgent"}, "value": 7})
        await _knows(front, 1)
        assert await plugin(front, "why", "-f", manifests, "-o", "json") == 0
        out, err = capsys.readouterr()
        answers = [json.loads(line) for line in out.splitlines() if '"kind":"Explanation"' in line]
        assert "kscheduler: answered by the service kscheduler-system/kscheduler:10259\n" in err
        assert [(each["pod"]["name"], each["outcome"]) for each in answers] == [
            ("web-new", "Unschedulable"),
            ("claiming", "Placed"),
            ("urgent", "Placed"),
        ]
        assert ("POST", "/explain", True) in front.seen
        assert await plugin(front, "why", "-f", manifests) == 0
        out, _ = capsys.readouterr()
        assert "default/web-new: fits on no node\n  this pod does not exist; it is explained from Deployment" in out
        assert re.findall("note: (?!as of )", out) == [], "on a busy machine it says as of when it is"
        assert await plugin(front, "why", "-f", manifests, "--direct", "-o", "json") == 0
        direct = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"kind":"Explanation"' in line]
        same = ("pod", "outcome", "node", "rejections", "scores", "message", "suggestions", "devices")
        assert [[each[key] for key in same] for each in answers] == [[each[key] for key in same] for each in direct]
        assert not [path for method, path, _ in front.seen if method not in ("GET", "POST")]


async def test_why_of_manifests_is_decided_here_where_the_service_cannot_be_queried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input is read once, whether the service answers or the command."""
    pod = new_pod("new", schedulerName="kscheduler")
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        await _knows(front, 0)
        front.refuses_proxy = True
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(pod).encode())))
        assert await plugin(front, "why", "-f", "-") == 0
        out, err = capsys.readouterr()
        assert "shop/new: goes to node" in out
        assert "kscheduler: decided here, without plugins that only the service has, from the objects that you" in err
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(pod).encode())))
        assert await plugin(front, "why", "-f", "-", "--service", "kscheduler-system/kscheduler:10259") == 1
        assert "you may not use the API server's proxy" in capsys.readouterr().err


_ASKS = """
import sys
from kscheduler.cli.kubectl_plugin import main
code = main(sys.argv[1:])
print("imported", *sys.modules)
sys.exit(code)
"""
_OF_A_SCHEDULER = (
    *("numpy", "kscheduler.scheduling", "kscheduler.plugins", "kscheduler.state", "kscheduler.embedded"),
    *("kscheduler.config.loader", "kscheduler.assembly", "structlog", "kubernetes_asyncio"),
)


@PROCESSES
async def test_a_verb_that_the_service_has_answered_has_imported_no_scheduler(tmp_path: Path) -> None:
    """Modules are counted and not time, of the whole process: with a scheduler each call took 1.5 s of CPU."""
    manifests = _manifests(tmp_path, new_pod("new", resourceClaims=from_template()), pod_tree("other"))
    queried = [
        *(("why", "default/big"), ("why", "default/big", "-o", "json"), ("why", "-f", manifests)),
        *(("pending",), ("nodes",), ("top", "--once"), ("whatif", "-f", manifests, "--drain", "node")),
    ]
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        put(front.server, "pods", pod_tree("big", requests={"cpu": "9"}))
        await _has_condition(front, "big")
        for verb, *words in queried:
            command = (sys.executable, "-c", _ASKS, verb, "--master", front.url, *words)
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            out, _ = await process.communicate()
            assert process.returncode == 0, (verb, words)
            imported = out.decode().splitlines()[-1].split()[1:]
            assert [name for name in _OF_A_SCHEDULER if name in imported] == [], (verb, words)
            assert len(imported) < 560, (verb, words)


@pytest.mark.parametrize("who", [(), ("--direct",)], ids=("the service", "by itself"))
async def test_mistakes_of_manifests_are_reported_in_the_same_words_whoever_answers(
    who: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An amount that cannot be read by its field, as in `simulate`; unknown fields and classes beside the answer."""
    four: Tree = {"metadata": {"name": "four"}, "spec": {"containers": [{"name": "c", "image": "a"}]}}
    four["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "four"}}
    unknown: Tree = {
        "metadata": {"name": "unknown"},
        "spec": {"nodeSelectr": {"a": "b"}, "priorityClassName": "nosuch"},
    }
    unknown["spec"] |= {"containers": [{"name": "c", "image": "a", "zzz": 1}], "schedulerName": "kscheduler"}
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        await _knows(front, 0)
        manifests = _manifests(tmp_path, four)
        for verb in ("why", "whatif"):
            assert await plugin(front, verb, "-f", manifests, *who) == 2
            place = f"{manifests}: document 1 (Pod four): spec.containers[0].resources.requests.cpu"
            assert f"kscheduler: {place}: quantities must match" in capsys.readouterr().err
        manifests = _manifests(tmp_path, four, unknown)
        assert await plugin(front, "why", "-f", manifests, *who) == 0
        out, err = capsys.readouterr()
        reported = out + err
        assert "default/unknown: goes to node" in out
        assert f"{manifests}: document 1 (Pod four): spec.containers[0].resources.requests.cpu: quantities" in reported
        assert (
            f"{manifests}: document 2 (Pod): spec.nodeSelectr is not a field: do you mean nodeSelector?\n" in reported
        )
        assert f"{manifests}: document 2: PriorityClass nosuch is not known here: priority 0 is presumed\n" in reported
        assert f"{manifests}: document 2: spec.containers[0].zzz is not a field\n" in reported


async def test_why_is_queried_about_a_pod_group_by_one_of_its_members_that_wait(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        group: Tree = {"schedulingGroup": {"podGroupName": "train"}}
        put(front.server, "pods", pod_tree("first", nodeName="node", **group))
        put(front.server, "pods", pod_tree("second", requests={"cpu": "9"}, **group))
        await _has_condition(front, "second")
        for words in (("podgroup/train",), ("pg/train", "-n", "default"), ("podgroup/train", "--direct")):
            assert await plugin(front, "why", *words) == 0
            assert "default/second: fits on no node" in capsys.readouterr().out
        dump = tmp_path / "dump.json"
        items = [{"apiVersion": "v1", "kind": "Node", **node_tree("node", cpu="2")}]
        items += [{"apiVersion": "v1", "kind": "Pod", **pod_tree("third", schedulerName="kscheduler", **group)}]
        dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        assert await asyncio.to_thread(main, ["why", "podgroup/train", "--from", str(dump)]) == 0
        assert "default/third: goes to node" in capsys.readouterr().out
        assert await plugin(front, "why", "podgroup/other") == 1
        reported = "the service knows no pod group default/other: no pod of namespace default names pod group other"
        assert reported in capsys.readouterr().err


def read(tree: Tree) -> PendingInQueue:
    return msgspec.convert(tree, PendingInQueue)


def test_pending_names_the_group_and_where_to_ask_about_it_as_a_whole() -> None:
    pods = [{"namespace": "ml", "name": f"train-{number}"} for number in range(2)]
    reason = {"count": 2, "since": None, "plugins": ["NodeResourcesFit"], "queue": "backoff", "pods": pods}
    # kube-scheduler 1.37 appends an empty answer to such a message.
    reported = {**reason, "podGroup": "ml/train", "message": "pod group is unschedulable, "}
    tree = {"count": 2, "reasons": [reported], "reasonsLeftOff": 0}
    lines = list(pending_lines(read(tree), datetime(2026, 1, 1, tzinfo=UTC), PLAIN))
    assert lines[2:] == [
        "2  in backoff, members of pod group ml/train (NodeResourcesFit): ml/train-0, ml/train-1",
        "  pod group is unschedulable",
        "  the whole group: kubectl kscheduler why ml/train-0",
    ]


def test_pod_groups_with_one_reason_are_one_paragraph_whatever_their_names() -> None:
    def reported(group: str, message: str, queue: str = "backoff") -> Tree:
        pods = [{"namespace": "ml", "name": f"{group}-{number}"} for number in range(2)]
        reason = {"count": 2, "since": None, "plugins": ["NodeResourcesFit"], "queue": queue, "pods": pods}
        return {**reason, "podGroup": f"ml/{group}", "message": message}

    reasons = [reported(f"g-{number}", "pod group is unschedulable") for number in range(5)]
    reasons += [reported(name, f"1 of 2 members of pod group ml/{name} are there", "gated") for name in ("h", "k")]
    reasons += [reported("l", "2 of 3 members of pod group ml/l are there", "gated")]
    tree = {"count": 16, "reasons": reasons, "reasonsLeftOff": 0}
    assert list(pending_lines(read(tree), datetime(2026, 1, 1, tzinfo=UTC), PLAIN))[2:] == [
        "10  in backoff, members of 5 pod groups, ml/g-0, ml/g-1, ml/g-2 and 2 more (NodeResourcesFit):",
        "    ml/g-0-0, ml/g-0-1, ml/g-1-0 and 7 more",
        "  pod group is unschedulable",
        "  one whole group: kubectl kscheduler why ml/g-0-0",
        "",
        "4  gated, members of 2 pod groups, ml/h, ml/k (NodeResourcesFit): ml/h-0, ml/h-1, ml/k-0 and 1 more",
        "  1 of 2 members of pod group … are there",
        "  one whole group: kubectl kscheduler why ml/h-0",
        "",
        "2  gated, members of pod group ml/l (NodeResourcesFit): ml/l-0, ml/l-1",
        "  2 of 3 members of pod group ml/l are there",
        "  the whole group: kubectl kscheduler why ml/l-0",
    ]


async def test_pending_names_the_change_that_frees_most_pods_as_without_the_service(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        for name in ("big", "big-2"):
            put(front.server, "pods", pod_tree(name, requests={"cpu": "9"}))
            await _has_condition(front, name)
        said = "default/big would fit: request 1 of cpu instead of 9 (1 node; helps all 2)"
        for flags in ((), ("--direct",)):
            assert await plugin(front, "pending", *flags) == 0
            out = capsys.readouterr().out
            assert said in out
            assert "(the command deletes pod big and creates it again: it cannot be changed in place)" in out


async def test_pending_names_the_change_for_most_pods_though_an_older_pod_asks_for_something_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        selectors = {"aa-typo": {"disktype": "sdd"}, "web-0": {"dedicated": "x"}, "web-1": {"dedicated": "x"}}
        for name, selector in selectors.items():
            put(front.server, "pods", pod_tree(name, nodeSelector=selector))
            await _has_condition(front, name)
        said = (
            "default/web-0 would fit: drop dedicated=x from the nodeSelector (1 node; "
            "2 of the 3 have the same spec: helps both; 1 other has another spec and was not tried)"
        )
        for flags in ((), ("--direct",)):
            assert await plugin(front, "pending", *flags) == 0
            assert said in " ".join(capsys.readouterr().out.split())


async def test_pending_says_where_its_reasons_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    """A condition outlives what it tells: the service says that it is the last attempt's, and --direct judges now."""
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        put(front.server, "pods", pod_tree("big", requests={"cpu": "9"}))
        await _has_condition(front, "big")
        record = front.server.store.get("pods", "default", "big")
        assert record is not None
        changed: Tree = copy.deepcopy(record.value)
        changed["status"]["conditions"][0]["message"] = "0/7 nodes are available: they were all away"
        put(front.server, "pods", changed)
        out = ""
        async with asyncio.timeout(SECONDS):
            while "0/7 nodes" not in out:
                assert await plugin(front, "pending", "--no-suggestions") == 0
                out = capsys.readouterr().out
        assert "(reasons as the last attempt left them; --direct judges now)" in out
        assert await plugin(front, "pending", "--no-suggestions", "--direct") == 0
        out = capsys.readouterr().out
        assert "last attempt" not in out
        assert "0/1 nodes are available: 1 Insufficient cpu." in out


@pytest.mark.parametrize(
    ("profiles", "text"),
    [
        (("kscheduler",), "--direct judges now"),
        (("default-scheduler",), "--direct --scheduler-name default-scheduler judges now"),
        (("kscheduler", "x y"), "--direct or --direct --scheduler-name 'x y' judges now, by scheduler name"),
    ],
    ids=("the name that is served by default", "another name", "two names"),
)
def test_pending_names_the_flags_with_which_the_command_judges_pods_of_these_schedulers(
    profiles: tuple[str, ...], text: str
) -> None:
    tree = {"count": 2, "byProfile": dict.fromkeys(profiles, 1), "reasons": [], "reasonsLeftOff": 0}
    (line,) = pending_lines(read(tree), datetime(2026, 1, 1, tzinfo=UTC), PLAIN)
    assert line == f"2 pods are pending (reasons as the last attempt left them; {text})"


async def test_pending_says_how_many_pods_of_other_schedulers_it_does_not_show(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        for name in ("first", "second"):
            put(front.server, "pods", pod_tree(name, schedulerName="nobody"))
        reported = (
            "not shown: pods without a node of schedulers that are not served here: nobody (2); --direct lists them"
        )
        out = ""
        async with asyncio.timeout(SECONDS):
            while reported not in " ".join(out.split()):
                assert await plugin(front, "pending") == 0
                out = capsys.readouterr().out
        assert "no pod of the schedulers that are served here is pending\n" in out
        assert "no pod is pending" not in out
        assert "\n  as if nobody were served: --direct --scheduler-name nobody\n" in out
        assert await plugin(front, "pending", "--direct") == 0
        assert "or that scheduler is not running" in " ".join(capsys.readouterr().out.split())


async def _has_condition(front: Front, name: str) -> None:
    def has() -> bool:
        record = front.server.store.get("pods", "default", name)
        return record is not None and bool(record.value.get("status", {}).get("conditions"))

    await until(front.server, has)


async def test_who_may_not_use_the_proxy_gets_an_answer_from_what_they_may_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with cluster() as front:
        front.refuses_proxy = True
        put(front.server, "nodes", node_tree("node", cpu="2"))
        put(front.server, "pods", pod_tree("web", requests={"cpu": "1"}))
        await until(front.server, lambda: bool(node_of(front.server, "web")))
        assert await plugin(front, "why", "default/web") == 0
        out, err = capsys.readouterr()
        assert "default/web: is on node node already" in out
        assert (
            "decided here, without plugins that only the service has, from the objects that you may read: you may not "
            "use the API server's proxy"
        ) in err
        assert await plugin(front, "nodes", "node", "-o", "json") == 0
        (node,) = _answer_in(capsys.readouterr().out)["nodes"]
        assert (node["requested"]["cpu"], node["requested"]["pods"], node["use"]) == (1000, 1, 0.5)
        assert await plugin(front, "why", "default/web", "--service", "kscheduler-system/kscheduler:10259") == 1
        assert "you may not use the API server's proxy" in capsys.readouterr().err
        assert await plugin(front, "top", "--once") == 1


async def test_manifests_of_standard_input_are_there_for_whoever_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service is asked first and refuses; then this process needs what it would have sent."""
    manifest = json.dumps(pod_tree("new", requests={"cpu": "1"}) | {"apiVersion": "v1", "kind": "Pod"}).encode()
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node", cpu="2"))
        for refuses in (False, True):
            front.refuses_proxy = refuses
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(manifest))))
            assert await plugin(front, "whatif", "-f", "-", "-o", "json") == 0
            out, err = capsys.readouterr()
            assert ("decided here" in err) == refuses
            assert [each["pod"] for each in _answer_in(out)["placed"]] == ["default/new"]


async def test_a_service_that_lets_nobody_ask_is_said_with_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    async with cluster(grants=False) as front:
        put(front.server, "nodes", node_tree("node"))
        assert await plugin(front, "nodes") == 0
        err = capsys.readouterr().err
        assert "the service kscheduler-system/kscheduler:10259 does not let you ask" in err
        assert "no token of account kscheduler-asker" in err


async def test_with_direct_the_service_is_not_queried(capsys: pytest.CaptureFixture[str]) -> None:
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node"))
        assert await plugin(front, "nodes", "--direct") == 0
        assert "1 node; 0 waiting pods were judged" in capsys.readouterr().out
        assert not [path for _, path, has_token in front.seen if has_token]
        assert await plugin(front, "nodes", "--direct", "--service", "a/b:1") == 2


async def test_what_is_wrong_with_a_question_is_not_queried_again_here(capsys: pytest.CaptureFixture[str]) -> None:
    async with cluster() as front:
        assert await plugin(front, "why", "default/nobody") == 1  # as `kscheduler explain`
        assert "the service knows no pod default/nobody" in capsys.readouterr().err
        assert await plugin(front, "whatif", "--drain", "nowhere") == 2
        assert "--drain: there is no node nowhere among the 0 nodes" in capsys.readouterr().err


async def test_queries_about_other_clusters_and_configurations_are_decided_here(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with cluster() as front:
        put(front.server, "nodes", node_tree("node"))
        assert await plugin(front, "nodes", "--scheduler-name", "mine") == 0
        assert not [path for _, path, has_token in front.seen if has_token]
        service = ("--service", "kscheduler-system/kscheduler:10259")
        assert await plugin(front, "pending", "--scheduler-name", "mine", *service) == 2
        message = "--service: a question with --scheduler-name is not about the state of the service"
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "a", "a/b", "a/b:", "/b:1", "a/b/c:1", "a/b:1?x", "a/..:1/x"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not NAMESPACE/NAME:PORT"):
        service_address(text)


def test_the_screen_shows_rates_between_two_readings_and_no_more_lines_than_there_are() -> None:
    page = """# HELP scheduler_pending_pods x
scheduler_pending_pods{queue="active"} 3
scheduler_pending_pods{queue="unschedulable"} 2
scheduler_schedule_attempts_total{profile="a",result="scheduled"} %s
scheduler_schedule_attempts_total{profile="b",result="scheduled"} 10
leader_election_master_status{name="kscheduler"} 1
"""
    pod = {"namespace": "shop", "name": "web\x1b[2J"}
    reason = {"count": 2, "since": "2026-01-01T00:00:00Z", "plugins": ["NodeResourcesFit"], "queue": "unschedulable"}
    pending = {"count": 40, "reasons": [{**reason, "pods": [pod], "message": "0/3 nodes are available"}] * 20}
    first, second = (
        TopReading(at, samples_in(page % count), read(pending)) for at, count in ((10.0, 100), (12.0, 130))
    )
    at = datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert "attempts so far: 110 scheduled" in "\n".join(screen(first, None, at, PLAIN, 24))
    lines = list(screen(second, first, at, PLAIN, 12))
    assert len(lines) <= 12
    assert "attempts: 15.0/s scheduled" in "\n".join(lines)
    assert lines[0].endswith("the leader")
    assert "60m" in lines[-1]
    assert "\x1b" not in "\n".join(lines)


def test_the_screen_counts_what_few_nodes_have() -> None:
    page = """
kscheduler_extended_resources{resource="nvidia.com/gpu",state="allocatable"} 128
kscheduler_extended_resources{resource="nvidia.com/gpu",state="requested"} 96
kscheduler_devices{driver="gpu.example.com",state="taken"} 3
kscheduler_devices{driver="gpu.example.com",state="free"} 5
"""
    at, nothing = datetime(2026, 1, 1, tzinfo=UTC), read({"count": 0, "reasons": []})
    lines = list(screen(TopReading(0.0, samples_in(page), nothing), None, at, PLAIN, 24))
    assert "requested: nvidia.com/gpu 96 of 128 (75 %), gpu.example.com 3 of 8 (37 %)" in lines
    assert not any(line.startswith("requested") for line in screen(TopReading(0.0, {}, nothing), None, at, PLAIN, 24))


def test_the_screen_counts_devices_by_class_where_a_class_has_them() -> None:
    page = """
kscheduler_devices{driver="gpu.example.com",state="taken"} 3
kscheduler_devices{driver="gpu.example.com",state="free"} 5
kscheduler_devices{driver="nic.example.com",state="taken"} 1
kscheduler_devices{driver="nic.example.com",state="free"} 1
kscheduler_class_devices{device_class="gpu",driver="gpu.example.com",pool="(nodes)",state="taken"} 3
kscheduler_class_devices{device_class="gpu",driver="gpu.example.com",pool="(nodes)",state="tainted"} 1
kscheduler_class_devices{device_class="gpu",driver="gpu.example.com",pool="(nodes)",state="free"} 4
"""
    at, nothing = datetime(2026, 1, 1, tzinfo=UTC), read({"count": 0, "reasons": []})
    lines = list(screen(TopReading(0.0, samples_in(page), nothing), None, at, PLAIN, 24))
    assert "requested: nic.example.com 1 of 2 (50 %), class gpu 3 of 8 (37 %)" in lines


def test_rows_of_the_screen_show_what_differs_and_off_a_terminal_all_of_it() -> None:
    taint = "30 node(s) had untolerated taint(s)"
    messages = [
        f"0/100 nodes are available: {taint}, {rest}" for rest in ("70 Insufficient cpu.", "70 no such volume.")
    ]
    assert without_common_beginning(messages) == ["... 70 Insufficient cpu.", "... 70 no such volume."]
    assert without_common_beginning([messages[0]]) == [f"{taint}, 70 Insufficient cpu."]
    assert without_common_beginning([messages[0], messages[0], ""]) == [f"{taint}, 70 Insufficient cpu."] * 2 + [""]
    assert without_common_beginning(["waits for a, b", "gated"]) == ["waits for a, b", "gated"]
    reason = {"count": 1, "since": None, "plugins": ["TaintToleration"], "queue": "unschedulable", "pods": []}
    rows = [{**reason, "message": message} for message in messages] * 20
    reading = TopReading(0.0, {}, read({"count": 40, "reasons": rows}))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    narrow = list(screen(reading, None, at, Style(width=60), 24))
    assert len(narrow) <= 24
    assert {line.partition("... ")[2] for line in narrow[-2:]} == {"70 Insufficient cpu.", "70 no such volume."}
    whole = "\n".join(screen(reading, None, at, Style(width=60), None))
    assert [whole.count(message) for message in messages] == [20, 20]
