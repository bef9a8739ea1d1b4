"""Groups that ask for a topology by Kueue's annotations or Volcano's field, of every kind, without a gate."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.groups import (
    SCHEDULER_PLUGINS_LABEL,
    VOLCANO_ANNOTATION,
    KubernetesPodGroup,
    SchedulerPluginsPodGroup,
    VolcanoPodGroup,
)
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import from_tree
from kscheduler.framework.cluster.topology_request import (
    PREFERRED,
    REQUIRED,
    SLICE_LEVEL,
    SLICE_SIZE,
    SPARE_NODES,
    UNCONSTRAINED,
)
from kscheduler.scheduling.groups import group_placement
from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import World, member, pod_group, with_other_apis

ROOT: Final = Path(__file__).parents[3]
BLOCK, RACK = "example.com/block", "example.com/rack"
WHOLE: dict[str, Any] = {"requests": {"cpu": "4"}}
RANK = "batch.kubernetes.io/job-completion-index"


def racks(world: World, *sizes: int, block_of: int = 2) -> None:
    """Racks r0, r1, ... with so many nodes each, `block_of` racks in a block. A node takes one member."""
    nodes = [
        make_node(f"r{rack}n{number}", labels={RACK: f"r{rack}", BLOCK: f"b{rack // block_of}"})
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]
    world.add(*nodes, initial=True)


def asking(pod: Pod, **annotations: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, **annotations}))


def on_racks(world: World, group: str = "g") -> dict[str, int]:
    """How many members of the group are on each rack."""
    counts: dict[str, int] = {}
    for name, node in world.bindings:
        if name.startswith(f"{group}-"):
            counts[node.partition("n")[0]] = counts.get(node.partition("n")[0], 0) + 1
    return counts


async def place(
    world: World, size: int, annotations: dict[str, str], *, least: int | None = None, name: str = "g"
) -> None:
    """A gang whose members name what it asks for."""
    world.add_group(pod_group(name, size if least is None else least))
    pods = [member(f"{name}-{number}", name, labels={RANK: str(number)}, **WHOLE) for number in range(size)]
    world.add(*(asking(pod, **annotations) for pod in pods))
    await world.settle()


async def test_the_example_is_as_its_comment_says() -> None:
    """On the embedded cluster's nodes, of which the labelled ones have 7 or 15 CPUs."""
    world = World()
    text = (ROOT / "deploy/examples/topology.yaml").read_text(encoding="utf-8")
    for line in (line for line in text.splitlines() if "kubectl label node " in line):
        words = line.partition(" label node ")[2].split()
        labels = dict(word.split("=") for word in words if "=" in word)
        for name in (word for word in words if "=" not in word):
            world.add(make_node(name, labels=labels, cpu="15" if name == "node-000" else "7"), initial=True)
    async with world.working():
        for tree in yaml.safe_load_all(text):
            if tree["kind"] == "PodGroup":
                metadata = {**tree["metadata"], "namespace": "default", "uid": tree["metadata"]["name"]}
                world.add_group(convert({**tree, "metadata": metadata}, KubernetesPodGroup))
            else:
                spec, name = tree["spec"], tree["metadata"]["name"]
                world.add(*(make_pod(f"{name}-{n}", **spec["template"]["spec"]) for n in range(spec["parallelism"])))
        await world.settle()
        assert sorted(node for _, node in world.bindings) == ["node-003"] * 2 + ["node-007"] * 2
        assert len(world.bound("near-")) == 4
        assert (
            "0/3 domains of example.com/rack have room for 6 members: at most 5"
            in world.groups.last("too-wide").message
        )


@pytest.mark.parametrize("version", ["1.37", "1.38"])
async def test_a_gang_goes_to_the_smallest_rack_that_holds_it(version: str) -> None:
    world = World(version=version)
    racks(world, 6, 3, 4)
    async with world.working():
        await place(world, 3, {REQUIRED: RACK})
        assert on_racks(world) == {"r1": 3}
        await place(world, 5, {REQUIRED: RACK}, name="h")
        assert on_racks(world, "h") == {"r0": 5}, "the large rack was kept for it"


async def test_what_no_rack_holds_waits_and_says_why() -> None:
    world = World()
    racks(world, 2, 3, 2)
    async with world.working():
        await place(world, 4, {REQUIRED: RACK})
        assert world.bindings == []
        assert (
            "0/3 domains of example.com/rack have room for 4 members: at most 3 fit" in world.groups.last("g").message
        )
        world.add(make_node("r1n9", labels={RACK: "r1", BLOCK: "b0"}))
        await world.settle()
        await world.pass_seconds(12)
        assert on_racks(world) == {"r1": 4}


async def test_a_preference_goes_up_and_uses_as_few_racks_as_possible() -> None:
    world = World()
    racks(world, 2, 2, 2, 3, 3, 1)
    async with world.working():
        await place(world, 5, {PREFERRED: RACK})
        assert len(on_racks(world)) == 2, "no rack has five nodes"


async def test_levels_of_the_configuration_make_a_preference_stay_in_a_block() -> None:
    world = World()
    world.cache.topology_levels.configure([(BLOCK, RACK, "kubernetes.io/hostname")])
    racks(world, 2, 2, 2, 3, 4, 1, block_of=2)
    async with world.working():
        await place(world, 4, {PREFERRED: RACK}, name="a")
        assert on_racks(world, "a") == {"r4": 4}, "one rack holds it"
        await place(world, 4, {PREFERRED: RACK}, name="b")
        assert on_racks(world, "b") == {"r0": 2, "r1": 2}, "the tightest block, not the racks with the most nodes"


async def test_both_levels_bound_each_other() -> None:
    world = World()
    world.cache.topology_levels.configure([(BLOCK, RACK)])
    racks(world, 2, 2, 3, 2)
    async with world.working():
        await place(world, 6, {PREFERRED: RACK, REQUIRED: BLOCK})
        assert world.bindings == []
        await place(world, 5, {PREFERRED: RACK, REQUIRED: BLOCK}, name="h")
        assert on_racks(world, "h") == {"r2": 3, "r3": 2}


async def test_slices_are_not_split_and_ranks_are_in_order() -> None:
    world = World()
    racks(world, 3, 5, 2, 4)
    async with world.working():
        await place(world, 6, {SLICE_LEVEL: RACK, SLICE_SIZE: "2"})
        assert len(world.bindings) == 6
        node_of = dict(world.bindings)
        places = [node_of[f"g-{number}"].partition("n")[0] for number in range(6)]
        assert all(places[number] == places[number + 1] for number in (0, 2, 4)), places
        assert places == sorted(places)


async def test_no_slice_is_begun_for_which_there_is_no_room() -> None:
    world = World()
    racks(world, 6, 3)
    async with world.working():
        await place(world, 8, {PREFERRED: RACK, SLICE_LEVEL: RACK, SLICE_SIZE: "4"}, least=4)
        assert on_racks(world) == {"r0": 4}, "two more nodes of r0 are free, but not four"
        world.add(make_node("r1n9", labels={RACK: "r1", BLOCK: "b0"}))
        await world.settle()
        await world.pass_seconds(12)
        assert on_racks(world) == {"r0": 4, "r1": 4}


async def test_a_slice_that_has_begun_is_made_whole_where_no_further_one_has_room() -> None:
    world = World()
    racks(world, 4, 1)
    asked = {PREFERRED: RACK, SLICE_LEVEL: RACK, SLICE_SIZE: "4"}
    async with world.working():
        await place(world, 1, asked, least=1)
        later = [member(f"g-{number}", "g", labels={RANK: str(number)}, **WHOLE) for number in range(1, 6)]
        world.add(*(asking(pod, **asked) for pod in later))
        await world.settle()
        assert on_racks(world) == {"r0": 4}


async def test_a_spare_node_of_each_rack_gets_no_member() -> None:
    world = World()
    racks(world, 3, 4, 3)
    async with world.working():
        await place(world, 3, {REQUIRED: RACK, SPARE_NODES: "1"})
        assert on_racks(world) == {"r1": 3}


async def test_unconstrained_fills_the_smallest_gaps() -> None:
    world = World()
    world.cache.topology_levels.configure([(RACK,)])
    racks(world, 5, 1, 2)
    async with world.working():
        await place(world, 2, {UNCONSTRAINED: "true"})
        assert on_racks(world) == {"r2": 2}


async def test_a_member_that_comes_again_joins_the_others() -> None:
    world = World()
    racks(world, 2, 4)
    async with world.working():
        await place(world, 3, {REQUIRED: RACK})
        assert on_racks(world) == {"r1": 3}
        world.delete("g-0")
        await world.settle()
        world.add(asking(member("g-0b", "g", **WHOLE), **{REQUIRED: RACK}))
        await world.settle()
        assert on_racks(world) == {"r1": 4}


async def test_an_elastic_gang_gets_as_many_members_as_a_rack_has_room_for() -> None:
    world = World()
    racks(world, 2, 3)
    async with world.working():
        await place(world, 5, {REQUIRED: RACK}, least=2)
        assert on_racks(world) == {"r1": 3}


async def test_a_soft_request_may_leave_the_labelled_nodes() -> None:
    world = World()
    racks(world, 2, 1)
    world.add(make_node("plain"))
    async with world.working():
        await place(world, 4, {PREFERRED: RACK})
        assert len(world.bindings) == 4


async def test_the_engine_corrects_what_the_columns_do_not_know() -> None:
    """Members that exclude each other per block: the columns see room for all in one rack."""
    world = World()
    racks(world, 4, 2, block_of=1)
    selector = {"matchLabels": {"app": "x"}}
    spread = [{"maxSkew": 1, "topologyKey": BLOCK, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]
    async with world.working():
        world.add_group(pod_group("g", 4))
        pods = [
            member(f"g-{number}", "g", labels={"app": "x"}, topologySpreadConstraints=spread, **WHOLE)
            for number in range(4)
        ]
        world.add(*(asking(pod, **{PREFERRED: RACK}) for pod in pods))
        await world.settle()
        assert on_racks(world) == {"r0": 2, "r1": 2}


@pytest.mark.parametrize("api", ["scheduler-plugins", "volcano"])
async def test_groups_of_other_projects_ask_on_their_object(api: str) -> None:
    world = World(with_other_apis(api))
    racks(world, 2, 4, 3)
    metadata = {"name": "g", "namespace": "default", "annotations": {REQUIRED: RACK}}
    tree = {"metadata": metadata, "spec": {"minMember": 3}}
    named: dict[str, Any] = (
        {"metadata": {"annotations": {VOLCANO_ANNOTATION: "g"}}}
        if api == "volcano"
        else {"labels": {SCHEDULER_PLUGINS_LABEL: "g"}}
    )
    group = convert(tree, VolcanoPodGroup) if api == "volcano" else convert(tree, SchedulerPluginsPodGroup)
    async with world.working():
        world.add_group(group)
        world.add(*(make_pod(f"g-{number}", **named, **WHOLE) for number in range(3)))
        await world.settle()
        assert on_racks(world) == {"r2": 3}


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        pytest.param({"mode": "hard", "highestTierAllowed": 1}, {}, id="no rack holds it"),
        pytest.param({"mode": "hard", "highestTierAllowed": 2}, {"r0": 3, "r1": 2}, id="a block does"),
        pytest.param({"mode": "soft"}, {"r0": 3, "r1": 2}, id="soft"),
        pytest.param({}, {"r0": 3, "r1": 2}, id="hard, whatever the tier"),
    ],
)
async def test_volcanos_tiers_are_levels(topology: dict[str, Any], expected: dict[str, int]) -> None:
    world = World(with_other_apis("volcano"))
    world.cache.topology_levels.configure([(BLOCK, RACK, "kubernetes.io/hostname")])
    racks(world, 3, 2, 2, 1)
    tree = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 5, "networkTopology": topology}}
    async with world.working():
        world.add_group(convert(tree, VolcanoPodGroup))
        named = {"metadata": {"annotations": {VOLCANO_ANNOTATION: "g"}}}
        world.add(*(make_pod(f"g-{number}", **named, **WHOLE) for number in range(5)))
        await world.settle()
        assert on_racks(world) == expected


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        pytest.param({SLICE_LEVEL: RACK, SLICE_SIZE: "x"}, 'podset-slice-size] "x" is not a whole number', id="size"),
        pytest.param({SLICE_LEVEL: RACK}, "belong together", id="no size"),
        pytest.param({REQUIRED: "a b"}, 'podset-required-topology] "a b" is not a label key', id="key"),
        pytest.param({PREFERRED: "a\x1b[2Jb"}, '"a\\u001b[2Jb" is not a label key', id="control characters"),
        pytest.param({UNCONSTRAINED: "maybe"}, 'neither "true" nor "false"', id="flag"),
        pytest.param({REQUIRED: RACK, SPARE_NODES: "1000"}, "from 0 to 64", id="spare"),
        pytest.param({SPARE_NODES: "1"}, "needs a level", id="spare alone"),
        pytest.param({REQUIRED: RACK, PREFERRED: BLOCK}, "wider than the required", id="order"),
        pytest.param({REQUIRED: RACK, SLICE_LEVEL: BLOCK, SLICE_SIZE: "2"}, "slices in one", id="slices"),
    ],
)
async def test_what_contradicts_itself_is_refused(annotations: dict[str, str], message: str) -> None:
    world = World()
    world.cache.topology_levels.configure([(BLOCK, RACK)])
    racks(world, 2, 2)
    async with world.working():
        await place(world, 2, annotations)
        condition = world.groups.last("g")
        assert condition.reason == "PodGroupError"
        assert message in condition.message
        assert world.bindings == []


@pytest.mark.parametrize("field", [{"mode": "soft"}, {"mode": "none"}], ids=["soft", "wrong"])
@pytest.mark.parametrize("on_members", [True, False], ids=["members", "object"])
async def test_annotations_take_precedence_over_volcanos_field(field: dict[str, Any], on_members: bool) -> None:
    """Also those of members: a required rack must not be dropped for a field that only prefers one."""
    world = World(with_other_apis("volcano"))
    racks(world, 2, 1)
    asked = {REQUIRED: RACK}
    metadata = {"name": "g", "namespace": "default", "annotations": {} if on_members else asked}
    group = convert({"metadata": metadata, "spec": {"minMember": 3, "networkTopology": field}}, VolcanoPodGroup)
    named = {VOLCANO_ANNOTATION: "g", **(asked if on_members else {})}
    async with world.working():
        world.add_group(group)
        world.add(*(make_pod(f"g-{number}", metadata={"annotations": named}, **WHOLE) for number in range(3)))
        await world.settle()
        assert on_racks(world) == {}, "no rack holds three"
        world.add(make_node("r1n1", labels={RACK: "r1"}), make_node("r1n2", labels={RACK: "r1"}))
        await world.pass_seconds(5)
        assert on_racks(world) == {"r1": 3}


async def test_members_must_agree() -> None:
    world = World()
    racks(world, 2)
    async with world.working():
        world.add_group(pod_group("g", 2))
        world.add(
            asking(member("g-0", "g"), **{REQUIRED: RACK}),
            asking(member("g-1", "g"), **{REQUIRED: BLOCK}),
        )
        await world.settle()
        assert "members g-0 and g-1 ask for different topologies" in world.groups.last("g").message


async def test_a_label_that_no_node_has() -> None:
    world = World()
    world.nodes(3)
    async with world.working():
        await place(world, 2, {REQUIRED: "example.com/rakc"})
        assert "no node has the label example.com/rakc" in world.groups.last("g").message


async def test_room_is_made_in_one_rack() -> None:
    world = World()
    racks(world, 2, 2)
    async with world.working():
        world.add(*(make_pod(f"low-{number}", priority=0, **WHOLE) for number in range(3)))
        await world.settle()
        world.add_group(pod_group("g", 2, priority=10))
        world.add(
            *(asking(member(f"g-{number}", "g", priority=10, **WHOLE), **{REQUIRED: RACK}) for number in range(2))
        )
        await world.settle()
        await world.pass_seconds(15)
        assert list(on_racks(world).values()) == [2]
        assert len(world.evicted) <= 2


async def test_what_is_known_of_the_nodes_follows_their_labels() -> None:
    world = World()
    racks(world, 2, 2)
    async with world.working():
        await place(world, 2, {REQUIRED: RACK})
        assert on_racks(world) == {"r0": 2} or on_racks(world) == {"r1": 2}
        world.add(make_node("r7n0", labels={RACK: "r7"}), make_node("r7n1", labels={RACK: "r7"}))
        other = "r1n0" if "r0" in on_racks(world) else "r0n0"
        world.add(make_node(other, labels={RACK: "r7"}))
        await place(world, 3, {REQUIRED: RACK}, name="h")
        assert sorted(node for name, node in world.bindings if name.startswith("h-")) == sorted([other, "r7n0", "r7n1"])


async def test_the_example_of_the_page() -> None:
    page = (ROOT / "docs/pod-groups.md").read_text(encoding="utf-8").partition("## Topology for every kind of group")[2]
    group, configuration = (yaml.safe_load(part.partition("```")[0]) for part in page.split("```yaml\n")[1:3])
    world = World(from_tree(configuration, "", parse_feature_gates("")))
    racks(world, 3, 5, 2, 4)
    named = {"metadata": {"annotations": {VOLCANO_ANNOTATION: group["metadata"]["name"]}}}
    async with world.working():
        world.add_group(convert(group, VolcanoPodGroup))
        own = {"schedulerName": "default-scheduler"}
        world.add(*(make_pod(f"g-{number}", **named, **own, **WHOLE) for number in range(6)))
        await world.settle()
        assert on_racks(world) == {"r2": 2, "r3": 4}


async def test_without_a_request_nothing_of_this_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    racks(world, 2, 2)
    monkeypatch.setattr(group_placement, "requested_topology", None)
    async with world.working():
        world.gang("g", 3)
        await world.settle()
        assert len(world.bindings) == 3


async def test_a_preferred_level_that_no_node_has_leaves_the_required_one() -> None:
    world = World()
    racks(world, 2, 2, 3)
    async with world.working():
        await place(world, 4, {REQUIRED: BLOCK, PREFERRED: "example.com/no-such"})
        assert on_racks(world) == {"r0": 2, "r1": 2}


async def test_a_node_without_the_preferred_level_counts_for_the_required_one() -> None:
    world = World()
    racks(world, 2, block_of=1)
    bare = [make_node(f"bare{number}", labels={BLOCK: "b0"}) for number in range(2)]
    world.add(*bare, initial=True)
    async with world.working():
        await place(world, 4, {REQUIRED: BLOCK, PREFERRED: RACK})
        assert len(world.bindings) == 4
        await place(world, 2, {REQUIRED: BLOCK, PREFERRED: RACK}, name="late")
        assert len(world.bindings) == 4


async def test_nodes_without_the_preferred_level_are_not_near_each_other() -> None:
    world = World()
    racks(world, 2, block_of=1)
    world.add(*(make_node(f"bare{number}", labels={BLOCK: "b0"}) for number in range(2)), initial=True)
    async with world.working():
        await place(world, 2, {REQUIRED: BLOCK, PREFERRED: RACK})
        assert on_racks(world) == {"r0": 2}
