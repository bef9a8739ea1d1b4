"""Assertions about decisions; a failure shows the explanation."""

from kscheduler.api.core import Pod
from kscheduler.testing.cluster import Cluster


def assert_goes_to(cluster: Cluster, pod: Pod, *nodes: str) -> None:
    """The pod goes to this node, or to one of these. Without any: it fits on no node."""
    actual = cluster.node_for(pod)
    if actual not in (nodes or ("",)):
        expected = " or ".join(nodes) or "no node"
        _fail(f"{pod.key} goes to {actual or 'no node'}, not to {expected}", cluster, pod)


def assert_turned_down(cluster: Cluster, pod: Pod, node: str, *, by: str, reason: str = "") -> None:
    """The plugin `by` rejects the node for the pod, with this reason if one is given."""
    record = cluster.decide(pod).record
    statuses = dict(record.diagnosis.by_node()) if record is not None else {}
    status = statuses.get(node)
    if status is None:
        _fail(f"nobody rejects {node} for {pod.key}", cluster, pod)
    elif status.plugin != by:
        _fail(f"{status.plugin} rejects {node} for {pod.key} before {by} is asked", cluster, pod)
    elif reason and reason not in status.reasons:
        _fail(f"{by} rejects {node} for {pod.key} because of {status.message!r}", cluster, pod)


def assert_prefers(cluster: Cluster, pod: Pod, plugin: str, better: str, worse: str) -> None:
    """The plugin gives the node `better` more points than the node `worse`; both fit."""
    points = cluster.points(pod, plugin)
    for node in (better, worse):
        if node not in points:
            _fail(f"{node} does not fit {pod.key}", cluster, pod)
    if points[better] <= points[worse]:
        text = f"{plugin} gives {better} {points[better]} points and {worse} {points[worse]}"
        _fail(text, cluster, pod)


def _fail(text: str, cluster: Cluster, pod: Pod) -> None:
    raise AssertionError(f"{text}\n\n{cluster.explain(pod)}")
