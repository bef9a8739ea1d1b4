"""Plugins of a running service are closed when a changed configuration has replaced them, and at its end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.loader import load_file
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.plugins import in_tree
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options, source_of
from kscheduler.service.metrics.config_reloads import ReloadResult
from tests.builders import node_tree, pod_tree
from tests.informers.test_audit import HastyClock
from tests.service.running import node_of, put, running, until

TEXT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: {elects}, resourceName: kscheduler}}
percentageOfNodesToScore: {percentage}
profiles:
- schedulerName: red
  plugins: {{multiPoint: {{enabled: [{{name: Slow}}]}}}}
"""


class Slow(Plugin):
    """Its PreBind waits until it may go on."""

    name = "Slow"

    def __init__(self) -> None:
        self.began, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.history: list[str] = []

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        self.began.set()
        await self.may_go_on.wait()
        self.history.append("pre_bind")
        return SUCCESS

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.history.append("close")


@pytest.mark.parametrize("elects", ["false", "true"])
async def test_after_the_pods_that_a_plugin_has_decided_about_and_at_an_orderly_end(
    tmp_path: Path, elects: str
) -> None:
    made: list[Slow] = []

    def make(_args: Any, _handle: object) -> Slow:
        made.append(Slow())
        return made[-1]

    registry = in_tree.registry()
    registry.register("Slow", make)
    file = tmp_path / "config.yaml"
    file.write_text(TEXT.format(percentage=0, elects=elects))
    source = source_of(str(file), is_watched=False, registry=registry)
    options = Options(
        load_file(file), source, serving=HTTPServing.plain_on_loopback(), clock=HastyClock(), registry=registry
    )
    async with EmbeddedAPIServer(seed=1) as server, running(server, options) as (app, _, _), asyncio.timeout(20):
        put(server, "nodes", node_tree("node"))
        put(server, "pods", pod_tree("p", schedulerName="red"))
        (old,) = made
        await old.began.wait()
        file.write_text(TEXT.format(percentage=70, elects=elects))
        app.reloader.ask()
        while app.reloader.statistics().results.get(ReloadResult.TAKEN_OVER, 0) == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert (len(app.parts.retired), old.history) == (1, [])
        old.may_go_on.set()
        await until(server, lambda: node_of(server, "p") == "node")
        while len(old.history) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        new = made[-1]
        assert (new is not old, new.history) == (True, [])
    assert old.history == ["pre_bind", "close"]
    assert new.history == ["close"]
