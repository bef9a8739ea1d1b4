"""Hollow kubelets: sums of their own, and what they report over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.aio import BackgroundService, VirtualClock, running
from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.machinery.resources import BY_KEY, NODES, PODS
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.embedded.hollow.heartbeats import HeartbeatRates
from kscheduler.embedded.hollow.kubelet_state import Deed, KubeletState
from kscheduler.embedded.hollow.kubelets import (
    EXIT_CODE,
    HELM_HOOK,
    RUN_SECONDS,
    HollowKubelets,
    hollow_kubelets,
    run_seconds,
)
from kscheduler.embedded.hollow.node_capacity import NodeCapacity, fits, needs_of, refusal
from kscheduler.embedded.objects.registry import NO_OPTIONS
from kscheduler.embedded.objects.subresources import bind
from kscheduler.framework.pods.requests import incoming_requests

Object = dict[str, Any]
GIBI = 2**30
NANO = 10**9


def container(name: str = "main", *, restart: str = "", ports: tuple[int, ...] = (), **requests: str) -> Object:
    made: Object = {"name": name, "image": "example/app:1", "resources": {"requests": requests}}
    if restart:
        made["restartPolicy"] = restart
    if ports:
        made["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    return made


def container_of(requests: Object) -> Object:
    return container(**requests)


def pod_tree(name: str = "pod", node: str = "", **spec: Any) -> Object:
    whole = {"containers": [container(cpu="1")], **spec, **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": whole}


def node_tree(name: str = "node-0", cpu: str = "4", **more: Any) -> Object:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10", "example.com/none": "0"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "addresses": [{"type": "InternalIP", "address": "172.16.0.9"}],
    }
    labels = {"kubernetes.io/hostname": name, "disk": "ssd"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status, **more}


def pod_of(name: str = "pod", node: str = "node-0", uid: str = "", **spec: Any) -> Pod:
    pod = convert(pod_tree(name, node, **spec), Pod)
    pod.metadata.uid = uid or f"uid-{name}"
    return pod


def room_of(*pods: Pod, **node: Any) -> NodeCapacity:
    room = NodeCapacity(convert(node_tree(**node), Node))
    for pod in pods:
        room.add(pod)
    return room


# --- sums -------------------------------------------------------------------------------------------------------------

SIDECAR = container("proxy", restart="Always", cpu="100m")
SUMS: list[Any] = [
    pytest.param({"containers": [container("a", cpu="1"), container("b", cpu="250m")]}, 1250, id="containers add up"),
    pytest.param({"initContainers": [container("i", cpu="3")]}, 3000, id="a greedy init container decides"),
    pytest.param({"initContainers": [container("i", cpu="200m")]}, 1000, id="a modest init container does not"),
    pytest.param({"initContainers": [SIDECAR, container("i", cpu="3")]}, 3100, id="a sidecar runs beside later inits"),
    pytest.param({"initContainers": [container("i", cpu="3"), SIDECAR]}, 3000, id="not beside earlier ones"),
    pytest.param({"initContainers": [SIDECAR]}, 1100, id="a sidecar runs beside the containers"),
    pytest.param({"overhead": {"cpu": "50m"}}, 1050, id="overhead comes on top"),
    pytest.param({"resources": {"requests": {"cpu": "2"}}}, 2000, id="pod-level requests replace the sum"),
    pytest.param({"containers": [container("a", cpu="0.0001")]}, 1, id="fractions of a thousandth round up"),
]


@pytest.mark.parametrize(("spec", "millis"), SUMS)
def test_a_pod_needs_the_greediest_moment_of_its_life(spec: Object, millis: int) -> None:
    needs = needs_of(pod_of(**spec))
    assert -(-needs["cpu"] // 10**6) == millis
    assert needs["pods"] == NANO


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu", "ephemeral-storage"]),
    st.sampled_from(["0", "1", "100m", "2500m", "1Gi", "3", "17"]),
    max_size=3,
)
containers = st.builds(lambda requests: container(**requests), amounts)
inits = st.builds(
    lambda requests, restart: container(restart=restart, **requests), amounts, st.sampled_from(["", "Always"])
)


@given(
    st.lists(containers, min_size=1, max_size=3),
    st.lists(inits, max_size=3),
    amounts,
    st.none() | st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "9Gi"]), min_size=1),
)
def test_two_independent_sums_agree(
    regular: list[Object], init: list[Object], overhead: Object, pod_level: Object | None
) -> None:
    """The kubelet's arithmetic and the scheduler's were written apart; they must never differ."""
    whole: Object = {"resources": {"requests": pod_level}} if pod_level else {}
    pod = pod_of(containers=regular, initContainers=init, overhead=overhead, **whole)
    shown = {name: -(-n // (10**6 if name == "cpu" else NANO)) for name, n in needs_of(pod).items() if name != "pods"}
    assert shown == dict(incoming_requests(pod))


def test_room_is_free_again_when_a_pod_has_gone() -> None:
    pod = pod_of(containers=[container(cpu="4", ports=(80,))])
    room = room_of(pod)
    assert room.lack_for(pod_of("next")) is not None
    room.remove(pod.metadata.uid)
    assert room.lack_for(pod_of("next")) is None
    assert room.collision_for(pod) is None
    assert room.share("cpu") == 0.0


def test_overcommitment_is_found_and_named() -> None:
    lacks = room_of(
        pod_of("a", containers=[container(cpu="3")]), pod_of("b", containers=[container(cpu="2")])
    ).overcommitted()
    assert [(one.resource, one.used, one.allocatable) for one in lacks] == [("cpu", 5000, 4000)]


# --- admission --------------------------------------------------------------------------------------------------------

FULL = [pod_of(f"small-{number}", containers=[container()]) for number in range(10)]
REFUSALS: list[Any] = [
    pytest.param([pod_of("big", containers=[container(cpu="3500m")])], {}, "OutOfcpu", id="cpu"),
    pytest.param([pod_of("big", containers=[container(memory="8Gi")])], {"memory": "1"}, "OutOfmemory", id="memory"),
    pytest.param(FULL, {}, "OutOfpods", id="number of pods"),
    pytest.param([], {"example.com/none": "1"}, "OutOfexample.com/none", id="a resource of which the node has none"),
]


@pytest.mark.parametrize(("there", "requests", "reason"), REFUSALS)
def test_a_kubelet_rejects_what_does_not_fit(there: list[Pod], requests: dict[str, str], reason: str) -> None:
    refused = refusal(pod_of("late", containers=[container_of(requests or {"cpu": "1"})]), room_of(*there))
    assert refused is not None
    assert refused.reason == reason
    assert "Node didn't have enough resource: " + reason.removeprefix("OutOf") in refused.message


def test_a_resource_that_the_node_does_not_name_is_the_schedulers_business_alone() -> None:
    pod = pod_of("licensed", containers=[container_of({"example.com/licence": "1"})])
    assert refusal(pod, room_of()) is None
    assert not fits(pod, room_of())


GPU = "example.com/gpu"
BY_CLASS = "deviceclass.resource.kubernetes.io/gpu.example.com"


def served(pod: Pod, *mappings: tuple[str, str]) -> Pod:
    """The pod, with devices for these resources of these containers."""
    requests = [
        {"containerName": name, "resourceName": resource, "requestName": f"request-{place}"}
        for place, (name, resource) in enumerate(mappings)
    ]
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "made", "requestMappings": requests}}
    pod.status = convert(status, type(pod.status))
    return pod


@pytest.mark.parametrize("resource", [GPU, BY_CLASS, "example.com/none"])
def test_a_resource_for_which_the_pod_has_devices_is_none_of_the_nodes(resource: str) -> None:
    pod = served(pod_of("late", containers=[container_of({resource: "2"})]), ("main", resource))
    assert refusal(pod, room_of()) is None
    assert room_of(pod).overcommitted() == []


@pytest.mark.parametrize("resource", [BY_CLASS, "example.com/none"])
def test_a_kubelet_rejects_devices_that_no_claim_has(resource: str) -> None:
    one, other = container_of({resource: "1"}), {**container_of({resource: "2"}), "name": "other"}
    without, half = pod_of("late", containers=[one]), pod_of("half", containers=[one, other])
    for pod, figure in ((without, "requested: 1,"), (served(half, ("main", resource)), "requested: 2,")):
        refused = refusal(pod, room_of())
        assert refused is not None
        assert refused.reason == f"OutOf{resource}"
        assert figure in refused.message


def test_devices_spare_a_pod_no_other_resource() -> None:
    pod = served(pod_of("late", containers=[container_of({BY_CLASS: "1", "cpu": "5"})]), ("main", BY_CLASS))
    refused = refusal(pod, room_of())
    assert refused is not None
    assert refused.reason == "OutOfcpu"
    mapped_cpu = served(pod_of("late", containers=[container(cpu="5")]), ("main", "cpu"))
    assert refusal(mapped_cpu, room_of()) is not None


def test_the_message_of_a_rejection_has_the_kubelets_figures() -> None:
    refused = refusal(pod_of("late"), room_of(pod_of("big", containers=[container(cpu="3500m")])))
    assert refused is not None
    assert refused.message == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 3500, capacity: 4000"
    )


def test_a_pod_that_asks_for_nothing_fits_on_an_overbooked_node() -> None:
    assert (
        refusal(pod_of("free", containers=[container()]), room_of(pod_of("big", containers=[container(cpu="9")])))
        is None
    )


RULES: list[Any] = [
    pytest.param({"nodeSelector": {"disk": "hdd"}}, {}, "NodeAffinity", id="nodeSelector"),
    pytest.param({"containers": [container(ports=(8080,))]}, {}, "NodePorts", id="host port"),
    pytest.param({}, {"spec": {"taints": [{"key": "gone", "effect": "NoExecute"}]}}, "TaintToleration", id="NoExecute"),
]


@pytest.mark.parametrize(("spec", "node", "reason"), RULES)
def test_a_kubelet_rejects_what_must_not_run_here(spec: Object, node: Object, reason: str) -> None:
    refused = refusal(pod_of("late", **spec), room_of(pod_of("web", containers=[container(ports=(8080,))]), **node))
    assert refused is not None
    assert refused.reason == reason


@pytest.mark.parametrize(("bound", "stays"), [("5", True), ("10", False)])
def test_a_kubelet_compares_numbers_of_taints(bound: str, stays: bool) -> None:
    room = room_of(spec={"taints": [{"key": "left", "value": "10", "effect": "NoExecute"}]})
    tolerant = pod_of(tolerations=[{"key": "left", "operator": "Gt", "value": bound, "effect": "NoExecute"}])
    assert (refusal(tolerant, room) is None) is stays
    assert fits(tolerant, room) is stays


def test_a_kubelet_accepts_on_a_cordoned_node_what_a_scheduler_must_not_place_there() -> None:
    room = room_of(spec={"unschedulable": True, "taints": [{"key": "dedicated", "effect": "NoSchedule"}]})
    assert refusal(pod_of(), room) is None
    assert not fits(pod_of(), room)
    assert fits(pod_of(tolerations=[{"operator": "Exists"}]), room)


# --- what to do next --------------------------------------------------------------------------------------------------


def status_running(pod: Pod) -> Pod:
    pod.status = convert({"phase": "Running"}, type(pod.status))
    return pod


def test_pods_that_run_already_are_adopted_before_others_are_judged() -> None:
    state = KubeletState()
    state.set_node(convert(node_tree(), Node))
    late = pod_of("late", containers=[container(cpu="1")])
    runs = status_running(pod_of("runs", containers=[container(cpu="4")]))
    tasks = state.see_all([late, runs])
    assert [(task.deed, task.pod.metadata.name) for task in tasks] == [(Deed.REJECT, "late")]
    assert state.holds("uid-runs")


def test_each_pod_is_judged_once() -> None:
    state = KubeletState()
    state.set_node(convert(node_tree(), Node))
    fitting, refused = pod_of("fits"), pod_of("late", containers=[container(cpu="9")])
    first = [state.see(fitting), state.see(refused)]
    assert [task.deed for task in first if task] == [Deed.RUN, Deed.REJECT]
    assert [state.see(fitting), state.see(refused)] == [None, None]


def test_a_pod_whose_node_is_unknown_or_has_a_real_kubelet_is_skipped() -> None:
    state = KubeletState(lambda node: node.metadata.name != "real")
    assert not state.set_node(convert(node_tree("real"), Node))
    assert state.see(pod_of(node="real")) is None
    assert state.see(pod_of(node="unknown")) is None
    assert len(state) == 0


def test_a_rejection_is_taken_back_when_the_watch_was_late() -> None:
    """Between two watches a pod went and another was bound in its place: the newcomer must not be rejected."""
    state = KubeletState()
    state.set_node(convert(node_tree(), Node))
    gone, newcomer = (
        pod_of("gone", containers=[container(cpu="4")]),
        pod_of("newcomer", containers=[container(cpu="4")]),
    )
    state.see(gone)
    task = state.see(newcomer)
    assert task is not None
    assert task.deed is Deed.REJECT
    state.keep_only("node-0", {newcomer.metadata.uid})
    again = state.judge(newcomer)
    assert again is not None
    assert again.deed is Deed.RUN


def test_a_jobs_pod_ends_after_a_time_drawn_from_the_seed() -> None:
    pod = pod_of()
    assert run_seconds(pod, 1) is None
    owned = convert({**pod_tree(), "metadata": {"uid": "u", "ownerReferences": [{"kind": "Job", "name": "sum"}]}}, Pod)
    seconds = run_seconds(owned, 1)
    assert seconds is not None
    assert 5 <= seconds <= 30
    assert seconds == run_seconds(owned, 1) != run_seconds(owned, 2)
    owned.metadata.annotations[RUN_SECONDS] = "2.5"
    assert run_seconds(owned, 1) == 2.5


def test_a_hook_of_helm_ends_since_helm_waits_for_it() -> None:
    hook = convert({**pod_tree(), "metadata": {"uid": "u", "annotations": {HELM_HOOK: "test"}}}, Pod)
    assert run_seconds(hook, 1) == 1.0
    hook.metadata.annotations[RUN_SECONDS] = "2.5"
    assert run_seconds(hook, 1) == 2.5


# --- over HTTP --------------------------------------------------------------------------------------------------------


class Cluster:
    """An embedded API server, and a way to wait for what it stores."""

    def __init__(self, server: EmbeddedAPIServer) -> None:
        self.server = server

    def add_node(self, **node: Any) -> None:
        self.server.registry.create(NODES, "", node_tree(**node))

    def add_pod(self, tree: Object) -> Object:
        return self.server.registry.create(PODS, "default", tree).value

    def bind(self, name: str, node: str = "node-0") -> None:
        bind(self.server.registry, "default", name, {"target": {"kind": "Node", "name": node}}, NO_OPTIONS)

    def status(self, name: str) -> Object:
        record = self.server.store.get(PODS.collection, "default", name)
        return {} if record is None else record.value["status"]

    async def until(self, holds: Callable[[], bool], collection: str = "pods") -> None:
        """Wait for changes until `holds`; ten seconds at most."""
        changed = asyncio.Event()
        self.server.store.subscribe(collection, lambda _: changed.set())
        async with asyncio.timeout(10):
            while not holds():
                changed.clear()
                await changed.wait()

    def set_ready(self, collection: str, namespace: str, name: str, status: str) -> None:
        record = self.server.store.get(collection, namespace, name)
        assert record is not None
        before = record.value["status"]
        others = [one for one in before.get("conditions", []) if one["type"] != "Ready"]
        after = {**before, "conditions": [*others, {"type": "Ready", "status": status}]}
        self.server.store.put(collection, {**record.value, "status": after})

    def is_ready(self, name: str) -> str:
        return next((one["status"] for one in self.status(name)["conditions"] if one["type"] == "Ready"), "")

    async def until_phase(self, name: str, phase: str) -> Object:
        await self.until(lambda: self.status(name).get("phase") == phase)
        return self.status(name)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with EmbeddedAPIServer(seed=1) as server:
        yield Cluster(server)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def kubelets(cluster: Cluster, clock: VirtualClock) -> AsyncIterator[HollowKubelets]:
    cluster.add_node()
    async with APIClient(plain_connection(cluster.server.url)) as client:
        played = HollowKubelets(client, clock=clock)
        async with running(BackgroundService("kubelets", played.run)):
            yield played


async def test_a_bound_pod_comes_to_run(cluster: Cluster, kubelets: HollowKubelets) -> None:
    sidecar, init = container("proxy", restart="Always"), container("migrate")
    cluster.add_pod(pod_tree("web", initContainers=[sidecar, init]))
    cluster.bind("web")
    status = await cluster.until_phase("web", "Running")
    true = {one["type"] for one in status["conditions"] if one["status"] == "True"}
    assert true == {"PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"}
    assert status["hostIP"] == "172.16.0.9"
    assert status["podIP"].startswith("10.128.")
    assert status["startTime"]
    assert [one["state"].popitem()[0] for one in status["initContainerStatuses"]] == ["running", "terminated"]
    assert [one["ready"] for one in status["containerStatuses"]] == [True]
    assert kubelets.statistics().running == 1


async def test_an_overbooked_node_rejects_the_pod_that_is_too_much(cluster: Cluster, kubelets: HollowKubelets) -> None:
    for name in ("first", "second"):
        cluster.add_pod(pod_tree(name, containers=[container(cpu="3")]))
        cluster.bind(name)
    status = await cluster.until_phase("second", "Failed")
    assert status["reason"] == "OutOfcpu"
    assert status["message"].endswith("cpu, requested: 3000, used: 3000, capacity: 4000")
    await cluster.until_phase("first", "Running")
    await kubelets.settle()
    assert (kubelets.statistics().rejected, kubelets.statistics().running) == (1, 1)


async def test_an_annotated_pod_succeeds_and_makes_room(
    cluster: Cluster, kubelets: HollowKubelets, clock: VirtualClock
) -> None:
    tree = pod_tree("job", containers=[container(cpu="4")])
    tree["metadata"]["annotations"] = {RUN_SECONDS: "60"}
    cluster.add_pod(tree)
    cluster.bind("job")
    await cluster.until_phase("job", "Running")
    assert await clock.next_sleep() == 60
    await clock.advance(59)
    assert cluster.status("job")["phase"] == "Running"
    await clock.advance(1)
    status = await cluster.until_phase("job", "Succeeded")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    cluster.add_pod(pod_tree("next", containers=[container(cpu="4")]))
    cluster.bind("next")
    await cluster.until_phase("next", "Running")
    await kubelets.settle()
    assert kubelets.statistics().finished == 1


async def test_a_terminating_pod_is_deleted_for_good(cluster: Cluster, kubelets: HollowKubelets) -> None:
    cluster.add_pod(pod_tree("web"))
    cluster.bind("web")
    await cluster.until_phase("web", "Running")
    async with APIClient(plain_connection(cluster.server.url)) as client:
        await client.delete("/api/v1/namespaces/default/pods/web")
    await cluster.until(lambda: cluster.server.store.get("pods", "default", "web") is None)
    await kubelets.settle()
    assert kubelets.statistics().removed == 1


async def test_a_node_that_comes_after_its_pod_runs_it(cluster: Cluster, kubelets: HollowKubelets) -> None:
    cluster.add_pod(pod_tree("early", node="node-1"))
    cluster.add_node(name="node-1")
    await cluster.until_phase("early", "Running")
    assert kubelets.statistics().nodes == 2


async def test_reports_are_sent_again_until_the_api_server_takes_them(
    cluster: Cluster, kubelets: HollowKubelets
) -> None:
    refused = InjectedFault("answer", method="PATCH", code=500, count=1)
    cut = InjectedFault("apply_then_reset", method="PATCH", count=1)
    for fault in (refused, cut):
        cluster.server.faults.add(fault)
    cluster.add_pod(pod_tree("web"))
    cluster.bind("web")
    await cluster.until_phase("web", "Running")
    await kubelets.settle()
    assert kubelets.statistics().started == 1
    assert (refused.count, cut.count) == (0, 0)


async def test_kubelets_that_start_late_adopt_what_runs(cluster: Cluster, clock: VirtualClock) -> None:
    cluster.add_node()
    cluster.add_pod(pod_tree("runs", containers=[container(cpu="3")]))
    cluster.bind("runs")
    async with APIClient(plain_connection(cluster.server.url)) as client:
        async with running(BackgroundService("kubelets", HollowKubelets(client, clock=clock).run)):
            await cluster.until_phase("runs", "Running")
        cluster.add_pod(pod_tree("late", containers=[container(cpu="3")]))
        cluster.bind("late")
        async with running(BackgroundService("kubelets", HollowKubelets(client, clock=clock).run)):
            assert (await cluster.until_phase("late", "Failed"))["reason"] == "OutOfcpu"
    assert cluster.status("runs")["phase"] == "Running"


async def test_nodes_renew_their_leases(cluster: Cluster) -> None:
    for number in range(3):
        cluster.add_node(name=f"node-{number}")
    leases = BY_KEY["leases.coordination.k8s.io"].collection
    rates = HeartbeatRates(lease_seconds=0.05, ready_seconds=0.05)

    def renewed() -> bool:
        records = [cluster.server.store.get(leases, "kube-node-lease", f"node-{number}") for number in range(3)]
        return all(
            one is not None and one.value["spec"]["renewTime"] != created.get(i) for i, one in enumerate(records)
        )

    created: dict[int, str] = {}
    async with hollow_kubelets(cluster.server.url, heartbeats=rates):
        await cluster.until(renewed, leases)
        for number in range(3):
            record = cluster.server.store.get(leases, "kube-node-lease", f"node-{number}")
            assert record is not None
            assert record.value["spec"]["holderIdentity"] == f"node-{number}"
            created[number] = record.value["spec"]["renewTime"]
        await cluster.until(renewed, leases)


async def test_a_pod_with_an_exit_code_fails(cluster: Cluster, kubelets: HollowKubelets, clock: VirtualClock) -> None:
    tree = pod_tree("bad")
    tree["metadata"]["annotations"] = {RUN_SECONDS: "5", EXIT_CODE: "3"}
    cluster.add_pod(tree)
    cluster.bind("bad")
    await cluster.until_phase("bad", "Running")
    await kubelets.settle()
    await clock.run_to_next()
    status = await cluster.until_phase("bad", "Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_pods_are_ready_again_when_their_node_is_back(cluster: Cluster, kubelets: HollowKubelets) -> None:
    cluster.add_pod(pod_tree("web"))
    cluster.bind("web")
    await cluster.until_phase("web", "Running")
    cluster.set_ready("nodes", "", "node-0", "False")
    cluster.set_ready("pods", "default", "web", "False")
    await kubelets.settle()
    assert cluster.is_ready("web") == "False"
    cluster.set_ready("nodes", "", "node-0", "True")
    await cluster.until(lambda: cluster.is_ready("web") == "True")
