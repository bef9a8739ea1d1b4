"""Something that a pod asks for, and the pod without it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kscheduler.explain.suggestions.changed import Operation
from kscheduler.explain.suggestions.suggestion import ChangeKind, Harm

# Of a rule that goes, where nothing is measured.
HALF: Final = 0.5

Patch = tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """Something that the pod asks for."""

    kind: ChangeKind
    patch: Patch
    """The largest relaxation."""
    size: float = HALF
    facts: Mapping[str, Any] = field(default_factory=dict)
    resource: str = ""
    """Of a request."""
    skew: int = 0
    """The maxSkew of a spread constraint."""
    family: str = ""
    """Demands that say more and less of the same: where one of a family helps, its `is_last_resort` is left out."""
    is_last_resort: bool = False
    comes_last: bool = False
    """As of a `Step`."""
    harm: Harm = Harm.NONE
