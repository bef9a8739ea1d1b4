"""A profile's default constraints, with the selector deduced from a pod's services and controller.

The selector depends on those objects alone, so all pods of one StatefulSet get the identical constraint objects as long
as none of the services and controllers changes. What `layout` caches by constraints is therefore found for all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kscheduler.bounded.recently_used import RecentlyUsed, RecentlyUsedByWeight
from kscheduler.bounded.weights import weight_of
from kscheduler.framework.cluster.workload_listers import WorkloadListers
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import SpreadConstraint, counted_by
from kscheduler.plugins.pod_topology_spread.default_selector import Selecting, selecting

ByAction = Mapping[str, tuple[SpreadConstraint, ...]]
"""By `whenUnsatisfiable`."""

_NONE: Final[ByAction] = {}
_KEPT: Final = 4096
"""The most sets of services and controller that are kept, about 3 KB each."""
_KEPT_BYTES: Final = 2 * 2**20
"""Of those with long selectors."""
_LEAST_SWEPT: Final = 256
"""Above this size, entries whose controller is deleted or changed are swept, each time the number has doubled."""


def _weight(_: object, entry: tuple[Selecting, ByAction]) -> int:
    found, _ = entry
    return weight_of([service.spec for service in found.services]) + weight_of(
        found.controller.spec if found.controller is not None else None
    )


class DeducedConstraints:
    """The constraints made lately, by the objects that their selector is deduced from."""

    def __init__(self, defaults: Sequence[SpreadConstraint]) -> None:
        self._defaults = defaults
        self._known: RecentlyUsed[tuple[str, tuple[int, ...], int], tuple[Selecting, ByAction]] = RecentlyUsedByWeight(
            _KEPT, _KEPT_BYTES, _weight
        )
        self._sweep_at = _LEAST_SWEPT

    def of(self, pod: PodInfo, workloads: WorkloadListers) -> ByAction:
        """The default constraints of this pod; empty where neither a service nor a controller selects it."""
        found = selecting(pod, workloads)
        if not found.services and found.controller is None:
            return _NONE
        key = pod.namespace, tuple(map(id, found.services)), id(found.controller)
        known = self._known.use(key)
        if known is None or not known[0].is_made_of(found):  # a freed object's id may be reused
            known = self._known[key] = found, self._made(found, pod.namespace)
        if len(self._known) > self._sweep_at:
            for stale in [key for key, entry in self._known.items() if not entry[0].is_current(workloads)]:
                del self._known[stale]
            self._sweep_at = max(_LEAST_SWEPT, 2 * len(self._known))
        return known[1]

    def _made(self, found: Selecting, namespace: str) -> ByAction:
        selector = found.selector()
        if selector.is_empty:
            return _NONE
        counted = counted_by(selector, namespace)
        made = [replace(default, selector=selector, counted=counted) for default in self._defaults]
        actions = dict.fromkeys(constraint.action for constraint in made)
        return {action: tuple(each for each in made if each.action == action) for action in actions}
