"""Numbers for values that rows have in common: sets of taints, sets of features.

The problem: a rule about taints is evaluated once per distinct set and spread over the rows by a lookup, so sets need
numbers. But an autoscaler writes a timestamp as its taint's value: a cluster of two hundred nodes then has a million
sets in a year, but at most two hundred at any time. The idea: a number belongs to a value as long as a row has it; then
it becomes free, stands for the empty value, and is the first to be reused. Readers that keep values by number follow
`changes`, the log of numbers that stand for another value now (`per_taint_set`).

There is at most one number more than the rows ever had different values at the same time.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from kscheduler.framework.nodes.change_log import ChangeLog

T = TypeVar("T", bound=Hashable)

# A reader that falls further behind recomputes all numbers, of which there are at most as many as rows.
_LONGEST_LOG = 4096


class Interned(Generic[T]):
    """Values by number. Number 0 is the empty value; rows have it until they are given another one."""

    __slots__ = ("_empty", "_free", "_holders", "_number_at", "_number_of", "_values", "changes")

    def __init__(self, empty: T) -> None:
        self._empty = empty
        self._values: list[T] = [empty]
        self._holders: list[int] = [0]
        """By number, how many rows have it; not counted for number 0."""
        self._number_of: dict[T, int] = {empty: 0}
        self._number_at: dict[int, int] = {}
        """By row, except rows with the empty value. This is the source of truth, not the table's column: repairing a
        wrong column must not take a value away from other rows."""
        self._free: list[int] = []
        self.changes = ChangeLog(_LONGEST_LOG)
        """Numbers that have been given another value."""

    def __len__(self) -> int:
        """The number of numbers, free ones included."""
        return len(self._values)

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def __iter__(self) -> Iterator[T]:
        """The values by number; the empty value for free numbers."""
        return iter(self._values)

    def put(self, row: int, value: T) -> int:
        """Give the row a value. Returns the value's number."""
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
            self._let_go(before)  # last: the new value must not be given the number that is freed here
        return number

    def _give_number(self, value: T) -> int:
        if self._free:
            number = self._free.pop()
            self._values[number] = value
            self.changes.append(number)
        else:
            number = len(self._values)  # a new number needs no entry in `changes`: no reader has kept a value for it
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
