"""The text for a person: complete, aligned, and harmless to a terminal."""

import io
import json

import pytest

from kscheduler.api.meta import Condition
from kscheduler.explain.pod_text import Style, decision_text, style_of
from kscheduler.explain.situation import PodState, Situation
from kscheduler.scenario.decide import Decision, decide
from kscheduler.scenario.scenario import parse_scenario
from kscheduler.text import printable
from tests.explain.as_json import decision_tree
from tests.explain.scenarios import Tree, node_tree, pod_tree, scenario_line

CORDONED = node_tree("closed", unschedulable=True)


def explained(line: bytes, style: Style | None = None) -> str:
    return decision_text(decide(parse_scenario(line, "test")), style or Style())


def test_says_where_the_pod_goes_and_who_gave_the_points() -> None:
    nodes = [node_tree("small", cpu="2"), node_tree("large", cpu="16"), node_tree("tiny", cpu="500m"), CORDONED]
    assert explained(scenario_line(nodes=nodes)).splitlines() == [
        "[one] default/web: goes to large",
        "  2 of 4 nodes fit",
        "",
        "    points                           large  small",
        "    TaintToleration (weight 3)         300    300",
        "    NodeResourcesFit                    90     68",
        "    NodeResourcesBalancedAllocation     73     65",
        "    ImageLocality                        0      0",
        "    total                              463    433",
        "",
        "  the best other node is small with 433 points, 30 behind large with 463 (NodeResourcesFit -22,",
        "      NodeResourcesBalancedAllocation -8)",
        "",
        "  NodeUnschedulable rejected 1 node",
        "    1  node(s) were unschedulable  no preemption helps  closed",
        "    - cordoned (spec.unschedulable): node.kubernetes.io/unschedulable:NoSchedule is not tolerated",
        "",
        "  NodeResourcesFit rejected 1 node",
        "    1  Insufficient cpu  no preemption helps  tiny",
        "    - cpu: asks for 1; tiny has 500m free of 500m (500m short); none of them is that large",
    ]


def test_a_single_node_that_fits_gets_its_points_too() -> None:
    decision = decide(parse_scenario(scenario_line(nodes=[node_tree("only")]), "test"))
    tree = decision_tree(decision)
    assert tree["best"] == ["only"]
    assert set(tree["scores"]["only"]) >= {"NodeResourcesFit", "_total"}


def test_says_why_no_node_fits_in_the_words_of_the_event() -> None:
    nodes = [node_tree(f"tiny-{number}", cpu="500m") for number in range(5)]
    text = explained(scenario_line(nodes=nodes))
    assert "default/web: fits on no node" in text
    assert "5  Insufficient cpu  no preemption helps  tiny-0, tiny-1, tiny-2, and 2 more" in text
    assert "preemption would not help on any node" in text
    tail = (
        "no new claims to deallocate, preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    )
    assert " ".join(text.split()).endswith(f"event: 0/5 nodes are available: 5 Insufficient cpu. {tail}")


def occupied(node: str, *priorities: int) -> list[Tree]:
    return [
        pod_tree(f"{node}-{number}", cpu="500m", nodeName=node, priority=priority)
        for number, priority in enumerate(priorities)
    ]


def test_reports_who_would_have_to_go_and_what_else_was_thought_of() -> None:
    nodes = [node_tree(name, cpu="1") for name in ("a", "b", "c")]
    pods = [*occupied("a", 5, 1), *occupied("b", 9, 9), *occupied("c", 20, 20)]
    pod = pod_tree("web", cpu="500m", priority=10)
    text = explained(scenario_line(pod, nodes=nodes, pods=pods))
    assert text.startswith("[one] default/web: fits on no node; preemption would make room on a\n")
    assert "preemption makes room on a: 1 pod goes" in text
    assert "default/a-1  priority 1" in text
    assert "2 nodes would do" in text
    assert "b  1 pod, highest priority 9" in text
    assert text.endswith("event: 0/3 nodes are available: 3 Insufficient cpu.")


def test_reports_that_a_pod_may_not_preempt() -> None:
    pod = pod_tree("web", cpu="500m", priority=10, preemptionPolicy="Never")
    line = scenario_line(pod, nodes=[node_tree("a", cpu="1")], pods=occupied("a", 5, 1))
    assert "preemption: not eligible due to preemptionPolicy=Never." in " ".join(explained(line).split())
    tree = decision_tree(decide(parse_scenario(line, "test")))
    assert tree["preemption"]["status"] == "Unschedulable"
    assert tree["preemption"]["victims"] == []


def test_says_which_gates_hold_the_pod() -> None:
    text = explained(scenario_line(pod_tree(schedulingGates=[{"name": "quota"}]), nodes=[node_tree("a")]))
    assert text.splitlines() == [
        "[one] default/web: gated",
        "  SchedulingGates: waiting for scheduling gates: [quota]",
        "  no scheduler looks at it until its scheduling gates are removed",
    ]


def test_says_that_the_search_was_narrowed() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["b"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    text = explained(scenario_line(pod_tree(affinity=affinity), nodes=[node_tree("a"), node_tree("b")]))
    assert "only these nodes were looked at (NodeAffinity): b" in text
    assert "PreFilter rejected 1 node" in text


def test_an_empty_cluster_and_an_unknown_profile_have_words_of_their_own() -> None:
    assert explained(scenario_line()).endswith("no nodes available to schedule pods")
    unknown: Tree = pod_tree(schedulerName="mine")
    assert explained(scenario_line(unknown)).splitlines() == [
        '[one] default/web: error: profile not found for scheduler name "mine"',
        "  profiles served: default-scheduler",
    ]
    tree = decision_tree(decide(parse_scenario(scenario_line(unknown), "test")))
    assert tree["error"] == 'profile not found for scheduler name "mine"'
    assert {tree[key] for key in ("preEnqueue", "preFilter", "filter", "feasible", "scores", "best", "message")} == {
        None
    }


def test_nodes_that_do_not_fit_beside_each_other_are_counted_instead() -> None:
    nodes = [node_tree(f"node-with-a-rather-long-name-{number:02}") for number in range(40)]
    text = explained(scenario_line(nodes=nodes), Style(width=80))
    assert "(the best 1 of 40 nodes that fit)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_names_cannot_steer_the_terminal() -> None:
    hostile = pod_tree("web\x1b]0;owned\x07")
    line = scenario_line(hostile, nodes=[node_tree("node\u202e\x1b[2J", cpu="1m")], name="\x1b[31mid")
    text = explained(line)
    assert all(character.isprintable() or character == "\n" for character in text)


def test_colours_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            raise OSError("no descriptor behind it")

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert style_of(io.StringIO()) == Style()
    assert style_of(Terminal()).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not style_of(Terminal()).colour
    coloured = explained(scenario_line(nodes=[node_tree("a")]), Style(colour=True))
    assert "\x1b[32ma\x1b[0m" in coloured


def test_json_has_the_same_keys_whatever_came_of_it() -> None:
    lines = [
        scenario_line(nodes=[node_tree("a")]),
        scenario_line(),
        scenario_line(pod_tree(schedulerName="mine")),
        scenario_line(pod_tree(schedulingGates=[{"name": "quota"}])),
    ]
    keys = [list(decision_tree(decide(parse_scenario(line, "test")))) for line in lines]
    phases = ["preEnqueue", "preFilter", "preFilterNodes", "filter", "feasible", "scores"]
    expected = ["id", "error", *phases, "best", "message", "preemption", "preemptionCandidates"]
    assert [[key for key in one if key in expected] for one in keys] == [expected] * len(lines)
    assert keys == [keys[0]] * len(lines)
    assert json.dumps(keys)


def test_a_text_of_two_lines_is_not_glued_together_in_one() -> None:
    """Messages of groups have several lines; what a terminal would obey is left out."""
    assert (
        printable("incoming preemptor\npod group b: \x1b[31mred\tx\u202e")
        == "incoming preemptor pod group b: [31mred x"
    )


def test_of_a_pod_with_an_error_of_its_own_that_comes_first_and_a_plugin_that_is_held_back_second() -> None:
    """The hold is about other pods, and will be over; what the pod's owner can repair is its own error."""
    held = 'running "Hostile" filter plugin: plugin "Hostile" is held back from all pods until X'
    own = "running \"Hostile\" filter plugin: it raised KeyError: 'mode' (buggy.py:6)"
    scenario = parse_scenario(scenario_line(), "test")
    condition = Condition(type="PodScheduled", status="False", reason="SchedulerError", message=own)
    situation = Situation(PodState.PENDING, is_live=True, condition=condition)
    lines = decision_text(Decision(scenario, held, is_held_back=True), situation=situation).splitlines()
    assert lines[0] == f"[one] default/web: error: {own}"
    assert " ".join(" ".join(lines[1:3]).split()) == f"it is not tried now: {held}"
    assert "  condition PodScheduled=False (SchedulerError), with the same text" in lines
    without = decision_text(Decision(scenario, held, is_held_back=True))
    assert " ".join(without.split()).startswith(f"[one] default/web: error: {held}")
