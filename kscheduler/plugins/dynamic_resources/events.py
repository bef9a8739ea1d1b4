"""The events after which a pod's claims may exist, be free or get devices."""

from collections.abc import Sequence

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.meta import KubeObject
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.dynamic_resources.in_cycle import ClaimNotReadyError, pod_claims

_EITHER = ActionType.ADD | ActionType.UPDATE


class DeviceEvents:
    """The events, with hints that look at the pod's claims."""

    def __init__(self, claims: Claims | None) -> None:
        self._claims = claims

    def registered(self) -> Sequence[ClusterEventWithHint]:
        """All events after which a verdict may change."""
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        generated = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return (
            # A new node may have devices; with other labels it may reach those of the network.
            ClusterEventWithHint(ClusterEvent(Resource.NODE, nodes)),
            # What is allocated stands in the claims.
            ClusterEventWithHint(ClusterEvent(Resource.RESOURCE_CLAIM, _EITHER | ActionType.DELETE), self._after_claim),
            # The controller has made the pod's claims from their templates.
            ClusterEventWithHint(ClusterEvent(Resource.POD, generated), self._after_generated),
            # A pod is gone, or not bound after all: what was reserved for it, and not written, is free again.
            # Upstream does not register this event; no other event shows it, because no claim changes.
            ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE), self._after_pod_delete),
            ClusterEventWithHint(ClusterEvent(Resource.DEVICE_CLASS, _EITHER)),
            # New devices, or devices without their taints. Upstream leaves out the end of a slice, which makes a pool
            # whole where two slices named the same device.
            ClusterEventWithHint(ClusterEvent(Resource.RESOURCE_SLICE, _EITHER | ActionType.DELETE)),
        )

    def _after_claim(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """Any claim has given its devices back, or one of the pod's own claims is new or has another status."""
        before = old if isinstance(old, ResourceClaim) else None
        if not isinstance(new, ResourceClaim):
            return _queue_if(before is None or before.status.allocation is not None)
        own = self._own_claims(pod.pod)
        if own is None:
            return QueueingHint.SKIP
        if before is not None and before.status.allocation is not None and new.status.allocation is None:
            return QueueingHint.QUEUE
        if all(claim.metadata.uid != new.metadata.uid for claim in own):
            return QueueingHint.SKIP
        return _queue_if(before is None or before.status != new.status)

    def _after_generated(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """The pod's status names its claims, and all of them exist."""
        del pod, old
        return _queue_if(not isinstance(new, Pod) or self._own_claims(new) is not None)

    def _after_pod_delete(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """A pod with claims has left its node."""
        del pod, new
        return _queue_if(not isinstance(old, Pod) or bool(old.spec.resource_claims))

    def _own_claims(self, pod: Pod) -> Sequence[ResourceClaim] | None:
        """The pod's claims; `None` if one of them is not ready."""
        if self._claims is None:
            return ()
        try:
            return pod_claims(pod, self._claims)
        except ClaimNotReadyError:
            return None


def _queue_if(may_help: bool) -> QueueingHint:
    return QueueingHint.QUEUE if may_help else QueueingHint.SKIP
