"""Compares a node's row with its pods: sums computed from scratch with the sums kept up to date.

The problem: sums are kept by adding and subtracting, so a single missed pod makes them wrong forever, and no later
event repairs them. The idea: add up the pods and compare. Limits: label columns, images and topology counters are not
checked (but `Cache.rebuild_node` rebuilds them, too, if anything else is wrong).
"""

from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, clamped
from kscheduler.framework.pods.requests import PODS
from kscheduler.state.cache import Cache


def row_fault(cache: Cache, name: str) -> tuple[str, str, str] | None:
    """The first wrong value of a node: (its name, the expected value, the kept value); `None` if all are correct.

    `name` may be a ghost's. Costs about a microsecond per pod.
    """
    info = cache.node_info(name)
    if info is None:
        return None
    return _wrong_pods(cache, name, info) or _wrong_sums(info) or _wrong_row(cache.nodes, name, info)


def _wrong_pods(cache: Cache, name: str, info: NodeInfo) -> tuple[str, str, str] | None:
    if info.node is None and not info.pods:
        return "ghost", "nothing", "a ghost without pods"
    for uid, pod in info.pods.items():
        if cache.pod_of(uid) is not pod or cache.node_of(uid) != name:
            return "pods", f"{pod.key} on {cache.node_of(uid) or 'no node'}", f"{pod.key} on {name}"
    return None


def _wrong_sums(info: NodeInfo) -> tuple[str, str, str] | None:
    recounted = NodeInfo()
    recounted.recount(info.pods.values())
    expected, kept = _taken(recounted), _taken(info)
    return None if expected == kept else ("sums", str(expected), str(kept))


def _taken(info: NodeInfo) -> dict[str, int]:
    """The requested amounts on a node, by resource; a missing entry means 0."""
    presumed = {"presumed cpu": info.nonzero_cpu, "presumed memory": info.nonzero_memory}
    return {name: amount for name, amount in (*info.requested.items(), *presumed.items()) if amount}


def _wrong_row(table: NodeTable, name: str, info: NodeInfo) -> tuple[str, str, str] | None:
    if info.node is None:
        return None
    row = table.row_of(name)
    if row < 0 or table.infos[row] is not info:
        return "row", "a row of its own", f"row {row}"
    for column, expected, shown in (
        ("pod_count", len(info.pods), int(table.pod_count[row])),
        ("allowed_pods", clamped(info.allocatable.get(PODS, 0)), int(table.allowed_pods[row])),
        ("nonzero_cpu", clamped(info.nonzero_cpu), int(table.nonzero_requested[0, row])),
        ("nonzero_memory", clamped(info.nonzero_memory), int(table.nonzero_requested[1, row])),
        ("unschedulable", info.node.spec.unschedulable, bool(table.unschedulable[row])),
        ("taints", info.taints, table.taint_sets[table.taint_set[row]]),
    ):
        if expected != shown:
            return column, str(expected), str(shown)
    return _wrong_amounts(table, row, info)


def _wrong_amounts(table: NodeTable, row: int, info: NodeInfo) -> tuple[str, str, str] | None:
    requested, allocatable = table.requested[:, row].tolist(), table.allocatable[:, row].tolist()
    for resource, place in table.resources.items():
        expected = clamped(info.requested.get(resource, 0))
        if expected != requested[place]:
            return f"requested {resource}", str(expected), str(requested[place])
        expected = clamped(info.allocatable.get(resource, 0))
        if expected != allocatable[place]:
            return f"allocatable {resource}", str(expected), str(allocatable[place])
    return None
