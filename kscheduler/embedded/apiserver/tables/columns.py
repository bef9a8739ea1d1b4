"""A column of a table, and two columns that nearly every kind has."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import age
from kscheduler.embedded.table_cells import field

# From an object and the current time to the content of the cell.
Cell = Callable[[Object, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    cell: Cell
    wide: bool = False
    type: str = "string"

    def definition(self) -> Object:
        """The column's entry in `columnDefinitions`."""
        form = "name" if self.name == "Name" else ""
        return {"name": self.name, "type": self.type, "format": form, "description": "", "priority": int(self.wide)}


def _created(value: Object, now: datetime) -> str:
    return age(value["metadata"].get("creationTimestamp"), now)


def plain(cell: Callable[[Object], Any]) -> Cell:
    """A cell that does not depend on the current time."""
    return lambda value, _: cell(value)


def at(name: str, path: str, default: Any = "", *, wide: bool = False) -> Column:
    """The value of a dotted path as a column."""
    return Column(name, plain(lambda value: field(value, path, default)), wide)


NAME = Column("Name", plain(lambda value: value["metadata"]["name"]))
AGE = Column("Age", _created)
