"""What the parser makes: the grammar's own tree, nodes without a choice left out."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, frozen=True)
class Token:
    """A word of the expression and where it stands."""

    text: str
    offset: int


@dataclass(slots=True)
class Tree:
    """A rule of the grammar that made a choice. What its parts are depends on the rule."""

    rule: str
    start: int
    op: Token | None = None
    parts: list[Any] = field(default_factory=list)
    words: list[Token] = field(default_factory=list)
    optional: bool = False
