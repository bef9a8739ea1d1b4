"""Which taints a pod bears: the rule that several plugins share (core/v1 Toleration.ToleratesTaint)."""

from collections.abc import Iterable
from typing import Final

from kscheduler.api.core import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers the taint.

    An empty effect or key covers all of them, and no operator means Equal. `Lt` and `Gt` cover nothing: they belong to
    a feature gate (TaintTolerationComparisonOperators) that is off by default.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def any_tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def has_untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a taint that keeps pods off (NoSchedule, NoExecute) is covered by none of the tolerations."""
    return any(taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not any_tolerates(tolerations, taint) for taint in taints)
