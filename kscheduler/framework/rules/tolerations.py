"""Which taints a pod tolerates: the rule that several plugins share (core/v1 Toleration.ToleratesTaint).

`Lt` and `Gt` compare numbers: the taint's value must be less, or greater, than the toleration's. They do so only if
the feature gate TaintTolerationComparisonOperators is on (`compares`); otherwise they tolerate nothing.
"""

import re
from collections.abc import Iterable
from typing import Final

from kscheduler.api.core import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"


COMPARISON_OPERATORS: Final = "TaintTolerationComparisonOperators"
"""The feature gate."""

_CANONICAL_INTEGER: Final = re.compile("0|-?[1-9][0-9]*")
_INT64: Final = range(-(2**63), 2**63)
_MOST_DIGITS: Final = 20


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
    if len(text) > _MOST_DIGITS or not _CANONICAL_INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None
