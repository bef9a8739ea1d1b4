"""Questions to a service whose plugin fails: the copy answers as the service decides, and changes nothing."""

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog

from kscheduler.config.loader import load_file
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins import in_tree
from kscheduler.scheduling.supervision.holds import STRIKES
from kscheduler.scheduling.supervision.supervisor import Supervisor
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options, source_of
from tests.builders import node_tree, pod_info, pod_tree
from tests.informers.test_audit import HastyClock
from tests.service.asking.test_questions import explained
from tests.service.running import SECONDS, answer, put, running, until
from tests.service.test_reloading import until_true

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: mine
  plugins: {filter: {enabled: [{name: Bad}]}}
  pluginConfig: [{name: Bad, timeBudget: 20ms}]
"""


NO_REASONS: dict[str, str] = {}


@plugin("Bad")
def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # noqa: A001  the name is the contract
    if pod.pod.metadata.labels["does"] == "sleep":
        time.sleep(20.0)
    return NO_REASONS[node.name]


def service(server: EmbeddedAPIServer, folder: Path) -> AbstractAsyncContextManager[tuple[App, Any, Any]]:
    file = folder / "config.yaml"
    file.write_text(CONFIG)
    registry = in_tree.registry()
    registry.register("Bad", filter)
    options = Options(
        load_file(file),
        source_of(str(file), registry=registry),
        serving=HTTPServing.plain_on_loopback(),
        clock=HastyClock(),
        registry=registry,
    )
    return running(server, options)


def condition_of(server: EmbeddedAPIServer, name: str) -> str:
    record = server.store.get("pods", "default", name)
    assert record is not None
    conditions = record.value.get("status", {}).get("conditions", [])
    return conditions[0].get("message", "") if conditions else ""


def put_pod(server: EmbeddedAPIServer, name: str, does: str, namespace: str = "default") -> None:
    tree = pod_tree(name, namespace=namespace, schedulerName="mine", labels={"does": does})
    put(server, "pods", tree)


def supervisor_of(app: App) -> Supervisor:
    supervisor = app.parts.assembly.profiles["mine"].supervisor
    assert supervisor is not None
    return supervisor


def fail_but_once(app: App) -> None:
    """The next failure, in the service or in a copy, would be the last before the quarantine."""
    supervisor = supervisor_of(app)
    while supervisor.strikes("Bad") < STRIKES - 1:
        other = pod_info("other", namespace="another", uid=f"other-{supervisor.strikes('Bad')}")
        supervisor.failed("Bad", "Filter", other, KeyError("node"))


WORDS = {
    "raise": "it raised KeyError: 'node', while looking at node node",
    "sleep": "it was ended at its time budget of 20ms",
}


@pytest.mark.parametrize("does", WORDS)
async def test_before_the_quarantine_the_answer_is_what_the_plugin_does_and_counts_no_strike(
    tmp_path: Path, does: str
) -> None:
    async with EmbeddedAPIServer(seed=1) as server, service(server, tmp_path) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        put_pod(server, "p", does)
        await until(server, lambda: WORDS[does] in condition_of(server, "p"))
        fail_but_once(app)
        with structlog.testing.capture_logs() as lines:
            tree = await explained(app, "default/p")
        assert [line["event"] for line in lines] == ["question_answered"]
        assert tree["outcome"] == "Error"
        assert WORDS[does] in tree["error"]
        assert supervisor_of(app).strikes("Bad") == STRIKES - 1
        assert not app.parts.assembly.circuits.quarantines()


async def test_every_query_is_answered_where_a_copy_sees_the_last_failure_before_the_quarantine(
    tmp_path: Path,
) -> None:
    async with EmbeddedAPIServer(seed=1) as server, service(server, tmp_path) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        put_pod(server, "p", "raise")
        await until(server, lambda: bool(condition_of(server, "p")))
        fail_but_once(app)
        for path in ("/nodes", "/pending?suggestions=true", "/explain?pod=default/p"):
            status, text = await answer(app, path)
            assert status == 200, (path, text)
        assert supervisor_of(app).strikes("Bad") == STRIKES - 1


async def test_of_a_quarantined_plugin_the_answer_says_so(tmp_path: Path) -> None:
    async with EmbeddedAPIServer(seed=1) as server, service(server, tmp_path) as (app, _, _):
        put(server, "nodes", node_tree("node"))
        for name, namespace in (("p1", "n1"), ("p2", "n2"), ("p0", "default")):
            put_pod(server, name, "raise", namespace)
        await until_true(app.parts.assembly.circuits.quarantines)
        status, text = await answer(app, "/explain?pod=default/p0")
        assert status == 200
        tree = json.loads(text)
        assert 'plugin "Bad" of profile "mine" is quarantined since ' in tree["error"]
        await until(server, lambda: "is quarantined" in condition_of(server, "p0"))
        url = f"http://127.0.0.1:{app.server.port}/explain?pod=default/p0"
        text = ""
        async with asyncio.timeout(SECONDS), aiohttp.ClientSession() as session:
            while "with the same text" not in text:  # the watch has yet to show the condition
                async with session.get(url, headers={"Accept": "text/plain"}) as response:
                    text = " ".join((await response.text()).split())
        assert text.count("is quarantined since") == 1
