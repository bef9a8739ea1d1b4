"""A cluster in one object, for tests of controllers: store, engine, a clock moved by hand, a kubelet, a scheduler.

Nothing runs by itself: `settle` lets the controllers work until nothing is due, `run_pods` binds what waits and reports
it running, `advance` moves time.
"""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import timestamp
from kscheduler.api.machinery.resources import BY_KEY, EVENTS, NODES, PODS, ServedResource
from kscheduler.embedded.controllers import catalogue
from kscheduler.embedded.controllers.engine.loop import Engine
from kscheduler.embedded.objects.deletion import DeleteOptions
from kscheduler.embedded.objects.registry import NO_OPTIONS, ObjectRegistry
from kscheduler.embedded.objects.store import ObjectStore
from kscheduler.embedded.objects.subresources import evict

_READY = ("Initialized", "Ready", "ContainersReady")


class Miniature:
    """Everything in one process, one step at a time."""

    def __init__(self, controllers: str = catalogue.ALL, nodes: int = 3) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.registry = ObjectRegistry(ObjectStore(), lambda: self.time, random.Random(0))
        for number in range(nodes):
            self.add_node(f"node-{number}")
        self.engine = Engine(self.registry, catalogue.make(controllers))
        self.engine.start()
        self.settle()

    def settle(self) -> None:
        self.engine.settle()

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.settle()

    # --- objects ------------------------------------------------------------------------------------------------------

    def create(self, value: Object, namespace: str = "default") -> Object:
        """Store an object and let the controllers work."""
        resource = next(r for r in BY_KEY.values() if (r.group_version, r.kind) == (value["apiVersion"], value["kind"]))
        record = self.registry.create(resource, namespace if resource.namespaced else "", value)
        self.settle()
        return record.value

    def get(self, key: str, name: str, namespace: str = "default") -> Object:
        resource = BY_KEY[key]
        return self.registry.get(resource, namespace if resource.namespaced else "", name).value

    def has(self, key: str, name: str, namespace: str = "default") -> bool:
        resource = BY_KEY[key]
        return self.registry.store.get(key, namespace if resource.namespaced else "", name) is not None

    def all(self, key: str) -> list[Object]:
        records = self.registry.store.collection(key).records
        return [records[name].value for name in sorted(records)]

    def names(self, key: str) -> list[str]:
        return [value["metadata"]["name"] for value in self.all(key)]

    def change(self, key: str, name: str, subresource: str = "", **fields: Any) -> Object:
        """Merge fields into the spec (or with `subresource="status"` the status) and let the controllers work."""
        value = self.get(key, name)
        part = subresource or "spec"
        record = self.registry.store.get(key, value["metadata"].get("namespace", ""), name)
        assert record is not None
        changed = {**value, part: {**value.get(part, {}), **fields}}
        stored = self.registry.replace(BY_KEY[key], record, changed, NO_OPTIONS, subresource)
        self.settle()
        return stored.value

    def relabel(self, name: str, **labels: str) -> None:
        """Give a pod other labels."""
        self.registry.update(PODS, "default", name, _with_labels(self.get("pods", name), labels))
        self.settle()

    def delete(self, key: str, name: str, **options: Any) -> None:
        resource: ServedResource = BY_KEY[key]
        namespace = "default" if resource.namespaced else ""
        self.registry.deletion.delete(resource, namespace, name, DeleteOptions(**options))
        self.settle()

    def evict(self, name: str) -> None:
        """Evict through the subresource, as drain does."""
        evict(self.registry, "default", name, {}, dry_run=False)
        self.settle()

    def events(self, reason: str) -> list[str]:
        return [event["message"] for event in self.all(EVENTS.collection) if event["reason"] == reason]

    # --- nodes and pods -----------------------------------------------------------------------------------------------

    def add_node(self, name: str, **fields: Any) -> None:
        conditions = [{"type": "Ready", "status": "True"}]
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **fields.pop("labels", {})}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": fields}
        self.registry.create(NODES, "", {**node, "status": {"conditions": conditions}})
        if hasattr(self, "engine"):
            self.settle()

    def pods(self) -> list[Object]:
        return self.all("pods")

    def phase(self, name: str) -> str:
        phase: str = self.get("pods", name)["status"]["phase"]
        return phase

    def run_pods(self, *only: str) -> None:
        """Bind what waits, report Pending pods running and end those that are being deleted, until all is quiet."""
        for _ in range(100):
            changed = [self._run(pod) for pod in self.pods() if not only or pod["metadata"]["name"] in only]
            if not any(changed):
                return
            self.settle()
        raise AssertionError("the pods never come to rest")

    def _run(self, pod: Object) -> bool:
        metadata, status = pod["metadata"], pod["status"]
        if "deletionTimestamp" in metadata:
            options = DeleteOptions(grace_period_seconds=0)
            self.registry.deletion.delete(PODS, metadata["namespace"], metadata["name"], options)
            return not metadata.get("finalizers")
        if status["phase"] != "Pending":
            return False
        node = pod["spec"].get("nodeName") or self._place(pod)
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": timestamp(self.time)} for kind in _READY]
        running = {**status, "phase": "Running", "conditions": conditions, "startTime": timestamp(self.time)}
        self.registry.store.put("pods", {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": running})
        return True

    def _place(self, pod: Object) -> str:
        affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity")
        if affinity:
            terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            node: str = terms[0]["matchFields"][0]["values"][0]
            return node
        used = [one["spec"].get("nodeName") for one in self.pods()]
        return min(self.names("nodes"), key=used.count)

    def end_pod(self, name: str, phase: str = "Succeeded") -> None:
        """A pod's containers end."""
        pod = self.get("pods", name)
        moment = timestamp(self.time)
        ended = {"name": "main", "restartCount": 0, "state": {"terminated": {"finishedAt": moment}}}
        conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": moment}]
        status = {**pod["status"], "phase": phase, "containerStatuses": [ended], "conditions": conditions}
        self.registry.store.put("pods", {**pod, "status": status})
        self.settle()

    def unready(self, name: str) -> None:
        """A pod stops being ready."""
        pod = self.get("pods", name)
        conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": timestamp(self.time)}]
        self.registry.store.put("pods", {**pod, "status": {**pod["status"], "conditions": conditions}})
        self.settle()


def _with_labels(value: Object, labels: dict[str, str]) -> Object:
    return {**value, "metadata": {**value["metadata"], "labels": labels}}


def template(app: str = "web", image: str = "registry.example/web:1", **spec: Any) -> Object:
    """A pod template of one container."""
    container = {"name": "main", "image": image}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def workload(kind: str, name: str = "web", **spec: Any) -> Object:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet that selects app=NAME."""
    body = {"selector": {"matchLabels": {"app": name}}, "template": template(name), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def job(name: str = "sums", **spec: Any) -> Object:
    """A Job."""
    pod = {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "a:1"}], "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": pod, **spec}}


def condition(value: Object, kind: str) -> Object:
    """A condition of the status; empty when it is not there."""
    found = [one for one in value.get("status", {}).get("conditions", []) if one["type"] == kind]
    return found[0] if found else {}
