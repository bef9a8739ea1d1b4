"""A plugin of one profile fails in the running service: it is quarantined and named, and the other profile goes on."""

import time
from pathlib import Path
from typing import Any

import pytest
import structlog

from kscheduler.config.loader import load_file
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins import in_tree
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options, source_of
from kscheduler.service.metrics.config_reloads import ReloadResult
from tests.builders import node_tree, pod_tree
from tests.informers.test_audit import HastyClock
from tests.service.plugins.test_users_plugins import message_of
from tests.service.running import answer, node_of, put, running, until
from tests.service.test_reloading import until_true

TEXT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
profiles:
- schedulerName: mine
  plugins: {{filter: {{enabled: [{{name: Bad}}]}}}}
  pluginConfig: [{{name: Bad, timeBudget: 20ms, onFailure: {policy}}}]
- schedulerName: theirs
"""
MENDED = {"it": False}


@plugin("Bad")
def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # noqa: A001  the name is the contract
    if not MENDED["it"]:
        time.sleep(20.0)
    return None


@pytest.mark.parametrize(
    ("policy", "lifted_by"), [("Fail", "SIGHUP"), ("Fail", "a comment"), ("Ignore", "SIGHUP"), ("Fallback", "SIGHUP")]
)
async def test_a_plugin_that_sleeps_is_quarantined_and_a_reload_lifts_it(
    tmp_path: Path, policy: str, lifted_by: str
) -> None:
    MENDED["it"] = False
    file = tmp_path / "config.yaml"
    file.write_text(TEXT.format(policy=policy))
    registry = in_tree.registry()
    registry.register("Bad", filter)
    options = Options(
        load_file(file),
        source_of(str(file), registry=registry),
        serving=HTTPServing.plain_on_loopback(),
        clock=HastyClock(),
        registry=registry,
    )
    lines: list[Any]
    with structlog.testing.capture_logs() as lines:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("node"))
            async with running(server, options) as (app, _, _):
                await until_true(lambda: app.reloader.statistics().digest)
                for number in range(3):
                    put(server, "pods", pod_tree("p", namespace=f"n{number}", uid=f"u{number}", schedulerName="mine"))
                await until_true(app.parts.assembly.circuits.quarantines)
                put(server, "pods", pod_tree("q", schedulerName="theirs"))
                await until(server, lambda: node_of(server, "q") == "node")
                status, text = await answer(app, "/readyz?verbose")
                assert status == 200, "other profiles are scheduled"
                assert '[i]plugin "Bad" of profile "mine" is quarantined since ' in text
                assert f"(onFailure: {policy})" in text
                metrics = (await answer(app, "/metrics"))[1]
                labels = f'on_failure="{policy}",plugin="Bad",profile="mine"'
                assert f"kscheduler_plugin_quarantined{{{labels}}} 1.0" in metrics
                opened = 'plugin="Bad",profile="mine",state="open"'
                assert f"kscheduler_plugin_circuit_changes_total{{{opened}}} 1.0" in metrics
                assert 'kscheduler_plugin_overruns_total{extension_point="Filter",plugin="Bad"} 3.0' in metrics
                put(server, "pods", pod_tree("late", schedulerName="mine"))
                if policy == "Fail":
                    await until(server, lambda: "is quarantined" in message_of(server, "late"))
                else:
                    await until(server, lambda: node_of(server, "late") == "node")
                MENDED["it"] = True
                if lifted_by == "SIGHUP":
                    app.reloader.ask()  # with a file that has not changed
                else:
                    file.write_text(f"{file.read_text()}# mended\n")
                await until(server, lambda: all(node_of(server, "p", f"n{number}") for number in range(3)))
                await until(server, lambda: bool(node_of(server, "late")))
                assert app.reloader.statistics().results[ReloadResult.TAKEN_OVER] == 1
                assert "quarantined" not in (await answer(app, "/readyz?verbose"))[1]
                metrics = (await answer(app, "/metrics"))[1]
                assert f"kscheduler_plugin_quarantined{{{labels}}} 0.0" in metrics
    (line, *_) = [line for line in lines if line["event"] == "plugin_quarantined"]
    assert line["log_level"] == "error"
    assert (line["plugin"], line["profile"], line["extension_point"]) == ("Bad", "mine", "Filter")


CHEAP_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
  plugins: {score: {enabled: [{name: PreferCheap, weight: 50}]}}
"""


@plugin("PreferCheap")
def score(pod: PodInfo, node: NodeInfo) -> int:
    if "rank" in pod.labels:
        int(pod.labels["rank"])
    return max(0, 100 - int(float(node.annotations.get("cost", "1")) * 100))


async def test_one_node_that_costs_free_and_one_pod_of_rank_abc_keep_nobody_waiting(tmp_path: Path) -> None:
    """README's own plugin: each of the two stopped the whole default-scheduler, and nothing healed it."""
    file = tmp_path / "config.yaml"
    file.write_text(CHEAP_CONFIG)
    registry = in_tree.registry()
    registry.register("PreferCheap", score)
    serving = HTTPServing.plain_on_loopback()
    options = Options(load_file(file), serving=serving, clock=HastyClock(), registry=registry)
    costs = {"bad": "free", "cheap": "0.1", "dear": "0.9"}
    with structlog.testing.capture_logs() as lines:
        async with EmbeddedAPIServer(seed=1) as server:
            for name, cost in costs.items():
                put(server, "nodes", node_tree(name, metadata={"annotations": {"cost": cost}}))
            async with running(server, options) as (app, _, _):
                for number in range(12):
                    labels = {"rank": f"abc{number}"} if number % 4 == 0 else {}
                    name, where = f"p{number}", f"n{number % 3}"
                    tree = pod_tree(name, namespace=where, labels=labels, schedulerName="default-scheduler")
                    put(server, "pods", tree)
                names = [(f"p{number}", f"n{number % 3}") for number in range(12)]
                await until(server, lambda: all(node_of(server, *name) for name in names))
                sound = [node_of(server, *name) for number, name in enumerate(names) if number % 4]
                assert set(sound) == {"cheap"}
                assert not app.parts.assembly.circuits.quarantines()
                assert "quarantined" not in (await answer(app, "/readyz?verbose"))[1]
                metrics = (await answer(app, "/metrics"))[1]
                assert 'kscheduler_plugin_failures_total{extension_point="Score",plugin="PreferCheap"}' in metrics
                put(server, "nodes", node_tree("bad", metadata={"annotations": {"cost": "0.01"}}))
                await until_true(lambda: _cost_of(app, "bad") == "0.01")
                put(server, "pods", pod_tree("late", schedulerName="default-scheduler"))
                await until(server, lambda: node_of(server, "late") == "bad")
    failed = [line for line in lines if line["event"] == "plugin_failed"]
    assert any("bad" in line["err"] for line in failed), failed


def _cost_of(app: Any, name: str) -> str:
    nodes = app.parts.assembly.cache.nodes
    cost: str = nodes.info(nodes.row_of(name)).annotations["cost"]
    return cost


async def test_querying_again_without_a_quarantine_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(TEXT.format(policy="Fail"))
    registry = in_tree.registry()
    registry.register("Bad", filter)
    options = Options(
        load_file(file),
        source_of(str(file), registry=registry),
        serving=HTTPServing.plain_on_loopback(),
        registry=registry,
    )
    async with EmbeddedAPIServer(seed=1) as server, running(server, options) as (app, _, _):
        await until_true(lambda: app.reloader.statistics().digest)
        before = dict(app.parts.assembly.profiles)
        app.reloader.ask()
        await until_true(lambda: app.reloader.statistics().results.get(ReloadResult.UNCHANGED))
        assert app.parts.assembly.profiles == before
