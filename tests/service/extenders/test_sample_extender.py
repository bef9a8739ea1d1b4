"""docs/extenders.md is true: its JSON is what we send and read, and the sample extender answers so, and schedules."""

import json
import re
import runpy
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from kscheduler.client.extenders import messages
from kscheduler.client.extenders.messages import FilterResponse, VictimsOnNode
from kscheduler.config.loader import from_tree
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from tests.builders import Tree, node_tree, pod_tree
from tests.service.running import node_of, put, running, until

ROOT: Final = Path(__file__).parents[3]
SAMPLE: Final = ROOT / "deploy" / "examples" / "extender" / "extender.py"
PAGE: Final = (ROOT / "docs" / "extenders.md").read_text(encoding="utf-8")
BLOCKS: Final = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
FILTER, FILTERED, BY_NAME, NAMED, SCORED, PREEMPT, PREEMPTED, BIND, BOUND = BLOCKS


def raw(tree: Tree) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(tree).encode())


def test_what_the_page_shows_is_what_we_send() -> None:
    items = [raw(item) for item in FILTER["Nodes"]["items"]]
    assert json.loads(messages.nodes_request(raw(FILTER["Pod"]), (), items)) == FILTER
    assert json.loads(messages.nodes_request(raw(BY_NAME["Pod"]), BY_NAME["NodeNames"])) == BY_NAME
    pods = {pod["metadata"]["uid"]: pod for each in PREEMPT["NodeNameToVictims"].values() for pod in each["Pods"]}
    victims = {
        name: VictimsOnNode(tuple(pod["metadata"]["uid"] for pod in each["Pods"]), each["NumPDBViolations"])
        for name, each in PREEMPT["NodeNameToVictims"].items()
    }
    sent = messages.preemption_request(raw(PREEMPT["Pod"]), victims, lambda uid: raw(pods[uid]))
    assert json.loads(sent) == PREEMPT
    by_uid = json.loads(messages.preemption_request(raw(PREEMPT["Pod"]), victims))
    assert by_uid["NodeNameToMetaVictims"]["a"]["Pods"] == [{"UID": "51d2"}]
    queried = messages.bind_request(BIND["PodNamespace"], BIND["PodName"], BIND["PodUID"], BIND["Node"])
    assert json.loads(queried) == BIND


def test_what_the_page_shows_is_what_we_read() -> None:
    failed, hopeless = {"b": "node(s) were in maintenance"}, {"c": "node(s) were retired"}
    assert messages.read_filter_response(json.dumps(FILTERED).encode()) == FilterResponse(
        None, ("a", "d"), failed, hopeless
    )
    assert messages.read_filter_response(json.dumps(NAMED).encode()) == FilterResponse(("a",), None, failed)
    assert messages.read_scores(json.dumps(SCORED).encode()) == (("a", 8), ("d", 0))
    assert messages.read_victims(json.dumps(PREEMPTED).encode()) == {"a": VictimsOnNode(("51d2",))}
    assert messages.read_bind_error(json.dumps(BOUND).encode()) == ""


def test_the_sample_gives_the_answers_of_the_page() -> None:
    sample = runpy.run_path(str(SAMPLE))
    assert sample["filter_nodes"](FILTER) == FILTERED
    left = [item for item in FILTER["Nodes"]["items"] if item["metadata"]["name"] in ("a", "d")]
    assert sample["prioritize"]({**FILTER, "Nodes": {"items": left}}) == SCORED
    assert sample["preempt"](PREEMPT) == PREEMPTED


@contextmanager
def sample_extender(api_server: str) -> Iterator[str]:
    """Run it as a user does; its address."""
    command = [sys.executable, str(SAMPLE), "--port=0", f"--api-server={api_server}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().rpartition(" ")[2].strip()
        finally:
            process.terminate()


@asynccontextmanager
async def scheduling(**extender: Any) -> AsyncIterator[tuple[EmbeddedAPIServer, App]]:
    """Three nodes, and a scheduler with the configuration beside the sample."""
    tree = yaml.safe_load((SAMPLE.parent / "config.yaml").read_text(encoding="utf-8"))
    async with EmbeddedAPIServer(seed=1) as server:
        for name, labels in NODES.items():
            put(server, "nodes", node_tree(name, cpu="2", labels=labels))
        with sample_extender(server.url) as url:
            tree["extenders"][0] |= {"urlPrefix": url, **extender}
            options = Options(from_tree(tree, "test"), serving=HTTPServing.plain_on_loopback())
            async with running(server, options) as (app, _, _):
                yield server, app


NODES: Final = {
    "dear": {"example.com/watts": "900"},
    "frugal": {"example.com/watts": "120"},
    "closed": {"example.com/maintenance": "planned", "example.com/watts": "1"},
}


def message_of(server: EmbeddedAPIServer, name: str) -> str:
    record = server.store.get("pods", "default", name)
    conditions = record.value.get("status", {}).get("conditions", []) if record is not None else []
    return "".join(each.get("message", "") for each in conditions)


async def test_the_sample_filters_scores_and_binds() -> None:
    async with scheduling() as (server, app):
        put(server, "pods", pod_tree("web", schedulerName="default-scheduler"))
        await until(server, lambda: node_of(server, "web") == "frugal")
        closed = {"example.com/maintenance": "planned"}
        put(server, "pods", pod_tree("nowhere", schedulerName="default-scheduler", nodeSelector=closed))
        await until(server, lambda: "1 node(s) were in maintenance" in message_of(server, "nowhere"))
        assert {(verb, result) for _, verb, result in app.parts.observations.extender_seconds} == {
            ("filter", "success"), ("prioritize", "success"), ("bind", "success"),
        }  # fmt: skip


async def test_the_sample_has_a_say_in_subject_a_preemption_evicts() -> None:
    async with scheduling(filterVerb="", prioritizeVerb="", bindVerb="") as (server, _):
        kept = {"example.com/do-not-evict": "true"}
        for node in NODES:
            annotations = kept if node != "dear" else {}
            metadata = {"annotations": annotations}
            tree = pod_tree(f"on-{node}", node=node, requests={"cpu": "2"}, priority=0, metadata=metadata)
            tree["spec"]["terminationGracePeriodSeconds"] = 0
            put(server, "pods", tree)
        urgent = pod_tree("urgent", requests={"cpu": "2"}, priority=100, schedulerName="default-scheduler")
        put(server, "pods", urgent)
        await until(server, lambda: node_of(server, "urgent") == "dear")
        assert server.store.get("pods", "default", "on-frugal") is not None


async def test_a_verb_that_fails_is_the_condition_of_the_pod() -> None:
    """It has no such verb, and says so."""
    async with scheduling(bindVerb="unbind") as (server, _):
        put(server, "pods", pod_tree("web", schedulerName="default-scheduler"))
        await until(server, lambda: "code 404" in message_of(server, "web"))
        assert node_of(server, "web") == ""
