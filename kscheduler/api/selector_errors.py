"""How selectors of devices fail, apart from the language in which they are written: that is imported for the first one.

The language is fifty modules, and most clusters have no device.
"""


class SelectorError(ValueError):
    """A selector cannot be answered."""


class SelectorCompileError(SelectorError):
    """The expression is not one that can be evaluated; the text is what follows `CEL compile error: `."""


class SelectorBudgetError(SelectorCompileError):
    """The expression takes more steps to compile than it may."""


class SelectorRuntimeError(SelectorError):
    """The expression fails for one device; the text is what follows `CEL runtime error: `. `cost` is None if nothing
    ran.
    """

    def __init__(self, message: str, cost: int | None = None) -> None:
        super().__init__(message)
        self.cost = cost
