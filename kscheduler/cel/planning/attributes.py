"""Variables with fields and indexes, as one thing to resolve: a field of a conditional is a field of both its branches.

What is resolved costs 1, every field and index 1 more; a branch that is itself a variable costs nothing beyond its
fields.
"""

from collections.abc import Callable
from typing import Any

from kscheduler.cel.planning.frame import Frame
from kscheduler.cel.planning.qualifying import ABSENT, go_value, index_error, qualified
from kscheduler.cel.values.kinds import NO_SUCH_OVERLOAD, NONE, ErrorValue, Optional

Run = Callable[[Frame], Any]


class Qualifier:
    """A field or index. `index` gives the value, or is None for the constant `value`."""

    __slots__ = ("index", "optional", "presence", "value")

    def __init__(
        self, value: Any, index: "Attribute | None" = None, *, optional: bool = False, presence: bool = False
    ) -> None:
        self.value, self.index = value, index
        self.optional, self.presence = optional, presence

    def build(self) -> Callable[[Frame, Any, bool], Any]:
        """A function of frame, value and whether nothing may be there."""
        if self.index is not None:
            return _by_attribute(self.index.build())
        return _by_presence(self.value) if self.presence else _by_constant(self.value)


def _by_constant(index: Any) -> Callable[[Frame, Any, bool], Any]:
    def qualify(frame: Frame, value: Any, optional: bool) -> Any:
        found = qualified(value, index, presence=optional)
        if not optional or (found is not ABSENT and type(found) is not ErrorValue):
            frame.charge_ones(1)
        return found

    return qualify


def _by_presence(index: Any) -> Callable[[Frame, Any, bool], Any]:
    def qualify(frame: Frame, value: Any, optional: bool) -> Any:
        found = qualified(value, index, presence=True)
        if optional:
            if found is not ABSENT and type(found) is not ErrorValue:
                frame.charge_ones(1)
            return found
        frame.charge_ones(1)
        return found if type(found) is ErrorValue else found is not ABSENT

    return qualify


def _by_attribute(resolve: Run) -> Callable[[Frame, Any, bool], Any]:
    def qualify(frame: Frame, value: Any, optional: bool) -> Any:
        index = resolve(frame)
        if type(index) is ErrorValue:
            found: Any = index
        else:
            found = index_error(index) or qualified(value, index, presence=optional)
        if not optional or (found is not ABSENT and type(found) is not ErrorValue):
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

    `uncounted`: of a variable behind a leading point, which a local one hides: cel-go does not count what is asked of
    it.
    """

    def __init__(self, root: Run, *, through_go: bool, uncounted: bool = False) -> None:
        self.root, self._through_go = root, through_go
        self._uncounted = uncounted
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
        steps = [(qualifier.build(), qualifier.optional) for qualifier in self._qualifiers]
        through_go, uncounted = self._through_go, self._uncounted

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

    def __init__(self, condition: Run, yes: Attribute, no: Attribute) -> None:
        self._condition, self._yes, self._no = condition, yes, no

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
        return _of_presence(resolve, -1) if presence else resolve
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
