"""A policy that decides by data of its own, in the whole service: fetched from the API server in the background."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from kscheduler.api.kinds import Kind
from kscheduler.api.meta import CustomObject
from kscheduler.config.loader import load_file
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import PLUGIN_DATA_UPDATE, ActionType, ClusterEvent, ClusterEventWithHint
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins import in_tree
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options, source_of
from kscheduler.service.metrics.config_reloads import ReloadResult
from tests.builders import node_tree, pod_tree
from tests.informers.test_audit import HastyClock
from tests.service.plugins.test_users_plugins import message_of, options
from tests.service.running import answer, node_of, put, running, until

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


class ByClaims(Plugin):
    """Lets pods onto the nodes that claims are named after: nothing that a decision would read otherwise."""

    name = "ByClaims"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    reasons = {1: "node(s) had no claim"}  # noqa: RUF012
    refresh_interval = 0.1

    def __init__(self, _args: Any, handle: Handle) -> None:
        self._handle = handle
        self._open: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        assert self._handle.client is not None
        answered = json.loads(await self._handle.client.get(CLAIMS, timeout_seconds=5.0))
        found = frozenset(item["metadata"]["name"] for item in answered["items"])
        changed, self._open = found ^ self._open, found
        if changed:
            self._handle.nodes_changed(changed)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(PLUGIN_DATA_UPDATE),)

    def sign(self, pod: PodInfo) -> object:
        del pod
        return ()

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return np.array([int(nodes.name_of(row) not in self._open) for row in rows.tolist()], dtype=np.int64)


def by_claims() -> Options:
    return options("ByClaims", ByClaims, "filter")


def claim(server: EmbeddedAPIServer, name: str) -> None:
    tree = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}}
    server.store.put("persistentvolumeclaims", tree)


async def test_the_first_pod_is_judged_by_data_and_a_parked_pod_wakes_when_they_change() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        for name in ("a", "b", "c"):
            put(server, "nodes", node_tree(name, labels={"kubernetes.io/hostname": name}))
        claim(server, "b")
        put(server, "pods", pod_tree("first"))
        async with running(server, by_claims()):
            await until(server, lambda: bool(node_of(server, "first")))
            assert node_of(server, "first") == "b"
            record = server.store.get("pods", "default", "first")
            assert record is not None
            assert not record.value["status"].get("conditions", [])[:-1], "it was never rejected"

            put(server, "pods", pod_tree("second", nodeSelector={"kubernetes.io/hostname": "c"}))
            await until(server, lambda: "node(s) had no claim" in message_of(server, "second"))
            claim(server, "c")
            await until(server, lambda: node_of(server, "second") == "c")


async def test_a_source_that_is_away_is_reported_and_the_service_goes_on() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("a"))
        claim(server, "a")
        server.faults.add(InjectedFault("answer", method="GET", path=CLAIMS, code=503))
        with structlog.testing.capture_logs() as lines:
            async with running(server, by_claims()) as (app, _, _):
                put(server, "pods", pod_tree("p"))
                await until(server, lambda: "node(s) had no claim" in message_of(server, "p"))
                assert app.parts.reachability.statistics(app.parts.clock.monotonic()).unreachable_seconds == 0
                status, text = await answer(app, "/readyz?verbose")
                assert status == 200
                assert 'data of plugin "ByClaims" of profile "kscheduler": none yet: APIError' in text
                server.faults.clear()
                await until(server, lambda: node_of(server, "p") == "a")
        events = [line["event"] for line in lines]
        assert "plugins_without_data" in events
        reported = next(line for line in lines if line["event"] == "plugin_not_refreshed")
        assert "exc_info" not in reported
        assert "plugin_refreshed" in events


JOBS = Kind("batch", "v1", "jobs", "Job", CustomObject, namespaced=True)


class ByJobs(Plugin):
    """Lets pods onto the nodes that jobs are named after; knows them from the watch."""

    name = "ByJobs"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    reasons = {1: "node(s) had no job"}  # noqa: RUF012

    def __init__(self, _args: Any, handle: Handle) -> None:
        self._handle = handle
        self.jobs = handle.lister(JOBS)
        self._open: set[str] = set()
        self.jobs.on_change(self._changed)

    def _changed(self, old: Any, new: Any) -> None:
        if new is None:
            self._open.discard(old.metadata.name)
        else:
            self._open.add(new.metadata.name)
        self._handle.nodes_changed([(new or old).metadata.name])

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(ClusterEvent(JOBS.event_resource, ActionType.ADD)),)

    def sign(self, pod: PodInfo) -> object:
        del pod
        return ()

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return np.array([int(nodes.name_of(row) not in self._open) for row in rows.tolist()], dtype=np.int64)


def job(server: EmbeddedAPIServer, name: str) -> None:
    tree = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {}}
    server.store.put("jobs.batch", {"apiVersion": "batch/v1", "kind": "Job", **tree})


def from_file(tmp_path: Path, plugins: Sequence[str]) -> tuple[Path, str]:
    file = tmp_path / "config.yaml"
    names = ", ".join(f"{{name: {plugin}}}" for plugin in plugins)
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    profile = f"profiles: [{{schedulerName: kscheduler, plugins: {{filter: {{enabled: [{names}]}}}}}}]\n"
    return file, f"{head}leaderElection: {{leaderElect: false}}\n{profile}"


def reloadable(file: Path) -> Options:
    registry = in_tree.registry()
    registry.register("ByJobs", ByJobs)
    source = source_of(str(file), is_watched=False, registry=registry)
    serving = HTTPServing.plain_on_loopback()
    return Options(load_file(file), source, serving=serving, registry=registry, clock=HastyClock())


async def test_a_kind_of_its_own_is_listed_before_the_first_decision_and_its_events_wake_pods(tmp_path: Path) -> None:
    file, text = from_file(tmp_path, ["ByJobs"])
    file.write_text(text)
    async with EmbeddedAPIServer(seed=1) as server:
        for name in ("a", "b"):
            put(server, "nodes", node_tree(name, labels={"kubernetes.io/hostname": name}))
        job(server, "a")
        put(server, "pods", pod_tree("first"))
        async with running(server, reloadable(file)):
            await until(server, lambda: node_of(server, "first") == "a")
            put(server, "pods", pod_tree("second", nodeSelector={"kubernetes.io/hostname": "b"}))
            await until(server, lambda: "node(s) had no job" in message_of(server, "second"))
            job(server, "b")
            await until(server, lambda: node_of(server, "second") == "b")


async def test_a_reload_waits_for_a_new_kind_and_is_refused_where_it_cannot_be_read(tmp_path: Path) -> None:
    file, with_plugin = from_file(tmp_path, ["ByJobs"])
    _, without = from_file(tmp_path, [])
    file.write_text(without)
    async with EmbeddedAPIServer(seed=1) as server, running(server, reloadable(file)) as (app, _, _):
        put(server, "nodes", node_tree("a"))
        put(server, "nodes", node_tree("b"))
        put(server, "pods", pod_tree("before"))
        await until(server, lambda: bool(node_of(server, "before")))
        job(server, "b")
        server.faults.add(InjectedFault("answer", method="GET", path="*/jobs", code=403))
        file.write_text(with_plugin)
        app.reloader.ask()
        answers = set()
        async with asyncio.timeout(20):
            while "a plugin reads jobs.batch" not in "".join(app.reloader.notes()):
                answers.add((await answer(app, "/readyz"))[0])
                await asyncio.sleep(0.01)
        answers.add((await answer(app, "/readyz"))[0])
        assert answers == {200}, "the configuration before goes on, and it has what it reads"
        put(server, "pods", pod_tree("meanwhile"))
        await until(server, lambda: bool(node_of(server, "meanwhile")))

        server.faults.clear()
        app.reloader.ask()
        async with asyncio.timeout(20):
            while app.reloader.statistics().results.get(ReloadResult.TAKEN_OVER, 0) != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        put(server, "pods", pod_tree("after"))
        await until(server, lambda: node_of(server, "after") == "b")
