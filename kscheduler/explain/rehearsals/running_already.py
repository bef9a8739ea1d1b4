"""Workloads that run in the cluster already.

The problem: the manifest of a Deployment that has 40 pods and now asks for 50 is meant as "10 more", but new pods come
besides those that there are. The idea: a note with the numbers, wherever a pod of the cluster has such a controller.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.whatif.new_pods import NewPod
from kscheduler.whatif.scenario import ClusterObjects

_HASH: Final = "pod-template-hash"
_ALIKE: Final = ("Deployment", "ReplicaSet", "ReplicationController", "Job")
"""Kinds whose new pods have names that no pod has; those of a StatefulSet are refused as taken."""

Workload = tuple[str, str, str]
"""Kind, namespace, name."""


def notes_on_running(news: Iterable[NewPod], objects: ClusterObjects) -> Iterator[str]:
    """A note for each workload of the new pods that has pods in the cluster."""
    wanted = Counter[Workload]()
    for new in news:
        if new.workload is not None and new.workload[0] in _ALIKE:
            wanted[new.workload] += 1 + len(new.copies)
    if not wanted:
        return
    running = _running(objects)
    for workload, count in wanted.items():
        kind, namespace, name = workload
        there = running[workload]
        if there:
            scaled = f"; to scale up to {count}, say replicas: {count - there}" if count > there else ""
            these = "this 1 comes" if count == 1 else f"these {count} come"
            has = "1 pod: " if there == 1 else f"{there} pods: "
            yield f"{kind} {namespace}/{name} exists with {has}{these} besides {_them(there)}{scaled}"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _running(objects: ClusterObjects) -> Counter[Workload]:
    """How many pods each workload has; those of a Deployment count for its ReplicaSet, too."""
    deployments: dict[tuple[str, str], str] = {}
    for found in objects.replicasets:
        owner = found.metadata.controller
        if owner is not None and owner.kind == "Deployment":
            deployments[found.metadata.namespace, found.metadata.name] = owner.name
    running = Counter[Workload]()
    for pod in objects.pods:
        owner = pod.metadata.controller
        if owner is None or pod.is_terminal:
            continue
        namespace = pod.metadata.namespace
        running[owner.kind, namespace, owner.name] += 1
        if owner.kind == "ReplicaSet":
            deployment = deployments.get((namespace, owner.name)) or _deployment_of(pod, owner.name)
            if deployment:
                running["Deployment", namespace, deployment] += 1
    return running


def _deployment_of(pod: Pod, replica_set: str) -> str:
    """By its name, where the ReplicaSets are not among the objects: `web-5d9c` with the hash `5d9c` is of `web`."""
    end = f"-{pod.metadata.labels.get(_HASH, '')}"
    return replica_set.removesuffix(end) if end != "-" and replica_set.endswith(end) else ""
