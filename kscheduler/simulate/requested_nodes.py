"""Nodes that are to come or to change, as a question has them: without the cluster that it is asked of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kscheduler.api.core import Taint
from kscheduler.scenario.errors import ScenarioError

# Of one question.
MAX_NEW_NODES: Final = 10_000
# Of taints.
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class MoreNodes:
    """Nodes to add, each like one that there is."""

    count: int
    like: str


def refuse_too_many_nodes(added: Iterable[MoreNodes], field: str) -> None:
    """Raises `ScenarioError` that begins with the field: each node is an object in memory."""
    count = sum(each.count for each in added)
    if count > MAX_NEW_NODES:
        raise ScenarioError(f"{field}: {count} nodes are more than {MAX_NEW_NODES}")


@dataclass(frozen=True, slots=True)
class NodeEdit:
    """Labels and taints of a node to be set."""

    node: str
    labels: Mapping[str, str | None] | None = None
    """`None` as a value: the label goes."""
    taint: Taint | None = None
    removes_taint: bool = False
