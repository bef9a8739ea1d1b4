"""The claims and disks that the pods on nodes use, by node.

Looked up by name ("which nodes use this disk?") and not by node, because a pod names one or two disks and there are
thousands of nodes. Only pods with volumes are kept; ghost nodes count here and drop out when names become rows.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kscheduler.api.core import Pod
from kscheduler.framework.cluster.volumes import claim_name, disks_of
from kscheduler.framework.pods.pod_info import PodInfo

_NO_USERS: Mapping[str, int] = MappingProxyType({})
_NO_PODS: Mapping[str, PodInfo] = MappingProxyType({})


class CountsByNode:
    """For each thing the number of its users per node."""

    def __init__(self) -> None:
        self._users: dict[object, dict[str, int]] = {}

    def add(self, thing: object, node_name: str, amount: int) -> None:
        """Add users, or remove them with a negative amount."""
        counts = self._users.get(thing)
        if counts is None:
            counts = self._users[thing] = {}
        count = counts.get(node_name, 0) + amount
        if count:
            counts[node_name] = count
        else:
            counts.pop(node_name, None)
            if not counts:
                del self._users[thing]

    def of(self, thing: object) -> Mapping[str, int]:
        """Users by node name; nodes without users are left out."""
        return self._users.get(thing, _NO_USERS)


class VolumeUse:
    """Pods with volumes by node, and what they use."""

    def __init__(self) -> None:
        self.claims = CountsByNode()
        """By claim key: volumes of pods that name the claim."""
        self.ephemeral = CountsByNode()
        """By claim key: ephemeral volumes of pods whose claim it is."""
        self.disks = CountsByNode()
        self.writers = CountsByNode()
        self._pods: defaultdict[str, dict[str, PodInfo]] = defaultdict(dict)

    def add(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod with volumes on a node."""
        self._pods[node_name][pod.uid] = pod
        self._count(pod.pod, node_name, 1)

    def remove(self, pod: PodInfo, node_name: str) -> None:
        """Stop counting a pod with volumes on its node."""
        del self._pods[node_name][pod.uid]
        if not self._pods[node_name]:
            del self._pods[node_name]
        self._count(pod.pod, node_name, -1)

    def pods(self, node_name: str) -> Mapping[str, PodInfo]:
        """The node's pods with volumes, by UID."""
        return self._pods.get(node_name, _NO_PODS)

    def node_names(self) -> Iterator[str]:
        """The names of nodes with such pods."""
        return iter(self._pods)

    def _count(self, pod: Pod, node_name: str, sign: int) -> None:
        namespace = pod.metadata.namespace
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            if name is not None:
                users = self.claims if volume.persistent_volume_claim is not None else self.ephemeral
                users.add(f"{namespace}/{name}", node_name, sign)
        for disk, reads_only in disks_of(pod):
            self.disks.add(disk, node_name, sign)
            if not reads_only:
                self.writers.add(disk, node_name, sign)


def names_claims_only(pod: Pod) -> bool:
    """Whether each volume names a claim: then each is at most a single volume, and always countable."""
    for volume in pod.spec.volumes:
        source = volume.persistent_volume_claim
        if source is None or not source.claim_name:
            return False
    return True
