"""TopologyPlacementGenerator: one placement for each value of the label that a group's topology constraint names.

Nodes without the label are in no placement; from 1.38 on, nodes with an empty value are in none either. Members that
run already fix the value: the rest of the group must join them. kube-scheduler tries the placements in random order,
here they come in the order of their first nodes: up to 1.37 it matters only for which of them a group that fits nowhere
tells of.
"""

from collections.abc import Sequence

import numpy as np

from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.cluster.preemption import GroupPlacement
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import Status, error


class _UnknownDomainError(Exception):
    """Nobody knows in which domain the rest of the group must go."""


class TopologyPlacementGenerator(Plugin):
    """Divides the nodes into domains."""

    name = "TopologyPlacementGenerator"
    depends_on = ()

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._view = handle.view
        self._groups = handle.pod_groups
        self._skips_empty = handle.behaviours.empty_values_are_no_domains

    def generate_placements(self, group: GroupDefinition, parent: GroupPlacement) -> Sequence[GroupPlacement] | Status:
        """The parent as it is, without a constraint; otherwise a placement for each domain that may be taken.

        An Error if the members that have a node are in no domain, or in several.
        """
        if not group.topology_key:
            return (parent,)
        try:
            taken = self._taken_domain(group)
        except _UnknownDomainError as problem:
            return error(f"cannot determine domain for already scheduled pods: {problem}")
        numbers, values = self._view.nodes.label_values(group.topology_key, parent.rows)
        has_label = numbers > 0
        if self._skips_empty:
            is_empty = np.array([not value for value in values], dtype=np.bool_)
            has_label &= ~is_empty[numbers]
        rows, numbers = parent.rows[has_label], numbers[has_label]
        _, firsts = np.unique(numbers, return_index=True)
        in_order = numbers[np.sort(firsts)].tolist()
        domains = [(values[number] or "", rows[numbers == number]) for number in in_order]
        return [GroupPlacement(domain, within) for domain, within in domains if taken is None or domain == taken]

    def _taken_domain(self, group: GroupDefinition) -> str | None:
        """The domain of the members that have a node; `None`: there are none."""
        taken: str | None = None
        for pod, node_name in self._groups.assignments(group.key):
            domain = self._domain_of(pod.key, node_name, group.topology_key)
            if taken is not None and domain != taken:
                both = f'"{taken}", "{domain}"' if self._skips_empty else f"{taken}, {domain}"
                raise _UnknownDomainError(f"more than 1 domain found for pod group: {both}")
            taken = domain
        return taken

    def _domain_of(self, pod: str, node_name: str, key: str) -> str:
        row = self._view.nodes.row_of(node_name)
        node = self._view.nodes.info(row).node if row >= 0 else None
        if node is None:
            raise _UnknownDomainError(f'getting node for pod {pod}: nodeinfo not found for node name "{node_name}"')
        domain = node.metadata.labels.get(key)
        if domain is None:
            raise _UnknownDomainError(f"no topology domain found for pod {pod}")
        if not domain and self._skips_empty:
            raise _UnknownDomainError(f"empty topology domain found for pod {pod}")
        return domain
