"""AnnotationMatch: what a pod's annotation asks of a node, required or preferred."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import Node, Pod
from kscheduler.config.errors import ConfigError
from kscheduler.framework.events import ActionType, ClusterEvent, QueueingHint, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.testing import make_node, make_pod
from tests.effort import example_count
from tests.plugins.policies.worlds import PolicyWorld

TYPE = "cluster.type"
REQUIRED = {"keys": [{"key": TYPE}]}
PREFERRED = {"keys": [{"key": TYPE, "mode": "Preferred"}]}


def raspberry(name: str = "pi", **fields: Any) -> Pod:
    return make_pod(name, annotations={TYPE: "raspberry"}, **fields)


NODES = [
    make_node("annotated", annotations={TYPE: "raspberry"}),
    make_node("labelled", labels={TYPE: "raspberry"}),
    make_node("other", labels={TYPE: "intel"}),
    make_node("silent"),
]


def test_a_required_annotation_rejects_nodes_that_say_something_else_or_nothing() -> None:
    world = PolicyWorld("AnnotationMatch", *NODES, args=REQUIRED)
    assert world.decide(raspberry()).feasible_names() == ["annotated", "labelled"]
    assert world.decide(make_pod("careless")).feasible_names() == [node.metadata.name for node in NODES]
    nowhere = world.decide(make_pod("mips", annotations={TYPE: "mips"}))
    assert nowhere.message.startswith("0/4 nodes are available: 4 node(s) didn't match the Pod's annotations.")


def test_a_preferred_annotation_gives_points_and_rejects_nobody() -> None:
    world = PolicyWorld("AnnotationMatch", *NODES, args=PREFERRED)
    assert world.points(raspberry()) == {"annotated": 100, "labelled": 100, "other": 0, "silent": 0}
    assert len(world.decide(make_pod("mips", annotations={TYPE: "mips"})).feasible) == 4


def test_a_node_may_use_another_key_and_the_same_key_may_be_said_twice() -> None:
    args = {"keys": [{"key": "disk", "nodeKey": "acme/disk"}, {"key": TYPE, "mode": "Preferred"}]}
    both = make_node("both", labels={"acme/disk": "hdd", TYPE: "x"}, annotations={"acme/disk": "ssd"})
    world = PolicyWorld("AnnotationMatch", *NODES, both, args=args)
    assert world.decide(make_pod("a", annotations={"disk": "ssd"})).feasible_names() == ["both"]
    assert world.decide(make_pod("b", annotations={"disk": "hdd"})).feasible_names() == ["both"]


def test_a_label_that_changes_on_one_node_asks_about_one_row() -> None:
    world = PolicyWorld("AnnotationMatch", *NODES, args=PREFERRED)
    world.decide(raspberry("one"))
    world.decide(raspberry("two"))
    assert world.queried == [sorted(node.metadata.name for node in NODES)]
    world.cache.update_node(make_node("silent", labels={TYPE: "raspberry"}))
    assert world.points(raspberry("three"))["silent"] == 100
    world.cache.update_node(make_node("silent", annotations={TYPE: "intel"}))
    assert world.points(raspberry("four"))["silent"] == 0
    assert world.queried[1:] == [["silent"], ["silent"]]


def test_a_required_annotation_is_compared_on_the_changed_node_only() -> None:
    world = PolicyWorld("AnnotationMatch", *NODES, args=REQUIRED)
    queried, original = [], world.policy.filter

    def counted(cycle: Any, pod: Any, nodes: Any, rows: Any) -> Any:
        queried.append(sorted(map(nodes.name_of, rows.tolist())))
        return original(cycle, pod, nodes, rows)

    world.policy.filter = counted
    info = [PodInfo(raspberry(f"pi-{number}")) for number in range(3)]
    assert schedule(world.profile, info[0], world.cache, engine=world.engine).feasible_names() == [
        "annotated",
        "labelled",
    ]
    schedule(world.profile, info[1], world.cache, engine=world.engine)
    world.cache.update_node(make_node("silent", annotations={TYPE: "raspberry"}))
    assert "silent" in schedule(world.profile, info[2], world.cache, engine=world.engine).feasible_names()
    assert queried == [sorted(node.metadata.name for node in NODES), ["silent"]]


def hint_for(action: ActionType, resource: Resource = Resource.NODE) -> Any:
    policy = PolicyWorld("AnnotationMatch", *NODES, args=REQUIRED).policy
    found = [each for each in policy.events_to_register() if each.event.matches(ClusterEvent(resource, action))]
    (one,) = found
    return one.hint


def silent(**fields: Any) -> Node:
    return make_node("silent", **fields)


MATCHING = {TYPE: "raspberry"}


@pytest.mark.parametrize(
    ("action", "old", "new", "wakes"),
    [
        (ActionType.ADD, None, silent(labels=MATCHING), True),
        (ActionType.ADD, None, silent(), False),
        (ActionType.UPDATE_NODE_LABEL, silent(), silent(labels=MATCHING), True),
        (ActionType.UPDATE_NODE_ANNOTATION, silent(), silent(annotations=MATCHING), True),
        (ActionType.UPDATE_NODE_ANNOTATION, silent(), silent(annotations={"other": "1"}), False),
        (ActionType.UPDATE_NODE_ANNOTATION, silent(labels=MATCHING), silent(labels=MATCHING, annotations={}), False),
        (ActionType.UPDATE_NODE_LABEL, silent(labels=MATCHING), silent(), False),
    ],
    ids=["new", "new-other", "label", "annotation", "other-annotation", "matched-before", "label-gone"],
)
def test_which_changes_of_a_node_wake_a_parked_pod(
    action: ActionType, old: Node | None, new: Node, wakes: bool
) -> None:
    answer = hint_for(action)(PodInfo(raspberry()), old, new)
    assert answer is (QueueingHint.QUEUE if wakes else QueueingHint.SKIP)


@pytest.mark.parametrize(
    ("new", "wakes"),
    [
        (make_pod("pi"), True),
        (make_pod("pi", annotations={TYPE: "intel"}), True),
        (make_pod("pi", annotations={TYPE: "raspberry", "note": "x"}), False),
        (make_pod("another"), False),
    ],
    ids=["withdrawn", "another-value", "another-annotation", "another-pod"],
)
def test_which_changes_of_its_own_wake_a_parked_pod(new: Pod, wakes: bool) -> None:
    hint = hint_for(ActionType.UPDATE_OTHER, Resource.UNSCHEDULABLE_POD)
    answer = hint(PodInfo(raspberry()), raspberry(), new)
    assert answer is (QueueingHint.QUEUE if wakes else QueueingHint.SKIP)


values = st.sampled_from(["", "a", "b"])
maps = st.dictionaries(st.sampled_from(["k", "l"]), values)


@settings(max_examples=example_count(80))
@given(st.lists(st.tuples(maps, maps), min_size=2, max_size=6), maps, st.sampled_from(["Required", "Preferred"]))
def test_the_columns_equal_the_rule_node_by_node(
    nodes: list[tuple[dict[str, str], dict[str, str]]], wanted: dict[str, str], mode: str
) -> None:
    args = {"keys": [{"key": "k", "mode": mode}, {"key": "l", "mode": mode}]}
    made = [make_node(f"n{i}", labels=labels, annotations=notes) for i, (labels, notes) in enumerate(nodes)]
    world = PolicyWorld("AnnotationMatch", *made, args=args)
    matches = [
        sum(labels.get(key) == value or notes.get(key) == value for key, value in wanted.items())
        for labels, notes in nodes
    ]
    pod = make_pod("p", annotations=wanted)
    if mode == "Required":
        fitting = [f"n{number}" for number, count in enumerate(matches) if count == len(wanted)]
        assert world.decide(pod).feasible_names() == fitting
    elif wanted:
        most = max(matches)
        expected = {f"n{number}": count * 100 // most if most else 0 for number, count in enumerate(matches)}
        assert world.points(pod) == expected


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (None, "pluginConfig[0].args.keys: Required value: name at least one annotation"),
        ({"keys": [{}]}, "pluginConfig[0].args.keys[0].key: Required value"),
        ({"keys": [{"key": "a", "mode": "must"}]}, 'keys[0].mode: Unsupported value: "must"'),
        ({"keys": [{"key": "a", "nodeKey": "-"}]}, "keys[0].nodeKey: Invalid value"),
        ({"keys": [{"key": "a"}, {"key": "a"}]}, "keys[1].key: Duplicate value"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(args: dict[str, Any] | None, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PolicyWorld("AnnotationMatch", make_node("a"), args=args)
    assert text in str(caught.value)
