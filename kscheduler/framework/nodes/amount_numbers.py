"""A number for what a node gives and what is taken of it, so that answers about amounts can be looked up.

Nodes are bought alike and filled alike: what a plugin that reads amounts only has said of one row holds for each row
with the same number. No number is ever given to other amounts, in no table; equal amounts may have several numbers, one
after the other, because only so many are remembered.
"""

from collections.abc import Hashable
from itertools import count
from typing import Final

from kscheduler.framework.nodes.node_info import NodeInfo

_KEPT: Final = 1024
_NUMBERS: Final = count()


class AmountNumbers:
    """The numbers of the amounts seen lately."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, info: NodeInfo) -> int:
        """The number of what the node gives and its pods take, as of now."""
        given, taken = tuple(info.allocatable.items()), tuple(info.requested.items())
        amounts = given, taken, info.nonzero_cpu, info.nonzero_memory, len(info.pods)
        number = self._known.get(amounts)
        if number is None:
            if len(self._known) >= _KEPT:
                self._known.clear()  # not one by one: amounts are new more often than not, and that has to cost little
            number = self._known[amounts] = next(_NUMBERS)
        return number
