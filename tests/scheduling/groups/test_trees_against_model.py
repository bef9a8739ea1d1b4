"""Random trees of groups in the service's own decision, against a model that counts slots.

All pods need one slot. Then which groups of a tree are placed depends on counts alone, and a recursive function of a
few lines says it.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.scenario.decide_group import GroupDecision, decide_group
from kscheduler.scenario.scenario import GroupScenario, parse_line
from tests.effort import example_count

CONFIG = default_configuration(
    "default-scheduler",
    parse_feature_gates(
        "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true", version="1.37"
    ),
)


@dataclass
class Node:
    """A group: of groups if it has `children`, otherwise of pods."""

    least: int
    children: list["Node"] = field(default_factory=list)
    waiting: int = 0
    running: int = 0
    is_leaf: bool = True
    name: str = ""


LEAVES = st.builds(Node, least=st.integers(0, 3), waiting=st.integers(0, 3), running=st.integers(0, 1))


def over(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(children, min_size=1, max_size=3)
    return st.builds(Node, least=st.integers(0, 3), children=several, is_leaf=st.sampled_from([False]))


TREES = over(LEAVES | over(LEAVES))


@settings(max_examples=example_count(80), deadline=None)
@given(TREES, st.integers(1, 8))
def test_a_tree_is_placed_as_the_model_says(root: Node, slots: int) -> None:
    leaves = named(root)
    taken = sum(leaf.running for leaf in leaves)
    if not any(leaf.waiting for leaf in leaves) or taken > slots:
        return
    decision = decided(root, leaves, slots)
    if not is_ready(root):
        assert decision.pre_enqueue is not None
        assert {status.message for status in decision.pre_enqueue.values()} == {
            'waiting for composite pod group "root" tree to meet quorum'
        }
        return
    assert decision.pre_enqueue is None
    outcome: dict[str, int] = {}
    fits, placed = place(root, slots - taken, outcome)
    expected = outcome if fits and placed else {}
    found = {leaf.name: sum(on_node(decision, leaf)) for leaf in leaves}
    assert found == {leaf.name: expected.get(leaf.name, 0) for leaf in leaves}
    statuses = {group.key.name: status.is_success for group, status in decision.groups}
    assert statuses == {leaf.name: leaf.name in expected for leaf in leaves}


def place(node: Node, free: int, outcome: dict[str, int]) -> tuple[bool, int]:
    """Whether the group fits, and how many slots it takes; `outcome`: those of the groups of pods that fit."""
    least = node.least or 1
    if node.is_leaf:
        placed, scheduled, remaining = 0, node.running, node.waiting
        while remaining and remaining + scheduled >= least:
            fits = placed < free
            placed, scheduled, remaining = placed + fits, scheduled + fits, remaining - 1
        if scheduled < least:
            return False, 0
        outcome[node.name] = placed
        return True, placed
    used, ready, left = 0, 0, len(node.children)
    mine: dict[str, int] = {}
    for child in node.children:
        if left + ready < least:
            return False, 0
        fits, taken = place(child, free - used, mine)
        used, ready, left = used + taken, ready + fits, left - 1
    if ready < least:
        return False, 0
    outcome.update(mine)
    return True, used


def is_ready(node: Node) -> bool:
    count = node.waiting + node.running if node.is_leaf else sum(map(is_ready, node.children))
    return count >= (node.least or 1)


def named(root: Node) -> list[Node]:
    """Give every group a name that sorts in the order of the tree; returns the groups of pods."""
    root.name, leaves, waiting = "root", [], [root]
    while waiting:
        node = waiting.pop(0)
        for number, child in enumerate(node.children):
            child.name = f"{node.name}-{number}"
        leaves += [node] if node.is_leaf else []
        waiting = [*node.children, *waiting]
    return leaves


def on_node(decision: GroupDecision, leaf: Node) -> list[bool]:
    return [member.status.is_success for member in decision.members if member.pod.name.startswith(f"{leaf.name}.")]


def decided(root: Node, leaves: list[Node], slots: int) -> GroupDecision:
    objects: dict[str, list[Any]] = {"podgroups": [], "compositepodgroups": [], "pods": [], "nodes": [node(slots)]}
    stack = [(root, "")]
    while stack:
        at, parent = stack.pop()
        objects["podgroups" if at.is_leaf else "compositepodgroups"].append(group_object(at, parent))
        stack += [(child, at.name) for child in at.children]
    for leaf in leaves:
        objects["pods"] += [pod(leaf, number, "node") for number in range(leaf.running)]
        objects["pods"] += [pod(leaf, number, "") for number in range(leaf.running, leaf.running + leaf.waiting)]
    queried = next(leaf.name for leaf in leaves if leaf.waiting)
    line = {"objects": objects, "podGroup": f"default/{queried}"}
    scenario = parse_line(json.dumps(line).encode(), "test", CONFIG)
    assert isinstance(scenario, GroupScenario)
    decision = decide_group(scenario)
    assert not decision.error
    return decision


def node(slots: int) -> Any:
    allocatable = {"cpu": str(slots), "memory": "100Gi", "pods": "110"}
    return {"metadata": {"name": "node"}, "status": {"allocatable": allocatable, "capacity": allocatable}}


def group_object(at: Node, parent: str) -> Any:
    count = "minCount" if at.is_leaf else "minGroupCount"
    spec: Any = {"schedulingPolicy": {"gang": {count: at.least}} if at.least else {"basic": {}}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return {"metadata": {"name": at.name, "namespace": "default", "uid": at.name}, "spec": spec}


def pod(leaf: Node, number: int, on: str) -> Any:
    name = f"{leaf.name}.{number}"
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec: Any = {"containers": [container], "schedulingGroup": {"podGroupName": leaf.name}}
    if on:
        spec["nodeName"] = on
    spec["schedulerName"] = "default-scheduler"
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}
