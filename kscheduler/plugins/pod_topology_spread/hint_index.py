"""The parked pods that a change of another pod may help: those with a constraint that counts it, or has counted it.

A pod without constraints of its own may have the profile's, whose selectors follow from services and controllers: its
hint is called for every event.
"""

from collections.abc import Hashable, Iterable

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework.hint_index import HintIndex, keys_of_labels, keys_of_match
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import DO_NOT_SCHEDULE


def _pod_keys(pod: PodInfo) -> Iterable[Hashable] | None:
    if not pod.pod.spec.topology_spread_constraints:
        return None
    namespace = frozenset((pod.namespace,))
    constraints = pod.spread_by_action.get(DO_NOT_SCHEDULE, ())
    return [key for each in constraints for key in keys_of_match(PodMatch(namespace, selectors=(each.selector,)))]


def _event_keys(old: KubeObject | None, new: KubeObject | None) -> Iterable[Hashable] | None:
    versions = [version for version in (old, new) if isinstance(version, Pod)]
    if not versions:
        return None
    return [key for version in versions for key in keys_of_labels(version.metadata.namespace, version.metadata.labels)]


POD_CHANGES = HintIndex(_pod_keys, _event_keys)
