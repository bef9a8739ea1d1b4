"""What kubelets say of their nodes' CSI drivers: how much they attach, and which in-tree plugins they stand for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kscheduler.api.storage import CSINode
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.state.storage.name_index import Names, file, unfile

NO_LIMITS: Final[Mapping[str, int]] = MappingProxyType({})


class CSINodes:
    """The CSINodes, as the watch last showed them; named after their nodes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._csi_nodes: dict[str, CSINode] = {}
        self._limits: dict[str, Mapping[str, int]] = {}
        self._migrated: Names = {}
        """In-tree plugin to nodes where it is migrated."""
        self._migrated_rows: dict[str, tuple[Rows, Rows]] = {}
        """The same as rows, and all rows as they were then."""

    def put(self, node: CSINode) -> None:
        """One is there, or has changed."""
        self.remove(node.key)
        self._csi_nodes[node.key] = node
        self._limits[node.key] = _limits(node)
        self._migrated_rows.clear()
        for plugin in node.migrated_plugins:
            file(self._migrated, plugin, node.key)

    def remove(self, name: str) -> None:
        """One is gone, if it was there."""
        before = self._csi_nodes.pop(name, None)
        if before is not None:
            del self._limits[name]
            self._migrated_rows.clear()
            for plugin in before.migrated_plugins:
                unfile(self._migrated, plugin, name)

    def get(self, name: str) -> CSINode | None:
        """One by name."""
        return self._csi_nodes.get(name)

    def limits(self, name: str) -> Mapping[str, int]:
        """How many volumes each driver attaches to the node; one that tells no number has no limit."""
        return self._limits.get(name, NO_LIMITS)

    def is_migrated(self, name: str, plugin: str) -> bool:
        """Whether the in-tree plugin's volumes are attached by its CSI driver on the node."""
        return name in self._migrated.get(plugin, ())

    def migrated_rows(self, plugin: str) -> Rows:
        """Rows of nodes where it is so; the table's own `rows()` where they are all of them."""
        live, known = self._nodes.rows(), self._migrated_rows.get(plugin)
        if known is None or known[0] is not live:
            rows = self._nodes.rows_of(self._migrated.get(plugin, ()))
            known = self._migrated_rows[plugin] = live, live if len(rows) == len(live) else rows
        return known[1]


def _limits(node: CSINode) -> Mapping[str, int]:
    told = ((one.name, one.allocatable) for one in node.spec.drivers)
    return {name: given.count for name, given in told if given is not None and given.count is not None}
