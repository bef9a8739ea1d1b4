"""What answers mean, against small tables."""

import pytest

from kscheduler.client.extenders.messages import FilterResponse, VictimsOnNode
from kscheduler.framework.status import Status, unresolvable, unschedulable
from kscheduler.scheduling.extenders.extender_results import (
    MAX_POINTS,
    MAX_WORDS,
    ExtenderClaimError,
    left_victims,
    points_of,
    remaining_nodes,
    shortened,
)
from tests.builders import pod_info

QUERIED = ("a", "b", "c")
SILENT = unresolvable(plugin="Extender")


@pytest.mark.parametrize(
    ("answer", "knows_nodes", "names", "rejected"),
    [
        (FilterResponse(node_names=("c", "a")), True, ("a", "c"), {"b": SILENT}),
        (FilterResponse(node_names=("a", "a")), True, ("a",), {"b": SILENT, "c": SILENT}),
        (FilterResponse(nodes=("a",)), False, ("a",), {"b": SILENT, "c": SILENT}),
        (FilterResponse(nodes=QUERIED), True, QUERIED, {}),  # names are not there, so nodes count
        (FilterResponse(node_names=(), nodes=QUERIED), True, (), dict.fromkeys(QUERIED, SILENT)),
        (FilterResponse(node_names=QUERIED), False, (), dict.fromkeys(QUERIED, SILENT)),  # names do not count for it
        (FilterResponse(), True, (), dict.fromkeys(QUERIED, SILENT)),
        (
            FilterResponse(("a",), None, {"b": "busy", "c": "busy", "x": "?"}, {"c": "never"}),
            True,
            ("a",),
            {"b": unschedulable("busy", plugin="Extender"), "c": unresolvable("never", plugin="Extender")},
        ),
        (FilterResponse(("a", "b", "c"), None, {"a": "but"}), True, QUERIED, {}),
    ],
)
def test_which_nodes_a_filter_answer_leaves(
    answer: FilterResponse, knows_nodes: bool, names: tuple[str, ...], rejected: dict[str, Status]
) -> None:
    left = remaining_nodes("http://x", QUERIED, answer, knows_nodes=knows_nodes)
    assert (left.names, left.rejected) == (names, rejected)


@pytest.mark.parametrize(
    ("answer", "knows_nodes", "message"),
    [
        (FilterResponse(("a",), error="no"), True, "no"),
        (
            FilterResponse(node_names=("a", "z")),
            True,
            'extender "http://x" claims a filtered node "z" which is not found in the input node list',
        ),
        (
            FilterResponse(nodes=("z",)),
            False,
            'extender "http://x" claims a filtered node "z" which is not found in the input node list',
        ),
    ],
)
def test_filter_answers_that_cannot_be(answer: FilterResponse, knows_nodes: bool, message: str) -> None:
    with pytest.raises(ExtenderClaimError) as reported:
        remaining_nodes("http://x", QUERIED, answer, knows_nodes=knows_nodes)
    assert str(reported.value) == message


@pytest.mark.parametrize(
    ("scores", "weight", "expected"),
    [
        ([("a", 10), ("b", 1)], 2, {"a": 200, "b": 20}),
        ([("a", 1), ("a", 2)], 1, {"a": 30}),
        ([("z", 9)], 1, {}),
        ([("a", 2**62), ("b", -(2**62))], 3, {"a": MAX_POINTS, "b": -MAX_POINTS}),
        ([], 1, {}),
    ],
)
def test_points_are_on_the_scale_of_nodes(scores: list[tuple[str, int]], weight: int, expected: dict[str, int]) -> None:
    assert points_of(scores, weight, QUERIED) == expected


# --- preempt ----------------------------------------------------------------------------------------------------------

ON_NODE = {
    "low": pod_info("low", priority=1),
    "other": pod_info("other", priority=5),
    "high": pod_info("high", priority=9),
}
PREEMPTOR = pod_info("preemptor", priority=9)
# "e" is a node that needs no victims: from 1.38 on an extender may name some.
PROPOSED = {"n": VictimsOnNode(("low",)), "m": VictimsOnNode(("low",), 1), "e": VictimsOnNode(())}


@pytest.mark.parametrize(
    ("answer", "is_ignorable", "expected"),
    [
        ({"n": VictimsOnNode(("low",))}, False, {"n": VictimsOnNode(("low",))}),
        ({"n": VictimsOnNode(("other",), 2)}, False, {"n": VictimsOnNode(("other",), 2)}),
        ({}, False, {}),
        ({"n": VictimsOnNode(()), "m": VictimsOnNode(("low",))}, True, {"m": VictimsOnNode(("low",))}),
        ({"e": VictimsOnNode(())}, False, {"e": VictimsOnNode(())}),
        ({"e": VictimsOnNode(("low",))}, True, {"e": VictimsOnNode(("low",))}),
        ({"n": VictimsOnNode(())}, False, 'expected at least one victim pod on node "n"'),
        (
            {"z": VictimsOnNode(("low",))},
            False,
            'extender "http://x" claims a preemption on node "z" which is not found in the input',
        ),
        (
            {"n": VictimsOnNode(("gone",))},
            True,
            "extender: http://x claims to preempt pod (UID: gone) on node: n, but the pod is not found on that node",
        ),
        (
            {"n": VictimsOnNode(("high",))},
            False,
            (
                "extender: http://x claims to preempt pod (UID: high) on node: n, "
                "but its priority is not below that of pod default/preemptor"
            ),
        ),
    ],
)
def test_which_victims_a_preempt_answer_leaves(
    answer: dict[str, VictimsOnNode], is_ignorable: bool, expected: dict[str, VictimsOnNode] | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(ExtenderClaimError) as reported:
            left_victims("http://x", PROPOSED, answer, lambda _: ON_NODE, PREEMPTOR, is_ignorable=is_ignorable)
        assert str(reported.value) == expected
    else:
        found = left_victims("http://x", PROPOSED, answer, lambda _: ON_NODE, PREEMPTOR, is_ignorable=is_ignorable)
        assert found == expected


def test_an_extenders_words_are_one_line_of_bounded_length() -> None:
    assert shortened("no\nlicense\x1b[31m") == "no license [31m"
    assert len(shortened("E" * 200_000)) == MAX_WORDS + 3
    assert shortened("E" * MAX_WORDS) == "E" * MAX_WORDS
