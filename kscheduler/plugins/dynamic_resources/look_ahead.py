"""The rest of a search for devices that took longer than its cycle had patience: done in slices, beside other pods.

Once the nodes are searched for a template's claims, the answers are kept, and a pod costs the nodes that have changed.
But the first pod has to search them all, half a second for 5,000 nodes; and where devices can be combined in very many
ways, one node may take as long as `filterTimeout`. What is found here is kept in the same place, where the pod's next
cycle finds it. An answer about a node whose devices changed meanwhile is not kept, and the node is searched again.
"""

import time
from collections.abc import Callable, Generator, Iterable

from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.status import StatusError
from kscheduler.plugins.dynamic_resources.search import DeviceSearch


class LookAhead:
    """Nodes that a cycle has asked about. Implements `RestOfSearch`."""

    def __init__(
        self, nodes: NodeTable, names: Iterable[str], search_on: Callable[[NodeInfo], DeviceSearch | None]
    ) -> None:
        """`search_on`: the search for a node, `None` if nothing has to be searched there."""
        self._nodes, self._names, self._search_on = nodes, names, search_on
        self._work = self._all()
        next(self._work)

    def run(self, seconds: float) -> bool:
        """Search for at most so long, and at least one step, from where it was left. Returns whether all is done."""
        end = time.perf_counter() + seconds
        had_turn = True
        try:
            while True:
                self._work.send(had_turn)
                had_turn = False
                if time.perf_counter() >= end:
                    return False
        except StopIteration:
            return True

    def _all(self) -> Generator[None, bool, None]:
        yield
        for name in self._names:
            row = self._nodes.row_of(name)
            info = self._nodes.info(row) if row >= 0 else None
            search = self._search_on(info) if info is not None else None
            if info is None or info.node is None or search is None:
                continue
            try:
                yield from search.beforehand(info.node)
            except StatusError:
                return  # the cycle comes to it as well: all nodes before this one are kept
