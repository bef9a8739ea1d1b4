"""Whether a value of one type may stand where another is wanted, and what that says about parameters of types."""

from kscheduler.cel.types import (
    DYN,
    NULL,
    Type,
    list_of,
    map_of,
    type_of,
)

Mapping = dict[str, Type]
"""What parameters stand for, by how they are shown."""

_NULLABLE = frozenset(("opaque", "struct", "any", "duration", "timestamp"))
_BY_NAME = frozenset(("bool", "bytes", "double", "int", "string", "uint", "any", "duration", "timestamp", "struct"))
_MADE_OF = frozenset(("opaque", "list", "map"))


def assignable(mapping: Mapping, one: Type, other: Type) -> Mapping | None:
    """The parameters if the types go together, else None."""
    copy = dict(mapping)
    return copy if _fits(copy, one, other) else None


def all_assignable(mapping: Mapping, ones: list[Type], others: list[Type]) -> Mapping | None:
    """As `assignable`, of several pairs."""
    copy = dict(mapping)
    return copy if _all_fit(copy, ones, others) else None


def _all_fit(mapping: Mapping, ones: "list[Type] | tuple[Type, ...]", others: "list[Type] | tuple[Type, ...]") -> bool:
    return len(ones) == len(others) and all(_fits(mapping, one, other) for one, other in zip(ones, others, strict=True))


def _fits(mapping: Mapping, one: Type, other: Type) -> bool:
    if other.kind == "param":
        valid, known = _substitutes(mapping, one, other)
        if valid:
            return True
        if known:
            return False
    if one.kind == "param":
        return _substitutes(mapping, other, one)[0]
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
        return one.kind == other.kind and one.name == other.name and _all_fit(mapping, one.params, other.params)
    return False


def _substitutes(mapping: Mapping, one: Type, parameter: Type) -> tuple[bool, bool]:
    """Whether a type can stand for a parameter, and whether something stands for it already."""
    if one.kind == parameter.kind and one.same(parameter):
        return True, True
    known = mapping.get(parameter.shown())
    if known is not None:
        if one.kind == known.kind and one.same(known):
            return True, True
        if _fits(mapping, one, known):
            general = most_general(one, known)
            if _free_of(mapping, parameter, general):
                mapping[parameter.shown()] = general
            return True, True
        return False, True
    if _free_of(mapping, parameter, one):
        mapping[parameter.shown()] = one
        return True, False
    return False, False


def most_general(one: Type, other: Type) -> Type:
    """The one of two types that says less."""
    return one if _less_specific(one, other) else other


def _less_specific(one: Type, other: Type) -> bool:
    if one.is_dyn or one.kind == "param":
        return True
    if other.is_dyn or other.kind == "param" or one.kind != other.kind:
        return False
    if one.kind in _MADE_OF:
        same = one.name == other.name and len(one.params) == len(other.params)
        return same and all(_less_specific(*pair) for pair in zip(one.params, other.params, strict=True))
    return one.kind == "type" or one.same(other)


def _free_of(mapping: Mapping, parameter: Type, within: Type) -> bool:
    """Whether a parameter does not occur in a type."""
    if parameter.same(within):
        return False
    if within.kind == "param":
        known = mapping.get(within.shown())
        return known is None or _free_of(mapping, parameter, known)
    if within.kind in _MADE_OF or within.kind == "type":
        return all(_free_of(mapping, parameter, part) for part in within.params)
    return True


def substituted(mapping: Mapping, described: Type, *, to_dyn: bool) -> Type:
    """The type with what its parameters stand for; with `to_dyn`, a parameter that nothing stands for is dyn."""
    known = mapping.get(described.shown()) if mapping else None
    if known is not None:
        return substituted(mapping, known, to_dyn=to_dyn)
    kind = described.kind
    if to_dyn and kind == "param":
        return DYN
    if kind == "opaque":
        params = tuple(substituted(mapping, part, to_dyn=to_dyn) for part in described.params)
        return Type("opaque", described.name, params)
    if kind == "list":
        return list_of(substituted(mapping, described.params[0], to_dyn=to_dyn))
    if kind == "map":
        key, value = (substituted(mapping, part, to_dyn=to_dyn) for part in described.params)
        return map_of(key, value)
    if kind == "type" and described.params:
        return type_of(substituted(mapping, described.params[0], to_dyn=to_dyn))
    return described
