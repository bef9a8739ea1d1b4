"""NodePorts: two pods on one node cannot have the same host port."""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import (
    NODE_ADD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import PASS_ALL, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import ALL_INTERFACES, HostPort, PodInfo
from kscheduler.framework.reasons.details import Detail, grouped
from kscheduler.framework.rules.member_limits import most_together
from kscheduler.framework.status import SKIP, SUCCESS


class NodePorts(Plugin):
    """Rejects nodes where a host port of the pod is taken; preemption can free it."""

    name = "NodePorts"
    depends_on = (Source.ROW,)
    reads_spec_only = True
    hints_by_spec = True
    judges_without_labels = True
    TAKEN = 1
    reasons: ClassVar = {TAKEN: "node(s) didn't have free ports for the requested pod ports"}

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args, handle

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A deleted pod frees its ports, and a new node has all ports free; a pod's ports never change."""
        return (
            ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE), _after_pod_delete),
            ClusterEventWithHint(NODE_ADD),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's host ports."""
        return pod.host_ports

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip for pods without host ports, as most are."""
        del cycle, nodes
        return PreFilterResult(SUCCESS if pod.host_ports else SKIP)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """Rows where one of the pod's host ports is taken: int64 [rows]."""
        del cycle
        taken = nodes.ports.conflicting_rows(pod.host_ports)
        if not taken:
            return PASS_ALL
        codes = np.zeros(nodes.capacity, dtype=np.int64)
        codes[list(taken)] = self.TAKEN
        return codes[rows]

    def most_members(self, pods: Sequence[PodInfo], nodes: NodeTable, rows: Rows) -> NDArray[np.int64] | None:
        """Of pods that have a port in common, one."""
        del nodes
        conflicts = [sorted(pod.host_ports) for pod in pods]
        return np.full(len(rows), most_together(conflicts), dtype=np.int64) if any(conflicts) else None

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which ports are taken, and by which pods."""
        del cycle

        def taken(row: int) -> tuple[tuple[HostPort, str], ...]:
            others = sorted(nodes.info(row).pods.values(), key=lambda other: other.key)
            return tuple((port, each.key) for port in sorted(pod.host_ports) for each in others if _takes(each, port))

        by_ports = grouped(rows, lambda row: tuple(dict.fromkeys(port for port, _ in taken(row))))
        for ports, group in by_ports.items():
            holders = [(nodes.name_of(row), port, key) for row in group.tolist() for port, key in taken(row)]
            listed = ", ".join(f"{number}/{protocol}{_at(address)}" for protocol, number, address in ports)
            pod_names = ", ".join(dict.fromkeys(key for _, _, key in holders[:3])) + (
                ", ..." if len(holders) > 3 else ""
            )
            text = f"host port {listed} is taken by {pod_names}" if ports else "a host port is taken"
            held_by = [{"node": node, "pod": key, **_port_facts(port)} for node, port, key in holders]
            yield Detail(
                "hostPortTaken", text, group, {"ports": [_port_facts(port) for port in ports], "heldBy": held_by}
            )


def _after_pod_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A deleted pod helps if it was on a node, or nominated to one, and held one of the ports."""
    del new
    if not isinstance(old, Pod):
        return QueueingHint.QUEUE
    if not (old.spec.node_name or old.status.nominated_node_name):
        return QueueingHint.SKIP
    freed = PodInfo(old).host_ports
    frees_port = any(_conflict(requested, port) for requested in pod.host_ports for port in freed)
    return QueueingHint.QUEUE if frees_port else QueueingHint.SKIP


def _takes(other: PodInfo, requested: HostPort) -> bool:
    return any(_conflict(requested, port) for port in other.host_ports)


def _at(address: str) -> str:
    return "" if address == ALL_INTERFACES else f" on {address}"


def _port_facts(port: HostPort) -> dict[str, object]:
    protocol, number, address = port
    return {"hostPort": number, "protocol": protocol, "hostIP": address}


def _conflict(first: HostPort, second: HostPort) -> bool:
    """Same protocol and port, and an equal address or all interfaces on either side."""
    return first[:2] == second[:2] and (first[2] == second[2] or ALL_INTERFACES in (first[2], second[2]))
