"""Topology keys under which each node is a domain of its own, as host names are.

The problem: anti-affinity is mostly by host name. With five hundred Deployments, the sums over five thousand domains
are as large as the counts that they are made of, and would have to be read and kept besides. The idea: where every node
has a value of the label and no two nodes share one, the count of a node is the count of its domain, so the row serves
as the number of the domain.

The answer holds for one table until a node is added, removed or has other labels (`node_columns_version`).
"""

from typing import Final

import numpy as np

from kscheduler.bounded.recently_used import RecentlyUsed
from kscheduler.framework.nodes.node_table import NodeTable

_MOST_KEYS: Final = 64


class OwnDomains:
    """The answers for the topology keys used lately."""

    def __init__(self) -> None:
        self._known: RecentlyUsed[str, tuple[NodeTable, int, bool]] = RecentlyUsed(_MOST_KEYS)

    def has(self, nodes: NodeTable, key: str) -> bool:
        """Whether every live node has this label, each with a value that no other live node has."""
        known = self._known.get(key)
        if known is not None and known[0] is nodes and known[1] == nodes.node_columns_version:
            return known[2]
        answer = _is_one_node_each(nodes, key)
        self._known[key] = nodes, nodes.node_columns_version, answer
        return answer


def _is_one_node_each(nodes: NodeTable, key: str) -> bool:
    numbers, values = nodes.label_values(key, nodes.rows())
    nodes_in = np.bincount(numbers, minlength=len(values))
    return not nodes_in[0] and int(nodes_in.max()) <= 1
