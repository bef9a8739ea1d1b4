"""Pods that are expected on a node before they are bound to it (`status.nominatedNodeName`).

Room that preemption makes, or that an autoscaler adds, is made for somebody. A pod of lower or equal priority may not
take it meanwhile, so the cycle judges a node with its nominated pods as if they were there, and without them.

    add       the watch shows a pending pod            what its status says
    update    it has changed                           likewise, if the status names another node than it did: what was
                                                       decided here outlives all that does not speak of nominations
    nominate  preemption has chosen a node             at once: the next decision comes before the watch tells
    remove    it counts on a node, is gone or gave up

Limits: a pod that waits for scheduling gates has no claim to any node.
"""

from collections.abc import Iterable
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.framework.pods.pod_info import PodInfo

_KEPT_TOUCHED: Final = 4096


class NominatedPods:
    """Nominations by node. Implements `framework.handle.Nominator`."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._touched: dict[str, None] | None = None
        """UIDs whose nomination has been made or has ended since somebody asked; `None`: all of them may have."""
        self.changes = 0
        """Moves with every nomination that is made or ends."""

    def __len__(self) -> int:
        return len(self._node_of)

    # --- reading ------------------------------------------------------------------------------------------------------

    def nominated_node(self, pod: PodInfo) -> str:
        """The node a pod is nominated to, or empty."""
        return self._node_of.get(pod.uid, "")

    def nominated_pods(self, node_name: str) -> tuple[PodInfo, ...]:
        """The pods nominated to a node, in the order in which they were."""
        return tuple(self._pods.get(node_name, {}).values())

    def nomination(self, uid: str) -> tuple[str, PodInfo] | None:
        """Where a pod is expected, and its version that is; `None` where it is not."""
        node_name = self._node_of.get(uid, "")
        return (node_name, self._pods[node_name][uid]) if node_name else None

    def nominated(self) -> Iterable[str]:
        """The UIDs of all nominated pods, in the order in which they were."""
        return self._node_of.keys()

    def take_touched(self) -> dict[str, None] | None:
        """The UIDs whose nomination has been made or has ended since the last call, the latest last.

        `None` where there are too many to tell. For one asker only: `nominated_columns`.
        """
        touched, self._touched = self._touched, {}
        return touched

    # --- changing -----------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        """A pending pod, with the node that its status names."""
        self.nominate(pod, pod.pod.status.nominated_node_name)

    def update(self, old: Pod, pod: PodInfo) -> None:
        """A pending pod has changed. Where both versions name the same node, or none, a nomination made here stays."""
        named = pod.pod.status.nominated_node_name
        if named == old.status.nominated_node_name:
            named = self._node_of.get(pod.uid, named)
        self.nominate(pod, named)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Expect the pod on this node, whatever its status says; empty expects it nowhere."""
        self.remove(pod.uid)
        if node_name and not pod.pod.spec.scheduling_gates:
            # What cannot be read fails here, where the pod came in, and not in another pod's cycle.
            _ = pod.accounted, pod.nonzero_accounted, pod.host_ports
            self._node_of[pod.uid] = node_name
            self._pods.setdefault(node_name, {})[pod.uid] = pod
            self._touch(pod.uid)

    def remove(self, uid: str) -> None:
        """Expect the pod nowhere. Unknown pods are passed over."""
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
