"""The nodes of ANTLR's tree: one class for all rules, with the alternative that was taken."""

from typing import Any

from antlr4 import ParserRuleContext


class Context(ParserRuleContext):  # type: ignore[misc]
    """A rule that was entered. `alternative` names what it is; words and parts are filled as they are read."""

    def __init__(self, parent: Any, state: int, rule: int, alternative: str = "") -> None:
        super().__init__(parent, state)
        self.rule, self.alternative = rule, alternative
        self.words: dict[str, Any] = {}
        self.lists: dict[str, list[Any]] = {}

    def getRuleIndex(self) -> int:  # noqa: N802 : ANTLR's name
        """The number of the rule."""
        return self.rule

    def many(self, name: str) -> list[Any]:
        """A list of words or parts."""
        return self.lists.setdefault(name, [])

    def of(self, rule: int) -> "list[Context]":
        """The children of a rule."""
        return [child for child in self.children or () if isinstance(child, Context) and child.rule == rule]
