"""Values that rows have in common, by number: taints, features.

The problem: a rule about taints is judged once per distinct set of them and spread over the rows by one lookup, so sets
need numbers. But an autoscaler writes a timestamp as its taint's value: on a cluster of two hundred nodes there are a
million sets in a year, and at any time two hundred at most. The idea: a number belongs to a value as long as some row
has it; then it is free, stands for the empty value, and is the first to be given away again. Whoever keeps something by
number follows `changes`, the log of the numbers that stand for another value since (`per_taint_set`).

There are never more numbers than rows had different values at one time, and one more.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from kscheduler.framework.nodes.change_log import ChangeLog

T = TypeVar("T", bound=Hashable)

_LONGEST_LOG = 4096
"""Beyond it, who keeps something by number begins anew: there are as many numbers as there are rows."""


class Interned(Generic[T]):
    """Values by number. Number 0 is the empty value, which all rows have that have not been given another."""

    __slots__ = ("_empty", "_free", "_holders", "_number_at", "_number_of", "_values", "changes")

    def __init__(self, empty: T) -> None:
        self._empty = empty
        self._values: list[T] = [empty]
        self._holders: list[int] = [0]
        """By number, how many rows have it; of number 0 nobody counts them."""
        self._number_of: dict[T, int] = {empty: 0}
        self._number_at: dict[int, int] = {}
        """By row, but for those that have the empty value. It is believed, not the column that shows it: a column that
        went wrong must not take a value away from others when it is mended."""
        self._free: list[int] = []
        self.changes = ChangeLog(_LONGEST_LOG)
        """Numbers that stand for another value now."""

    def __len__(self) -> int:
        """How many numbers there are, free ones included."""
        return len(self._values)

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def __iter__(self) -> Iterator[T]:
        """By number; the empty value for free ones."""
        return iter(self._values)

    def put(self, row: int, value: T) -> int:
        """The row has this value now. Returns its number."""
        number = self._number_of.get(value)
        if number is None:
            number = self._give_number(value)
        before = self._number_at.get(row, 0)
        if number == before:
            return number
        if number:
            self._number_at[row] = number
            self._holders[number] += 1
        else:
            del self._number_at[row]
        if before:
            self._let_go(before)  # only now: the value of before must not be freed for the one that comes
        return number

    def _give_number(self, value: T) -> int:
        if self._free:
            number = self._free.pop()
            self._values[number] = value
            self.changes.append(number)
        else:
            number = len(self._values)  # nobody can have kept anything under it
            self._values.append(value)
            self._holders.append(0)
        self._number_of[value] = number
        return number

    def _let_go(self, number: int) -> None:
        self._holders[number] -= 1
        if not self._holders[number]:
            del self._number_of[self._values[number]]
            self._values[number] = self._empty
            self.changes.append(number)
            self._free.append(number)
