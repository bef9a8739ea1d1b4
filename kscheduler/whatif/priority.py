"""The priority of a pod that names none itself: from which PriorityClass, as the API server's admission takes it.

Here for both readers of PriorityClasses as they are written: a cluster from files, and the embedded API server.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

Tree = dict[str, Any]

SYSTEM_PRIORITIES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Every cluster has these two classes, whether a file has them or not."""


def default_priority_class(classes: Iterable[Tree]) -> Tree | None:
    """The class for pods that name none: of those marked as default the one with the smallest value."""
    marked = [one for one in classes if one.get("globalDefault")]
    return min(marked, key=_value, default=None)


def _value(priority_class: Tree) -> int:
    """What a person wrote may be anything; whoever decodes the pod then says so."""
    value = priority_class.get("value")
    return value if isinstance(value, int) else 0
