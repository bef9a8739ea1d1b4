"""The vocabulary of the scenarios: nodes, pods, a scheduler as a process, and waiting for what must happen.

A scenario has the cluster's nodes and a namespace to itself. It waits by asking again until a deadline, never by
sleeping for a while and hoping. At its end the audit asks the API server whether the three promises hold.
"""

import itertools
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from tests.controlplane import kscheduler_process
from tests.controlplane.process import POLL_SECONDS, NotReadyError, Process, wait_until
from tests.controlplane.rest import STRATEGIC_PATCH, Object
from tests.e2e.audit import condition_text, forgotten, name_of, overcommitted
from tests.e2e.recorder import Recorder
from tests.e2e.servers import NAME, Server

SECONDS = 30.0
STOP_SECONDS = 15.0
PROCESS_NUMBERS = itertools.count(1)
HOSTNAME = "kubernetes.io/hostname"


class Scenario:
    """One test's cluster."""

    def __init__(self, server: Server, recorder: Recorder, namespace: str, program: str, folder: Path) -> None:
        self.server = server
        self.api = server.api
        self.recorder = recorder
        self.namespace = namespace
        self.program = program
        self.processes: list[Process] = []
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self._folder = folder
        self._removed_nodes: set[str] = set()

    # Nodes

    def add_node(
        self,
        name: str,
        *,
        cpu: str = "4",
        memory: str = "8Gi",
        pods: str = "110",
        labels: Mapping[str, str] | None = None,
        taints: list[Object] | None = None,
    ) -> None:
        """A ready node."""
        capacity = {"cpu": cpu, "memory": memory, "pods": pods}
        metadata = {"name": name, "labels": {HOSTNAME: name} | dict(labels or {})}
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"capacity": capacity, "allocatable": capacity, "conditions": conditions}
        spec = {"taints": taints} if taints else {}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}
        self.api.create("/api/v1/nodes", node)

    def patch_node(self, name: str, patch: Object) -> None:
        """Merges into the node, its status apart."""
        self.api.patch(f"/api/v1/nodes/{name}", patch)

    def set_allocatable(self, name: str, **resources: str) -> None:
        """Grows or shrinks a node."""
        status = {"status": {"capacity": resources, "allocatable": resources}}
        self.api.patch(f"/api/v1/nodes/{name}/status", status)

    def remove_node(self, name: str) -> None:
        """Pods that were bound to it are no concern of the scheduler any more."""
        self._removed_nodes.add(name)
        self.api.delete(f"/api/v1/nodes/{name}")

    # Pods

    def add_pod(
        self,
        name: str,
        *,
        cpu: str = "100m",
        memory: str = "64Mi",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: object,
    ) -> None:
        """A pod of one container; further fields of its spec as they are written in JSON."""
        resources = {"requests": {"cpu": cpu, "memory": memory}}
        container: Object = {"name": "main", "image": "registry.example/app:1", "resources": resources}
        if "ports" in spec:
            container["ports"] = spec.pop("ports")
        whole = {"schedulerName": NAME, "containers": [container], "terminationGracePeriodSeconds": 1} | spec
        own = {"app": name.rpartition("-")[0] or name} | dict(labels or {})
        metadata = {"name": name, "namespace": self.namespace, "labels": own, "annotations": dict(annotations or {})}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}
        self.api.create(self.pods_path, pod)

    def add_pods(self, count: int, prefix: str = "pod", **options: Any) -> None:
        """Pods called `prefix-0` and so on."""
        for number in range(count):
            self.add_pod(f"{prefix}-{number}", **options)

    def pod(self, name: str) -> Object:
        """The pod as it is now."""
        return self.api.get(f"{self.pods_path}/{name}")

    def node_of(self, name: str) -> str:
        """The node that the pod is bound to; empty while it is pending."""
        node: str = self.pod(name)["spec"].get("nodeName", "")
        return node

    def patch_pod(self, name: str, patch: Object, content_type: str = STRATEGIC_PATCH) -> None:
        self.api.patch(f"{self.pods_path}/{name}", patch, content_type)

    def delete_pod(self, name: str) -> None:
        """Deletes the pod and returns when it is gone."""
        self.api.delete(f"{self.pods_path}/{name}")
        wait_until(f"pod {name} is gone", lambda: not self.api.answers(f"{self.pods_path}/{name}"), SECONDS)

    def pods(self) -> list[Object]:
        return self.api.items(self.pods_path)

    def pending(self) -> list[str]:
        """Names of the pods without a node."""
        return [pod["metadata"]["name"] for pod in self.pods() if not pod["spec"].get("nodeName")]

    def events(self, pod_name: str, reason: str) -> list[Object]:
        """The pod's Events with this reason."""
        selector = f"involvedObject.name={pod_name},reason={reason}"
        return self.api.items(f"/api/v1/namespaces/{self.namespace}/events", fieldSelector=selector)

    def events_of_all(self, reason: str) -> list[Object]:
        """Events with this reason, of all pods of the namespace."""
        return self.api.items(f"/api/v1/namespaces/{self.namespace}/events", fieldSelector=f"reason={reason}")

    # Waiting

    def wait(self, what: str, condition: Callable[[], object], seconds: float = SECONDS) -> None:
        """Waits for a condition; a scheduler that has ended meanwhile is named in the error."""
        running = [process for process in self.processes if process.running]
        if running:
            running[-1].wait_until(what, condition, seconds)
        else:
            wait_until(what, condition, seconds)

    def wait_bound(self, *names: str, seconds: float = SECONDS) -> None:
        """Returns when these pods, or all of the namespace, have a node."""
        try:
            self.wait("all bound", lambda: not self._waiting(names), seconds)
        except NotReadyError as error:
            reasons = {name_of(pod): condition_text(pod) for pod in self._waiting(names)[:5]}
            raise NotReadyError(f"{error}\n{len(self._waiting(names))} pods wait, among them {reasons}") from error

    def _waiting(self, names: Collection[str]) -> list[Object]:
        """Those of the named pods, or of all pods, that have no node."""
        waiting = [pod for pod in self.pods() if not pod["spec"].get("nodeName")]
        return [pod for pod in waiting if not names or pod["metadata"]["name"] in names]

    def wait_rejected(self, name: str, text: str, reason: str = "Unschedulable") -> None:
        """Returns when the pod's PodScheduled condition is false for this reason and its message has the text."""

        def rejected() -> bool:
            conditions = self.pod(name).get("status", {}).get("conditions", [])
            found = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
            return any(c.get("reason") == reason and text in c.get("message", "") for c in found)

        self.wait(f"{name} rejected with {text!r}; {condition_text(self.pod(name))}", rejected)
        assert not self.node_of(name)

    # The scheduler

    def start_scheduler(self, *options: str, wait_started: bool = False) -> Process:
        """A new process of the scheduler under test; with `wait_started` it has logged its first lines."""
        process = self.server.scheduler(self.program, self._folder / f"scheduler-{next(PROCESS_NUMBERS)}")
        process.command += options
        process.start()
        self.processes.append(process)
        if wait_started:
            process.wait_until("the first lines of its log", lambda: self._has_begun(process), SECONDS)
        return process

    def _has_begun(self, process: Process) -> bool:
        """The HTTP server is up, which is before the caches are synced; for kube-scheduler, any line at all."""
        if self.program == "kscheduler":
            return kscheduler_process.http_port(process) is not None
        return bool(process.text())

    def terminate(self, process: Process) -> None:
        """SIGTERM; kscheduler must end by itself, in time, with exit code 0."""
        process.send(signal.SIGTERM)
        code = process.wait(STOP_SECONDS)
        if self.program == "kscheduler":
            assert code == 0, f"exit code {code} after SIGTERM; {process.tail()}"

    def stop_schedulers(self) -> None:
        """Ends what still runs; no log may show a Python traceback."""
        for process in self.processes:
            if process.running:
                self.terminate(process)
        for process in self.processes:
            assert "Traceback (most recent call last)" not in process.text(), process.tail(40)

    # The end

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints, errors too, in the scenario's namespace."""
        command: list[str | Path] = [
            self.server.kubectl,
            "--kubeconfig",
            self.server.admin_kubeconfig,
            "-n",
            self.namespace,
            *arguments,
        ]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return finished.stdout + finished.stderr

    def audit(self) -> None:
        """The three promises. A pod may yet come to be bound until the deadline; nothing else may be amiss at all."""
        deadline = time.monotonic() + SECONDS
        while self._forgotten() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        nodes, pods = self.api.items("/api/v1/nodes"), self.api.items("/api/v1/pods")
        found = [*self._forgotten(), *overcommitted(nodes, pods), *self.recorder.rebound(), *self._astray(nodes, pods)]
        if found:
            raise AssertionError("the audit found:\n" + "\n".join(found))

    def _astray(self, nodes: list[Object], pods: list[Object]) -> list[str]:
        known = {name_of(node) for node in nodes} | self._removed_nodes
        lost = [pod for pod in pods if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in known]
        return [f"pod {name_of(pod)} is bound to {pod['spec']['nodeName']}, which never was" for pod in lost]

    def _forgotten(self) -> list[str]:
        return forgotten(self.api.items("/api/v1/nodes"), self.pods(), NAME)
