"""A profile's default constraints, as they are for the pods that the same services and the same controller select.

The selector is deduced from those objects alone, so the pods of one StatefulSet get the very same constraints for as
long as none of the objects changes, and what is kept by constraints (`layout`) is found for all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kscheduler.bounded.recently_used import RecentlyUsed
from kscheduler.framework.cluster.listers import WorkloadListers
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import SpreadConstraint, counted_by
from kscheduler.plugins.pod_topology_spread.default_selector import Selecting, selecting

ByAction = Mapping[str, tuple[SpreadConstraint, ...]]
"""By `whenUnsatisfiable`."""

_NONE: Final[ByAction] = {}
_KEPT: Final = 4096
"""Sets of objects at most, three kilobytes each."""
_LEAST_SWEPT: Final = 256
"""Beyond it, and whenever there are twice as many as were left, those go whose controller has gone or has changed."""


class DeducedConstraints:
    """The constraints made lately, by the objects that they come from."""

    def __init__(self, defaults: Sequence[SpreadConstraint]) -> None:
        self._defaults = defaults
        self._known: RecentlyUsed[tuple[str, tuple[int, ...], int], tuple[Selecting, ByAction]] = RecentlyUsed(_KEPT)
        self._sweep_at = _LEAST_SWEPT

    def of(self, pod: PodInfo, workloads: WorkloadListers) -> ByAction:
        """The default constraints of this pod; none where nothing selects it."""
        found = selecting(pod, workloads)
        if not found.services and found.controller is None:
            return _NONE
        key = pod.namespace, tuple(map(id, found.services)), id(found.controller)
        known = self._known.use(key)
        if known is None or not known[0].is_made_of(found):  # an id may be another object's by now
            known = self._known[key] = found, self._made(found, pod.namespace)
        if len(self._known) > self._sweep_at:
            for stale in [key for key, one in self._known.items() if not one[0].is_of_now(workloads)]:
                del self._known[stale]
            self._sweep_at = max(_LEAST_SWEPT, 2 * len(self._known))
        return known[1]

    def _made(self, found: Selecting, namespace: str) -> ByAction:
        selector = found.selector()
        if selector.is_empty:
            return _NONE
        counted = counted_by(selector, namespace)
        made = [replace(one, selector=selector, counted=counted) for one in self._defaults]
        actions = dict.fromkeys(one.action for one in made)
        return {action: tuple(one for one in made if one.action == action) for action in actions}
