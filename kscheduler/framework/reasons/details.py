"""What exactly is wrong with a node, beyond the reason in the Event: which taint, which term, how much is short.

The problem: "Insufficient cpu" and "node(s) had untolerated taint(s)" are upstream's words and stay as they are, but
they name neither amount nor taint. The idea: a plugin that turns nodes down may also have a method `details`, which
lives beside the rule, reads the same columns as the filter and gives facts. It is called only when somebody asks for an
explanation, after the decision, so it may cost milliseconds.

A `Detail` holds for a group of rows. Its `text` completes the sentence "these nodes were turned down because ..."; its
`facts` say the same to a program: plain dicts, lists, strings and numbers, with the keys that `explanation.schema.json`
lists for the detail's kind.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, eq=False)
class Detail:
    """One fact about a group of nodes."""

    kind: str
    """`untoleratedTaint`, `insufficientResource`: what the facts are about. The schema has the list."""
    text: str
    """One line without the nodes' names."""
    rows: Rows
    """The nodes it holds for; none where the pod was turned down for all nodes at once."""
    facts: Mapping[str, Any] = field(default_factory=dict)


class DetailsPlugin(Protocol):
    """A plugin that can say more about the rows it has turned down."""

    name: str

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """More about `rows`, which this plugin's filter turned down with the same state and table.

        Where the plugin's PreFilter turned the pod down for all nodes, `rows` is empty. The most important first.
        """
        ...


def grouped(rows: Rows, key_of: Callable[[int], K]) -> dict[K, Rows]:
    """The rows by what is equal about them; the largest group first, then in the order of the rows."""
    groups: dict[K, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(key_of(row), []).append(row)
    largest_first = sorted(groups.items(), key=lambda entry: -len(entry[1]))
    return {key: np.array(members, dtype=np.intp) for key, members in largest_first}
