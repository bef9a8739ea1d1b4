"""Whether a value of one type may stand where another is wanted, and what that says about parameters of types.

Types share their parts, so a type of depth d may have 2 to the power of d parts as a tree: what is worked out about a
pair of types is remembered by the pair, and each comparison is a step of the compilation's budget.
"""

from collections.abc import Mapping, Sequence

from kscheduler.cel.steps import spend
from kscheduler.cel.types import (
    DYN,
    NULL,
    Type,
    list_of,
    map_of,
    type_of,
)

_NULLABLE = frozenset(("opaque", "struct", "any", "duration", "timestamp"))
_BY_NAME = frozenset(("bool", "bytes", "double", "int", "string", "uint", "any", "duration", "timestamp", "struct"))
_MADE_OF = frozenset(("opaque", "list", "map"))


class Comparisons:
    """Compares types, and remembers what came out."""

    def __init__(self) -> None:
        self._same: dict[tuple[Type, Type], bool] = {}

    def same(self, one: Type, other: Type) -> bool:
        """Whether both are exactly the same type."""
        if one is other:
            return True
        if one.shape != other.shape or one.kind != other.kind or one.name != other.name:
            return False
        if len(one.params) != len(other.params):
            return False
        if not one.params:
            return True
        known = self._same.get((one, other))
        if known is None:
            spend()
            known = all(map(self.same, one.params, other.params))
            self._same[one, other] = known
        return known


class Assignment:
    """What parameters of types stand for, as far as is known."""

    def __init__(self, comparisons: Comparisons) -> None:
        self._comparisons = comparisons
        self._known: dict[str, Type] = {}
        """By name of the parameter."""
        self._trail: list[tuple[str, Type | None]] = []
        """What the comparison under way has changed, to be undone if it fails."""
        self._fitting: dict[tuple[Type, Type], bool] = {}
        """Pairs of types without parameters: what is known of parameters says nothing about them."""
        self._general: dict[tuple[Type, Type], bool] = {}
        self._substituted: dict[tuple[Type, bool], Type] = {}
        """As long as nothing more is known of parameters."""

    def fits(self, one: Type, other: Type) -> bool:
        """Whether the types go together; what that says about parameters is known from now on."""
        return self.all_fit((one,), (other,))

    def all_fit(self, ones: Sequence[Type], others: Sequence[Type]) -> bool:
        """As `fits`, of several pairs."""
        self._trail.clear()
        if len(ones) == len(others) and all(map(self._fits, ones, others)):
            return True
        for name, before in reversed(self._trail):
            self._set(name, before)
        return False

    def _set(self, name: str, described: Type | None) -> None:
        if described is None:
            del self._known[name]
        else:
            self._known[name] = described
        self._substituted.clear()

    def _note(self, parameter: Type, described: Type) -> None:
        self._trail.append((parameter.name, self._known.get(parameter.name)))
        self._set(parameter.name, described)

    def _fits(self, one: Type, other: Type) -> bool:
        spend()
        if not (one.has_parameters or other.has_parameters) and one.params and other.params:
            known = self._fitting.get((one, other))
            if known is None:
                known = one is other or self._fit(one, other)
                self._fitting[one, other] = known
            return known
        return self._fit(one, other)

    def _fit(self, one: Type, other: Type) -> bool:
        if other.kind == "param":
            valid, known = self._substitutes(one, other)
            if valid:
                return True
            if known:
                return False
        if one.kind == "param":
            return self._substitutes(other, one)[0]
        if one.is_dyn or other.is_dyn or "error" in (one.kind, other.kind):
            return True
        if one.kind == "null":
            return other.kind in _NULLABLE or other.takes(NULL)
        if other.kind == "null":
            return one.kind in _NULLABLE or one.takes(NULL)
        if one.kind in _BY_NAME:
            return other.takes(one)
        if one.kind == "type":
            return other.kind == "type"
        if one.kind in _MADE_OF:
            alike = one.kind == other.kind and one.name == other.name and len(one.params) == len(other.params)
            return alike and all(map(self._fits, one.params, other.params))
        return False

    def _substitutes(self, one: Type, parameter: Type) -> tuple[bool, bool]:
        """Whether a type can stand for a parameter, and whether something stands for it already."""
        if one.kind == parameter.kind and one.name == parameter.name:
            return True, True
        known = self._known.get(parameter.name)
        if known is not None:
            if one.kind == known.kind and self._comparisons.same(one, known):
                return True, True
            if self._fits(one, known):
                general = self.most_general(one, known)
                if self._is_free_of(parameter, general):
                    self._note(parameter, general)
                return True, True
            return False, True
        if self._is_free_of(parameter, one):
            self._note(parameter, one)
            return True, False
        return False, False

    def most_general(self, one: Type, other: Type) -> Type:
        """The one of two types that says less."""
        return one if self._is_less_specific(one, other) else other

    def _is_less_specific(self, one: Type, other: Type) -> bool:
        spend()
        if one.is_dyn or one.kind == "param":
            return True
        if other.is_dyn or other.kind == "param" or one.kind != other.kind:
            return False
        if one.kind not in _MADE_OF:
            return one.kind == "type" or self._comparisons.same(one, other)
        known = self._general.get((one, other))
        if known is None:
            known = one.name == other.name and len(one.params) == len(other.params)
            known = known and all(map(self._is_less_specific, one.params, other.params))
            self._general[one, other] = known
        return known

    def _is_free_of(self, parameter: Type, within: Type) -> bool:
        """Whether a parameter does not occur in a type."""
        waiting, seen = [within], set[Type]()
        while waiting:
            part = waiting.pop()
            if not part.has_parameters or part in seen:
                continue
            spend()
            seen.add(part)
            if part.kind == "param":
                if part.name == parameter.name:
                    return False
                known = self._known.get(part.name)
                waiting += () if known is None else (known,)
            else:
                waiting += part.params
        return True

    def substituted(self, described: Type, *, to_dyn: bool = False) -> Type:
        """The type with what its parameters stand for; with `to_dyn`, a parameter that nothing stands for is dyn."""
        if not described.has_parameters:
            return described
        known = self._substituted.get((described, to_dyn))
        if known is None:
            spend()
            if described.kind == "param":
                means = self._known.get(described.name)
                otherwise = DYN if to_dyn else described
                known = otherwise if means is None else self.substituted(means, to_dyn=to_dyn)
            else:
                known = _made_of(described, [self.substituted(part, to_dyn=to_dyn) for part in described.params])
            self._substituted[described, to_dyn] = known
        return known


def instance(described: Type, parameters: Mapping[str, Type]) -> Type:
    """A declared type with these in place of its parameters."""
    if not described.has_parameters:
        return described
    if described.kind == "param":
        return parameters[described.name]
    return _made_of(described, [instance(part, parameters) for part in described.params])


def _made_of(described: Type, params: Sequence[Type]) -> Type:
    """A type like another, of other parts."""
    match described.kind:
        case "list":
            return list_of(params[0])
        case "map":
            return map_of(*params)
        case "type":
            return type_of(params[0])
    return Type(described.kind, described.name, tuple(params))
