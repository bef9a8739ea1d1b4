"""Details of a rejection beyond the reason in the Event: which taint, which term, which amount is missing.

The problem: "Insufficient cpu" and "node(s) had untolerated taint(s)" are upstream's texts and must stay, but they
name neither amount nor taint. The idea: a plugin that rejects nodes may also have a method `details`, which stands
beside the filter, reads the same columns and returns facts. It is called only for explanations, after the decision, so
it may take milliseconds.

A `Detail` holds for a group of rows. Its `text` completes the sentence "these nodes were rejected because ..."; its
`facts` say the same for programs: plain dicts, lists, strings and numbers, with the keys that `explanation.schema.json`
lists for the detail's kind.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo

K = TypeVar("K", bound=Hashable)


class Detail(msgspec.Struct, frozen=True, eq=False):
    """A fact about a group of nodes."""

    kind: str
    """The kind of fact, such as `untoleratedTaint` or `insufficientResource`. The schema has the list."""
    text: str
    """A line without the nodes' names."""
    rows: Rows
    """The nodes it holds for; empty if the pod was rejected for all nodes at once."""
    facts: Mapping[str, Any] = {}


class DetailsPlugin(Protocol):
    """A plugin that can explain its rejections in detail."""

    name: str

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Details about `rows`, which this plugin's filter has rejected with the same state and table.

        If the plugin's PreFilter rejected the pod for all nodes, `rows` is empty. The most important detail is first.
        """
        ...


def grouped(rows: Rows, key_of: Callable[[int], K]) -> dict[K, Rows]:
    """The rows grouped by `key_of(row)`, each group ascending (intp); the largest first, then in the order of rows."""
    groups: dict[K, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(key_of(row), []).append(row)
    largest_first = sorted(groups.items(), key=lambda entry: -len(entry[1]))
    return {key: np.array(members, dtype=np.intp) for key, members in largest_first}
