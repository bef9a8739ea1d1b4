"""DynamicResources: devices that pods claim.

Only the rules for pods *without* claims are built: every node suits them equally, and when none fits there is no claim
to deallocate. A pod with claims never gets here; it is held (`scheduling.missing_rules`) until claims can be allocated.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import SKIPPED, Plugin, PostFilterResult, PreFilterResult, Signature
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import error, unschedulable


@dataclass(frozen=True, slots=True)
class _NoClaims:
    """PreFilter has run, and the pod has no claims."""


_NO_CLAIMS = _NoClaims()
_NAMED: Final = unschedulable("no new claims to deallocate")
_UNNAMED: Final = unschedulable()


class DynamicResources(Plugin):
    """Gives every node 0 points, as upstream does for a pod without claims."""

    name = "DynamicResources"
    depends_on = ()
    reads_pods = False
    reads_spec_only = True

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._nothing_to_deallocate = _NAMED if handle.behaviours.names_claims_to_deallocate else _UNNAMED

    def sign(self, pod: PodInfo) -> Signature:
        """Pods without claims are all alike."""
        del pod
        return ()

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip: without claims there is nothing to judge."""
        del pod, nodes
        cycle.write(_NO_CLAIMS)
        return SKIPPED

    def post_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        """No claim to deallocate. Fails, as upstream, where another plugin ended PreFilter before this one ran."""
        del pod, nodes, diagnosis
        if cycle.find(_NoClaims) is None:
            return PostFilterResult(error("not found"))
        return PostFilterResult(self._nothing_to_deallocate)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Zeros, int64 [rows]: without claims no node is preferred."""
        del cycle, pod, nodes
        return np.zeros(len(rows), dtype=np.int64)
