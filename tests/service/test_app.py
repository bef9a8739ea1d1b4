"""The whole scheduler on the embedded API server: it binds, answers, survives and stops."""

import asyncio
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.events.scheduled import ScheduledEvents
from kscheduler.config.loader import default_configuration, from_tree
from kscheduler.config.overrides import with_settings
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins import in_tree
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options
from kscheduler.service.parts import Parts
from tests.builders import Tree, node_tree, pod_tree
from tests.effort import example_count
from tests.service.running import SECONDS, alone, answer, node_of, put, running, until


async def test_twenty_pods_are_bound_within_what_the_nodes_have() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        for number in range(4):
            put(server, "nodes", node_tree(f"node-{number}", cpu="5"))
        async with running(server):
            for number in range(20):
                put(server, "pods", pod_tree(f"p{number}", requests={"cpu": "1"}))
            names = [f"p{number}" for number in range(20)]
            await until(server, lambda: all(node_of(server, name) for name in names))
            taken = [node_of(server, name) for name in names]
            assert sorted(taken) == sorted([f"node-{number}" for number in range(4)] * 5)


async def test_what_is_attached_to_nodes_is_counted_before_a_pod_asks() -> None:
    of_claim = {"name": "data", "namespace": "default", "uid": "claim"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": of_claim}
    drivers = [{"name": "csi.one", "nodeID": "node", "allocatable": {"count": 3}}]
    of_node = {"name": "node", "uid": "csi-node"}
    csi_node = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": of_node, "spec": {"drivers": drivers}}
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        server.store.put("persistentvolumeclaims", claim)
        server.store.put("csinodes.storage.k8s.io", csi_node)
        async with running(server) as (app, _, _):
            table = app.parts.assembly.cache.volumes
            await app.parts.informers.wait_for_sync(SECONDS)
            assert table.csi_node("node") is not None
            async with asyncio.timeout(SECONDS):
                while table._attached._marked:  # noqa: ASYNC110  a table tells nobody
                    await asyncio.sleep(0.005)


@plugin("PreferCheap")
def score(pod: PodInfo, node: NodeInfo) -> int:
    return max(0, 100 - int(float(node.annotations.get("cost", "1")) * 100))


async def test_a_policy_of_a_few_lines_decides_where_pods_go() -> None:
    """The example of the README: registered by a program, enabled by a configuration."""
    registry = in_tree.registry()
    registry.register(score.name, score)
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "PreferCheap", "weight": 5}]}}
    profile = {"schedulerName": "kscheduler", "plugins": plugins}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = from_tree({**kind, "profiles": [profile]}, "test")
    options = Options(config, serving=HTTPServing.plain_on_loopback(), registry=registry)
    async with EmbeddedAPIServer(seed=1) as server:
        for name, cost in (("dear", "0.9"), ("cheap", "0.1"), ("middling", "0.5")):
            node = node_tree(name)
            node["metadata"]["annotations"] = {"cost": cost}
            put(server, "nodes", node)
        async with running(server, options):
            put(server, "pods", pod_tree("p"))
            await until(server, lambda: node_of(server, "p") == "cheap")


async def test_parallelism_says_how_many_bindings_may_be_under_way() -> None:
    config = with_settings(default_configuration(), {"parallelism": 3}, "test")
    parts = Parts(Options(config), plain_connection("http://127.0.0.1:1"))
    assert parts.limit.statistics().limit == 3


async def test_a_pod_that_fits_nowhere_is_reported_why_and_bound_when_there_is_room() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("small", cpu="1"))
        put(server, "pods", pod_tree("big", requests={"cpu": "2"}))

        def messages() -> list[str]:
            record = server.store.get("pods", "default", "big")
            assert record is not None
            conditions = record.value["status"].get("conditions", [])
            return [one["message"] for one in conditions if one["type"] == "PodScheduled" and "message" in one]

        async with running(server):
            await until(server, lambda: bool(messages()))
            assert messages()[0].startswith("0/1 nodes are available: 1 Insufficient cpu.")
            put(server, "nodes", node_tree("large", cpu="8"))
            await until(server, lambda: node_of(server, "big") == "large")


@pytest.mark.parametrize("events", get_args(ScheduledEvents))
async def test_of_bound_pods_so_many_events_are_sent_as_was_asked_for_and_of_failures_all(
    events: ScheduledEvents,
) -> None:
    """A sum whose time has not come is sent at the end."""
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "uid-of-job", "controller": True}]
    options = Options(alone(), serving=HTTPServing.plain_on_loopback(), scheduled_events=events)
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        put(server, "pods", pod_tree("big", requests={"cpu": "90"}))
        async with running(server, options) as (app, _, _):
            for name in ("p", "q", "r"):
                put(server, "pods", pod_tree(name, metadata={"ownerReferences": owners}))
            await until(server, lambda: all(node_of(server, name) for name in "pqr"))
        omitted = app.parts.events_omitted()
        found = [record.value for record in server.store.collection("events").records.values()]
    bound = [event["involvedObject"]["kind"] for event in found if event["reason"] == "Scheduled"]
    assert bound == {"all": ["Pod"] * 3, "sampled": ["Pod"], "summed": ["Job"], "none": []}[events]
    assert omitted == {"all": 0, "sampled": 2, "summed": 3, "none": 3}[events]
    assert [event["involvedObject"]["name"] for event in found if event["reason"] == "FailedScheduling"] == ["big"]


async def test_probes_answer_before_the_caches_are_synced() -> None:
    """Else the kubelet would kill a scheduler that waits for a slow API server."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        put(server, "pods", pod_tree("p"))
        server.faults.add(InjectedFault("answer", method="GET", path="*/pods", code=500))
        async with running(server) as (app, _, _):
            assert (await answer(app, "/livez"))[0] == 200
            assert (await answer(app, "/healthz"))[0] == 200
            status, text = await answer(app, "/readyz")
            assert status == 500
            assert "sched-handler-sync" in text
            assert node_of(server, "p") == ""
            server.faults.clear()
            await until(server, lambda: node_of(server, "p") == "node")
            assert (await answer(app, "/readyz"))[0] == 200
            assert "scheduler_schedule_attempts_total" in (await answer(app, "/metrics"))[1]


async def test_a_stop_before_the_sync_ends_in_order() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.faults.add(InjectedFault("answer", method="GET", path="*/pods", code=500))
        async with running(server) as (app, _, task):
            await answer(app, "/livez")
            assert not task.done()
        assert task.done()


async def test_a_stop_waits_for_the_binds_that_were_sent() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        server.faults.add(InjectedFault("delay", method="POST", path="*/binding", seconds=0.2))
        async with running(server) as (app, _, _):
            put(server, "pods", pod_tree("p"))
            async with asyncio.timeout(10):
                while not app.parts.workers.binding:  # noqa: ASYNC110  # a worker that begins tells nobody
                    await asyncio.sleep(0)
        assert node_of(server, "p") == "node"


# --- poison


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2),
    max_leaves=4,
)
quantities = st.sampled_from(["1e3Ki", "-5", "", "1" * 30, "1e999999999", "0.0000000001", "NaN", "9" * 400, "Ki"])
RICH = pod_tree(
    "poison",
    requests={"cpu": "1m", "memory": "1"},
    labels={"a": "b"},
    priority=0,
    nodeSelector={},
    overhead={"cpu": "1m"},
    tolerations=[{"key": "a", "operator": "Exists"}],
    schedulingGates=[],
    volumes=[{"name": "v", "emptyDir": {}}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "k", "operator": "DoesNotExist", "values": []}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]},
                ]
            }
        }
    },
)
PLACES: list[tuple[Any, ...]] = [
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "priority"),
    ("spec", "nodeSelector"),
    ("spec", "overhead"),
    ("spec", "tolerations"),
    ("spec", "tolerations", 0, "operator"),
    ("spec", "schedulingGates"),
    ("spec", "volumes"),
    ("spec", "affinity"),
    ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
    ("spec", "containers"),
    ("spec", "containers", 0, "resources"),
    ("spec", "containers", 0, "ports"),
    ("spec", "initContainers"),
    ("spec", "topologySpreadConstraints"),
]
AMOUNTS: list[tuple[Any, ...]] = [
    ("spec", "containers", 0, "resources", "requests", "cpu"),
    ("spec", "containers", 0, "resources", "requests", "example.com/gpu"),
    ("spec", "overhead", "memory"),
]
faults = st.tuples(st.sampled_from(PLACES), junk) | st.tuples(st.sampled_from(AMOUNTS), quantities)


def broken(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the tree with something else in one place."""
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = broken(tree[path[0]] if len(path) > 1 else None, path[1:], value)
    return copy


@settings(max_examples=example_count(4))  # each is a scheduler's whole life with 50 pods
@given(st.lists(faults, min_size=50, max_size=50), st.booleans())
async def test_malformed_pods_never_end_the_process_and_good_ones_are_bound_after_them(
    poison: list[tuple[tuple[Any, ...], Any]], before: bool
) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))

        def poisoned() -> None:
            for number, (path, value) in enumerate(poison):
                tree: Tree = broken(RICH, path, value)
                put(
                    server,
                    "pods",
                    {**tree, "metadata": {**tree["metadata"], "name": f"x{number}", "uid": f"x{number}"}},
                )

        if before:
            poisoned()
        async with running(server) as (_, _, task):
            put(server, "pods", pod_tree("first"))
            await until(server, lambda: node_of(server, "first") == "node")
            if not before:
                poisoned()
            put(server, "pods", pod_tree("last"))
            await until(server, lambda: node_of(server, "last") == "node")
            assert not task.done()
