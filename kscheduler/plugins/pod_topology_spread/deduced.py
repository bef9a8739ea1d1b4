"""A profile's default constraints, as they are for the pods that the same services and the same controller select.

The selector is deduced from those objects alone, so the pods of one StatefulSet get the very same constraints for as
long as none of the objects changes, and what is kept by constraints (`layout`) is found for all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kscheduler.framework.listers import WorkloadListers
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.spread_constraint import SpreadConstraint, counted_by
from kscheduler.plugins.pod_topology_spread.default_selector import Selecting, selecting

ByAction = Mapping[str, tuple[SpreadConstraint, ...]]
"""By `whenUnsatisfiable`."""

_NONE: Final[ByAction] = {}
_KEPT: Final = 2048
"""Sets of objects, a kilobyte each: those of ReplicaSets that are gone go when others come."""


class DeducedConstraints:
    """The constraints made lately, by the objects that they come from."""

    def __init__(self, defaults: Sequence[SpreadConstraint]) -> None:
        self._defaults = defaults
        self._known: dict[tuple[str, tuple[int, ...], int], tuple[Selecting, ByAction]] = {}

    def of(self, pod: PodInfo, workloads: WorkloadListers) -> ByAction:
        """The default constraints of this pod; none where nothing selects it."""
        found = selecting(pod, workloads)
        if not found.services and found.controller is None:
            return _NONE
        key = pod.namespace, tuple(map(id, found.services)), id(found.controller)
        known = self._known.pop(key, None)
        if known is None or not known[0].is_made_of(found):  # an id may be another object's by now
            known = found, self._made(found, pod.namespace)
        self._known[key] = known
        if len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        return known[1]

    def _made(self, found: Selecting, namespace: str) -> ByAction:
        selector = found.selector()
        if selector.is_empty:
            return _NONE
        counted = counted_by(selector, namespace)
        made = [replace(one, selector=selector, counted=counted) for one in self._defaults]
        actions = dict.fromkeys(one.action for one in made)
        return {action: tuple(one for one in made if one.action == action) for action in actions}
