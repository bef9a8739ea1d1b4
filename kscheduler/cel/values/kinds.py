"""The kinds of values that Python has no type for."""

from collections.abc import Iterator
from typing import Any


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class ErrorValue:
    """An error, as a value: it goes through everything that does not absorb it."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message


class PanicError(RuntimeError):
    """A bug of cel-go that ends an evaluation where it panics; the text is what follows `internal error: `."""


NO_SUCH_OVERLOAD = ErrorValue("no such overload")


class MutableList(list[Any]):
    """The empty list that a comprehension starts with: adding changes it, and all variables that are it see that."""

    __slots__ = ()


class ConcatList(list[Any]):
    """A list that was put together of two; only error texts tell it from another."""

    __slots__ = ()


class DurationValue:
    """A span of time in nanoseconds."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos


class Timestamp:
    """A moment: seconds since 1970, nanoseconds, and the zone it was written in (its name and seconds east of UTC)."""

    __slots__ = ("nanos", "offset", "seconds", "zone")

    def __init__(self, seconds: int, nanos: int = 0, offset: int = 0, zone: str = "UTC") -> None:
        self.seconds, self.nanos = seconds, nanos
        self.offset, self.zone = offset, zone

    @property
    def moment(self) -> tuple[int, int]:
        """What two equal moments have in common."""
        return self.seconds, self.nanos


class Optional:
    """A value or none."""

    __slots__ = ("present", "value")

    def __init__(self, value: Any = None, *, present: bool = True) -> None:
        self.value, self.present = value, present


NONE = Optional(present=False)


class Opaque:
    """A kind of value that a library brings: its names, and what Go makes of it where CEL has no rule."""

    __slots__ = ()
    TYPE_NAME = ""
    GO_TYPE = ""
    GO_VALUE = ""
    """The type in Go of what it wraps; empty if that is itself."""
    SHORT_NAME = ""
    HASHABLE = True
    COMPARES_ALL = False
    """Whether it is unequal to values of other kinds; else comparing them is an error."""

    def text(self) -> str:
        """How Go prints it."""
        return ""

    def key(self) -> Any:
        """What makes two of them the same key of a map; each its own, unless the kind says otherwise."""
        return ("id", id(self))

    def equals(self, other: "Opaque") -> bool | ErrorValue:
        """Whether another of the same class is equal."""
        return self is other

    def size(self) -> int | None:
        """Its size where costs are counted by size."""
        return None


def map_key(value: Any) -> Any:
    """What makes two values the same key: 1, 1u, 1.0 and true are four keys, and NaN is never the same as another."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    if kind is bool or kind is Uint:
        return (kind, int(value))
    if kind is float:
        return (kind, value) if value == value else object()
    if value is None:
        return (kind,)
    if kind is bytes:
        message = "runtime error: hash of unhashable type types.Bytes"
        raise PanicError(message)
    if kind is DurationValue:
        return (kind, value.nanos)
    if kind is Timestamp:
        return (kind, value.moment, value.offset)
    if isinstance(value, Opaque):
        if not value.HASHABLE:
            message = f"runtime error: hash of unhashable type {value.GO_TYPE}"
            raise PanicError(message)
        return value.key()
    return ("id", id(value))


_MAX_INT = 2**63 - 1


class Map:
    """A map that an expression made. Keys of different numeric kinds differ, but a lookup finds an equal number."""

    __slots__ = ("_entries",)
    GO_TYPE = "*types.baseMap"
    TELLS_ERRORS = False

    def __init__(self) -> None:
        self._entries: dict[Any, tuple[Any, Any]] = {}

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self._entries[map_key(key)] = (key, value)

    def drop(self, key: Any) -> None:
        """Remove a key, if it is there."""
        self._entries.pop(map_key(key), None)

    def copied(self) -> "Map":
        """A map with the same entries."""
        other = Map()
        other._entries = dict(self._entries)
        return other

    def __len__(self) -> int:
        return len(self._entries)

    def keys(self) -> Iterator[Any]:
        """The keys, in the order in which they came."""
        return (key for key, _ in self._entries.values())

    def contains(self, key: Any) -> bool:
        """Whether the key is there."""
        return self.find(key) is not None

    def find(self, key: Any) -> tuple[Any] | None:
        """The value in a tuple, or None."""
        if not self._entries:
            return None
        entry = self._entries.get(map_key(key))
        if entry is None:
            for other in _equal_numbers(key):
                entry = self._entries.get(map_key(other))
                if entry is not None:
                    break
        return None if entry is None else (entry[1],)

    def get(self, key: Any) -> tuple[Any] | None:
        """As `find`, without a default."""
        return Map.find(self, key)


class MutableMap(Map):
    """The empty map that a comprehension starts with: inserting changes it."""

    __slots__ = ()
    GO_TYPE = "*types.mutableMap"


def _equal_numbers(key: Any) -> tuple[Any, ...]:
    """The same number as the other kinds of integer, if it is one of them."""
    kind = type(key)
    if kind is int:
        return (Uint(key),) if key >= 0 else ()
    if kind is Uint:
        return (int(key),) if key <= _MAX_INT else ()
    if kind is float and key == key and abs(key) < float(2**64) and key == int(key):
        whole = int(key)
        signed = (whole,) if -(2**63) < whole < 2**63 else ()
        return (*signed, Uint(whole)) if whole >= 0 else signed
    return ()


class StringMap:
    """A map from the outside, keyed by strings."""

    __slots__ = ("_values",)
    GO_TYPE = "*types.baseMap"
    TELLS_ERRORS = False
    """Whether comparing values that are errors, or cannot be compared, is an error."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> Iterator[str]:
        """The keys, in the order in which they came."""
        return iter(self._values)

    def contains(self, key: Any) -> bool:
        """Whether the key is there."""
        return self.get(key) is not None

    def find(self, key: Any) -> tuple[Any] | None:
        """The value in a tuple, or None."""
        if type(key) is str and key in self._values:
            return (self._values[key],)
        return None

    def get(self, key: Any) -> tuple[Any] | None:
        """As `find`, without a default."""
        return StringMap.find(self, key)


ANY_MAP = (Map, StringMap)
