"""A sequence of typed rows that prints as a table, shows itself in a notebook, and becomes a data frame."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

import msgspec

from kscheduler.text import aligned, printable

R = TypeVar("R", bound=msgspec.Struct)

# Rows that are printed; all of them become dicts and data frames.
SHOWN = 20


class Table(Sequence[R], Generic[R]):
    """Rows of one type, by position; a slice is again a `Table`. Immutable."""

    def __init__(self, kind: type[R], rows: Iterable[R] = ()) -> None:
        """`kind`: the type, whose fields are the columns: there may be no row."""
        self._kind = kind
        self._rows = tuple(rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns: the fields of a row."""
        return self._kind.__struct_fields__

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dict for each row, with `columns` as keys."""
        return [msgspec.structs.asdict(row) for row in self._rows]

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`. Raises `ImportError` where pandas is not installed: kscheduler does not need it."""
        return _imported("pandas").DataFrame(self.to_dicts(), columns=list(self.columns))

    def to_polars(self) -> Any:
        """A `polars.DataFrame`. Raises `ImportError` where polars is not installed: kscheduler does not need it."""
        polars = _imported("polars")
        if not self._rows:
            return polars.DataFrame({name: [] for name in self.columns})
        return polars.DataFrame(self.to_dicts(), infer_schema_length=None)

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> "Table[R]": ...

    def __getitem__(self, index: Any) -> "R | Table[R]":
        if isinstance(index, str):
            raise TypeError(
                f"rows are numbered: of a table `to_pandas()[{index!r}]` is a column, `[0].{index}` a value"
            )
        return Table(self._kind, self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and (self._kind, self._rows) == (other._kind, other._rows)

    def __hash__(self) -> int:
        return hash((self._kind, self._rows))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """A table of the first rows. A column without any value is left out."""
        names, cells = self._shown()
        lines = list(aligned([names, *cells], self._right(names))) if cells else [f"no rows: {', '.join(self.columns)}"]
        return "\n".join([*lines, *self._rest()])

    def _repr_html_(self) -> str:
        """The same table for a notebook."""
        names, cells = self._shown()
        right = self._right(names)
        styles = ["text-align: right" if at in right else "text-align: left" for at in range(len(names))]
        head = "".join(f'<th style="{style}">{escape(name)}</th>' for name, style in zip(names, styles, strict=True))
        body = "".join(
            "<tr>"
            + "".join(f'<td style="{style}">{escape(cell)}</td>' for cell, style in zip(row, styles, strict=True))
            + "</tr>"
            for row in cells
        )
        rest = "".join(f"<p>{escape(line)}</p>" for line in self._rest())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def _shown(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        first = self._rows[:SHOWN]
        names = tuple(name for name in self.columns if any(_text(getattr(row, name)) for row in first))
        return names, [tuple(_text(getattr(row, name)) for name in names) for row in first]

    def _right(self, names: Sequence[str]) -> set[int]:
        """The positions of the columns with numbers."""
        first = self._rows[:SHOWN]
        return {
            at
            for at, name in enumerate(names)
            if all(isinstance(getattr(row, name), int | float | None) for row in first)
        }

    def _rest(self) -> list[str]:
        left = len(self._rows) - SHOWN
        return [f"and {left} more" if left > 1 else "and 1 more"] if left > 0 else []


def _text(value: Any) -> str:
    """A cell. Names are users', and may not move a terminal's cursor."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if value.is_integer() else f"{value:.4g}"
        case dict():
            return ", ".join(f"{printable(str(key))}={_text(each)}" for key, each in value.items())
        case tuple():
            return ", ".join(map(_text, value))
        case _:
            return printable(str(value))


def _imported(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError as failure:
        advice = f"`pip install {package}` installs it, and `to_dicts()` needs nothing"
        raise ImportError(
            f"to_{package}() needs {package}, which is not installed: {advice}", name=package
        ) from failure
