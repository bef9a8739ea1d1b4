"""Values that a plugin keeps from one extension point of a cycle to the next."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class CycleState:
    """Values by type: each plugin writes a value of its own class and reads it back, typed.

    It lives for one attempt to schedule one pod and is never shared between pods.
    """

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[type, object] = {}
        """By type. To be changed by `write` and `take` only; the scheduler asks it which types there are."""

    def write(self, value: object) -> None:
        """Keep a value under its type."""
        self.values[type(value)] = value

    def read(self, kind: type[T]) -> T:
        """The value of this type. Raises `KeyError` if the plugin has not written it in this cycle."""
        value = self.values[kind]
        assert isinstance(value, kind)  # noqa: S101  `write` files values under their own type
        return value

    def find(self, kind: type[T]) -> T | None:
        """The value of this type, if it was written."""
        value = self.values.get(kind)
        return value if isinstance(value, kind) else None

    def take(self, others: Iterable["CycleState"]) -> None:
        """Take over the values of the other states (values are shared)."""
        for other in others:
            if other.values:
                self.values.update(other.values)

    def clear(self) -> None:
        """Remove all values."""
        self.values.clear()

    def copy(self) -> "CycleState":
        """A state whose entries can be replaced without touching this one (values are shared)."""
        copied = CycleState()
        copied.values = dict(self.values)
        return copied

    def detach(self) -> None:
        """Replace values that share memory with the tables, and so change with them, by what they are now.

        For a state that outlives its cycle. Such a value has a method `detached`, which returns a copy.
        """
        for kind, value in self.values.items():
            detached = getattr(value, "detached", None)
            if detached is not None:
                self.values[kind] = detached()

    def holds_the_same(self, other: "CycleState") -> bool:
        """Whether both hold the same value objects."""
        values, others = self.values, other.values
        return values.keys() == others.keys() and all(value is others[kind] for kind, value in values.items())
