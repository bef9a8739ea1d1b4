"""How few nodes would do: nodes are taken away at random, and the pods placed anew, until they no longer fit.

It is the measure by which Borg's scheduling policies were compared (Verma et al., EuroSys 2015): it
answers in machines, and works with any cluster. A trial draws an order of the nodes and takes away as many at once as
the sum of the requests lets it, then fewer and fewer where the pods do not fit, down to single nodes; it ends when
`LAST_TRIES` nodes in a row could not go. A node that must stay, such as that of a local volume, costs one such try.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final

from kscheduler.api.core import Node
from kscheduler.compact.compaction_result import ProfileCompaction
from kscheduler.compact.repacking import FreeRoom, Repacking

# Single nodes that are tried in vain before a trial ends.
LAST_TRIES: Final = 8
TRIALS: Final = 11

# Called after each trial with the number of trials made and the nodes that were left.
Progress = Callable[[int, int], None]


def compacted(repacking: Repacking, room: FreeRoom, *, trials: int, seed: int, progress: Progress) -> ProfileCompaction:
    """Make the trials for one profile. `room`: of the same pods. Raises `ScenarioError`."""
    nodes = repacking.pods.objects.nodes
    unplaced = repacking.left_over([node.metadata.name for node in nodes])
    if unplaced:
        return ProfileCompaction(profile=repacking.profile, unplaced=unplaced)
    kept: list[tuple[str, ...]] = []
    for trial in range(trials):
        kept.append(_trial(repacking, room, _drawn(nodes, random.Random(f"{seed}/{trial}"))))  # noqa: S311  no secret
        progress(trial + 1, len(kept[-1]))
    best: tuple[str, ...] = min(kept, key=len)
    return ProfileCompaction(
        profile=repacking.profile,
        trials=tuple(map(len, kept)),
        kept=tuple(sorted(best)),
    )


def _drawn(nodes: Sequence[Node], chance: random.Random) -> list[str]:
    """The nodes in the order in which they are kept: those that take no pods go first."""
    drawn = sorted(nodes, key=lambda node: node.metadata.name)
    chance.shuffle(drawn)
    return [node.metadata.name for node in sorted(drawn, key=lambda node: node.spec.unschedulable)]


def _trial(repacking: Repacking, room: FreeRoom, drawn: Sequence[str]) -> tuple[str, ...]:
    """The nodes that are left."""
    left, stays, in_vain = list(drawn), list[str](), 0
    """`left` may go, its last nodes first; `stays` has been tried."""
    at_once = len(left)
    while left and in_vain < LAST_TRIES:
        at_once = min(at_once, _most(room, left, stays))
        if at_once == 0:
            break
        rest = left[:-at_once]
        if not repacking.left_over([*rest, *stays]):
            left, in_vain = rest, 0
        elif at_once > 1:
            at_once //= 2
        else:
            stays.append(left.pop())
            in_vain += 1
    return (*left, *stays)


def _most(room: FreeRoom, left: Sequence[str], stays: Sequence[str]) -> int:
    """How many of the last nodes may go by the sum of the requests."""
    least, most = 0, len(left)
    while least < most:
        middle = (least + most + 1) // 2
        if room.is_enough([*left[:-middle], *stays]):
            least = middle
        else:
            most = middle - 1
    return least
