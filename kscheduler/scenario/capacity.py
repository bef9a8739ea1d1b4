"""How much the nodes of a table have, and how much of it the pods on them request."""

from kscheduler.answers import ResourceCapacity
from kscheduler.framework.nodes.exact_sums import exact_sum
from kscheduler.framework.nodes.node_table import NodeTable, Rows


def capacity_of(nodes: NodeTable, rows: Rows) -> dict[str, ResourceCapacity]:
    """By resource, of these nodes together; pods are no resource here."""
    return {
        name: ResourceCapacity(
            nodes.total(nodes.allocatable, name, rows),
            nodes.total(nodes.requested, name, rows),
        )
        for name in sorted(nodes.resources)
    }


def pod_capacity_of(nodes: NodeTable, rows: Rows) -> ResourceCapacity:
    """How many pods these nodes may have together, and how many they have."""
    return ResourceCapacity(exact_sum(nodes.allowed_pods[rows]), int(nodes.pod_count[rows].sum()))
