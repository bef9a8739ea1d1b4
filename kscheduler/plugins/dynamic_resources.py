"""DynamicResources: devices that pods claim.

Only its part for pods *without* claims is built: every node is as good as any other for them. A pod with claims never
gets here; it is held (`scheduling.missing_rules`) until claims can be allocated.
"""

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import Plugin, Signature
from kscheduler.framework.pod_info import PodInfo


class DynamicResources(Plugin):
    """Gives every node 0 points, as upstream does for a pod without claims."""

    name = "DynamicResources"
    depends_on = ()

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def sign(self, pod: PodInfo) -> Signature:
        """Pods without claims are all alike."""
        del pod
        return ()

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """No claims, no preference."""
        del cycle, pod, nodes
        return np.zeros(len(rows), dtype=np.int64)
