"""A number for the resources that a node offers and its pods use, so that results about amounts can be looked up.

Nodes are bought alike and filled alike: a plugin that reads amounts only gives the same result for all rows with the
same number. A number never stands for other amounts, not even in another table; equal amounts may get a new number
later, because only the last `_KEPT` are remembered.
"""

from collections.abc import Hashable
from itertools import count
from typing import Final

from kscheduler.framework.nodes.node_info import NodeInfo

_KEPT: Final = 1024
# A node with more, offered and used, gets a new number each time.
_MAX_RESOURCES: Final = 128
_NUMBERS: Final = count()


class AmountNumbers:
    """The numbers of recently seen amounts."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, info: NodeInfo) -> int:
        """The number for what the node offers and its pods use now."""
        if len(info.allocatable) + len(info.requested) > _MAX_RESOURCES:
            return next(_NUMBERS)
        allocatable, requested = tuple(info.allocatable.items()), tuple(info.requested.items())
        amounts = allocatable, requested, info.nonzero_cpu, info.nonzero_memory, len(info.pods)
        number = self._known.get(amounts)
        if number is None:
            if len(self._known) >= _KEPT:
                self._known.clear()  # all at once: most amounts are new, so a miss must be cheap
            number = self._known[amounts] = next(_NUMBERS)
        return number
