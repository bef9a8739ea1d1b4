"""PodGroupPodsCount: the more of a group's members have a node in a placement, the better it is."""

from collections.abc import Sequence

import numpy as np

from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.cluster.preemption import ProposedPlacement
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, Plugin
from kscheduler.framework.status import StatusError


class PodGroupPodsCount(Plugin):
    """Counts members."""

    name = "PodGroupPodsCount"
    depends_on = ()

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._groups = handle.pod_groups

    def score_placements(self, group: GroupDefinition, proposals: Sequence[ProposedPlacement]) -> Scores:
        """The share of the largest number of members, 0..100, int64 per proposal; members with a node count in each.

        Raises `StatusError` if nobody has a node anywhere.
        """
        scheduled = self._groups.count_scheduled(group.key)
        counts = np.array([scheduled + len(proposal.assignments) for proposal in proposals], dtype=np.int64)
        most = int(counts.max())
        if not most:
            raise StatusError("no pods from pod group are assigned to any of the candidate placements")
        shares: Scores = counts * MAX_NODE_SCORE // most
        return shares
