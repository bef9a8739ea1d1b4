"""When to stop trying nodes: enough candidates, and at least one that breaks no budget.

Nodes are tried in batches, but the result depends on their order in the ring only: candidates after the point where
there were enough are left out, so the size of a batch makes no difference.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from kscheduler.framework.nodes.node_table import Rows
from kscheduler.plugins.default_preemption.choice import Candidates

_LEAST_SHARE: Final = 0.25
"""A search begins with at most about four times as many nodes as would be enough if all were candidates."""


class Shortlist:
    """Counts the candidates of one search."""

    def __init__(self, wanted: int, share: float = 1.0) -> None:
        """`share`: the share of candidates among the nodes tried in the last search, 0..1."""
        self._wanted = wanted
        self._share = share
        self._clean = 0
        """Candidates that break no budget."""
        self._breaking = 0

    @property
    def missing(self) -> int:
        """How many candidates are missing: at least this number of further nodes has to be tried."""
        return max(self._wanted - self._clean - self._breaking, 0)

    def likely_enough(self, tried: int) -> int:
        """How many further nodes are probably enough, by the share of candidates so far; without any, as many again.

        A few more than the share suggests, because each further batch costs a pass over the table.
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
        """Whether there are enough candidates."""
        return self._clean > 0 and not self.missing

    def take(self, batch: Rows, found: Sequence[Candidates]) -> list[Candidates]:
        """The candidates of a batch (rows in ring order) that come before there are enough.

        Candidates are put in ring order and counted; `stop` is the place after the first one with which there are
        enough. Of those that break a budget no more than wanted are kept.
        """
        if not found:
            return []
        rows = np.concatenate([part.rows for part in found])
        is_clean = np.concatenate([part.broken_budgets for part in found]) == 0
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
        ends = np.cumsum([len(part) for part in found])
        return [part.kept(is_kept[end - len(part) : end]) for part, end in zip(found, ends.tolist(), strict=True)]

    def _take_clean(self, batch: Rows, rows: Rows, found: Sequence[Candidates]) -> list[Candidates]:
        """The same where no candidate breaks a budget: the first of them, as many as are missing."""
        room = max(self._wanted, 1) - self._clean
        self._clean += min(room, len(rows))
        if len(rows) <= room:
            return list(found)
        is_kept = np.zeros(int(batch.max()) + 1, dtype=np.bool_)
        is_kept[rows] = True
        is_kept[batch.take(np.flatnonzero(is_kept.take(batch)))[room:]] = False
        return [part.kept(is_kept.take(part.rows)) for part in found]


def _places(batch: Rows, rows: Rows) -> Rows:
    """The place of each row in the batch, intp [rows]."""
    places = np.zeros(int(batch.max()) + 1, dtype=np.intp)
    places[batch] = np.arange(len(batch))
    return places.take(rows)
