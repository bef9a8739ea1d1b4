"""Scenarios are read from lines, lists, gzip and standard input; what cannot be read is named in one line."""

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.explain.pod_text import decision_text
from kscheduler.scenario.decide import Decision, decide
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.scenario import parse_scenario, read_scenarios
from tests.effort import example_count
from tests.explain.as_json import decision_tree
from tests.explain.scenarios import node_tree, pod_tree, scenario_line

TWO = b"\n".join([scenario_line(name="one"), b"", scenario_line(name="two"), b""])
LIST = b"[" + scenario_line(name="one") + b",\n" + scenario_line(name="two") + b"]"
PRINTED = json.dumps(json.loads(scenario_line(name="one")), indent=2).encode()


@pytest.mark.parametrize(
    ("file_name", "content", "names"),
    [
        ("lines.jsonl", TWO, ["one", "two"]),
        ("packed.jsonl.gz", gzip.compress(TWO), ["one", "two"]),
        ("packed-under-a-plain-name", gzip.compress(TWO), ["one", "two"]),
        ("several-members.gz", gzip.compress(TWO) + gzip.compress(TWO), ["one", "two", "one", "two"]),
        ("list.json", LIST, ["one", "two"]),
        ("list.json.gz", gzip.compress(LIST), ["one", "two"]),
        ("printed.json", PRINTED, ["one"]),
        ("lines.json", TWO, ["one", "two"]),
        ("empty.jsonl", b"", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_reads_every_form_of_file(tmp_path: Path, file_name: str, content: bytes, names: list[str]) -> None:
    path = tmp_path / file_name
    path.write_bytes(content)
    assert [scenario.id for scenario in read_scenarios(str(path))] == names


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzipped"])
def test_reads_standard_input(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    content = gzip.compress(TWO) if packed else TWO
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
    assert [scenario.id for scenario in read_scenarios("-")] == ["one", "two"]


def test_a_line_is_read_when_it_is_queried_for(tmp_path: Path) -> None:
    path = tmp_path / "half-bad.jsonl"
    path.write_bytes(scenario_line(name="good") + b"\nnot json\n")
    scenarios = read_scenarios(str(path))
    assert next(scenarios).id == "good"
    with pytest.raises(ScenarioError, match=r"half-bad\.jsonl:2: not JSON"):
        next(scenarios)


CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
BAD_LINES = {
    "not JSON": (b"{", "not JSON: Input data was truncated"),
    "not an object": (b"[1]", "expected object, got array"),
    "no pod": (b'{"objects": {}}', "object missing required field pod"),
    "a list that is none": (scenario_line(nodes="all"), "objects.nodes: expected array, got str"),
    "a field of the wrong type": (
        scenario_line(nodes=[node_tree("a"), {"metadata": {"name": 3}}]),
        "objects.nodes[1].metadata.name: expected str, got int",
    ),
    "a quantity of the pod": (
        scenario_line(pod_tree(cpu="one")),
        "pod.spec.containers[0].resources.requests.cpu: quantity 'one' is not a number",
    ),
    "a quantity of a node": (
        scenario_line(nodes=[node_tree("a"), node_tree("b", cpu="4 cores")]),
        "objects.nodes[1].status.allocatable.cpu: quantity '4 cores' is not a number",
    ),
    "a quantity of another pod": (
        scenario_line(pods=[pod_tree("other", cpu="1mm", nodeName="a")]),
        "objects.pods[0].spec.containers[0].resources.requests.cpu: quantity '1mm' is not a number",
    ),
    "a configuration of another kind": (scenario_line(config={"kind": "Pod"}), "config: apiVersion: is missing"),
    "a configuration with a wrong value": (
        scenario_line(config={**CONFIG, "percentageOfNodesToScore": 200}),
        "config: percentageOfNodesToScore: ",
    ),
    "a plugin that does not exist": (
        scenario_line(config={**CONFIG, "profiles": [{"plugins": {"score": {"enabled": [{"name": "Luck"}]}}}]}),
        "Luck",
    ),
}


@pytest.mark.parametrize(("line", "message"), BAD_LINES.values(), ids=BAD_LINES)
def test_what_cannot_be_read_is_named_in_one_line(line: bytes, message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        decide(parse_scenario(line, "file:7"))
    text = str(raised.value)
    assert text.startswith("file:7: ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(TWO)[:40], "gzip stream ends in the middle"),
        (b"\x1f\x8b" + b"\0" * 30, "cannot be read|not a gzip stream|ends in the middle"),
    ],
    ids=["cut", "damaged"],
)
def test_a_damaged_gzip_file_is_a_scenario_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "damaged.gz"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=message):
        list(read_scenarios(str(path)))


def test_a_missing_file_is_a_scenario_error(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: No such file"):
        list(read_scenarios(str(tmp_path / "none.jsonl")))


ROUND_ABOUT = {
    **pod_tree(
        tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        nodeSelector={"disk": "ssd"},
        overhead={"cpu": "10m"},
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["1"]}]}]
                }
            }
        },
        volumes=[{"name": "v", "image": {"reference": "data"}}],
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    ),
    "status": {"phase": "Pending", "nominatedNodeName": "a"},
}
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", "x", "-1", "1e400", "9" * 50, "\x1b[31m", "\u202e", "\ud800".encode("utf-16", "surrogatepass").hex()]
    )
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def malformed_pods(draw: st.DrawFn) -> Any:
    """A pod that was whole before up to three places of it were overwritten with anything."""
    tree = json.loads(json.dumps(ROUND_ABOUT))
    for _ in range(draw(st.integers(1, 3))):
        place: Any = tree
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], (dict, list)) and place[key] and draw(st.integers(0, 3)):
                place = place[key]
                continue
            place[key] = draw(values)
            break
    return tree


@settings(max_examples=example_count(1000), deadline=None)
@given(malformed_pods())
def test_a_malformed_pod_is_judged_or_refused_and_never_a_crash(pod: Any) -> None:
    line = json.dumps({"id": "x", "config": None, "objects": {"nodes": [node_tree("a")], "pods": [pod]}, "pod": pod})
    try:
        decision = decide(parse_scenario(line.encode(), "file:1"))
    except ScenarioError as error:
        refused = str(error)
    else:
        refused = ""
        assert_reported(decision)
    assert not refused or (refused.startswith("file:1: ") and "\n" not in refused)


def assert_reported(decision: Decision) -> None:
    assert json.dumps(decision_tree(decision))
    assert all(character.isprintable() or character == "\n" for character in decision_text(decision))


@pytest.mark.parametrize(
    ("other", "fits"),
    [
        (pod_tree("running", cpu="4", nodeName="a"), False),
        (pod_tree("web", cpu="4", nodeName="a"), True),
        ({**pod_tree("done", cpu="4", nodeName="a"), "status": {"phase": "Succeeded"}}, True),
        ({**pod_tree("dead", cpu="4", nodeName="a"), "status": {"phase": "Failed"}}, True),
        (pod_tree("pending", cpu="4"), True),
        (pod_tree("elsewhere", cpu="4", nodeName="b"), True),
    ],
    ids=["a running pod", "the pod itself", "a pod that is done", "a pod that failed", "a pending pod", "a lost pod"],
)
def test_only_running_pods_take_room(other: Any, fits: bool) -> None:
    decision = decide(parse_scenario(scenario_line(nodes=[node_tree("a")], pods=[other]), "file:1"))
    assert decision.record is not None
    assert bool(decision.record.node_name) is fits


def test_of_a_sampled_search_as_many_nodes_count_as_were_looked_at() -> None:
    """Three nodes of four are too small; the last three that the filters were asked about were not needed any more."""
    nodes = [node_tree(f"node-{number:03}", cpu="0" if number % 4 else "4") for number in range(1000)]
    decision = decide(
        parse_scenario(scenario_line(nodes=nodes, config={**CONFIG, "percentageOfNodesToScore": 15}), "one")
    )
    assert decision.record is not None
    assert len(decision.record.feasible) == 150
    assert decision.record.num_evaluated_nodes == 597
    assert decision_tree(decision)["evaluatedCount"] == 597
    assert "150 of 1000 nodes fit (597 looked at)" in decision_text(decision)
