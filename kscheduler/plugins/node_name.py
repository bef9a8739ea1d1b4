"""NodeName: a pod that names its node runs there or nowhere."""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import NODE_ADD, ClusterEventWithHint
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import PASS_ALL, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.status import SUCCESS


class NodeName(Plugin):
    """Rejects every node but the named one. The queue never holds such a pod; what-if and tests do."""

    name = "NodeName"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    hints_by_spec = True
    judges_without_labels = True
    MISMATCH = -1
    reasons: ClassVar = {MISMATCH: "node(s) didn't match the requested node name"}

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Names never change: only a new node can help."""
        return (ClusterEventWithHint(NODE_ADD),)

    def sign(self, pod: PodInfo) -> Hashable:
        """The node name that the pod specifies."""
        return pod.node_name

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """All rows but that of the named node: int64 [rows]."""
        del cycle
        if not pod.node_name:
            return PASS_ALL
        return np.where(rows == nodes.row_of(pod.node_name), 0, self.MISMATCH)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """The node that the pod names, and whether it exists."""
        del cycle
        exists = nodes.row_of(pod.node_name) >= 0
        text = f"spec.nodeName asks for {pod.node_name}" + ("" if exists else ", which does not exist")
        yield Detail("otherNodeName", text, rows, {"nodeName": pod.node_name, "exists": exists})


class NarrowingNodeName(NodeName):
    """Rejects the other nodes before they are looked at, as from 1.37 on."""

    # Declared again, since a method more could read more: `pre_filter` reads what is signed.
    sign = NodeName.sign
    reads_pods = False
    reads_spec_only = True
    hints_by_spec = True
    judges_without_labels = True

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Restrict the search to the named node."""
        del cycle, nodes
        return PreFilterResult(SUCCESS, frozenset((pod.node_name,)) if pod.node_name else None)


def node_name(args: PluginArgs, handle: Handle) -> NodeName:
    """The plugin as the followed version has it."""
    return (NarrowingNodeName if handle.behaviours.node_name_narrows else NodeName)(args, handle)
