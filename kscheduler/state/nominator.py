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

from collections.abc import Mapping

from kscheduler.api.core import Pod
from kscheduler.framework.pod_info import PodInfo

_NOBODY: Mapping[str, tuple[PodInfo, ...]] = {}


class Nominator:
    """Nominations by node. Implements `framework.handle.Nominator`."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._highest: int | None = None
        """No nominated pod's priority is higher; `None` when it must be worked out anew."""
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

    def before(self, pod: PodInfo) -> Mapping[str, tuple[PodInfo, ...]]:
        """Whom the pod must leave room for, by node: nominated pods of equal or higher priority, never itself."""
        if not self._node_of or pod.priority > self._highest_priority():
            return _NOBODY
        found: dict[str, tuple[PodInfo, ...]] = {}
        for node_name, pods in self._pods.items():
            first = tuple(one for one in pods.values() if one.priority >= pod.priority and one.uid != pod.uid)
            if first:
                found[node_name] = first
        return found

    def _highest_priority(self) -> int:
        if self._highest is None:
            self._highest = max(pod.priority for pods in self._pods.values() for pod in pods.values())
        return self._highest

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
            self._highest = None
            self.changes += 1

    def remove(self, uid: str) -> None:
        """Expect the pod nowhere. Unknown pods are passed over."""
        node_name = self._node_of.pop(uid, "")
        if node_name:
            del self._pods[node_name][uid]
            if not self._pods[node_name]:
                del self._pods[node_name]
            self._highest = None
            self.changes += 1
