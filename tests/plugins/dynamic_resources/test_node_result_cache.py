"""What is kept about nodes is what a search would say now, whatever has changed in between."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.api.core import Pod
from kscheduler.api.devices import AllocationResult
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.ids import AllocatedState, DeviceID
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocatorFeatures
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.search_budget import SearchTimeBudget, UnfinishedSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import StatusError
from kscheduler.informers.transform import default_transform
from kscheduler.plugins.dynamic_resources import node_result_cache as kept_answers
from kscheduler.plugins.dynamic_resources.in_cycle import ClaimsInCycle
from kscheduler.plugins.dynamic_resources.node_result_cache import MAX_TEMPLATES
from tests.builders import make_node
from tests.plugins.dynamic_resources.stage import (
    DRIVER,
    Stage,
    Tree,
    allocation,
    claim,
    device_class,
    devices_of,
    exactly,
    first_available,
    names,
    taint_rule,
    user,
)

NODES = ["n0", "n1", "n2"]
DEVICES = ["a", "b", "c"]
TEMPLATES: list[list[Tree]] = [
    [exactly()],
    [exactly(count=2)],
    [exactly("r", 1, "other"), exactly("s")],
    [first_available("r", "b-only", "gpu"), first_available("s", "b-only", "gpu")],
]
nodes = st.sampled_from(NODES)
some_devices = st.lists(st.sampled_from(DEVICES), unique=True)


class KeptMachine(RuleBasedStateMachine):
    """Slices of nodes and of the network, classes, rules, labels and claims change; each template is asked about."""

    def __init__(self) -> None:
        super().__init__()
        only_b = {"cel": {"expression": 'device.attributes["gpu.example.com"].?b.orValue(false)'}}
        classes = device_class(), device_class("other"), device_class("b-only", selectors=[only_b])
        self.stage = Stage(*classes, nodes=3, shares_devices=True)
        for number, requests in enumerate(TEMPLATES):
            self.stage.put(claim(f"c{number}", *requests))

    @rule(node=nodes, devices=some_devices)
    def publish(self, node: str, devices: list[str]) -> None:
        attributes = {"attributes": {"b": {"bool": True}}}
        self.stage.put(devices_of(node, *({"name": each, **(attributes if each == "b" else {})} for each in devices)))

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
                assert kept == searched(self.stage, pod)
                codes = {name: each if isinstance(each, int) else 0 for name, each in kept.items()}
                assert codes == self.codes(pod)
                self.points_are_those_of_what_is_found(pod, [name for name, code in codes.items() if not code])

    def points_are_those_of_what_is_found(self, pod: Pod, names: list[str]) -> None:
        """After `codes`, which was the Filter of the same cycle."""
        table, state = self.stage.cache.nodes, self.stage.cycle.read(ClaimsInCycle)
        rows = table.rows_of(names)
        scores = self.stage.plugin.score(self.stage.cycle, PodInfo(pod), table, rows)
        found = [state.found_on(table.info(row)) for row in rows.tolist()]
        assert scores.tolist() == [0 if each is None else state.points(each) for each in found]

    def codes(self, pod: Pod) -> dict[str, int]:
        """By node, the code of Filter, which comes from the rows."""
        table = self.stage.cache.nodes
        self.stage.begin(pod)
        codes = self.stage.plugin.filter(self.stage.cycle, PodInfo(pod), table, table.rows())
        rows = table.rows().tolist()
        values = [0] * len(rows) if codes is None else codes.tolist()
        return {table.name_of(row): code for row, code in zip(rows, values, strict=True)}


def answers(stage: Stage, plugin: Any, pod: Any, *infos: NodeInfo) -> dict[str, Any]:
    """By node, a code or the devices."""
    plugin.pre_filter(stage.cycle, PodInfo(pod), stage.cache.nodes)
    state = stage.cycle.read(ClaimsInCycle)
    found = {info.name: state.devices_on(info) for info in infos or all_nodes(stage)}
    return {name: each if isinstance(each, int) else _described(each) for name, each in found.items()}


def searched(stage: Stage, pod: Pod) -> dict[str, Any]:
    """The same of plugins that each know of no other node."""
    return {info.name: answers(stage, stage.without(), pod, info)[info.name] for info in all_nodes(stage)}


def all_nodes(stage: Stage) -> list[NodeInfo]:
    table = stage.cache.nodes
    return [table.info(row) for row in table.rows().tolist()]


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


# --- points -----------------------------------------------------------------------------------------------------------


def test_points_are_kept_by_row_and_no_node_is_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a pod costs as much as the cluster has nodes."""
    stage = stage_of_like_nodes()
    stage.put(device_class("none", selectors=[{"cel": {"expression": "false"}}]))
    stage.put(claim("c1", first_available("r", "none", "gpu")))
    stage.put(claim("of-n3", allocated=allocation("n3", "a", "b")))
    pod, table = user("c1"), stage.cache.nodes
    assert "cannot allocate" in stage.judge(pod)["n3"]

    def refused(_: object, info: NodeInfo) -> None:
        pytest.fail(f"{info.name} is asked")

    monkeypatch.setattr(ClaimsInCycle, "found_on", refused)
    rows = table.rows_of(name for name in LIKE if name != "n3")
    assert stage.plugin.score(stage.cycle, PodInfo(pod), table, rows).tolist() == [7] * (len(LIKE) - 1)


def test_points_for_claims_that_have_their_devices_are_added() -> None:
    stage = stage_of_like_nodes()
    results = [{"request": "r/gpu", "driver": DRIVER, "pool": "n1", "device": "a"}]
    stage.put(claim("c1", first_available("r", "gpu"), allocated={"devices": {"results": results}}))
    stage.put(claim("c2", first_available("r", "none", "gpu")))
    stage.put(device_class("none", selectors=[{"cel": {"expression": "false"}}]))
    pod, table = user("c1", "c2"), stage.cache.nodes
    stage.judge(pod)
    rows = table.rows_of(["n1", "n2"])
    assert stage.plugin.score(stage.cycle, PodInfo(pod), table, rows).tolist() == [8 + 7, 8 + 7]
    (kept,) = stage.plugin._allocators._answers._kept.values()
    kept.forget(["n2"])
    assert kept.points_on_rows(table, rows) is None, "what a row would get is not known any more"


# --- layouts ----------------------------------------------------------------------------------------------------------

LIKE = [f"n{number}" for number in range(40)]


class Searches:
    """Counts the nodes that are searched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._nodes: list[str] = []
        search = Allocator.allocate_in_parts

        def counted(allocator: Allocator, name: str, labels: Mapping[str, str]) -> Any:
            self._nodes.append(name)
            return search(allocator, name, labels)

        monkeypatch.setattr(Allocator, "allocate_in_parts", counted)

    def since(self) -> int:
        """How many since the last call."""
        count = len(self._nodes)
        self._nodes.clear()
        return count


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    return Searches(monkeypatch)


def stage_of_like_nodes(**more: Any) -> Stage:
    return Stage(
        device_class(),
        claim("c0"),
        *(devices_of(name, "a", "b", **more) for name in LIKE),
        nodes=len(LIKE),
        shares_devices=True,
    )


def test_nodes_that_have_a_layout_in_common_are_searched_once(searches: Searches) -> None:
    stage = stage_of_like_nodes()
    assert stage.judge(user("c0")) == dict.fromkeys(LIKE, "a")
    assert searches.since() == 1
    for count, name in enumerate(LIKE):  # what is taken of a node is part of its layout
        stage.put(claim(f"of-{name}", allocated=allocation(name, "a")))
        assert stage.judge(user("c0"))[name] == "b"
        assert searches.since() == (1 if count == 0 else 0)
    stage.put(claim("of-n7", allocated=allocation("n7", "a", "b"), version=2))
    assert "cannot allocate" in stage.judge(user("c0"))["n7"]
    stage.put(device_class())
    searches.since()
    assert stage.judge(user("c0")) == dict.fromkeys(LIKE, "b") | {"n7": "cannot allocate all claims"}
    assert searches.since() == 2, "a class that changes ends all answers"


def test_nodes_without_devices_have_a_layout_in_common(searches: Searches) -> None:
    stage = Stage(device_class(), claim("c0"), devices_of("n3", "a"), nodes=len(LIKE))
    verdicts = stage.judge(user("c0"))
    assert [name for name, verdict in verdicts.items() if verdict == "a"] == ["n3"]
    assert searches.since() == 2


UNLIKE: dict[str, Tree] = {
    "slices of several nodes": {"nodeName": None, "allNodes": True},
    "a pool of several slices": {"pool": {"name": "n0", "generation": 1, "resourceSliceCount": 2}},
    "devices that choose their nodes": {
        "nodeName": None,
        "perDeviceNodeSelection": True,
        "devices": [{"name": "a", "allNodes": True}],
    },
    "shared counters": {"sharedCounters": [{"name": "c", "counters": {"x": {"value": "1"}}}]},
    "a device that claims share": {"devices": [{"name": "a", "allowMultipleAllocations": True}]},
    "one name twice": {"devices": [{"name": "a"}, {"name": "a"}]},
    "a device that takes of counters": {
        "devices": [{"name": "a", "consumesCounters": [{"counterSet": "c", "counters": {"x": {"value": "1"}}}]}]
    },
}


@pytest.mark.parametrize("spec", UNLIKE.values(), ids=UNLIKE)
def test_nodes_that_are_not_plain_have_none(spec: Tree) -> None:
    slices = [devices_of(name, "a", **spec) for name in ("n0", "n1")]
    share = default_transform("resourceslices.resource.k8s.io")
    for each in slices:
        share(each)
    index = SliceIndex(slices, AllocatorFeatures())
    assert index.layout("n0", {}, AllocatedState()) is None


def test_a_node_whose_devices_no_other_slice_has_is_searched_by_itself() -> None:
    slices = [devices_of("n0", "a"), devices_of("n1", "b"), devices_of("n2", "b")]
    assert SliceIndex(slices, AllocatorFeatures()).layout("n1", {}, AllocatedState()) is None, "equal, and not the same"


def test_shares_of_a_device_that_was_shared_once_are_no_part_of_a_layout() -> None:
    stage = stage_of_like_nodes()
    index, shared = (
        SliceIndex(stage.cache.devices.slices(), AllocatorFeatures()),
        DeviceID(DRIVER, "n0", "a"),
    )
    assert index.layout("n0", {}, AllocatedState(shared={shared: ["s"]})) is None
    assert index.layout("n0", {}, AllocatedState(consumed={shared: {"memory": 1}})) is None
    assert index.layout("n1", {}, AllocatedState(shared={shared: ["s"]})) is not None


def test_what_is_kept_of_layouts_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MAX_LAYOUT_RESULTS", 2)
    stage = stage_of_like_nodes()
    for name in LIKE:
        stage.put(devices_of(name, *"abcdef"[: 1 + LIKE.index(name) // 8]))
    assert stage.judge(user("c0")) == dict.fromkeys(LIKE, "a")
    (kept,) = stage.plugin._allocators._answers._kept.values()
    assert kept.layout_size == len(kept.by_layout) <= 2


def test_a_search_in_the_background_learns_the_codes_of_a_layout(searches: Searches) -> None:
    """Else a hundred thousand nodes would be compared again in each cycle, and none would end in its time."""
    stage = stage_of_like_nodes()
    left = left_by(stage, user("c0"))
    assert left is not None
    while not left.run(0):
        pass
    assert searches.since() <= 2
    (kept,) = stage.plugin._allocators._answers._kept.values()
    assert list(kept.answers) == ["n0"]
    assert all(kept.knows(stage.cache.nodes, stage.cache.nodes.row_of(name)) for name in LIKE[1:])
    assert left_by(stage, user("c0")) is None
    assert searches.since() == 0


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
