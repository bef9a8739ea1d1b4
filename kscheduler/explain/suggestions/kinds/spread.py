"""Topology spread constraints of a pod: a larger maxSkew, or the constraint as a preference.

A larger maxSkew never fits on fewer nodes, so halving finds the smallest that helps. The counts of the filter say where
it may lie; the cycle says where it does.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from kscheduler.api.core import Pod
from kscheduler.explain.suggestions.object_changes import REPLACE, Operation, pointer
from kscheduler.explain.suggestions.suggestion import Beside, Demand, GroupScale, Patch, PodChange, RowsOf, Step
from kscheduler.explain.suggestions.trials import SPREAD, Trials
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY
from kscheduler.plugins.pod_topology_spread.filtering import HardSpread
from kscheduler.scheduling.cycle.schedule import find_feasible
from kscheduler.state.cache import Cache

# The largest maxSkew that the API has a number for.
_MAX_SKEW: Final = 2**31 - 1
_SIZE_OF_PREFERENCE: Final = 0.7


class RaiseMaxSkew(PodChange, frozen=True):
    """A larger maxSkew. Proposes the constraint as a preference, too: of each constraint one after the other."""

    kind = "maxSkew"
    touched = frozenset((SPREAD,))

    constraint: int
    topology_key: str
    max_skew: int
    to: int | UnsetType = UNSET

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator[Demand]:
        for position, constraint in enumerate(pod.pod.spec.topology_spread_constraints):
            if constraint.when_unsatisfiable != DO_NOT_SCHEDULE:
                continue
            at = ("spec", "topologySpreadConstraints", position)
            family, facts = pointer(*at), (position, constraint.topology_key, constraint.max_skew)
            yield Demand(cls(*facts), (Operation(REPLACE, pointer(*at, "maxSkew"), _MAX_SKEW),), family=family)
            soft = (Operation(REPLACE, pointer(*at, "whenUnsatisfiable"), SCHEDULE_ANYWAY),)
            yield Demand(PreferSpread(*facts), soft, _SIZE_OF_PREFERENCE, family, is_last_resort=True)

    def smallest(self, demand: Demand, widest: Rows, rows_of: RowsOf, beside: Beside) -> tuple[Demand, Rows]:
        """The first trial is of what the counts ask for: nearly always one less does not help."""
        found: dict[int, Rows] = {}

        def helps(skew: int) -> bool:
            rows = rows_of(_with_skew(demand, skew))
            if len(rows):
                found[skew] = rows
            return len(rows) > 0

        expected = _expected_skew(demand, widest, beside)
        # `low` does not help, `high` does.
        low, step, high = self.max_skew, 1, _MAX_SKEW
        if low < expected < _MAX_SKEW and helps(expected):
            high = expected
            low, high = (low, high - 1) if high - 1 > low and helps(high - 1) else (high - 1, high)
        else:
            while low + step < _MAX_SKEW and not helps(low + step):
                low, step = low + step, step * 2
            high = min(low + step, _MAX_SKEW)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if helps(middle) else (middle, high)
        patch = _with_skew(demand, high)
        if high not in found:
            found[high] = rows_of(patch)
        facts = msgspec.structs.replace(self, to=high)
        return replace(demand, facts=facts, patch=patch, size=(high - self.max_skew) / high), found[high]

    def in_group(self, demand: Demand, pod: Pod, trials: Trials) -> tuple[GroupScale[Demand], Demand] | None:
        """Without effect is not the smallest: the constraint as a preference says the same."""
        return None

    def text(self, step: Step) -> str:
        return f"allow a maxSkew of {self.to} instead of {self.max_skew} over {self.topology_key}"


class PreferSpread(PodChange, frozen=True):
    """The constraint as a preference; proposed with its larger maxSkew."""

    kind = "topologySpreadConstraint"
    touched = frozenset((SPREAD,))

    constraint: int
    topology_key: str
    max_skew: int

    def text(self, step: Step) -> str:
        return f"make the spread over {self.topology_key} a preference (whenUnsatisfiable: ScheduleAnyway)"


def _expected_skew(demand: Demand, widest: Rows, beside: Beside) -> int:
    """The maxSkew that the counts of the filter ask for on the best of the rows; 0 if there are none.

    It says where to look first. What other changes do to the counts it need not know: the cycle decides.
    """
    trials = beside.trials
    with trials.changed(beside.changes, beside.gone):
        state = find_feasible(trials.profile, trials.patched(demand.patch), trials.cache).state
    spread = state.find(HardSpread)
    counts = next((each for each in spread.counts if each.constraint.max_skew == _MAX_SKEW), None) if spread else None
    if counts is None:
        return 0
    pods, minimum = counts.seen_from(widest)
    return int((pods + counts.is_own - minimum).min())


def _with_skew(demand: Demand, skew: int) -> Patch:
    (wide,) = demand.patch
    return (Operation(wide.op, wide.path, skew),)
