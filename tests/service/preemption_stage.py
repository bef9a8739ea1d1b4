"""A full node, pods that want it more, and everything that the API server saw of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kscheduler.api.releases import VERSION
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import from_tree
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.objects.store import Change, ChangeType
from kscheduler.plugins import in_tree
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options
from tests.builders import Tree, node_tree, pod_tree
from tests.service.running import put

MESSAGE = "kscheduler: preempting to accommodate a higher priority pod"


class Seen:
    """What became of the pods, in the order of the writes."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.conditions: dict[str, list[Tree]] = {}
        self.nominations: dict[str, list[str]] = {}

    def __call__(self, change: Change) -> None:
        metadata, status = change.record.value["metadata"], change.record.value.get("status") or {}
        name = metadata["name"]
        before = change.previous.value if change.previous is not None else {"metadata": {}}
        goes = change.type is ChangeType.DELETED or metadata.get("deletionTimestamp")
        if goes and not before["metadata"].get("deletionTimestamp"):
            self.deleted.append(name)
        for condition in status.get("conditions", []):
            if condition["type"] == "DisruptionTarget" and condition not in self.conditions.get(name, []):
                self.conditions.setdefault(name, []).append(condition)
        nominations_of_pod = self.nominations.setdefault(name, [""])
        if nominations_of_pod[-1] != (status.get("nominatedNodeName") or ""):
            nominations_of_pod.append(status.get("nominatedNodeName") or "")


@contextmanager
def watched(server: EmbeddedAPIServer) -> Iterator[Seen]:
    """Writes to pods, as long as it lasts."""
    seen = Seen()
    server.store.subscribe("pods", seen)
    try:
        yield seen
    finally:
        server.store.unsubscribe("pods", seen)


def fill(server: EmbeddedAPIServer, victims: int = 4, grace_seconds: int = 0) -> None:
    """One node of so many cpu, full of pods of priority 0 that take one each."""
    put(server, "nodes", node_tree("node", cpu=str(victims)))
    for number in range(victims):
        put(server, "pods", victim(f"v{number}", node="node", grace_seconds=grace_seconds))


def victim(name: str, *, node: str = "", grace_seconds: int = 0, cpu: str = "1") -> Tree:
    """A pod of priority 0."""
    spec: dict[str, Any] = {"terminationGracePeriodSeconds": grace_seconds, "priority": 0}
    return pod_tree(name, node=node, requests={"cpu": cpu}, **spec)


def preemptor(name: str = "big", *, cpu: str = "2", priority: int = 100) -> Tree:
    """A pod that goes before those."""
    return pod_tree(name, requests={"cpu": cpu}, priority=priority)


def events(server: EmbeddedAPIServer, reason: str) -> list[Tree]:
    """Events with this reason, as they are stored: core/v1."""
    found = [record.value for record in server.store.collection("events").records.values()]
    return [event for event in found if event["reason"] == reason]


def pod(server: EmbeddedAPIServer, name: str) -> Tree | None:
    """A pod as it is stored."""
    record = server.store.get("pods", "default", name)
    return record.value if record is not None else None


def options(*plugins: Any, gates: str = "", token_file: str = "", version: str = VERSION) -> Options:
    """The default configuration, with plugins of a test's own (classes) at all their points."""
    registry = in_tree.registry()
    for plugin in plugins:
        registry.register(plugin.name, plugin)
    enabled = [{"name": plugin.name} for plugin in plugins]
    profile = {"schedulerName": "kscheduler", "plugins": {"multiPoint": {"enabled": enabled}}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    tree = {**kind, "leaderElection": {"leaderElect": False}, "profiles": [profile]}
    config = from_tree(tree, "test", parse_feature_gates(gates, version=version))
    return Options(config, serving=HTTPServing.plain_on_loopback(), registry=registry, permit_token_file=token_file)
