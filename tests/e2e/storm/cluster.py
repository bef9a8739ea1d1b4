"""A cluster full of pods of priority 0, and a storm of pods of priority 100 that find no room.

Every node has four CPUs and four pods of one CPU each. A third of these pods are under budgets that allow no disruption
at all: all four of each sixth node (the guarded nodes), one of four on the nodes that are two to five after it, none on
the next. Preemptors ask for one, two or three CPUs in turn, and every 25th may run on guarded nodes only, so that for
it there is no choice but to break a budget. The preemptors need half the CPUs of the cluster at most, so that all find
room; how many pods must go is thereby fixed: as many as they ask CPUs.
"""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane import binaries, kscheduler_process, kube_scheduler, kubeconfig
from tests.controlplane.process import Process
from tests.controlplane.rest import Api, Object
from tests.e2e.audit import amounts
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME, Server
from tests.e2e.storm.audit import Place, Storm, audit
from tests.e2e.storm.history import History
from tests.e2e.write_proxy import WriteProxy

HIGH = 100
CPUS = 4
BUDGETS = 5
WRITERS = 8
PINNED_EVERY = 25
CLASS_NAME = "storm-high"
GUARDS = frozenset(f"budget-{number}" for number in range(BUDGETS))
# The Event of a victim; not every version of kube-scheduler fills in `related`.
REPORTED = re.compile(r"Preempted by pod (\S+) on node \S+")
GUARDED = {"guarded": "yes"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass(frozen=True)
class Size:
    """How large a storm is."""

    nodes: int
    preemptors: int


def guarded_slots(node: int) -> int:
    """How many of a node's four pods are under a budget."""
    return (4, 0, 1, 1, 1, 1)[node % 6]


def node(number: int) -> Object:
    name = f"node-{number}"
    capacity = {"cpu": str(CPUS), "memory": "8Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name} | (GUARDED if guarded_slots(number) == CPUS else {})
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def pod(name: str, namespace: str, cpus: int, labels: dict[str, str], **spec: object) -> Object:
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": str(cpus)}}}
    whole = {"schedulerName": NAME, "containers": [container], "terminationGracePeriodSeconds": 1} | spec
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def residents(size: Size, namespace: str) -> Iterator[Object]:
    """Four on each node, bound from the start."""
    for number in range(size.nodes):
        for slot in range(CPUS):
            guard = {"guard": f"budget-{number % BUDGETS}"} if slot < guarded_slots(number) else {}
            yield pod(f"low-{number}-{slot}", namespace, 1, {"app": "low"} | guard, nodeName=f"node-{number}")


def preemptors(size: Size, namespace: str) -> Iterator[Object]:
    """They come in this order."""
    for number in range(size.preemptors):
        pinned = {"nodeSelector": GUARDED} if number % PINNED_EVERY == 0 else {}
        cpus = 1 + number % 3
        yield pod(f"high-{number}", namespace, cpus, {"app": "high"}, priorityClassName=CLASS_NAME, **pinned)


def budget(name: str, namespace: str, pods: int) -> Object:
    spec = {"minAvailable": pods, "selector": {"matchLabels": {"guard": name}}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


class PreemptionStorm:
    """One storm in one scenario."""

    def __init__(self, scenario: Scenario, server: Server, size: Size) -> None:
        self.scenario = scenario
        self.server = server
        self.size = size
        self.deaths: list[float] = []
        self._budgets = f"/apis/policy/v1/namespaces/{scenario.namespace}/poddisruptionbudgets"

    def prepare(self) -> None:
        """The full cluster, all its pods running and all its budgets counted."""
        scenario, size = self.scenario, self.size
        create_all(scenario.api, "/api/v1/nodes", [node(number) for number in range(size.nodes)])
        low = list(residents(size, scenario.namespace))
        create_all(scenario.api, scenario.pods_path, low)
        guards = [one["metadata"]["labels"].get("guard") for one in low]
        for name in GUARDS:
            scenario.api.create(self._budgets, budget(name, scenario.namespace, guards.count(name)))
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": HIGH}
        if not scenario.api.answers(f"{CLASSES}/{CLASS_NAME}"):
            scenario.api.create(CLASSES, high | {"metadata": {"name": CLASS_NAME}})
        scenario.wait("all pods run, all budgets are counted", self._has_settled, 60 + size.nodes / 5)

    def _has_settled(self) -> bool:
        statuses = [one.get("status", {}) for one in self.scenario.api.items(self._budgets)]
        counted = all(one.get("currentHealthy") == one.get("desiredHealthy", 0) > 0 for one in statuses)
        return counted and all(one["status"].get("phase") == "Running" for one in self.scenario.pods())

    def watch(self) -> History:
        """A history that begins now."""
        return History(self.scenario.api, self.scenario.namespace, GUARDS)

    def scheduler(self, folder: Path, proxy: WriteProxy) -> Process:
        """The scheduler under test, not yet started, which reaches the API server through the proxy."""
        config = kubeconfig.write(folder / "by-way-of-proxy.json", server=proxy.url)
        if self.scenario.program == "kube-scheduler":
            process = kube_scheduler.process(binaries.find(), config, folder, NAME)
        else:
            process = kscheduler_process.process(config, folder, scheduler_name=NAME)
        self.scenario.processes.append(process)
        return process

    def proxy(self) -> WriteProxy:
        """One that speaks for the scheduler under test, and tells of the writes that a preemption consists of."""
        return WriteProxy(self.server.identity(self.scenario.program), preemption_writes)

    def run_until_killed(self, process: Process, seconds: float) -> int:
        """Starts it, and returns its exit code when it has been killed."""
        process.start()
        code = process.wait(seconds)
        self.deaths.append(time.monotonic())
        return code

    def break_out(self) -> None:
        """All preemptors come."""
        # One after the other: their order is part of the story.
        for one in preemptors(self.size, self.scenario.namespace):
            self.scenario.api.create(self.scenario.pods_path, one)

    def wait_over(self, seconds: float) -> None:
        """Every preemptor is bound and every victim is gone."""
        self.scenario.wait_bound(seconds=seconds)
        self.scenario.wait("no pod is terminating", lambda: not self._terminating(), 60)

    def _terminating(self) -> list[Object]:
        return [one for one in self.scenario.pods() if "deletionTimestamp" in one["metadata"]]

    def faults(self, history: History) -> list[str]:
        """What the audit finds."""
        nodes = self.scenario.api.items("/api/v1/nodes")
        places = [
            Place(one["metadata"]["name"], amounts(one["status"]["allocatable"]), one["metadata"]["labels"])
            for one in nodes
        ]
        return audit(Storm({one.name: one for one in places}, history.sights(), self.takers(), HIGH, self.deaths))

    def takers(self) -> dict[str, str]:
        """UID of each victim to the UID of who took it, as the victim's Event tells."""
        path = f"/api/v1/namespaces/{self.scenario.namespace}/events"
        reported = self.scenario.api.items(path, fieldSelector="reason=Preempted")
        return {one["involvedObject"]["uid"]: taker(one["message"]) for one in reported}

    def end(self) -> None:
        """Budgets stay behind otherwise: the namespace goes later."""
        for name in GUARDS:
            self.scenario.api.delete(f"{self._budgets}/{name}", missing_ok=True)


def preemption_writes(method: str, path: str, body: bytes) -> str:
    """`nomination`, `condition` of a victim, `deletion` and `binding`."""
    if method == "PATCH" and path.endswith("/status"):
        return "condition" if b"DisruptionTarget" in body else "nomination" if b'"nominatedNodeName":"' in body else ""
    if method == "DELETE" and "/pods/" in path:
        return "deletion"
    return "binding" if method == "POST" and path.endswith("/binding") else ""


def taker(message: str) -> str:
    """UID of the preemptor that the Event of a victim names."""
    found = REPORTED.match(message)
    assert found, f"not the Event of a victim: {message!r}"
    return found[1]


def create_all(api: Api, path: str, objects: list[Object]) -> None:
    def create_share(first: int) -> None:
        for one in objects[first::WRITERS]:
            api.create(path, one)
        api.close()

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(create_share, range(WRITERS)))
