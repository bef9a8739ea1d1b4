"""RandomScore: points that look random, and are the same each time they are asked for.

The hand-made scheduler calls `random.choice`, so nobody can say afterwards why a pod is where it is. Here the points
are a hash of the pod's UID, the node's name and a seed: `explain`, what-if and a second replica get the same, and nodes
that come and go change no other node's points.

Each pod has other points, so they are not kept from one pod to the next: a pod costs one pass of numpy over the nodes
that fit. Which nodes fit is kept as ever, because that does not depend on this plugin.
"""

from typing import Final

import numpy as np

from kscheduler.config.plugin_args import RandomScoreArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores, stable_hash
from kscheduler.framework.plugin import MAX_NODE_SCORE, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.scoring import mix

_NUMBERS: Final = np.uint64(MAX_NODE_SCORE + 1)
# The upper half of the hash decides: ties between nodes are broken by all of another one.
_UPPER_HALF: Final = np.uint64(32)


class RandomScore(Plugin):
    """0 to 100 points, evenly distributed, by pod UID, node name and seed."""

    name = "RandomScore"

    def __init__(self, args: RandomScoreArgs | None, handle: Handle) -> None:
        del handle
        seed = args.seed if args is not None else 0
        self._salt = stable_hash(f"RandomScore/{seed}")

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Points: int64 [rows]."""
        del cycle
        mixed = mix(nodes.name_hash[rows], self._salt ^ stable_hash(pod.uid))
        return ((mixed >> _UPPER_HALF) % _NUMBERS).astype(np.int64)
