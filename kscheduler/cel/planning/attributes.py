"""Variables with fields and indexes, as one thing to resolve: a field of a conditional is a field of both its branches.

What is resolved costs 1, every field and index 1 more; a branch that is itself a variable costs nothing beyond its
fields.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from kscheduler.cel.types import Type
from kscheduler.cel.values.go_text import shown
from kscheduler.cel.values.kinds import ANY_MAP, NO_SUCH_OVERLOAD, NONE, ErrorValue, Opaque, Optional, StringMap, Uint
from kscheduler.cel.values.typing import go_type, type_of

# What differs between releases when expressions are evaluated.


class EvaluationRules(msgspec.Struct, frozen=True):
    """`optionals_through_go`: fields of an optional go through Go's types. `lenient_or`: `or` of what is no optional is
    that. `old_costs`: `startsWith` and `endsWith` cost by the text, not by the part, `includes` costs 1.
    `stops_at_errors`: the first part that fails ends a call, list or map, which then costs nothing; a list that could
    not be made has no length. `counts_all_lookups`: a field of an optional costs as much if looking it up fails, and
    so do fields of a variable behind a leading point.
    `ranges_of_nothing`: a comprehension may go through an empty text. `bound_stays`: only what a macro gathers is
    changed in place, not an empty list or map that is bound to a name.
    """

    optionals_through_go: bool
    lenient_or: bool
    old_costs: bool
    stops_at_errors: bool
    counts_all_lookups: bool
    ranges_of_nothing: bool
    bound_stays: bool


# What an evaluation knows: the variables, and the cost until now.

# An accumulator that nobody has asked for yet.
UNSET = object()


class CostLimitError(RuntimeError):
    """The evaluation costs more than it may."""


class Frame:
    """One evaluation. `slots` are the variables of comprehensions, `globals` those of the environment."""

    __slots__ = ("cost", "globals", "limit", "slots")

    def __init__(self, variables: dict[str, Any], slots: int, limit: int) -> None:
        self.globals = variables
        self.slots: list[Any] = [UNSET] * slots
        self.cost, self.limit = 0, limit

    def beside(self) -> "Frame":
        """Another evaluation with the same variables, whose cost nobody asks for."""
        other = Frame(self.globals, 0, 2**63)
        other.slots = self.slots
        return other

    def charge(self, cost: int) -> None:
        """Count a cost. Raises `CostLimitError` when that is too much."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError

    def charge_ones(self, count: int) -> None:
        """Count as many costs of one: the first that is too much ends it."""
        self.cost += count
        if self.cost > self.limit:
            self.cost = max(self.limit + 1, self.cost - count + 1)
            raise CostLimitError


# Fields and indexes of values: what `value.field` and `value[index]` find.

# There is nothing at a place where nothing may be.
ABSENT = object()

_INDEXES = (str, int, Uint, bool, float)
_MAX_INT = 2**63 - 1


def index_error(index: Any) -> ErrorValue | None:
    """What is wrong with a value as an index, if anything."""
    if type(index) in _INDEXES:
        return None
    return ErrorValue(f"invalid qualifier type: {go_type(index)}")


def qualified(value: Any, index: Any, *, presence: bool) -> Any:
    """The element of a value; an error if there is none, or `ABSENT` where its presence is in question."""
    kind = type(value)
    if kind is ErrorValue:
        return value
    if isinstance(value, ANY_MAP):
        found = value.find(index)
        if found is not None:
            return found[0]
        return ABSENT if presence else ErrorValue(f"no such key: {shown(index)}")
    if isinstance(value, list):
        at = position(index)
        if isinstance(at, ErrorValue):
            return at
        if 0 <= at < len(value):
            return value[at]
        return ABSENT if presence else ErrorValue(f"index out of bounds: {shown(index)}")
    return ABSENT if presence else ErrorValue(f"no such key: {shown(index)}")


def position(index: Any) -> int | ErrorValue:
    """The position that an index means."""
    if type(index) is int:
        return index
    if type(index) is float:
        whole = index == index and abs(index) < float(2**63) and index == int(index)
        return int(index) if whole else ErrorValue(f"unsupported index value {shown(index)} in list")
    if type(index) is Uint:
        return int(index) if index <= _MAX_INT else ErrorValue(f"unsupported index value {shown(index)} in list")
    return ErrorValue(f"unsupported index type '{type_of(index)}' in list")


def go_value(value: Any) -> Any:
    """What cel-go 0.26 makes of the value of an optional: it goes through Go's own types, which not all survive."""
    if isinstance(value, Optional):
        return go_value(value.value) if value.present else None
    if isinstance(value, Type):
        return value.name
    if isinstance(value, StringMap):
        return value.plain() if hasattr(value, "plain") else value
    if isinstance(value, Opaque) and value.GO_VALUE:
        return ErrorValue(f"unsupported conversion to ref.Val: ({value.GO_VALUE}){value.text()}")
    return value


Run = Callable[[Frame], Any]


class Qualifier:
    """A field or index. `index` gives the value, or is None for the constant `value`."""

    __slots__ = ("index", "optional", "presence", "value")

    def __init__(
        self, value: Any, index: "Attribute | None" = None, *, optional: bool = False, presence: bool = False
    ) -> None:
        self.value, self.index = value, index
        self.optional, self.presence = optional, presence

    def build(self, *, counts_all: bool) -> Callable[[Frame, Any, bool], Any]:
        """A function of frame, value and whether nothing may be there."""
        if self.index is not None:
            return _by_attribute(self.index.build(), counts_all)
        return _by_presence(self.value, counts_all) if self.presence else _by_constant(self.value, counts_all)


def _is_counted(found: Any, *, counts_all: bool) -> bool:
    """Whether looking for what may not be there costs anything, by what was found."""
    return found is not ABSENT and (counts_all or type(found) is not ErrorValue)


def _by_constant(index: Any, counts_all: bool) -> Callable[[Frame, Any, bool], Any]:
    def qualify(frame: Frame, value: Any, optional: bool) -> Any:
        found = qualified(value, index, presence=optional)
        if not optional or _is_counted(found, counts_all=counts_all):
            frame.charge_ones(1)
        return found

    return qualify


def _by_presence(index: Any, counts_all: bool) -> Callable[[Frame, Any, bool], Any]:
    def qualify(frame: Frame, value: Any, optional: bool) -> Any:
        found = qualified(value, index, presence=True)
        if optional:
            if _is_counted(found, counts_all=counts_all):
                frame.charge_ones(1)
            return found
        frame.charge_ones(1)
        return found if type(found) is ErrorValue else found is not ABSENT

    return qualify


def _by_attribute(resolve: Run, counts_all: bool) -> Callable[[Frame, Any, bool], Any]:
    def qualify(frame: Frame, value: Any, optional: bool) -> Any:
        index = resolve(frame)
        if type(index) is ErrorValue:
            found: Any = index
        else:
            found = index_error(index) or qualified(value, index, presence=optional)
        if not optional or _is_counted(found, counts_all=counts_all):
            frame.charge_ones(1)
        return found

    return qualify


class Attribute:
    """Something that can be resolved, and may get fields and indexes until it is built."""

    def add(self, qualifier: Qualifier) -> None:
        """Append a field or index."""
        raise NotImplementedError

    def build(self) -> Run:
        """What resolves it; the value may be an error."""
        raise NotImplementedError


class Rooted(Attribute):
    """Fields and indexes of what a closure gives: a variable, or any expression.

    `uncounted`: of a variable behind a leading point, which a local one hides: cel-go before 0.30 does not count what
    is asked of it.
    """

    def __init__(self, root: Run, rules: EvaluationRules, *, uncounted: bool = False) -> None:
        self.root, self._rules = root, rules
        self._uncounted = uncounted and not rules.counts_all_lookups
        self._qualifiers: list[Qualifier] = []

    def add(self, qualifier: Qualifier) -> None:
        """Append a field or index."""
        self._qualifiers.append(qualifier)

    @property
    def constant_fields(self) -> list[Any] | None:
        """The fields if all are constants that must be there."""
        plain = all(not (item.optional or item.presence or item.index) for item in self._qualifiers)
        plain = plain and not self._uncounted
        return [item.value for item in self._qualifiers] if plain else None

    def build(self) -> Run:
        """What resolves it."""
        root, qualify = self.root, self.qualify_value()
        return lambda frame: qualify(frame, root(frame))

    def qualify_value(self) -> Callable[[Frame, Any], Any]:
        """What finds the fields and indexes of a root."""
        counts_all = self._rules.counts_all_lookups
        steps = [(qualifier.build(counts_all=counts_all), qualifier.optional) for qualifier in self._qualifiers]
        through_go, uncounted = self._rules.optionals_through_go, self._uncounted

        def resolve(frame: Frame, value: Any) -> Any:
            optional = False
            if uncounted:
                frame = frame.beside()
            if type(value) is Optional:
                if not value.present:
                    return value
                optional = True
                value = go_value(value.value) if through_go else value.value
            elif type(value) is ErrorValue:
                return value
            for qualify, makes_optional in steps:
                optional = optional or makes_optional
                value = qualify(frame, value, optional)
                if value is ABSENT:
                    return NONE
                if type(value) is ErrorValue:
                    return value
            return Optional(value) if optional else value

        return resolve


class Conditional(Attribute):
    """One of two attributes."""

    def __init__(self, condition: Run, yes: Attribute, no: Attribute, rules: EvaluationRules) -> None:
        self._condition, self._yes, self._no = condition, yes, no
        self.presence_cost = 0 if rules.counts_all_lookups else -1

    def add(self, qualifier: Qualifier) -> None:
        """Append a field or index to both."""
        self._yes.add(qualifier)
        self._no.add(qualifier)

    def build(self) -> Run:
        """What resolves it."""
        condition, yes, no = self._condition, self._yes.build(), self._no.build()

        def resolve(frame: Frame) -> Any:
            holds = condition(frame)
            if holds is True:
                return yes(frame)
            if holds is False:
                return no(frame)
            return holds if type(holds) is ErrorValue else NO_SUCH_OVERLOAD

        return resolve


def charged(attribute: Attribute, *, presence: bool) -> Run:
    """What evaluates an attribute and counts its own cost. `presence`: of `has()`, whose cost is that of the fields."""
    if isinstance(attribute, Conditional):
        resolve = attribute.build()
        return _of_presence(resolve, attribute.presence_cost) if presence else resolve
    if presence:
        return _of_presence(attribute.build(), 0)
    if isinstance(attribute, Rooted) and attribute.constant_fields is not None:
        return _of_fields(attribute, attribute.constant_fields)
    resolve = attribute.build()

    def run(frame: Frame) -> Any:
        value = resolve(frame)
        frame.charge_ones(1)
        return value

    return run


def _of_fields(attribute: Rooted, fields: list[Any]) -> Run:
    """A value with constant fields: the quick way for what is no optional, the long one for what is."""
    root, qualify = attribute.root, attribute.qualify_value()

    def run(frame: Frame) -> Any:
        value = root(frame)
        count = 1
        if type(value) is Optional:
            value = qualify(frame, value)
        elif type(value) is not ErrorValue:
            for field in fields:
                value = qualified(value, field, presence=False)
                count += 1
                if type(value) is ErrorValue:
                    break
        frame.charge_ones(count)
        return value

    return run


def _of_presence(resolve: Run, cost: int) -> Run:
    def run(frame: Frame) -> Any:
        value = resolve(frame)
        if cost:
            frame.charge_ones(cost)
        return value.present if type(value) is Optional else value

    return run
