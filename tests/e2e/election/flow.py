"""Pods that come, run for a while and go: some each second, onto nodes that are nearly full after an outage.

Room is what an election can get wrong, so the nodes of a group have little of it: what gathers while nobody schedules
does not fit at once, and a second leader would overfill a node within seconds. Every change that the API server shows
is counted, so a node that was over its room for a moment is found too.
"""

import http.client
import threading
import time
from collections import Counter
from typing import Self

from tests.controlplane.pod_watch import PodWatch
from tests.controlplane.process import wait_until
from tests.controlplane.rest import Api, ApiStatusError, Object

NODES = 10
PODS_PER_NODE = 4
LIFE_SECONDS = 2.0


class ResourceCapacity(PodWatch):
    """How many pods each node holds, at every change."""

    def __init__(self, api: Api) -> None:
        super().__init__(api, "room")
        self._lock = threading.Lock()
        self._node_of: dict[str, str] = {}
        self._bound_at: dict[str, float] = {}
        self._counts: Counter[str] = Counter()
        self.overfull: list[str] = []

    def seen(self, pod: Object) -> None:
        node, uid = pod["spec"].get("nodeName", ""), pod["metadata"]["uid"]
        with self._lock:
            if not node or uid in self._node_of:
                return
            self._node_of[uid] = node
            self._bound_at[_key(pod)] = time.time()
            self._counts[node] += 1
            if self._counts[node] > PODS_PER_NODE:
                self.overfull.append(f"{self._counts[node]} pods on {node} with {_key(pod)}")

    def deleted(self, pod: Object) -> None:
        with self._lock:
            self._bound_at.pop(_key(pod), None)
            node = self._node_of.pop(pod["metadata"]["uid"], "")
            self._counts[node] -= 1

    def bound(self, namespace: str, before: float = float("inf")) -> list[str]:
        """Names of the pods of a namespace that were bound before a moment and are still there."""
        with self._lock:
            keys = [key for key, at in self._bound_at.items() if at < before]
        return [key.partition("/")[2] for key in keys if key.partition("/")[0] == namespace]


class Flow:
    """The pods of one group, in a namespace and on nodes of its own, from entering to leaving."""

    def __init__(
        self,
        api: Api,
        room: ResourceCapacity,
        group: str,
        scheduler_name: str,
        pods_per_second: float,
        nodes: int = NODES,
    ) -> None:
        self._api = Api(api.url, api.token, api.authority)
        self._room = room
        self.namespace = group
        self._scheduler_name = scheduler_name
        self._nodes = nodes
        self._pause = 1.0 / pods_per_second
        self._stop = threading.Event()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flow {group}", daemon=True)
        self.created = 0
        self._deleted: set[str] = set()
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        metadata = {"name": self.namespace}
        self._api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for number in range(self._nodes):
            self._api.create("/api/v1/nodes", self._node(f"{self.namespace}-{number}"))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def end(self) -> None:
        """No more pods come; those that are there go on to run and go."""
        self._is_ending.set()

    def pending(self) -> int:
        """Pods that were created and are not bound."""
        return self.created - len(self._deleted) - len(set(self._room.bound(self.namespace)) - self._deleted)

    def wait_until_bound(self, seconds: float) -> None:
        """Wait until nearly all pods are bound. (Some come all the time.)"""
        wait_until(f"the pods of {self.namespace} are bound", lambda: self.pending() <= 3, seconds)

    def _run(self) -> None:
        next_at = time.monotonic()
        while not self._stop.wait(max(0.0, next_at - time.monotonic())):
            next_at += self._pause
            try:
                if not self._is_ending.is_set():
                    self._api.create(f"/api/v1/namespaces/{self.namespace}/pods", self._pod(f"p{self.created}"))
                    self.created += 1
                for name in self._room.bound(self.namespace, time.time() - LIFE_SECONDS):
                    if name not in self._deleted:
                        self._api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{name}", grace_seconds=0)
                        self._deleted.add(name)
            except (ApiStatusError, OSError, http.client.HTTPException) as failure:
                self.failures.append(repr(failure))
        self._api.close()

    def _node(self, name: str) -> Object:
        room = {"cpu": str(PODS_PER_NODE), "memory": "64Gi", "pods": "110"}
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"capacity": room, "allocatable": room, "conditions": conditions}
        metadata = {"name": name, "labels": {"group": self.namespace}}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}

    def _pod(self, name: str) -> Object:
        resources = {"requests": {"cpu": "1", "memory": "64Mi"}}
        container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
        spec = {
            "schedulerName": self._scheduler_name,
            "containers": [container],
            "nodeSelector": {"group": self.namespace},
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
