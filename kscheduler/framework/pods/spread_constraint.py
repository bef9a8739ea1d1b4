"""A parsed topology spread constraint: which pods it counts, on which nodes, and how uneven they may be spread."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import TopologySpreadConstraint
from kscheduler.api.selectors import Operator, Requirement, Selector, parse_label_selector
from kscheduler.framework.pods.affinity_terms import PodMatch

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"


class SpreadConstraint(msgspec.Struct, frozen=True):
    """A constraint of a pod."""

    max_skew: int
    topology_key: str
    action: str
    """`DoNotSchedule` rejects nodes, `ScheduleAnyway` lowers their score."""
    selector: Selector
    """The selector for the pod itself: an empty selector matches it although until 1.37 it counts no pods (Q23)."""
    counted: PodMatch | None
    """The pods that count, of an empty selector as from 1.38 on (`unless_empty`); `None` if no pods do."""
    min_domains: int = 1
    """With fewer domains than this, the domain with the fewest pods counts as empty."""
    honors_affinity: bool = True
    """Leave out nodes that the pod's nodeSelector and required node affinity do not match."""
    honors_taints: bool = False
    """Leave out nodes with a taint that the pod does not tolerate."""
    is_readable: bool = True
    """Whether the label selector could be parsed; the API server refuses selectors that cannot."""


def parse_spread_constraint(
    constraint: TopologySpreadConstraint, namespace: str, labels: Mapping[str, str]
) -> SpreadConstraint:
    """Parse a constraint of a pod with this namespace and these labels."""
    parsed = parse_label_selector(constraint.label_selector)
    selector = _narrowed(parsed, constraint.match_label_keys, labels)
    return SpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        action=constraint.when_unsatisfiable,
        selector=selector,
        counted=counted_by(selector, namespace),
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=(constraint.node_affinity_policy or HONOR) == HONOR,
        honors_taints=(constraint.node_taints_policy or IGNORE) == HONOR,
        is_readable=constraint.label_selector is None or not parsed.nothing,
    )


def counted_by(selector: Selector, namespace: str) -> PodMatch | None:
    """The pods of the namespace that match and are not being deleted."""
    if selector.nothing:
        return None
    return PodMatch(frozenset((namespace,)), selectors=(selector,), counts_terminating=False)


def unless_empty(constraint: SpreadConstraint) -> SpreadConstraint:
    """The constraint as it counts until 1.37: an empty selector counts no pod (Q23)."""
    return replace(constraint, counted=None) if constraint.selector.is_empty else constraint


def merged(selector: Selector, more: Iterable[Requirement]) -> Selector:
    """The selector with more requirements, without duplicates."""
    return Selector(tuple(dict.fromkeys((*selector.requirements, *more))))


def _narrowed(selector: Selector, match_label_keys: Iterable[str], labels: Mapping[str, str]) -> Selector:
    """The selector narrowed to the pod's own values of these labels. Harmless if the API server has done so already."""
    own = [Requirement(key, Operator.IN, frozenset((labels[key],))) for key in match_label_keys if key in labels]
    return selector if selector.nothing or not own else merged(selector, own)
