"""A plugin of one profile fails in the running service: it is quarantined and named, and the other profile goes on."""

import time
from pathlib import Path
from typing import Any

import pytest
import structlog

from kscheduler.app import Options, source_of
from kscheduler.config.loader import load_file
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.metrics import ReloadResult
from kscheduler.plugins import in_tree
from kscheduler.server.serving import HTTPServing
from kscheduler.simulation.apiserver import EmbeddedAPIServer
from tests.app.plugins.test_users_plugins import message_of
from tests.app.running import answer, node_of, put, running, until
from tests.app.test_reloading import until_true
from tests.builders import node_tree, pod_tree
from tests.informers.test_audit import HastyClock

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
                for name in ("p0", "p1", "p2"):
                    put(server, "pods", pod_tree(name, schedulerName="mine"))
                await until_true(app.parts.assembly.quarantines)
                put(server, "pods", pod_tree("q", schedulerName="theirs"))
                await until(server, lambda: node_of(server, "q") == "node")
                status, text = await answer(app, "/readyz?verbose")
                assert status == 200, "other profiles are scheduled"
                assert '[i]plugin "Bad" of profile "mine" is quarantined since ' in text
                assert f"(onFailure: {policy})" in text
                metrics = (await answer(app, "/metrics"))[1]
                labels = f'on_failure="{policy}",plugin="Bad",profile="mine"'
                assert f"kscheduler_plugin_quarantined{{{labels}}} 1.0" in metrics
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
                await until(server, lambda: all(node_of(server, name) for name in ("p0", "p1", "p2", "late")))
                assert app.reloader.statistics().results[ReloadResult.TAKEN_OVER] == 1
                assert "quarantined" not in (await answer(app, "/readyz?verbose"))[1]
                metrics = (await answer(app, "/metrics"))[1]
                assert f"kscheduler_plugin_quarantined{{{labels}}} 0.0" in metrics
    (line,) = [line for line in lines if line["event"] == "plugin_quarantined"]
    assert line["log_level"] == "error"
    assert (line["plugin"], line["profile"], line["extension_point"]) == ("Bad", "mine", "Filter")


async def test_asking_again_without_a_quarantine_changes_nothing(tmp_path: Path) -> None:
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
