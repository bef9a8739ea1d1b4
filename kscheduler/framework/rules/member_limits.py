"""How many of some pods a node takes at most, as a filter knows it without trying them one after the other.

The room for a pod group is counted before the group is tried (`scheduling.groups.member_rooms`). Only the filter that
judges pods knows what it counts: what a profile ignores, or leaves to devices, limits nothing. So each filter is asked,
and one that the profile has not enabled is not.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo


@runtime_checkable
class MemberLimiter(Protocol):
    """A filter that limits how many pods a node takes. In-tree plugins are asked."""

    def most_members(self, pods: Sequence[PodInfo], nodes: NodeTable, rows: Rows) -> NDArray[np.int64] | None:
        """How many of the pods each row takes at most beside those that are there: int64 [rows]; `None`: no limit.

        Never too low, whichever of them come in which order; it may be too high.
        """
        ...


def most_together(conflicts: Sequence[Sequence[Hashable]]) -> int:
    """How many pods may share a node at most. `conflicts`: by pod what it shares with no other pod: ports, or terms.

    Each pod is counted for the conflict that most pods have. Of those that are counted for one conflict, one may be
    there; of those without a conflict all.
    """
    counts = Counter(conflict for each in conflicts for conflict in each)
    # Of equally frequent ones the first; conflicts come in a fixed order, so that this does not depend on hashes.
    place = {conflict: number for number, (conflict, _) in enumerate(counts.most_common())}
    return sum(not each for each in conflicts) + len({min(each, key=place.__getitem__) for each in conflicts if each})
