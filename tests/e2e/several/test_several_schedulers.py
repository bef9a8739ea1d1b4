"""kscheduler beside the real kube-scheduler 1.36, which gives the same room away: on a real API server.

The race is made to happen: kube-scheduler has decided, and its Binding waits in a proxy until kscheduler has placed a
pod of its own on the same node. The kubelet of that node is late: it takes no pod up, and ends those that are deleted.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import kscheduler_process, kube_scheduler, kubeconfig
from tests.controlplane.controlplane import NAMESPACE, SERVICE_ACCOUNT
from tests.controlplane.hollow_kubelets import pod_path, running_status
from tests.controlplane.pod_watch import PodWatch
from tests.controlplane.process import Process, wait_until
from tests.controlplane.rest import STRATEGIC_PATCH, Api, Object
from tests.e2e.conftest import clean
from tests.e2e.servers import NAME, RealServer, Server
from tests.e2e.write_proxy import Write, WriteProxy

THEIRS = "default-scheduler"
SECONDS = 30.0
RIGHT = "kscheduler-evicts-unstarted-pods"

pytestmark = pytest.mark.usefixtures("only_kscheduler")


class LateKubelets(PodWatch):
    """Kubelets that start nothing, and end what is deleted."""

    def __init__(self, api: Api) -> None:
        super().__init__(api, "late-kubelets")

    def seen(self, pod: Object) -> None:
        if pod["spec"].get("nodeName") and pod["metadata"].get("deletionTimestamp"):
            self.api.delete(pod_path(pod), grace_seconds=0, missing_ok=True)

    def deleted(self, pod: Object) -> None:
        """Nothing is left to do."""


@dataclass
class Race:
    """A cluster with two schedulers; the Bindings of kube-scheduler wait until they are let go."""

    server: RealServer
    namespace: str
    folder: Path
    proxy: WriteProxy
    released: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    processes: list[Process] = field(default_factory=list)

    def hold(self, write: Write) -> None:
        """Called in the thread of each write of kube-scheduler."""
        if write.kind == "binding":
            self.held.set()
            assert self.released.wait(SECONDS)

    @property
    def api(self) -> Api:
        return self.server.api

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def add_node(self, name: str) -> None:
        gives = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"capacity": gives, "allocatable": gives, "conditions": conditions}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        self.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})

    def spec(self, scheduler: str, cpu: str) -> Object:
        container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
        return {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 1}

    def add_theirs(self, name: str = "theirs", cpu: str = "2", scheduler: str = THEIRS) -> None:
        metadata = {"name": name, "namespace": self.namespace}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.spec(scheduler, cpu)}
        self.api.create(self.pods_path, pod)

    def add_ours(self, cpu: str = "3") -> None:
        """A ReplicaSet of one pod."""
        labels = {"app": "ours"}
        template = {"metadata": {"labels": labels}, "spec": self.spec(NAME, cpu)}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        whole = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "ours"}, "spec": spec}
        self.api.create(f"/apis/apps/v1/namespaces/{self.namespace}/replicasets", whole)

    def ours(self) -> list[Object]:
        """The ReplicaSet's pods that are not on their way out."""
        found = self.api.items(self.pods_path, labelSelector="app=ours")
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def our_place(self) -> tuple[str, str]:
        """UID and node of our pod; empty while there is none."""
        pods = self.ours()
        return (pods[0]["metadata"]["uid"], pods[0]["spec"].get("nodeName", "")) if pods else ("", "")

    def wait(self, what: str, condition: Callable[[], object]) -> None:
        wait_until(what, condition, SECONDS)

    def start_kube_scheduler(self, scheduler_name: str = THEIRS) -> None:
        config = kubeconfig.write(self.folder / "proxied.json", server=self.proxy.url)
        started = kube_scheduler.process(self.server.plane.binaries, config, self.folder, scheduler_name)
        started.start()
        self.processes.append(started)

    def start_kscheduler(self, *options: str, behind: WriteProxy | None = None) -> Process:
        identity, folder = self.server.identity("kscheduler"), self.folder / "kscheduler"
        if behind is not None:
            identity = kubeconfig.write(self.folder / "behind-proxy.json", server=behind.url)
        started = kscheduler_process.process(identity, folder, *options, scheduler_name=NAME)
        started.start()
        self.processes.append(started)
        started.wait_until("it schedules", lambda: self.lines(started, "scheduling"), SECONDS)
        return started

    def lines(self, process: Process, message: str) -> list[dict[str, Any]]:
        return [line for line in kscheduler_process.log_lines(process) if line.get("msg") == message]

    def overcommit(self, process: Process) -> str:
        """Node `a` of 4 cpu gets 3 cpu from us and 2 from kube-scheduler. Returns the UID of our pod."""
        self.add_node("a")
        self.add_theirs()
        assert self.held.wait(SECONDS), "kube-scheduler decides"
        self.add_ours()
        process.wait_until("ours is bound", lambda: self.our_place()[1] == "a", SECONDS)
        uid, _ = self.our_place()
        self.release()
        return uid

    def release(self) -> None:
        self.released.set()
        path = f"{self.pods_path}/theirs"
        self.wait("theirs is bound", lambda: self.api.get(path)["spec"].get("nodeName"))

    def requested_on(self, node: str) -> int:
        """Cpu of the pods on the node, whole ones."""
        pods = self.api.items(self.pods_path, fieldSelector=f"spec.nodeName={node}")
        return sum(int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for pod in pods)


@pytest.fixture
def race(server: Server, namespace: str, tmp_path: Path) -> Iterator[Race]:
    if not isinstance(server, RealServer):
        pytest.skip("kube-scheduler needs a real API server")
    with WriteProxy(server.plane.kube_scheduler_kubeconfig) as proxy, LateKubelets(server.api):
        made = Race(server, namespace, tmp_path, proxy)
        proxy.before = made.hold
        try:
            yield made
        finally:
            made.released.set()
            for process in made.processes:
                process.kill()
            sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets/ours"
            server.api.delete(sets, missing_ok=True)
            clean(server, namespace)


@pytest.fixture
def may_evict(race: Race) -> Iterator[None]:
    """The right that the chart grants where the repair is on."""
    kubectl = race.server.plane.kubectl
    kubectl("create", "clusterrole", RIGHT, "--verb=create", "--resource=pods/eviction")
    account = f"--serviceaccount={NAMESPACE}:{SERVICE_ACCOUNT}"
    kubectl("create", "clusterrolebinding", RIGHT, f"--clusterrole={RIGHT}", account)
    yield
    kubectl("delete", "clusterrolebinding", RIGHT)
    kubectl("delete", "clusterrole", RIGHT)


def test_a_race_with_kube_scheduler_is_reported_and_left_to_the_kubelet(race: Race) -> None:
    race.start_kube_scheduler()
    kscheduler = race.start_kscheduler()
    uid = race.overcommit(kscheduler)
    kscheduler.wait_until("it is noticed", lambda: race.lines(kscheduler, "node_overfilled"), SECONDS)
    (line,) = race.lines(kscheduler, "node_overfilled")
    assert (line["node"], line["resource"], line["excess"]) == ("a", "cpu", "1000m")
    assert (line["cause"], line["schedulers"]) == ("another_scheduler", [THEIRS])
    assert line["latest"] == [f"{race.namespace}/theirs"]
    kubectl = race.server.plane.kubectl
    race.wait("the node's Event", lambda: "NodeOverfilled" in kubectl("describe", "node", "a"))
    assert race.our_place() == (uid, "a"), "nothing is evicted by default"
    # the kubelet comes, and rejects the second pod
    refused = {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}}
    race.api.patch(f"{race.pods_path}/theirs/status", refused, STRATEGIC_PATCH)
    kscheduler.wait_until("the end", lambda: race.lines(kscheduler, "node_overfilled_ended"), SECONDS)
    assert race.our_place() == (uid, "a")


@pytest.mark.usefixtures("may_evict")
def test_our_pod_that_has_not_started_gives_way_and_comes_back_elsewhere(race: Race) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "ours"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "ours"}}},
    }  # which protects no pod that is Pending
    race.api.create(f"/apis/policy/v1/namespaces/{race.namespace}/poddisruptionbudgets", budget)
    race.start_kube_scheduler()
    kscheduler = race.start_kscheduler("--repair-overfilled-nodes")
    uid = race.overcommit(kscheduler)
    kscheduler.wait_until("it is evicted", lambda: race.our_place()[0] not in ("", uid), SECONDS)
    kscheduler.wait_until("the end", lambda: race.lines(kscheduler, "node_overfilled_ended"), SECONDS)
    assert race.our_place()[1] == "", "its room is not given to the next one: there is too little"
    assert race.requested_on("a") == 2
    race.add_node("b")
    kscheduler.wait_until("it comes back", lambda: race.our_place()[1] == "b", SECONDS)
    (line,) = race.lines(kscheduler, "pod_evicted_from_overfilled_node")
    assert line["uid"] == uid
    assert race.lines(kscheduler, "overfill_not_repaired") == []


@pytest.mark.usefixtures("may_evict")
def test_a_pod_that_runs_by_then_stays(race: Race) -> None:
    race.start_kube_scheduler()
    kscheduler = race.start_kscheduler("--repair-overfilled-nodes")
    race.add_node("a")
    race.add_theirs()
    assert race.held.wait(SECONDS)
    race.add_ours()
    kscheduler.wait_until("ours is bound", lambda: race.our_place()[1] == "a", SECONDS)
    uid, _ = race.our_place()
    (pod,) = race.ours()
    race.api.patch(f"{pod_path(pod)}/status", {"status": running_status(pod, "10.0.0.1")}, STRATEGIC_PATCH)
    race.release()
    kscheduler.wait_until("it is noticed", lambda: race.lines(kscheduler, "node_overfilled"), SECONDS)
    race.add_node("b")
    race.add_theirs("marker", cpu="1", scheduler=NAME)  # a decision later, and then some rounds of the repair
    kscheduler.wait_until("the marker", lambda: race.api.get(f"{race.pods_path}/marker")["spec"].get("nodeName"), 30)
    assert race.our_place() == (uid, "a")
    assert race.lines(kscheduler, "pod_evicted_from_overfilled_node") == []


def test_without_the_right_to_evict_the_reason_is_logged_and_scheduling_goes_on(race: Race) -> None:
    race.start_kube_scheduler()
    kscheduler = race.start_kscheduler("--repair-overfilled-nodes")
    uid = race.overcommit(kscheduler)
    kscheduler.wait_until("a refusal", lambda: race.lines(kscheduler, "overfill_not_repaired"), SECONDS)
    (line,) = race.lines(kscheduler, "overfill_not_repaired")
    assert line["result"] == "failed"
    assert 'cannot create resource "pods/eviction"' in line["err"]
    race.add_node("b")
    race.add_theirs("marker", cpu="1", scheduler=NAME)
    kscheduler.wait_until("the marker", lambda: race.api.get(f"{race.pods_path}/marker")["spec"].get("nodeName"), 30)
    assert race.our_place() == (uid, "a")


def test_a_kube_scheduler_that_serves_our_name_is_noticed(race: Race) -> None:
    race.released.set()  # not kube-scheduler is held up, but we are, until it has bound the pod to the only node

    def after_the_other(write: Write) -> None:
        if write.kind == "binding":
            path = write.path.removesuffix("/binding")
            race.wait("kube-scheduler binds it", lambda: race.api.get(path)["spec"].get("nodeName"))

    with WriteProxy(race.server.identity("kscheduler")) as slow:
        slow.before = after_the_other
        kscheduler = race.start_kscheduler(behind=slow)
        race.start_kube_scheduler(NAME)
        race.add_node("a")
        race.add_theirs("p", scheduler=NAME)
        kscheduler.wait_until("a warning", lambda: race.lines(kscheduler, "pods_bound_by_another_scheduler"), SECONDS)
        (line,) = race.lines(kscheduler, "pods_bound_by_another_scheduler")
        assert (line["scheduler"], line["node"], line["pod"]) == (NAME, "a", f"{race.namespace}/p")
        kscheduler.kill()
