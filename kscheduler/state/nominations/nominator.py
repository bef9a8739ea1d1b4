"""Pods that are expected on a node before they are bound to it (`status.nominatedNodeName`).

Room that preemption makes, or that an autoscaler adds, is meant for a certain pod. A pod of lower or equal priority
must not take it meanwhile, so the cycle checks a node both with its nominated pods, as if they were there, and without.

    add       the watch shows a pending pod            takes the nomination from the status
    update    the pod has changed                      likewise, if the status names another node than before; other
                                                       updates leave a nomination that was decided here
    nominate  preemption has chosen a node             at once: the next decision comes before the watch event
    remove    it counts on a node, is gone or gave up

A pod that waits for scheduling gates is nominated from Kubernetes 1.37 on (`nominates_gated_pods`).
"""

from collections.abc import Iterable
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.framework.pods.pod_info import PodInfo

_KEPT_TOUCHED: Final = 4096


class NominatedPods:
    """Nominations by node. Implements `framework.handle.Nominator`."""

    def __init__(self) -> None:
        self.nominates_gated_pods = False
        """Whether pods with scheduling gates may be nominated; of those that come from now on."""
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._touched: dict[str, None] | None = None
        """UIDs whose nomination has begun or ended since the last `take_touched`; `None`: any may have."""
        self.changes = 0
        """The number of nominations that have begun or ended."""

    def __len__(self) -> int:
        return len(self._node_of)

    # --- reading ------------------------------------------------------------------------------------------------------

    def nominated_node(self, pod: PodInfo) -> str:
        """The node a pod is nominated to, or empty."""
        return self._node_of.get(pod.uid, "")

    def nominated_pods(self, node_name: str) -> tuple[PodInfo, ...]:
        """The pods nominated to a node, in the order of their nominations."""
        return tuple(self._pods.get(node_name, {}).values())

    def nomination(self, uid: str) -> tuple[str, PodInfo] | None:
        """The node to which a pod is nominated, and the pod; `None` if it is not nominated."""
        node_name = self._node_of.get(uid, "")
        return (node_name, self._pods[node_name][uid]) if node_name else None

    def nominated(self) -> Iterable[str]:
        """The UIDs of all nominated pods, in the order of their nominations."""
        return self._node_of.keys()

    def take_touched(self) -> dict[str, None] | None:
        """The UIDs whose nomination has begun or ended since the last call, in the order of the changes.

        `None` if there are too many. For a single caller only: `nominated_columns`.
        """
        touched, self._touched = self._touched, {}
        return touched

    # --- changing -----------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        """Add a pending pod with the node that its status names."""
        self.nominate(pod, pod.pod.status.nominated_node_name)

    def update(self, old: Pod, pod: PodInfo) -> None:
        """Update a pending pod. If both versions name the same node, or none, a nomination made here stays."""
        named = pod.pod.status.nominated_node_name
        if named == old.status.nominated_node_name:
            named = self._node_of.get(pod.uid, named)
        self.nominate(pod, named)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominate the pod to this node, whatever its status says; empty ends its nomination."""
        self.remove(pod.uid)
        if node_name and (self.nominates_gated_pods or not pod.pod.spec.scheduling_gates):
            # Unparsable requests fail here, where the pod comes in, and not in another pod's cycle.
            _ = pod.accounted, pod.nonzero_accounted, pod.host_ports
            self._node_of[pod.uid] = node_name
            self._pods.setdefault(node_name, {})[pod.uid] = pod
            self._touch(pod.uid)

    def remove(self, uid: str) -> None:
        """End the pod's nomination. Unknown pods are ignored."""
        node_name = self._node_of.pop(uid, "")
        if node_name:
            del self._pods[node_name][uid]
            if not self._pods[node_name]:
                del self._pods[node_name]
            self._touch(uid)

    def _touch(self, uid: str) -> None:
        self.changes += 1
        if self._touched is not None:
            self._touched.pop(uid, None)
            self._touched[uid] = None
            if len(self._touched) > _KEPT_TOUCHED:
                self._touched = None
