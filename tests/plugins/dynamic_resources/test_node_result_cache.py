"""What is kept about nodes is what a search would say now, whatever has changed in between."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.api.core import Pod
from kscheduler.api.devices import AllocationResult
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.search_budget import SearchTimeBudget, UnfinishedSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import StatusError
from kscheduler.plugins.dynamic_resources import node_result_cache as kept_answers
from kscheduler.plugins.dynamic_resources.in_cycle import ClaimsInCycle
from kscheduler.plugins.dynamic_resources.node_result_cache import MAX_TEMPLATES
from tests.builders import make_node
from tests.plugins.dynamic_resources.stage import (
    Stage,
    Tree,
    allocation,
    claim,
    device_class,
    devices_of,
    exactly,
    names,
    taint_rule,
    user,
)

NODES = ["n0", "n1", "n2"]
DEVICES = ["a", "b", "c"]
TEMPLATES: list[list[Tree]] = [[exactly()], [exactly(count=2)], [exactly("r", 1, "other"), exactly("s")]]
nodes = st.sampled_from(NODES)
some_devices = st.lists(st.sampled_from(DEVICES), unique=True)


class KeptMachine(RuleBasedStateMachine):
    """Slices of nodes and of the network, classes, rules, labels and claims change; each template is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(device_class(), device_class("other"), nodes=3)
        for number, requests in enumerate(TEMPLATES):
            self.stage.put(claim(f"c{number}", *requests))

    @rule(node=nodes, devices=some_devices)
    def publish(self, node: str, devices: list[str]) -> None:
        self.stage.put(devices_of(node, *devices))

    @rule(node=nodes)
    def withdraw(self, node: str) -> None:
        self.stage.cache.devices.remove_slice(f"slice-{node}")

    @rule(devices=some_devices, pool=st.sampled_from(["x", ""]))
    def publish_in_the_network(self, devices: list[str], pool: str) -> None:
        """Devices that nodes of a pool reach, or all nodes."""
        term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]}]}
        where: Tree = {"nodeSelector": {"nodeSelectorTerms": [term]}} if pool else {"allNodes": True}
        self.stage.put(devices_of("net", *devices, nodeName=None, **where))

    @rule(node=nodes)
    def replace_node(self, node: str) -> None:
        """Its row may be given to another one."""
        self.stage.cache.remove_node(node)
        self.stage.cache.add_node(make_node(f"new-{node}"))
        self.stage.cache.add_node(make_node(node))
        self.stage.cache.remove_node(f"new-{node}")

    @rule(node=nodes, pool=st.sampled_from(["x", "y"]))
    def label(self, node: str, pool: str) -> None:
        self.stage.cache.add_node(make_node(node, labels={"pool": pool}))

    @rule(number=st.integers(0, 3), where=st.sampled_from([*NODES, "net"]), devices=some_devices)
    def allocate(self, number: int, where: str, devices: list[str]) -> None:
        """Another claim gets devices, or gives them back."""
        held = allocation(where, *devices) if devices else None
        self.stage.put(claim(f"other-{number}", allocated=held))

    @rule(device=st.sampled_from(DEVICES), is_tainted=st.booleans())
    def taint(self, device: str, is_tainted: bool) -> None:
        if is_tainted:
            self.stage.put(taint_rule(f"of-{device}", device=device))
        else:
            self.stage.cache.devices.remove_rule(f"of-{device}")

    @rule(exists=st.booleans())
    def change_class(self, exists: bool) -> None:
        if exists:
            self.stage.put(device_class("other"))
        else:
            self.stage.cache.devices.remove_class("other")

    @invariant()
    def kept_answers_are_those_of_a_search(self) -> None:
        for number in range(len(TEMPLATES)):
            pod = user(f"c{number}")
            if self.stage.begin(pod).is_success:
                kept = answers(self.stage, self.stage.plugin, pod)
                assert kept == answers(self.stage, self.stage.without(), pod)
                assert {name: each if isinstance(each, int) else 0 for name, each in kept.items()} == self.codes(pod)

    def codes(self, pod: Pod) -> dict[str, int]:
        """By node, the code of Filter, which comes from the rows."""
        table = self.stage.cache.nodes
        self.stage.begin(pod)
        codes = self.stage.plugin.filter(self.stage.cycle, PodInfo(pod), table, table.rows())
        rows = table.rows().tolist()
        values = [0] * len(rows) if codes is None else codes.tolist()
        return {table.name_of(row): code for row, code in zip(rows, values, strict=True)}


def answers(stage: Stage, plugin: Any, pod: Any) -> dict[str, Any]:
    """By node, a code or the devices."""
    plugin.pre_filter(stage.cycle, PodInfo(pod), stage.cache.nodes)
    state, table = stage.cycle.read(ClaimsInCycle), stage.cache.nodes
    found = {table.name_of(row): state.devices_on(table.info(row)) for row in table.rows().tolist()}
    return {name: each if isinstance(each, int) else _described(each) for name, each in found.items()}


def _described(found: Any) -> list[tuple[str, Any]]:
    results: list[AllocationResult] = list(found)
    return [(names(each), each.node_selector) for each in results]


class AheadMachine(KeptMachine):
    """The same while nodes are searched in the background, step by step: only that fills what is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.searches: list[UnfinishedSearch] = []

    @rule(number=st.integers(0, len(TEMPLATES) - 1))
    def leave(self, number: int) -> None:
        """A cycle without patience."""
        left = left_by(self.stage, user(f"c{number}"))
        if left is not None:
            self.searches.append(left)

    @rule(steps=st.integers(1, 12))
    def search(self, steps: int) -> None:
        for _ in range(steps):
            self.searches = [search for search in self.searches if not search.run(0)]

    @rule()
    def kept_answers_are_those_of_a_search(self) -> None:
        super().kept_answers_are_those_of_a_search()


def left_by(stage: Stage, pod: Pod) -> UnfinishedSearch | None:
    """What a cycle without patience leaves; `None` if it needs none, or the pod is rejected before Filter."""
    stage.cycle = CycleState()
    search_budget = SearchTimeBudget(0)
    stage.cycle.write(search_budget)
    info, table = PodInfo(pod), stage.cache.nodes
    if stage.plugin.pre_filter(stage.cycle, info, table).status.is_success:
        try:
            stage.plugin.filter(stage.cycle, info, table, table.rows())
        except StatusError:
            assert search_budget.rest is not None
    return search_budget.rest


TestAhead = AheadMachine.TestCase
TestAhead.settings = settings(max_examples=settings().max_examples // 4)
TestKept = KeptMachine.TestCase
TestKept.settings = settings(max_examples=settings().max_examples // 4)


def test_shares_of_devices_are_not_kept_for_other_claims() -> None:
    """Two pods must not get a share of the same identity."""
    shared = {"name": "a", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}}
    stage = Stage(device_class(), claim(), claim("c1"), devices_of("n0", shared), nodes=1)
    shares = set()
    for name in ("c0", "c1"):
        stage.judge(user(name))
        (found,) = stage.cycle.read(ClaimsInCycle).found_on(stage.cache.nodes.info(0)) or ()
        shares |= {result.share_id for result in found.devices.results}
    assert len(shares) == 2


def test_of_many_templates_the_last_ones_are_kept() -> None:
    stage = Stage(device_class(), devices_of("n0", "a"), nodes=1)
    for count in range(1, 3 * MAX_TEMPLATES):
        stage.put(claim(f"c{count}", exactly(f"r{count}")))
        assert stage.judge(user(f"c{count}")) == {"n0": "a"}
    kept = stage.plugin._allocators._answers._kept
    assert len(kept) == MAX_TEMPLATES


def test_answers_of_many_devices_push_each_other_out_and_never_the_one_that_is_queried_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four hundred claims of a pod get twelve thousand devices on a node: five megabytes for each node."""
    monkeypatch.setattr(kept_answers, "MAX_RESULTS_KEPT", 10)
    nodes = [f"n{number}" for number in range(6)]
    stage = Stage(device_class(), *(devices_of(name, *"abcd") for name in nodes), nodes=len(nodes))
    stage.put(claim("c0", exactly(count=4)))
    assert stage.judge(user("c0")) == dict.fromkeys(nodes, "a+b+c+d")
    (kept,) = stage.plugin._allocators._answers._kept.values()
    assert (list(kept.answers), kept.size) == (nodes[-2:], 8)
    assert stage.judge(user("c0")) == dict.fromkeys(nodes, "a+b+c+d")
