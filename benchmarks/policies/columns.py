"""Five policies over columns, as docs/plugins.md shows them: what `kscheduler bench --plugin` is measured with.

Each class says for itself what it reads: what is declared in a parent does not hold for the methods of its children.
"""

import numpy as np

from kscheduler import CycleState, NodeTable, Plugin, PodInfo, Source
from kscheduler.framework.nodes.node_table import Codes, Rows, Scores
from kscheduler.framework.plugin import Signature


class NotFull(Plugin):
    """Nodes with nine tenths of their pods are rejected."""

    name = "NotFull"
    depends_on = (Source.AMOUNTS,)
    reasons = {1: "node(s) were nearly full"}

    def sign(self, pod: PodInfo) -> Signature:
        return pod.labels.get("tier")

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return (10 * nodes.pod_count[rows] >= 9 * nodes.allowed_pods[rows]).astype(np.int64)


class KnownZone(Plugin):
    """Nodes whose zone is closed are rejected."""

    name = "KnownZone"
    depends_on = (Source.ROW,)
    reads_pods = False
    reasons = {1: "node(s) were in a zone that is closed"}

    def sign(self, pod: PodInfo) -> Signature:
        return pod.labels.get("tier")

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        zones = [nodes.info(row).labels.get("topology.kubernetes.io/zone") for row in rows.tolist()]
        return np.fromiter((zone == "closed" for zone in zones), dtype=np.int64, count=len(rows))


class FewestPods(Plugin):
    """Room in the number of pods."""

    name = "FewestPods"
    depends_on = (Source.AMOUNTS,)

    def sign(self, pod: PodInfo) -> Signature:
        return pod.labels.get("tier")

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        used, most = nodes.pod_count[rows], nodes.allowed_pods[rows]
        return np.where(most > 0, 100 - 100 * used // np.maximum(most, 1), 0)


class LowCost(Plugin):
    """A low price in an annotation."""

    name = "LowCost"
    depends_on = (Source.ROW,)
    reads_pods = False

    def sign(self, pod: PodInfo) -> Signature:
        return pod.labels.get("tier")

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        costs = (float(nodes.info(row).annotations.get("cost", "0.5")) for row in rows.tolist())
        return (100 * (1 - np.fromiter(costs, dtype=float, count=len(rows)).clip(0, 1))).astype(np.int64)


class SameTier(Plugin):
    """The pod's tier on the node."""

    name = "SameTier"
    depends_on = (Source.ROW,)
    reads_pods = False

    def sign(self, pod: PodInfo) -> Signature:
        return pod.labels.get("tier")

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        wanted = pod.labels.get("tier")
        found = (nodes.info(row).labels.get("tier") == wanted for row in rows.tolist())
        return 100 * np.fromiter(found, dtype=np.int64, count=len(rows))
