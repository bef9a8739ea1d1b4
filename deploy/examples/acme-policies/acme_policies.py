"""A policy as a package: nodes of one zone are better, for all pods of a profile."""

import msgspec
import numpy as np

from kscheduler import CycleState, NodeTable, Plugin, PodInfo, Source
from kscheduler.framework.nodes.node_table import Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, Signature

ZONE = "topology.kubernetes.io/zone"


class PreferZone(Plugin):
    """All points for nodes of the zone, none for others."""

    name = "PreferZone"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True

    class Args(msgspec.Struct, frozen=True):
        """Arguments in `pluginConfig`."""

        zone: str

    def __init__(self, args: Args) -> None:
        self._zone = args.zone

    def sign(self, pod: PodInfo) -> Signature:
        """Nothing of the pod is read: the answers are kept for all pods."""
        del pod
        return ()

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Points for rows of the zone."""
        del cycle, pod
        is_there = [nodes.info(row).labels.get(ZONE) == self._zone for row in rows.tolist()]
        return np.where(is_there, MAX_NODE_SCORE, 0).astype(np.int64)
