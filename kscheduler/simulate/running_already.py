"""Workloads that run in the cluster already.

The problem: the manifest of a Deployment that has 40 pods and now asks for 50 is meant as "10 more", that of a
DaemonSet that runs on all nodes as "is there room on the new ones"; but new pods come beside those there are. The
idea: a note with the numbers, wherever a pod of the cluster has such a controller. Pods that can be there once only, of
a StatefulSet one per ordinal and of a DaemonSet one per node, are not made again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.scenario.new_pods import NewPod
from kscheduler.scenario.owners import owners_in
from kscheduler.scenario.scenario import ClusterObjects

# Kinds whose new pods have names that no pod has.
_ALIKE: Final = ("Deployment", "ReplicaSet", "ReplicationController", "Job")

# Kind, namespace, name.
Workload = tuple[str, str, str]


class RunningWorkloads:
    """The pods that workloads of a cluster have."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._there_once = Counter[Workload]()
        """Pods that were asked for by `is_there`, and are."""

    def is_there(self, new: NewPod) -> bool:
        """Whether the cluster has this pod of a StatefulSet, or the one of a DaemonSet for this node; it is counted."""
        if new.workload is None or new.workload[0] not in ("StatefulSet", "DaemonSet"):
            return False
        there = (new.workload, new.node or new.tree["metadata"]["name"]) in self._places
        self._there_once[new.workload] += there
        return there

    def notes_on(self, news: Iterable[NewPod]) -> Iterator[str]:
        """A note for each workload of the new pods that has pods in the cluster."""
        wanted = Counter[Workload]()
        for new in news:
            if new.workload is not None:
                wanted[new.workload] += 1 + len(new.copies)
        for workload in dict.fromkeys((*wanted, *self._there_once)):
            kind, namespace, name = workload
            count = wanted[workload]
            there = max(self._counts[workload], self._there_once[workload])  # one that has ended is there, too
            if not there:
                continue
            exists = f"{kind} {namespace}/{name} exists with {'1 pod' if there == 1 else f'{there} pods'}"
            these = "this 1 comes" if count == 1 else f"these {count} come"
            if kind in _ALIKE:
                scaled = f"; to scale up to {count}, say replicas: {count - there}" if count > there else ""
                yield f"{exists}: {these} besides {_them(there)}{scaled}"
            else:
                stays = "which stays as it is" if there == 1 else "which stay as they are"
                yield f"{exists}, {stays}: {f'{these} besides {_them(there)}' if count else 'no other comes'}"
        self._there_once.clear()

    @cached_property
    def _counts(self) -> Counter[Workload]:
        return _running(self._objects)

    @cached_property
    def _places(self) -> set[tuple[Workload, str]]:
        """The pods that can be there once: the workload, with the name of the pod or of its node."""
        places = set[tuple[Workload, str]]()
        for pod in self._objects.pods:
            owner = pod.metadata.controller
            if owner is None:
                continue
            workload = (owner.kind, pod.metadata.namespace, owner.name)
            if owner.kind == "StatefulSet":  # whose pod keeps its name until it is gone, even if it has ended
                places.add((workload, pod.metadata.name))
            elif owner.kind == "DaemonSet" and not pod.is_terminal:
                places.update((workload, node) for node in _nodes_of(pod))
        return places


def _nodes_of(pod: Pod) -> Iterator[str]:
    """The node of a DaemonSet's pod: where it is, or the one that its controller has made it for."""
    if pod.spec.node_name:
        yield pod.spec.node_name
        return
    affinity = pod.spec.affinity
    on_nodes = affinity.node_affinity if affinity is not None else None
    required = on_nodes.required_during_scheduling_ignored_during_execution if on_nodes is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            yield from field.values


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _running(objects: ClusterObjects) -> Counter[Workload]:
    """How many pods each workload has; those of a Deployment count for its ReplicaSet, too."""
    owner_of = owners_in(objects.replicasets)
    running = Counter[Workload]()
    for pod in objects.pods:
        owner = pod.metadata.controller
        if owner is None or pod.is_terminal:
            continue
        namespace = pod.metadata.namespace
        running[owner.kind, namespace, owner.name] += 1
        top = owner_of(pod)
        if top is not None and top != (owner.kind, owner.name):
            running[top[0], namespace, top[1]] += 1
    return running
