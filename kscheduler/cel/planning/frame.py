"""What an evaluation knows: the variables, and the cost until now."""

from typing import Any

UNSET = object()
"""An accumulator that nobody has asked for yet."""


class CostLimitError(RuntimeError):
    """The evaluation costs more than it may."""


class Frame:
    """One evaluation. `slots` are the variables of comprehensions, `globals` those of the environment."""

    __slots__ = ("cost", "globals", "limit", "slots")

    def __init__(self, variables: dict[str, Any], slots: int, limit: int) -> None:
        self.globals = variables
        self.slots: list[Any] = [UNSET] * slots
        self.cost, self.limit = 0, limit

    def beside(self) -> "Frame":
        """Another evaluation with the same variables, whose cost nobody asks for."""
        other = Frame(self.globals, 0, 2**63)
        other.slots = self.slots
        return other

    def charge(self, cost: int) -> None:
        """Count a cost. Raises `CostLimitError` when that is too much."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError

    def charge_ones(self, count: int) -> None:
        """Count as many costs of one: the first that is too much ends it."""
        self.cost += count
        if self.cost > self.limit:
            self.cost = max(self.limit + 1, self.cost - count + 1)
            raise CostLimitError
