"""What moves each series: small happenings in a whole scheduler on the embedded API server.

A story is a function that makes something happen, and names the families that must not be the same before, meanwhile
and after. The table of all stories covers every family that is exposed: who adds a metric adds what moves it.
"""

import asyncio
import io
import json
import resource
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import aiohttp
import msgspec
import pytest

from kscheduler.aio import Clock
from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.api.codec import convert
from kscheduler.api.groups import (
    POD_GROUPS,
    KubernetesPodGroup,
)
from kscheduler.api.kinds import PODS, RESOURCE_CLAIMS
from kscheduler.api.machinery.resources import USUAL, ServedKinds, served_kinds
from kscheduler.api.meta import Condition
from kscheduler.client.errors import FencedError
from kscheduler.client.reachability import ReachabilityStatistics
from kscheduler.client.rest import MERGE
from kscheduler.client.watch import WatchEvent
from kscheduler.config.errors import config_error
from kscheduler.config.feature_gates import FeatureGates, parse_feature_gates
from kscheduler.config.loader import default_configuration, from_tree, load_file
from kscheduler.config.overrides import with_settings
from kscheduler.election import Role
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.plugin_listener import SLOW_CALL_SECONDS
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.framework.status import Code, Fault, Status, StatusError
from kscheduler.plugins import in_tree
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.recorder.flight_recorder import RecordSettings
from kscheduler.scheduling.drift.drift_check import Periods
from kscheduler.server.login.authorities import AuthenticationSettings
from kscheduler.server.serving import HTTPServing
from kscheduler.server.tls.settings import TLSSettings
from kscheduler.service import App, Options, source_of
from kscheduler.telemetry.logs.streams import LogStream
from tests.builders import make_pod, node_tree, pod_tree
from tests.informers.test_audit import HastyClock
from tests.server.pki import Authority, trusting
from tests.service.running import alone, node_of, put, until

BINDING = "*/binding"
GANGS = "GenericWorkload"
BEFORE = "2026-01-01T00:00:00Z"
KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@dataclass
class World:
    """A scheduler that runs, and the API server that it talks to."""

    server: EmbeddedAPIServer
    app: App
    keep: list[object] = field(default_factory=list)
    """Things that last as long as the story."""

    async def create(self, path: str, tree: dict[str, Any]) -> None:
        """An object that goes through the API server's own checks."""
        await self.app.parts.client.post(path, json.dumps(tree).encode())

    async def until_true(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  # a queue tells nobody
                await asyncio.sleep(0.005)

    async def raw(self, sent: bytes) -> bytes:
        """Bytes to the scheduler's own port, and what it says until it closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.app.server.port)
        writer.write(sent)
        try:
            return await reader.read()
        finally:
            writer.transport.abort()


Act = Callable[[World], Awaitable[None]]


@dataclass(frozen=True)
class Story:
    """Something that happens, and what it moves."""

    act: Act
    moves: frozenset[str]
    options: Callable[[], Options]
    from_start: bool
    """Whether what the scheduler's start moves counts too."""
    kinds: ServedKinds = USUAL
    """What the API server serves."""


STORIES: dict[str, Story] = {}


def plain(clock: Clock = REAL_CLOCK, **periods: float) -> Options:
    return Options(alone(), serving=HTTPServing.plain_on_loopback(), clock=clock, periods=Periods(**periods))


def electing() -> Options:
    """With leader election."""
    ended: list[str] = []
    return Options(default_configuration(), serving=HTTPServing.plain_on_loopback(), end_at_once=ended.append)


FOLDER = tempfile.TemporaryDirectory(prefix="kscheduler-series-")
CLIENTS = Authority("clients")


def with_login() -> Options:
    """HTTPS, a certificate in files, and clients with certificates."""
    folder = Path(FOLDER.name)
    certificate, key = CLIENTS.serving("localhost").write(folder, "tls")
    (folder / "clients.crt").write_bytes(CLIENTS.pem)
    authentication = AuthenticationSettings(client_ca_file=str(folder / "clients.crt"), skip_lookup=True)
    tls = TLSSettings(certificate_file=certificate, key_file=key)
    serving = HTTPServing(bind_address="127.0.0.1", secure_port=0, tls=tls, authentication=authentication)
    return Options(alone(), serving=serving)


def everything() -> Options:
    """All that has series of its own: leader election, HTTPS with a login, the flight recorder."""
    return msgspec.structs.replace(electing(), serving=with_login().serving, record=recording().record)


def recording() -> Options:
    """With the flight recorder; each block is a segment, as the first may be older than the story."""
    return msgspec.structs.replace(plain(), record=RecordSettings(Path(FOLDER.name, "recording"), segment_bytes=1))


GOES: Final = Path(FOLDER.name, "goes")


def recording_where_it_goes() -> Options:
    """With a flight recorder whose directory the story takes away."""
    return msgspec.structs.replace(plain(), record=RecordSettings(GOES))


def with_plugin(name: str, point: str, registry: Registry) -> Options:
    plugins = {point: {"enabled": [{"name": name}]}}
    config = from_tree({**KIND, "profiles": [{"schedulerName": "kscheduler", "plugins": plugins}]}, "test")
    return Options(config, serving=HTTPServing.plain_on_loopback(), registry=registry)


def story(
    *moves: str, options: Callable[[], Options] = plain, from_start: bool = False, kinds: ServedKinds = USUAL
) -> Callable[[Act], Act]:
    """Add a story to the table."""

    def add(act: Act) -> Act:
        STORIES[act.__name__] = Story(act, frozenset(moves), options, from_start, kinds)
        return act

    return add


# --- scheduling -------------------------------------------------------------------------------------------------------


@story(
    "go_goroutines",
    "kscheduler_asyncio_tasks",
    "kscheduler_events_queued",
    "kscheduler_events_sent_total",
    "kscheduler_informer_objects",
    "kscheduler_informer_synced",
    "kscheduler_loop_lag_seconds",
    "kscheduler_loop_lag_worst_seconds",
    "kscheduler_relists_total",
    "kscheduler_watch_last_event_age_seconds",
    "kscheduler_watches",
    "rest_client_request_duration_seconds",
    "rest_client_request_size_bytes",
    "rest_client_requests_total",
    "rest_client_response_size_bytes",
    "scheduler_async_api_call_execution_duration_seconds",
    "scheduler_async_api_call_execution_total",
    "scheduler_cache_size",
    "scheduler_event_handling_duration_seconds",
    "scheduler_framework_extension_point_duration_seconds",
    "scheduler_goroutines",
    "scheduler_plugin_evaluation_total",
    "scheduler_plugin_execution_duration_seconds",
    "scheduler_pod_scheduling_attempts",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_queue_incoming_pods_total",
    "scheduler_schedule_attempts_total",
    "scheduler_scheduling_algorithm_duration_seconds",
    "scheduler_scheduling_attempt_duration_seconds",
    from_start=True,
)
async def pods_are_bound(world: World) -> None:
    world.server.faults.add(InjectedFault("delay", method="POST", seconds=0.05))
    put(world.server, "nodes", node_tree("node", cpu="100"))
    names = [f"p{number}" for number in range(40)]
    for name in names:
        put(world.server, "pods", pod_tree(name))
    await until(world.server, lambda: all(node_of(world.server, name) for name in names))


@story(
    "kscheduler_status_patches_pending",
    "kscheduler_status_patches_total",
    "scheduler_pending_async_api_calls",
    "scheduler_pending_pods",
    "scheduler_queueing_hint_execution_duration_seconds",
    "scheduler_unschedulable_pods",
)
async def pods_wait_for_room(world: World) -> None:
    world.server.faults.add(InjectedFault("delay", method="PATCH", path="*/status", seconds=0.1))
    put(world.server, "nodes", node_tree("small", cpu="1"))
    for number in range(20):
        put(world.server, "pods", pod_tree(f"p{number}", requests={"cpu": str(2 + number)}))
    await world.until_true(lambda: world.app.parts.assembly.queue.statistics().unschedulable == 20)
    put(world.server, "nodes", node_tree("large", cpu="1000"))
    await until(world.server, lambda: bool(node_of(world.server, "p0")))


def of_kubernetes_1_37() -> Options:
    """With the series that 1.37 has brought."""
    config = default_configuration(gates=FeatureGates(version="1.37"))
    unelected = with_settings(config, {"leaderElection.leaderElect": False}, "test")
    return Options(unelected, serving=HTTPServing.plain_on_loopback())


@story("scheduler_queue_incoming_entities_total", "scheduler_queued_entities", options=of_kubernetes_1_37)
async def pods_are_counted_as_entities(world: World) -> None:
    put(world.server, "nodes", node_tree("small", cpu="1"))
    put(world.server, "pods", pod_tree("large", requests={"cpu": "2"}))
    await world.until_true(lambda: world.app.parts.assembly.queue.statistics().unschedulable == 1)


@story("kscheduler_status_classes_pending")
async def a_class_of_parked_pods_is_judged_anew(world: World) -> None:
    world.server.faults.add(InjectedFault("delay", method="PATCH", path="*/status", seconds=0.1))
    members = [f"p{number}" for number in range(30)]
    for name in members:
        put(world.server, "pods", pod_tree(name, requests={"cpu": "50"}))
    await world.until_true(lambda: world.app.parts.informers.informer(PODS).store.get("default/p29") is not None)
    condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="another reason")
    world.app.parts.status_writer.report_class("class", [f"default/{name}" for name in members], condition)


@story(
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_goroutines_duration_seconds",
    "scheduler_preemption_goroutines_execution_total",
    "scheduler_preemption_victims",
)
async def a_pod_makes_room_for_itself(world: World) -> None:
    put(world.server, "nodes", node_tree("node", cpu="2"))
    for name in ("v0", "v1"):
        put(
            world.server,
            "pods",
            pod_tree(name, node="node", requests={"cpu": "1"}, terminationGracePeriodSeconds=0, priority=0),
        )
    put(world.server, "pods", pod_tree("big", requests={"cpu": "2"}, priority=100))
    await until(world.server, lambda: node_of(world.server, "big") == "node")


class HoldsForAMoment(Plugin):
    """A Permit plugin that nobody answers for."""

    name = "HoldsForAMoment"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        return PermitResult(Status(Code.WAIT), 0.2)


def holding() -> Options:
    registry = in_tree.registry()
    registry.register(HoldsForAMoment.name, HoldsForAMoment)
    return with_plugin(HoldsForAMoment.name, "permit", registry)


def limited() -> Options:
    config = from_tree({**KIND, "clientConnection": {"qps": 1000, "burst": 1000}}, "test")
    return Options(config, serving=HTTPServing.plain_on_loopback())


@story("rest_client_rate_limiter_duration_seconds", options=limited)
async def requests_wait_for_our_own_limit(world: World) -> None:
    await world.app.parts.client.get("/api/v1/nodes")


@story(
    "scheduler_inflight_events",
    "scheduler_permit_wait_duration_seconds",
    "kscheduler_pods_at_permit",
    options=holding,
)
async def a_pod_waits_for_permit(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("p"))
    waiting = world.app.parts.assembly.waiting
    await world.until_true(lambda: bool(waiting.all()))
    put(world.server, "pods", pod_tree("q", node="node"))  # an event while the other is in flight


def with_gangs() -> Options:
    gates = parse_feature_gates(f"{GANGS}=true", version="1.37")
    return Options(
        from_tree({**KIND, "leaderElection": {"leaderElect": False}}, "test", gates),
        serving=HTTPServing.plain_on_loopback(),
    )


@story(
    "scheduler_podgroup_schedule_attempts_total",
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    options=with_gangs,
    kinds=served_kinds("1.37", lambda gate: gate == GANGS),
)
async def a_gang_is_placed(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    for name in ("g-0", "g-1"):
        put(
            world.server,
            "pods",
            pod_tree(name, schedulerName="default-scheduler", schedulingGroup={"podGroupName": "g"}),
        )
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    group = {"apiVersion": POD_GROUPS.group_version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    await world.create(f"/apis/{POD_GROUPS.group_version}/namespaces/default/podgroups", group)
    await until(world.server, lambda: all(node_of(world.server, name) for name in ("g-0", "g-1")))


@story("kscheduler_pod_group_errors_total", options=with_gangs, kinds=served_kinds("1.37", lambda gate: gate == GANGS))
async def a_group_asks_for_slices_of_no_member(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("m", schedulerName="default-scheduler", schedulingGroup={"podGroupName": "g"}))
    metadata = {"name": "g", "annotations": {"kueue.x-k8s.io/podset-slice-size": "0"}}
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    group = {"apiVersion": POD_GROUPS.group_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}
    await world.create(f"/apis/{POD_GROUPS.group_version}/namespaces/default/podgroups", group)
    await world.until_true(lambda: world.app.parts.observations.pod_group_errors[()] > 0)


@story("kscheduler_pod_group_members", options=with_gangs, kinds=served_kinds("1.37", lambda gate: gate == GANGS))
async def a_gang_waits_for_a_member(world: World) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    group = {"apiVersion": POD_GROUPS.group_version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    await world.create(f"/apis/{POD_GROUPS.group_version}/namespaces/default/podgroups", group)
    put(world.server, "pods", pod_tree("g-0", schedulerName="default-scheduler", schedulingGroup={"podGroupName": "g"}))


def with_groups_of_kubernetes(more: str = "") -> Options:
    config = default_configuration(gates=parse_feature_gates(f"GenericWorkload=true{more}", version="1.37"))
    unelected = with_settings(config, {"leaderElection.leaderElect": False}, "test")
    return Options(unelected, serving=HTTPServing.plain_on_loopback())


@story(
    "scheduler_preemption_evaluation_duration_seconds",
    "scheduler_preemption_execution_duration_seconds",
    "scheduler_preemption_pdb_violations_total",
    "scheduler_preemption_workload_disruptions",
    "scheduler_workload_preemption_attempts_total",
    "scheduler_workload_preemption_victims",
    options=with_groups_of_kubernetes,
)
async def a_gang_makes_room_for_itself(world: World) -> None:
    handler = world.app.parts.assembly.handlers[POD_GROUPS]
    for name, priority in (("low", 0), ("high", 100)):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": priority}
        group = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}
        handler.on_add(convert(group, KubernetesPodGroup), initial=False)  # the API server here has no such kind
    put(world.server, "nodes", node_tree("node", cpu="2"))
    budget = {"metadata": {"name": "kept", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"g": "low"}}}}
    await world.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    for name, priority, node in (("low", 0, "node"), ("high", 100, "")):
        for number in range(2):
            rest: dict[str, Any] = {
                "schedulingGroup": {"podGroupName": name},
                "priority": priority,
                "terminationGracePeriodSeconds": 0,
            }
            labels, requests = {"g": name}, {"cpu": "1"}
            put(
                world.server,
                "pods",
                pod_tree(f"{name}-{number}", node=node, labels=labels, requests=requests, **rest),
            )
    await until(world.server, lambda: all(node_of(world.server, f"high-{number}") for number in range(2)))


@story(
    "scheduler_generated_placements_total",
    "scheduler_placement_evaluation_duration_seconds",
    "scheduler_placement_evaluations_total",
    options=partial(with_groups_of_kubernetes, ",TopologyAwareWorkloadScheduling=true"),
)
async def a_gang_is_placed_in_one_zone(world: World) -> None:
    for name in ("node-a", "node-b"):
        put(world.server, "nodes", node_tree(name, labels={"zone": name}))
    put(world.server, "pods", pod_tree("g-0", schedulingGroup={"podGroupName": "g"}))
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, "schedulingConstraints": {"topology": [{"key": "zone"}]}}
    group = {"metadata": {"name": "g", "namespace": "default"}, "spec": spec}
    handler = world.app.parts.assembly.handlers[POD_GROUPS]
    handler.on_add(convert(group, KubernetesPodGroup), initial=False)  # the API server here has no such kind
    await until(world.server, lambda: bool(node_of(world.server, "g-0")))


DOOR = {"is_open": False}


@plugin("Door")
def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # noqa: A001  # the name says which extension point it is
    if pod.pod.metadata.name == "bug":
        raise RuntimeError("a bug in a plugin")
    if pod.pod.metadata.name.startswith("slow"):
        time.sleep(1.2 * SLOW_CALL_SECONDS)  # what is told is that the event loop was held
    return None if DOOR["is_open"] else "the door is shut"


def behind_a_door() -> Options:
    DOOR["is_open"] = False
    registry = in_tree.registry()
    registry.register(filter.name, filter)
    return with_plugin(filter.name, "filter", registry)


@story("scheduler_pod_scheduled_after_flush_total", options=behind_a_door)
async def only_the_flush_brings_a_pod_back(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("p"))
    queue = world.app.parts.assembly.queue
    await world.until_true(lambda: queue.statistics().unschedulable == 1)
    DOOR["is_open"] = True  # and no event tells of it
    queue.flush_unschedulable(world.app.parts.clock.time() + 400)
    queue.flush_backoff(world.app.parts.clock.time() + 400)
    world.app.parts.workers.wake()
    await until(world.server, lambda: node_of(world.server, "p") == "node")


@story("kscheduler_slow_plugin_calls_total", options=behind_a_door)
async def a_plugin_holds_the_event_loop(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("slow"))


@story("kscheduler_unexpected_errors_total", "kscheduler_plugin_failures_total", options=behind_a_door)
async def a_plugin_has_a_bug(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("bug"))


@story("kscheduler_log_lines_lost_total")
async def the_disk_of_the_log_is_full(_world: World) -> None:
    closed = io.StringIO()
    closed.close()
    LogStream(closed).write("lost")


def with_a_short_budget() -> Options:
    DOOR["is_open"] = False
    registry = in_tree.registry()
    registry.register(filter.name, filter)
    profile = {
        "schedulerName": "kscheduler",
        "plugins": {"filter": {"enabled": [{"name": filter.name}]}},
        "pluginConfig": [{"name": filter.name, "timeBudget": "10ms"}],
    }
    config = from_tree({**KIND, "profiles": [profile]}, "test")
    return Options(config, serving=HTTPServing.plain_on_loopback(), registry=registry)


@story(
    "kscheduler_plugin_overruns_total",
    "kscheduler_plugin_quarantined",
    "kscheduler_plugin_circuit_changes_total",
    options=with_a_short_budget,
)
async def a_plugin_exceeds_its_time_budget_for_three_namespaces(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    for namespace in ("a", "b", "c"):
        put(world.server, "pods", pod_tree("slow", namespace=namespace, uid=namespace))
    await world.until_true(lambda: bool(world.app.parts.assembly.circuits.quarantines()))


@story("kscheduler_plugin_holds_total", options=with_a_short_budget)
async def a_plugin_exceeds_its_time_budget_for_one_namespace(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    for name in ("a", "b", "c"):
        put(world.server, "pods", pod_tree("slow-" + name))
    await world.until_true(lambda: bool(world.app.parts.observations.plugin_holds))


class Fetching(Plugin):
    """Its source is away, until it is told otherwise."""

    name = "Fetching"
    refresh_interval = 0.1
    is_away = True

    async def refresh(self) -> None:
        if self.is_away:
            raise ConnectionRefusedError("nobody listens")

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Pass."""


def with_data_of_its_own() -> Options:
    Fetching.is_away = True
    registry = in_tree.registry()
    registry.register("Fetching", lambda _args, _handle: Fetching())
    return with_plugin("Fetching", "postBind", registry)


@story("kscheduler_plugin_refreshes_total", "kscheduler_plugin_data_age_seconds", options=with_data_of_its_own)
async def a_plugin_fetches_data(world: World) -> None:
    refreshed = world.app.parts.refreshed
    await world.until_true(lambda: bool(refreshed.results()))
    Fetching.is_away = False
    await world.until_true(lambda: any(result == "success" for *_, result in refreshed.results()))


def with_an_extender() -> Options:
    """Nobody listens at its address."""
    extenders = [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "nodeCacheCapable": True}]
    config = from_tree({**KIND, "leaderElection": {"leaderElect": False}, "extenders": extenders}, "test")
    return Options(config, serving=HTTPServing.plain_on_loopback())


@story("kscheduler_extender_call_duration_seconds", "kscheduler_extender_pods", options=with_an_extender)
async def an_extender_does_not_answer(world: World) -> None:
    world.server.faults.add(InjectedFault("delay", method="GET", path="*/pods/asked", seconds=0.2))
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("asked", schedulerName="default-scheduler"))
    await world.until_true(lambda: bool(world.app.parts.observations.extender_seconds))


@story("scheduler_volume_scheduling_duration_seconds", "scheduler_volume_scheduling_stage_error_total")
async def a_volume_cannot_be_bound(world: World) -> None:
    world.server.faults.add(InjectedFault("answer", method="PATCH", path="/api/v1/persistentvolumeclaims/*", code=403))
    world.server.faults.add(InjectedFault("answer", method="PATCH", path="*/persistentvolumeclaims/*", code=403))
    put(world.server, "nodes", node_tree("node"))
    await world.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": "fast"}, "provisioner": "csi.test", "volumeBindingMode": "WaitForFirstConsumer"},
    )
    wanted = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": wanted}
    await world.create(
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {"metadata": {"name": "data"}, "spec": spec, "status": {"phase": "Pending"}},
    )
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    put(world.server, "pods", pod_tree("p", volumes=volumes))


@story(
    "scheduler_dra_bindingconditions_allocations_total",
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "dynamic_resource_allocation_resourceclaim_creates_total",
)
async def a_device_for_an_extended_resource_fails(world: World) -> None:
    group = "/apis/resource.k8s.io/v1"
    put(world.server, "nodes", node_tree("node"))
    stands_for = {"extendedResourceName": "example.com/gpu"}
    await world.create(f"{group}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": stands_for})
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    device = {"name": "gpu-0", "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    published = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node", "devices": [device]}
    await world.create(f"{group}/resourceslices", {"metadata": {"name": "node"}, "spec": published})
    claims = world.app.parts.informers[RESOURCE_CLAIMS].store
    await world.until_true(lambda: bool(world.app.parts.assembly.cache.devices.slices()))
    put(world.server, "pods", pod_tree("p", requests={"cpu": "1", "example.com/gpu": "1"}))
    await world.until_true(lambda: any(claim.status.allocation for claim in claims.list()))
    (claim,) = claims.list()
    said = {"type": "Broken", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": BEFORE}
    status = {"devices": [{"driver": "gpu.example.com", "pool": "node", "device": "gpu-0", "conditions": [said]}]}
    path = f"{group}/namespaces/default/resourceclaims/{claim.metadata.name}/status"
    await world.app.parts.client.patch(path, json.dumps({"status": status}).encode(), MERGE)


@story("kscheduler_decisions_over_budget_total")
async def a_pod_takes_too_long_to_decide_about(world: World) -> None:
    def ends(*_: object) -> NoReturn:
        raise StatusError("the decision about this pod was ended", Fault.OVER_BUDGET)

    put(world.server, "nodes", node_tree("node"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(NodeAffinity, "pre_filter", ends)
        put(world.server, "pods", pod_tree("giant", nodeSelector={"disk": "ssd"}))
        await world.until_true(lambda: world.app.parts.observations.decisions_over_budget[()] > 0)


@story(
    "kscheduler_claim_errors_total",
    "kscheduler_gated_pods",
    "kscheduler_device_pools",
    "kscheduler_devices",
    "kscheduler_extended_resources",
)
async def a_claim_asks_for_an_attribute_that_no_device_has(world: World) -> None:
    group = "/apis/resource.k8s.io/v1"
    gpus: dict[str, Any] = {"nvidia.com/gpu": "8"}
    put(world.server, "nodes", node_tree("node", **gpus))
    await world.create(f"{group}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    for name, slices in (("whole", 1), ("half", 2)):
        pool = {"name": name, "generation": 1, "resourceSliceCount": slices}
        spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node", "devices": [{"name": "gpu-0"}]}
        await world.create(f"{group}/resourceslices", {"metadata": {"name": name}, "spec": spec})
    await world.until_true(lambda: len(world.app.parts.assembly.cache.devices.slices()) == 2)
    for name, claim in (("typo", "odd"), ("gated", "missing")):
        put(world.server, "pods", pod_tree(name, resourceClaims=[{"name": "c", "resourceClaimName": claim}]))
    selector = {"cel": {"expression": 'device.attributes["gpu.example.com"].modell == "x"'}}
    exactly = {"deviceClassName": "gpu", "selectors": [selector]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    await world.create(f"{group}/namespaces/default/resourceclaims", {"metadata": {"name": "odd"}, "spec": spec})
    errors = world.app.parts.observations.claim_errors
    await world.until_true(lambda: errors[()] > 0)


@story(
    "kscheduler_node_resources",
    "kscheduler_class_devices",
    "kscheduler_unusable_resources",
    "kscheduler_unusable_devices",
    options=lambda: plain(HastyClock()),
)
async def free_devices_are_of_no_use(world: World) -> None:
    group = "/apis/resource.k8s.io/v1"
    put(world.server, "nodes", node_tree("node", cpu="2"))
    await world.create(f"{group}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    published = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node", "devices": [{"name": "gpu-0"}]}
    await world.create(f"{group}/resourceslices", {"metadata": {"name": "node"}, "spec": published})
    wanted = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    await world.create(f"{group}/namespaces/default/resourceclaims", {"metadata": {"name": "gpu"}, "spec": wanted})
    claims = [{"name": "c", "resourceClaimName": "gpu"}]
    put(world.server, "pods", pod_tree("large", requests={"cpu": "3"}, resourceClaims=claims))


# --- the API server ---------------------------------------------------------------------------------------------------


def repairing() -> Options:
    """Overcommitted nodes are looked for often, and repaired."""
    return msgspec.structs.replace(plain(HastyClock()), repairs_overcommitted_nodes=True)


@story(
    "kscheduler_node_overfills_total",
    "kscheduler_overfill_evictions_total",
    "kscheduler_overfilled_nodes",
    "kscheduler_pods_bound_by_others_total",
    options=repairing,
)
async def another_scheduler_fills_a_node_and_takes_a_pod_of_ours(world: World) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-of-web", "controller": True}
    await world.until_true(lambda: world.app.http_app.is_scheduling)
    put(world.server, "nodes", node_tree("node"))
    put(
        world.server,
        "pods",
        pod_tree("p", requests={"cpu": "3"}, metadata={"ownerReferences": [owner]}, terminationGracePeriodSeconds=0),
    )
    await until(world.server, lambda: node_of(world.server, "p") == "node")
    world.server.faults.add(InjectedFault("delay", method="POST", path="*/eviction", seconds=0.3))  # to be seen
    # no room for it, so it waits until somebody else binds it
    put(world.server, "pods", pod_tree("q", requests={"cpu": "2"}))
    await world.until_true(lambda: world.app.parts.assembly.queue.statistics().unschedulable == 1)
    put(world.server, "pods", pod_tree("q", node="node", requests={"cpu": "2"}))
    await until(world.server, lambda: world.server.store.get("pods", "default", "p") is None)


@story("kscheduler_bind_conflicts_total", "kscheduler_binds_settled_total")
async def the_answer_to_a_binding_is_lost(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    world.server.faults.add(InjectedFault("apply_then_reset", method="POST", path=BINDING, count=1))
    put(world.server, "pods", pod_tree("p"))
    await until(world.server, lambda: node_of(world.server, "p") == "node")


@story(
    "workqueue_adds_total",
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_queue_duration_seconds",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
    "workqueue_work_duration_seconds",
)
async def events_queue_up_and_are_tried_again(world: World) -> None:
    world.server.faults.add(InjectedFault("answer", method="POST", path="*/events", code=500, count=1))
    world.server.faults.add(InjectedFault("delay", method="POST", path="*/events", seconds=0.5))
    put(world.server, "nodes", node_tree("node", cpu="100"))
    for number in range(100):
        put(world.server, "pods", pod_tree(f"p{number}"))
    await until(world.server, lambda: bool(node_of(world.server, "p99")))


@story("kscheduler_hanging_writes")
async def bindings_hang(world: World) -> None:
    world.app.parts.hanging_writes.long_seconds = 0.1
    world.server.faults.add(InjectedFault("delay", method="POST", path="*/binding", seconds=3.0, count=1))
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("p"))


@story("kscheduler_rest_client_retries_total", "kscheduler_rest_client_throttled_total")
async def the_api_server_asks_for_patience(world: World) -> None:
    world.server.faults.add(
        InjectedFault("answer", method="POST", path="*/events", code=429, retry_after_seconds=1, count=1)
    )
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("p"))
    await until(world.server, lambda: node_of(world.server, "p") == "node")


@story(
    "kscheduler_api_server_outages_total",
    "kscheduler_api_server_unauthorized_seconds",
    "kscheduler_api_server_unreachable_seconds",
    options=lambda: plain(HastyClock()),
)
async def the_api_server_fails_and_refuses_us(world: World) -> None:
    def now() -> ReachabilityStatistics:
        return world.app.parts.reachability.statistics(world.app.parts.clock.monotonic())

    world.server.faults.add(InjectedFault("answer", code=500))
    world.server.faults.drop_watches()
    await world.until_true(lambda: now().unreachable_seconds > 0)
    await asyncio.sleep(0.1)  # a moment in which pages are taken
    world.server.faults.clear()
    world.server.faults.add(InjectedFault("answer", code=401))
    world.server.faults.drop_watches()
    await world.until_true(lambda: now().unauthorized_seconds > 0)


@story(
    "kscheduler_objects_reread_total",
    "kscheduler_undecodable_objects",
    "kscheduler_watch_down_seconds",
    "kscheduler_watch_events_out_of_order_total",
    "kscheduler_watch_restarts_total",
    "kscheduler_watch_retry_seconds",
)
async def an_object_cannot_be_read_and_watches_end(world: World) -> None:
    broken = pod_tree("odd")
    broken["spec"]["nodeSelector"] = 5
    put(world.server, "pods", broken)
    informer = world.app.parts.informers.informer(PODS)
    await world.until_true(lambda: bool(informer.statistics().undecodable))
    await asyncio.sleep(0.1)  # a moment in which pages are taken
    world.server.faults.add(InjectedFault("lose_event", path="/api/v1/pods", count=1))
    put(world.server, "pods", pod_tree("odd"))
    await world.until_true(lambda: bool(informer.statistics().reread["read"]))
    late = msgspec.structs.replace(informer.store.list()[0].metadata, resource_version="1")
    informer.apply(WatchEvent("MODIFIED", msgspec.structs.replace(informer.store.list()[0], metadata=late)))
    world.server.faults.add(InjectedFault("answer", code=429, retry_after_seconds=1))
    world.server.faults.drop_watches()
    await asyncio.sleep(0.2)
    world.server.faults.clear()


class Clumsy:
    """An event handler with a bug."""

    def on_add(self, obj: object, initial: bool) -> None:
        raise RuntimeError("a bug in a handler")

    def on_update(self, old: object, new: object) -> None:
        """Nothing."""

    def on_delete(self, obj: object) -> None:
        """Nothing."""


@story("kscheduler_informer_handler_errors_total")
async def a_handler_has_a_bug(world: World) -> None:
    world.app.parts.informers.informer(PODS).add_handler(Clumsy())
    put(world.server, "pods", pod_tree("p"))


@story("kscheduler_events_dropped_total", "kscheduler_events_failed_total", "kscheduler_events_patched_total")
async def events_are_many_refused_and_repeated(world: World) -> None:
    recorder, pod = world.app.parts.recorder, make_pod("p")

    def record(note: str) -> None:
        recorder.record(
            pod, type="Normal", reason="Told", action="Telling", note=note, reporting_controller="kscheduler"
        )

    world.server.faults.add(InjectedFault("delay", method="POST", path="*/events", seconds=0.1, count=1))
    record("twice")
    await asyncio.sleep(0.02)
    record("twice")  # while the first is on its way: the server is told the count afterwards
    await world.until_true(lambda: recorder.statistics().patched > 0)
    world.server.faults.add(InjectedFault("answer", method="POST", path="*/events", code=422))
    for number in range(10_100):
        record(f"note {number}")


def summing() -> Options:
    """Of bound pods only their owners have Events."""
    return msgspec.structs.replace(plain(HastyClock()), scheduled_events="summed")


@story("kscheduler_scheduled_events_omitted_total", options=summing)
async def pods_of_a_job_are_bound_and_their_events_are_summed(world: World) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "sums", "uid": "uid-of-sums", "controller": True}
    put(world.server, "nodes", node_tree("node"))
    for name in ("p", "q"):
        put(world.server, "pods", pod_tree(name, metadata={"ownerReferences": [owner]}))
    await world.until_true(lambda: world.app.parts.recorder.statistics().sent == 1)
    [event] = [record.value for record in world.server.store.collection("events").records.values()]
    assert event["message"].startswith("Successfully assigned 2 pods to 1 node, the last one default/")
    assert event["involvedObject"]["uid"] == "uid-of-sums"


# --- truth ------------------------------------------------------------------------------------------------------------


class MendsNothing:
    """What a repair that does not help looks like."""

    def mend(self, drift: object) -> None:
        """Nothing."""


@story(
    "kscheduler_cache_checks_total",
    "kscheduler_cache_drift_objects_total",
    "kscheduler_cache_drift_unmended_total",
    options=lambda: plain(HastyClock()),
)
async def the_cache_forgets_a_pod(world: World) -> None:
    world.app.parts.drift_detection.check._mender = MendsNothing()  # type: ignore[assignment]
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("p", node="node"))
    await world.until_true(lambda: world.app.parts.assembly.cache.statistics().pods == 1)
    world.app.parts.assembly.cache.remove_pod("uid-of-p")


@story("kscheduler_store_audits_total", "kscheduler_store_drift_objects_total", options=lambda: plain(HastyClock()))
async def the_watch_loses_a_deletion(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("old", node="node"))
    await world.until_true(lambda: world.app.parts.assembly.cache.statistics().pods == 1)
    world.server.faults.add(InjectedFault("lose_event", path="/api/v1/pods", count=1))
    world.server.store.remove("pods", ("default", "old"))
    put(world.server, "pods", pod_tree("other", requests={"cpu": "500"}))


# --- the configuration ------------------------------------------------------------------------------------------------


def with_file() -> Options:
    file = Path(tempfile.mkdtemp()) / "config.yaml"
    file.write_text(json.dumps({**KIND, "leaderElection": {"leaderElect": False}}))
    return Options(load_file(file), source_of(str(file)), serving=HTTPServing.plain_on_loopback(), clock=HastyClock())


@story(
    "kscheduler_config_reload_info",
    "kscheduler_config_reload_last_success_timestamp_seconds",
    "kscheduler_config_reload_last_successful",
    "kscheduler_config_reloads_total",
    "kscheduler_unserved_pods",
    options=with_file,
)
async def the_configuration_is_changed_and_then_broken(world: World) -> None:
    source = world.app.reloader._source
    assert source is not None
    file = Path(source.path)
    put(world.server, "pods", pod_tree("p", schedulerName="default-scheduler"))
    await world.until_true(lambda: world.app.parts.assembly.queue.find("default/p") is not None)
    changed = {"parallelism": 3, "profiles": [{"schedulerName": "another"}]}
    for text in (json.dumps({**KIND, "leaderElection": {"leaderElect": False}, **changed}), "{"):
        file.write_text(text)  # noqa: ASYNC240  # a few bytes
        before = sum(world.app.reloader.statistics().results.values())
        await world.until_true(lambda: sum(world.app.reloader.statistics().results.values()) > before)  # noqa: B023


def fits_1_36_only(version: str, _data: bytes) -> NoReturn:
    raise config_error("", f"nothing here fits {version}")


@story(
    "kscheduler_kubernetes_version_followed",
    "kscheduler_kubernetes_version_info",
    options=lambda: msgspec.structs.replace(plain(), read_under=fits_1_36_only),
)
async def the_api_server_is_upgraded_beyond_the_configuration(world: World) -> None:
    world.app.parts.server_version.learn("v1.38.0")


# --- the process ------------------------------------------------------------------------------------------------------


@story(
    "kscheduler_http_connections",
    "kscheduler_http_connections_closed_total",
    "kscheduler_http_malformed_requests_total",
    "process_open_fds",
)
async def clients_misbehave(world: World) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.app.server.port)
    await world.until_true(lambda: world.app.server.connections > 0)
    await world.raw(b"GET / HTTP/1.1\r\n\r\n")
    await world.raw(b"X" * 20_000)
    exposition = world.app.http_app.exposition
    pages = exposition.renderings
    await world.until_true(lambda: exposition.renderings > pages + 1)  # somebody has seen it
    writer.transport.abort()
    del reader


@story(
    "leader_election_master_status",
    "leader_election_slowpath_total",
    "kscheduler_leader_election_renewal_age_seconds",
    "kscheduler_leader_election_transitions",
    "kscheduler_fenced_writes_total",
    options=electing,
    from_start=True,
)
async def somebody_edits_the_lease(world: World) -> None:
    election, leadership = world.app.parts.election, world.app.parts.leadership
    assert election is not None
    assert leadership is not None
    with suppress(FencedError):  # it does not lead yet, or it does: then the next line is there for it
        await leadership.fence.refused("POST /x")
    await world.until_true(lambda: election.statistics().role is Role.LEADING)
    lease = world.server.store.get("leases.coordination.k8s.io", "kube-system", "kscheduler")
    assert lease is not None
    edited = {**lease.value, "spec": {**lease.value["spec"], "leaseTransitions": 7}}
    world.server.store.put("leases.coordination.k8s.io", edited)  # the next renewal meets another version: 409
    await world.until_true(lambda: election.statistics().slow_renewals > 0)


@story(
    "apiserver_client_certificate_expiration_seconds",
    "apiserver_delegated_authn_request_duration_seconds",
    "apiserver_delegated_authn_request_total",
    "apiserver_delegated_authz_request_duration_seconds",
    "apiserver_delegated_authz_request_total",
    "authenticated_user_requests",
    "authentication_attempts",
    "authentication_duration_seconds",
    "authentication_token_cache_active_fetch_count",
    "authentication_token_cache_fetch_total",
    "authentication_token_cache_request_total",
    "authorization_attempts_total",
    "authorization_duration_seconds",
    "kscheduler_http_requests_refused_total",
    "kscheduler_http_turns_delayed_total",
    options=with_login,
)
async def clients_log_in(world: World) -> None:
    world.server.faults.add(InjectedFault("delay", path="/apis/*reviews", seconds=0.3))
    url = f"https://127.0.0.1:{world.app.server.port}/configz"
    context = CLIENTS.client("jane").client_context(Path(FOLDER.name))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session, session.get(url):
        pass
    await asyncio.gather(*(_ask_often(url, f"127.0.0.{number}") for number in range(1, 6)))


async def _ask_often(url: str, source: str) -> None:
    """More than one address may, and with a token that is worth nothing."""
    connector = aiohttp.TCPConnector(ssl=trusting(), local_addr=(source, 0))
    async with aiohttp.ClientSession(connector=connector, headers={"Authorization": f"Bearer {source}"}) as session:
        for answer in await asyncio.gather(*(session.get(url) for _ in range(30)), return_exceptions=True):
            if isinstance(answer, aiohttp.ClientResponse):
                answer.close()


@story(
    "kscheduler_questions_total",
    "kscheduler_question_seconds_total",
    "kscheduler_question_copies_total",
    "kscheduler_question_pause_seconds_total",
    "kscheduler_questions_waiting",
)
async def somebody_asks(world: World) -> None:
    queried = [world.app.http_app.queries.simulate(b"{}") for _ in range(3)]
    assert {answer.status for answer in await asyncio.gather(*queried)} == {200}


@story(
    "kscheduler_serving_certificate_expiration_timestamp_seconds",
    "kscheduler_serving_certificate_reloads_total",
    options=with_login,
)
async def the_certificate_is_renewed(world: World) -> None:
    login = world.app.http_app.login
    assert login is not None
    CLIENTS.serving("localhost", days=9).write(Path(FOLDER.name), "tls")
    login.contexts.look()
    await login.contexts.find_end()


@story("process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes")
async def the_process_takes_memory_and_time(world: World) -> None:
    world.keep.append(bytearray(b"x") * (128 << 20))
    sum(range(3_000_000))


@story("process_max_fds")
async def the_limit_of_files_is_changed(world: World) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    await asyncio.sleep(0.05)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    await asyncio.sleep(0.5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- the flight recorder ----------------------------------------------------------------------------------------------


@story(
    "kscheduler_recorder_entries_total",
    "kscheduler_recorder_decisions_total",
    "kscheduler_recorder_written_bytes_total",
    "kscheduler_recorder_segments_total",
    options=recording,
    from_start=True,
)
async def decisions_are_recorded(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    put(world.server, "pods", pod_tree("recorded"))


@story(
    "kscheduler_recorder_failures_total",
    "kscheduler_recorder_lost_entries_total",
    "kscheduler_recorder_recording",
    options=recording_where_it_goes,
)
async def nothing_can_be_recorded(world: World) -> None:
    put(world.server, "nodes", node_tree("node"))
    while not list(GOES.glob("*")):  # noqa: ASYNC110  # a directory tells nobody
        await asyncio.sleep(0.005)
    shutil.rmtree(GOES)
    put(world.server, "pods", pod_tree("not-recorded"))
