"""When to stop trying nodes out: enough candidates, and one among them that breaks no budget.

Nodes are tried in batches, and what counts is their order in the ring: candidates that come after it was enough are
left out, so that the size of a batch decides nothing.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from kscheduler.framework.nodes.node_table import Rows
from kscheduler.plugins.default_preemption.choice import Candidates

_LEAST_SHARE: Final = 0.25
"""A search begins with no more than about four times the nodes that would do if all were candidates."""


class Shortlist:
    """Counts the candidates of one search."""

    def __init__(self, wanted: int, share: float = 1.0) -> None:
        """`share`: how many of the nodes that were tried out in the last search were candidates."""
        self._wanted = wanted
        self._share = share
        self._clean = 0
        """Candidates that break no budget."""
        self._breaking = 0

    @property
    def missing(self) -> int:
        """At least so many more nodes have to be tried out."""
        return max(self._wanted - self._clean - self._breaking, 0)

    def likely_enough(self, tried: int) -> int:
        """How many nodes more should do, going by the share that did so far; where that says nothing, as many again.

        A few more than that share asks for: each further batch costs a pass over the table.
        """
        found = self._clean + self._breaking
        if not tried:
            return (
                self.missing
                if self._share == 1.0
                else math.ceil(self.missing / max(self._share, _LEAST_SHARE) * 17 / 16)
            )
        return -(-self.missing * tried * 9 // (found * 8)) if found and self.missing else tried

    @property
    def is_full(self) -> bool:
        """Whether that is enough."""
        return self._clean > 0 and not self.missing

    def take(self, batch: Rows, found: Sequence[Candidates]) -> list[Candidates]:
        """Those of a batch's candidates (`batch` in ring order) that came in time."""
        if not found:
            return []
        rows = np.concatenate([one.rows for one in found])
        is_clean = np.concatenate([one.broken_budgets for one in found]) == 0
        if not self._breaking and is_clean.all():
            return self._take_clean(batch, rows, found)
        order = _places(batch, rows).argsort()
        is_clean = is_clean.take(order)
        clean, breaking = self._clean + is_clean.cumsum(), self._breaking + (~is_clean).cumsum()
        enough = np.flatnonzero((clean > 0) & (clean + breaking >= self._wanted))
        stop = int(enough[0]) + 1 if len(enough) else len(rows)
        in_time = order[:stop][is_clean[:stop] | (breaking[:stop] <= self._wanted)]
        self._clean, self._breaking = int(clean[stop - 1]), min(int(breaking[stop - 1]), self._wanted)
        if len(in_time) == len(rows):
            return list(found)
        is_kept = np.zeros(len(rows), dtype=np.bool_)
        is_kept[in_time] = True
        ends = np.cumsum([len(one) for one in found])
        return [one.kept(is_kept[end - len(one) : end]) for one, end in zip(found, ends.tolist(), strict=True)]

    def _take_clean(self, batch: Rows, rows: Rows, found: Sequence[Candidates]) -> list[Candidates]:
        """The same where nobody breaks a budget: the first ones that are missing."""
        room = max(self._wanted, 1) - self._clean
        self._clean += min(room, len(rows))
        if len(rows) <= room:
            return list(found)
        is_kept = np.zeros(int(batch.max()) + 1, dtype=np.bool_)
        is_kept[rows] = True
        is_kept[batch.take(np.flatnonzero(is_kept.take(batch)))[room:]] = False
        return [one.kept(is_kept.take(one.rows)) for one in found]


def _places(batch: Rows, rows: Rows) -> Rows:
    """Where in the batch each of the rows stands."""
    places = np.zeros(int(batch.max()) + 1, dtype=np.intp)
    places[batch] = np.arange(len(batch))
    return places.take(rows)
