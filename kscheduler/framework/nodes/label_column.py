"""A node label as a column of small integers.

A label key that any pod refers to gets a column: each row holds the number of its value, 0 if the label is missing. A
requirement is then evaluated once per *distinct value* and spread over the rows by a lookup. The verdicts by value are
made by lookups and whole-array operations, never by a loop over all values: a pod may bring ten thousand requirements
on `kubernetes.io/hostname`, which has as many values as there are nodes.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.selectors import Operator, Requirement, parse_int64
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight

# Whether, per row.
Mask = NDArray[np.bool_]

_KEPT_TABLES = 256
# Of requirements with many values.
_KEPT_BYTES = 256 * 1024
# With more distinct values than this per value of the requirement, comparing numbers is cheaper.
_WORTH_A_TABLE = 64


def _weight(requirement: Requirement, _: Mask) -> int:
    return 128 * len(requirement.values)


class LabelColumn:
    """The values of a label key over the rows of a table."""

    def __init__(self, capacity: int) -> None:
        self.ids: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        """Per row the index into `values`; 0 is "no such label"."""
        self.values: list[str | None] = [None]
        self._id_of: dict[str | None, int] = {None: 0}
        self._tables: RecentlyUsed[Requirement, Mask] = RecentlyUsedByWeight(_KEPT_TABLES, _KEPT_BYTES, _weight)
        self._integers: tuple[NDArray[np.int64], Mask] | None = None
        """By value its number, and whether it is one; made when Gt or Lt asks, again with more values."""

    @classmethod
    def of(cls, values: Sequence[str | None]) -> "LabelColumn":
        """A column with a value for each row."""
        column = cls(0)
        column.values = list(dict.fromkeys((None, *values)))
        column._id_of = {value: number for number, value in enumerate(column.values)}
        column.ids = np.fromiter(map(column._id_of.__getitem__, values), dtype=np.int32, count=len(values))
        return column

    def set(self, row: int, value: str | None) -> None:
        """Give a row its value."""
        number = self._id_of.get(value)
        if number is None:
            number = self._id_of[value] = len(self.values)
            self.values.append(value)
        self.ids[row] = number

    def grow(self, capacity: int) -> None:
        """Make capacity for more rows."""
        self.ids = np.concatenate([self.ids, np.zeros(capacity - len(self.ids), dtype=np.int32)])

    def is_wasteful(self, live: int) -> bool:
        """Whether so many values are no longer in use that the column should be rebuilt."""
        return len(self.values) > 2 * live + 256

    def matches(self, requirement: Requirement, rows: NDArray[np.intp]) -> Mask:
        """Which of the rows satisfy the requirement: bool, shape of `rows`."""
        if requirement.operator is Operator.IN and len(self.values) > _WORTH_A_TABLE * len(requirement.values):
            return self._is_one_of(requirement.values, self.ids[rows])
        return self._table(requirement)[self.ids[rows]]

    def _is_one_of(self, values: Collection[str], ids: NDArray[np.int32]) -> Mask:
        """The same without a table: a host name among thousands is looked up only once (local volumes)."""
        mask = np.zeros(len(ids), dtype=np.bool_)
        for value in values:
            number = self._id_of.get(value)
            if number is not None:
                mask |= ids == number
        return mask

    def _table(self, requirement: Requirement) -> Mask:
        """Per value whether it satisfies the requirement: bool, extended when new values appear."""
        table = self._tables.use(requirement)
        known = 0 if table is None else len(table)
        if known < len(self.values):
            more = self._verdicts(requirement, known)
            table = self._tables[requirement] = more if table is None else np.concatenate([table, more])
        assert table is not None  # noqa: S101  `values` has at least the entry for a missing label
        return table

    def _verdicts(self, requirement: Requirement, first: int) -> Mask:
        """Whether each value from number `first` on satisfies the requirement: bool."""
        size = len(self.values) - first
        match requirement.operator:
            case Operator.GT | Operator.LT:
                numbers, is_number = self._as_integers()
                is_beyond = (
                    numbers > requirement.bound if requirement.operator is Operator.GT else numbers < requirement.bound
                )
                return (is_beyond & is_number)[first:]
            case Operator.IN | Operator.NOT_IN:
                is_in = requirement.operator is Operator.IN
                verdicts = np.full(size, not is_in)
                numbers_in_both = self._numbers_of(requirement.values, first)
                verdicts[numbers_in_both] = is_in
                return verdicts
            case _:
                verdicts = np.full(size, requirement.operator is Operator.EXISTS)
                if not first:
                    verdicts[0] = requirement.matches_value(None)
                return verdicts

    def _numbers_of(self, values: Collection[str], first: int) -> list[int]:
        """The values' numbers, less `first`, of those that are in the column; costs the shorter of the two lists."""
        if len(values) < len(self.values) - first:
            numbers = [self._id_of.get(value, -1) - first for value in values]
            return [number for number in numbers if number >= 0]
        return [number for number, value in enumerate(self.values[first:]) if value in values]

    def _as_integers(self) -> tuple[NDArray[np.int64], Mask]:
        if self._integers is None or len(self._integers[0]) != len(self.values):
            parsed = [None if value is None else parse_int64(value) for value in self.values]
            numbers = np.fromiter((number or 0 for number in parsed), dtype=np.int64, count=len(parsed))
            is_number = np.fromiter((number is not None for number in parsed), dtype=np.bool_, count=len(parsed))
            self._integers = numbers, is_number
        return self._integers
