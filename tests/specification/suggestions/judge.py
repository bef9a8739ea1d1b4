"""Which nodes a scenario's pod fits on, by the specification: the JSON is read, and each rule asked about each node."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.scenario.scenario import ClusterObjects
from tests.builders import Tree
from tests.specification.decisions.naive_decisions import NaiveCluster, Policy, Scene, whole_pod_problem
from tests.specification.volumes import rules as volume_rules


def fitting(scenario: Tree) -> Sequence[str]:
    """The names of the nodes; none for a pod with gates."""
    pod = convert(scenario["pod"], Pod)
    if pod.spec.scheduling_gates:
        return ()
    scene = Scene(pod, _cluster(scenario["objects"]), Policy())
    if whole_pod_problem(scene):
        return ()
    return [name for name in scene.cluster.nodes if scene.with_nominated(name)[1] is None]


# The cluster that was read last: most changes are of the pod alone.
_LAST: list[tuple[Tree, NaiveCluster]] = []


def _cluster(listed: Tree) -> NaiveCluster:
    if not _LAST or _LAST[0][0] is not listed:
        _LAST[:] = [(listed, _read(listed))]
    return _LAST[0][1]


def _read(listed: Tree) -> NaiveCluster:
    objects = msgspec.json.decode(json.dumps(listed), type=ClusterObjects)
    nodes = {node.metadata.name: node for node in sorted(objects.nodes, key=lambda node: node.metadata.name)}
    pods = {pod.metadata.uid: pod for pod in objects.pods if pod.spec.node_name}
    stored: dict[tuple[type, str], Any] = {(type(obj), obj.key): obj for obj in objects.storage()}
    namespaces: dict[str, Mapping[str, str]] = {each.metadata.name: each.metadata.labels for each in objects.namespaces}
    return NaiveCluster(volume_rules.World(nodes, pods, stored), namespaces)
