"""Which running pods are judged although they have a node: those whose resize waits for room, behind a feature gate."""

from kscheduler.api.core import Pod
from kscheduler.config.feature_gates import RESIZE_PREEMPTION, FeatureGates
from kscheduler.framework.pods.requests import resize_is_deferred


class DeferredResizes:
    """Follows the gate of the configuration in force."""

    def __init__(self) -> None:
        self.are_judged = False
        """Whether the gate is on; a version that does not have it judges none."""

    def follow(self, gates: FeatureGates) -> None:
        """These gates hold from now on."""
        self.are_judged = RESIZE_PREEMPTION in gates.enabled_names()

    def concerns(self, pod: Pod) -> bool:
        """Whether this pod with a node is judged, and so waits in the queue."""
        return self.are_judged and bool(pod.spec.node_name) and not pod.is_terminal and resize_is_deferred(pod)
