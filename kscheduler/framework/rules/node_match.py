"""Whether a node accepts a pod: selector, required affinity, taints; for a single node and pod.

For kubelets, the DaemonSet and taint controllers and the demo's check, independent of the scheduler's columns, so that
its decisions are checked by other code. What a toleration covers is defined in `framework.rules.node_match`.

`Lt` and `Gt` always compare numbers here, as with the gate TaintTolerationComparisonOperators on. A scheduler without
the gate places fewer pods, but none that would be rejected.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from kscheduler.api.core import Node, Pod, Taint, Toleration
from kscheduler.api.selectors import parse_node_selector_map, parse_node_term


def selects(pod: Pod, node: Node) -> bool:
    """Whether nodeSelector and required node affinity allow the node."""
    labels, name = node.metadata.labels, node.metadata.name
    if not parse_node_selector_map(pod.spec.node_selector).matches(labels, name):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None:
        return True
    return any(parse_node_term(term).matches(labels, name) for term in required.node_selector_terms)


def untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str]
) -> Iterator[Taint]:
    """The taints of these effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not any(covers(toleration, taint) for toleration in tolerations):
            yield taint


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration matches a taint, whatever its time limit."""
    return tolerates(toleration, taint, compares=True)


# Which taints a pod tolerates: the rule that several plugins share (core/v1 Toleration.ToleratesTaint).
#
# `Lt` and `Gt` compare numbers: the taint's value must be less, or greater, than the toleration's. They do so only if
# the feature gate TaintTolerationComparisonOperators is on (`compares`); otherwise they tolerate nothing.

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"


# The feature gate.
COMPARISON_OPERATORS: Final = "TaintTolerationComparisonOperators"

_CANONICAL_INTEGER: Final = re.compile("0|-?[1-9][0-9]*")
_INT64: Final = range(-(2**63), 2**63)
_MAX_DIGITS: Final = 20


def tolerates(toleration: Toleration, taint: Taint, *, compares: bool = False) -> bool:
    """Whether a toleration matches the taint. An empty effect or key matches all, and no operator means Equal."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if compares and toleration.operator in ("Lt", "Gt"):
        return _compares(taint.value, toleration.operator, toleration.value)
    return toleration.operator == "Exists"


def any_tolerates(tolerations: Iterable[Toleration], taint: Taint, *, compares: bool = False) -> bool:
    """Whether at least one of the tolerations matches the taint."""
    return any(tolerates(toleration, taint, compares=compares) for toleration in tolerations)


def has_untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...], *, compares: bool = False) -> bool:
    """Whether there is a taint with NoSchedule or NoExecute that none of the tolerations matches."""
    return any(
        taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not any_tolerates(tolerations, taint, compares=compares)
        for taint in taints
    )


def _compares(taint_value: str, operator: str, bound: str) -> bool:
    value, limit = canonical_integer(taint_value), canonical_integer(bound)
    if value is None or limit is None:
        return False
    return value < limit if operator == "Lt" else value > limit


def canonical_integer(text: str) -> int | None:
    """An int64 in the form that the API server requires: no plus sign, no leading zeros, no spaces; else `None`."""
    if len(text) > _MAX_DIGITS or not _CANONICAL_INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None
