"""The CSI drivers on nodes, as reported by kubelets: their attach limits, and which in-tree plugins are migrated."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kscheduler.api.storage import CSINode
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.state.storage.name_index import Names, file, unfile

NO_LIMITS: Final[Mapping[str, int]] = MappingProxyType({})


class CSINodes:
    """The CSINodes that the watch last showed; each has the name of its node."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._csi_nodes: dict[str, CSINode] = {}
        self._limits: dict[str, Mapping[str, int]] = {}
        self._migrated: Names = {}
        """In-tree plugin to the names of nodes where it is migrated."""
        self._migrated_rows: dict[str, tuple[Rows, Rows]] = {}
        """By plugin all live rows at the time of the computation, and the rows where it is migrated."""
        self._known_rows: tuple[Rows, Rows] | None = None
        """All live rows at the time of the computation, and those of nodes with a CSINode."""
        self._installed: Names = {}
        """CSI driver to the names of nodes that report it."""

    def put(self, node: CSINode) -> None:
        """Add or update a CSINode."""
        self.remove(node.key)
        self._csi_nodes[node.key] = node
        self._limits[node.key] = _limits(node)
        for plugin in node.migrated_plugins:
            file(self._migrated, plugin, node.key)
        for driver in node.spec.drivers:
            file(self._installed, driver.name, node.key)

    def remove(self, name: str) -> None:
        """Remove a CSINode, if it exists."""
        before = self._csi_nodes.pop(name, None)
        if before is not None:
            del self._limits[name]
            for plugin in before.migrated_plugins:
                unfile(self._migrated, plugin, name)
            for driver in dict.fromkeys(driver.name for driver in before.spec.drivers):
                unfile(self._installed, driver, name)
        self._migrated_rows.clear()
        self._known_rows = None

    def get(self, name: str) -> CSINode | None:
        """The CSINode with this name."""
        return self._csi_nodes.get(name)

    def limits(self, name: str) -> Mapping[str, int]:
        """The maximal number of volumes per driver; drivers without a number have no limit and are left out."""
        return self._limits.get(name, NO_LIMITS)

    def is_migrated(self, name: str, plugin: str) -> bool:
        """Whether the in-tree plugin's volumes are attached by its CSI driver on the node."""
        return name in self._migrated.get(plugin, ())

    def migrated_rows(self, plugin: str) -> Rows:
        """Rows of nodes where the plugin is migrated (intp, ascending); the table's own `rows()` if on all nodes."""
        live, known = self._nodes.rows(), self._migrated_rows.get(plugin)
        if known is None or known[0] is not live:
            rows = self._nodes.rows_of(self._migrated.get(plugin, ()))
            known = self._migrated_rows[plugin] = live, live if len(rows) == len(live) else rows
        return known[1]

    def has(self, name: str) -> bool:
        """Whether the node has a CSINode."""
        return name in self._csi_nodes

    def rows(self) -> Rows:
        """Rows of nodes with a CSINode (intp, ascending); the table's own `rows()` if all nodes have one."""
        live = self._nodes.rows()
        if self._known_rows is None or self._known_rows[0] is not live:
            rows = self._nodes.rows_of(self._csi_nodes)
            self._known_rows = live, live if len(rows) == len(live) else rows
        return self._known_rows[1]

    def is_installed(self, name: str, driver: str) -> bool:
        """Whether the node reports the driver."""
        return name in self._installed.get(driver, ())


def _limits(node: CSINode) -> Mapping[str, int]:
    drivers = ((driver.name, driver.allocatable) for driver in node.spec.drivers)
    return {name: limit.count for name, limit in drivers if limit is not None and limit.count is not None}
