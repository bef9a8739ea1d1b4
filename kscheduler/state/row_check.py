"""Whether what a node's row shows is what its pods take: sums worked out anew beside sums kept up to date.

The problem: sums are kept by adding and taking away, so one forgotten pod is wrong for ever and no later event mends
it. The idea: add up the pods that are there and compare. Limits: label columns, images and topology counters are not
looked at (`Cache.rebuild_node` makes them anew all the same where something else is wrong).
"""

from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, clamped
from kscheduler.framework.pods.requests import PODS
from kscheduler.state.cache import Cache


def row_fault(cache: Cache, name: str) -> tuple[str, str, str] | None:
    """What is wrong with a node's sums: (which, as its pods say, as it is kept); `None` when all is well.

    `name` may be that of a ghost. Costs about a microsecond per pod.
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
    anew = NodeInfo()
    anew.recount(info.pods.values())
    expected, kept = _taken(anew), _taken(info)
    return None if expected == kept else ("sums", str(expected), str(kept))


def _taken(info: NodeInfo) -> dict[str, int]:
    """What is taken of a node, by resource; no entry and an entry of 0 are the same."""
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
        taken = clamped(info.requested.get(resource, 0))
        if taken != requested[place]:
            return f"requested {resource}", str(taken), str(requested[place])
        given = clamped(info.allocatable.get(resource, 0))
        if given != allocatable[place]:
            return f"allocatable {resource}", str(given), str(allocatable[place])
    return None
