"""Which known name may have been meant by one that is not declared, as cel-go 0.33 guesses it."""

from collections.abc import Iterable

from kscheduler.cel.checking.declarations import Functions
from kscheduler.cel.steps import spend
from kscheduler.cel.syntax.macros import MACROS

_TYPES = (
    "bool", "bytes", "double", "google.protobuf.Duration", "google.protobuf.Timestamp", "int", "list", "map",
    "null_type", "string", "type", "uint",
)  # fmt: skip
# Names that cel-go gave to functions of its own before.
_FORMER = ("__not_strictly_false__", "_in_", "in")

_SHOWN = 2
_MOST_CELLS = 64 * 64
_LONG = 16


class KnownNames:
    """Variables, functions, types and macros of an environment."""

    def __init__(self, variables: Iterable[str], functions: Functions) -> None:
        macros = (name for name, _, _ in MACROS)
        self._names = frozenset((*variables, *functions, *_TYPES, *_FORMER, *macros))

    def like(self, name: str) -> list[str]:
        """The name itself if it is known, else up to two that are closest; the shorter one first.

        With up to three bytes one letter may differ, with up to eight two, with more a third of them. If no name is
        that close, those count that start with it. Names with and without points are never like each other.
        """
        if not name or name in self._names:
            return [name] if name else []
        size = len(name.encode("utf-8", "surrogatepass"))
        most = 1 if size <= 3 else 2 if size <= 8 else size // 3
        others = [other for other in self._names if ("." in other) == ("." in name)]
        spend(len(others))
        # What differs more in length differs more in letters, too.
        near = [other for other in others if abs(len(other) - len(name)) <= most]
        distances = {other: found for other in near if (found := _distance(name, other)) is not None and found <= most}
        if distances:
            closest = min(distances.values())
            best = [other for other, distance in distances.items() if distance == closest]
        else:
            best = [other for other in others if other.startswith(name)] if size > 1 else []
        return sorted(best, key=lambda other: (len(other), other))[:_SHOWN]


def suggestion(name: str, like: list[str]) -> str:
    """The end of an error about a name."""
    if not like or like == [name]:
        return ""
    return f" (did you mean {' or '.join(repr(other) for other in like)}?)"


def _distance(one: str, other: str) -> int | None:
    """How many letters are too many, missing, different, or exchanged with the next one; None if that is hopeless.

    Of long names that differ much in length only that difference counts.
    """
    shorter, longer = sorted((len(one), len(other)))
    if longer >= _LONG and longer * 2 >= shorter * 3:
        return longer - shorter
    if shorter * longer > _MOST_CELLS:
        return None
    spend(shorter * longer)
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, theirs in enumerate(other, 1):
            cell = min(last[column] + 1, current[column - 1] + 1, last[column - 1] + (letter != theirs))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == theirs:
                cell = min(cell, before[column - 2] + 1)
            current.append(cell)
        if min(current) > longer // 3:
            return None
        before, last = last, current
    return last[-1]
