"""The file of a sweep is read strictly: each mistake is named with its place, all of them at once."""

from pathlib import Path

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.sweep.running import run
from kscheduler.sweep.sweep_file import Sweep, read_sweep
from kscheduler.sweep.trace.openb import LISTS
from tests.docs.source_index import ROOT
from tests.recorder.recorded import record
from tests.sweep.sweeps import trace, write

WORKLOADS = "workloads: [{name: w, synthetic: {scale: 0.01}}]\n"
POLICIES = "policies: [{name: p}]\n"
MANY_WEIGHTS = "{" + ", ".join(f"P{number}: {list(range(100))}" for number in range(6)) + "}"


def generated(pods: str, allocatable: str = "cpu: '4'") -> str:
    nodes = f"nodes: [{{allocatable: {{{allocatable}}}}}]"
    return f"{POLICIES}workloads: [{{name: w, generated: {{{nodes}, pods: [{{{pods}}}]}}}}]\n"


def gangs(fields: str) -> str:
    return (
        f"{POLICIES}workloads:\n- name: w\n  generated:\n    count: 200\n    nodes: [{{}}]\n    gangs: [{{{fields}}}]\n"
    )


def read(folder: Path, text: str) -> Sweep:
    return read_sweep(str(write(folder / "sweep.yaml", text)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POLICIES, "workloads: at least one is needed"),
        (WORKLOADS, "policies: at least one is needed"),
        (WORKLOADS + POLICIES + "sedes: [1]", "3: sedes: unknown field: did you mean seeds?"),
        (WORKLOADS + POLICIES + "seeds: []", "3: seeds: at least one is needed"),
        (WORKLOADS + POLICIES + "seeds: [1, two]", '3: seeds[1]: expected a whole number, got "two"'),
        (WORKLOADS + POLICIES + "seeds: [1, 1]", "3: seeds: a seed is listed twice"),
        (POLICIES + "workloads: [{name: w}]", "workloads[0]: one of openb, synthetic, recording, generated is needed"),
        (POLICIES + "workloads: [{synthetic: {}}]", "workloads[0].name: a name is needed"),
        (
            POLICIES + "workloads: [{name: w, synthetic: {}, openb: {}}]",
            "workloads[0]: one of openb, synthetic, recording, generated is needed, not openb and synthetic",
        ),
        (POLICIES + "workloads: [{name: w, synthetic: {scale: -1}}]", "synthetic.scale: -1 is outside [0.002, 10]"),
        (POLICIES + "workloads: [{name: w, openb: {list: x}}]", "workloads[0].openb.list: 'x' is none of default"),
        (POLICIES + "workloads: [{name: w, openb: {}}]", "workloads[0].openb.directory: a directory is needed"),
        (
            POLICIES + "workloads: [{name: w, openb: {directory: nowhere}}]",
            "openb_node_list_gpu_node.csv: there is no such file",
        ),
        (POLICIES + "workloads: [{name: w, recording: {path: nowhere}}]", "workloads[0].recording.path: "),
        (POLICIES + "workloads: [{name: w, generated: {count: 0}}]", "workloads[0].generated.nodes: at least one kind"),
        (WORKLOADS + "policies: [{name: p, ready: x}]", "policies[0]: `kscheduler config policies`: profiles: "),
        (WORKLOADS + "policies: [{name: p, ready: bestfit}]", "dominant-most-allocated; did you mean best-fit?"),
        (WORKLOADS + "policies: [{name: p, openb: x}]", "policies[0].openb: 'x' is none of Random, DotProd"),
        (WORKLOADS + "policies: [{name: p}, {name: p}]", "policies[1].name: 'p' is listed twice"),
        (WORKLOADS + "policies: [{name: p, config: nowhere.yaml}]", "nowhere.yaml: cannot be read: No such file"),
        (WORKLOADS + "policies: [{name: p, plugins: [nowhere.py]}]", "nowhere.py: No such file or directory"),
        (WORKLOADS + "policies: [{name: p, weights: {Nothing: [1]}}]", "p[Nothing=1]: "),
        (WORKLOADS + "policies: [{name: p, weights: {ImageLocality: [-1]}}]", "weights.ImageLocality: -1 is outside"),
        (WORKLOADS + f"policies: [{{name: p, weights: {MANY_WEIGHTS}}}]", "policies[0].weights: 1,000,000,000,000 "),
        (WORKLOADS + POLICIES + f"search: {{policy: p, weights: {MANY_WEIGHTS}}}", "search.weights: 1,000,000,000,"),
        (generated("requests: {cpu: two}"), "generated.pods[0].requests.cpu: quantity 'two' is not a number"),
        (generated("requests: {cpu: '-1'}"), "generated.pods[0].requests.cpu: -1 is below zero"),
        (generated("spec: {toleratons: []}"), "generated.pods[0].spec.toleratons: is not a field: do you mean toler"),
        (generated("spec: {tolerations: 5}"), "generated.pods[0].spec: Expected `array`, got `int`"),
        (generated("weight: 1", "memory: big"), "generated.nodes[0].allocatable.memory: quantity 'big' is not"),
        (gangs("weight: 0, members: [4]"), "7: workloads[0].generated.gangs[0].weight: 0 is outside [1, 1e+06]"),
        (gangs("weight: 1"), "generated.gangs[0].members: at least one size is needed, such as [4, 8]"),
        (gangs("members: [4, 0]"), "generated.gangs[0].members[1]: 0 is outside [1, 10000]"),
        (gangs("members: [10000]"), "gangs[0].members: up to 2,000,000 pods are more than 1,000,000"),
        (gangs("members: [4], requests: {cpu: two}"), "generated.gangs[0].requests.cpu: quantity 'two' is not a"),
        (gangs("members: [4], spec: {toleratons: []}"), "generated.gangs[0].spec.toleratons: is not a field: do you"),
        (gangs("member: [4]"), "generated.gangs[0].member: unknown field: did you mean members?"),
        (
            gangs("members: [4], annotations: {kueue.x-k8s.io/podset-requierd-topology: rack}"),
            "generated.gangs[0].annotations: metadata.annotations[",
        ),
        (WORKLOADS + "policies: [{name: p, recorded: true}]", "policies: p is for none of the workloads"),
        (WORKLOADS + POLICIES + "nodeShapes: [{name: few, share: 2}]", "nodeShapes[0].share: 2 is outside [0.001, 1]"),
        (WORKLOADS + POLICIES + "search: {policy: q}", "search.policy: 'q' is none of the policies of this file"),
        ("", "expected an object, got nothing"),
        ("a: [", "not YAML"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text)
    assert message in str(raised.value)
    assert str(tmp_path / "sweep.yaml") in str(raised.value)


def test_a_path_that_is_no_recording_is_named_when_the_file_is_read(tmp_path: Path) -> None:
    write(tmp_path / "own.yaml", "a: 1\n")
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, POLICIES + "workloads: [{name: week, recording: {path: own.yaml}}]")
    assert [problem.path for problem in raised.value.problems] == ["workloads[0].recording.path"]
    assert f"{tmp_path / 'own.yaml'}: it is no recording of kscheduler" in str(raised.value)


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, "workloads: [{name: w, synthetic: {scale: 99}}]\npolicies: [{}]\nseeds: [2, 2]\n")
    assert [problem.path for problem in raised.value.problems] == [
        "workloads[0].synthetic.scale",
        "policies[0].name",
        "seeds",
    ]


def test_the_grid_is_each_workload_shape_policy_weight_and_seed(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        WORKLOADS + "policies: [{name: p, weights: {NodeResourcesFit: [1, 5], ImageLocality: [0, 1]}}, {name: q}]\n"
        "seeds: [3, 4]\nnodeShapes: [{name: half, share: 0.5}]\n",
    )
    runs = found.runs()
    assert len(runs) == len({run.key for run in runs}) == 2 * 5 * 2
    assert [policy.name for policy in found.policies] == [
        *(f"p[NodeResourcesFit={fit},ImageLocality={locality}]" for fit in (1, 5) for locality in (0, 1)),
        "q",
    ]


def test_gangs_of_a_file_are_played(tmp_path: Path) -> None:
    text = gangs("members: [2], requests: {cpu: '1'}").replace("nodes: [{}]", "nodes: [{allocatable: {cpu: '9'}}]")
    found = read(tmp_path, text.replace("count: 200", "count: 5"))
    row = run(found.runs()[0])
    assert (row.error, row.pods, row.placed, row.gangs, row.gangs_waiting) == ("", 10, 8, 5, 1)


def test_a_recording_is_played_once_and_only_by_what_can_play_it(tmp_path: Path) -> None:
    record(tmp_path / "recording", 20, seed=1)
    found = read(
        tmp_path,
        "workloads: [{name: week, recording: {path: recording}}, {name: w, synthetic: {}}]\n"
        "policies: [{name: as-it-was, recorded: true}, {name: FGD, openb: FGD}]\nseeds: [3, 4]\n",
    )
    assert [(run.workload.name, run.policy.name, run.seed) for run in found.runs()] == [
        ("week", "as-it-was", 0),
        ("w", "FGD", 3),
        ("w", "FGD", 4),
    ]
    assert found.incompatible_pairs() == ("FGD is not for week", "as-it-was is not for w")


EXAMPLES = ROOT / "deploy" / "examples"


def test_the_example_is_played() -> None:
    found = read_sweep(str(EXAMPLES / "sweep.yaml"))
    runs = found.runs()
    assert len(runs) == 2 * 3 * 3
    assert [run(each).error for each in (runs[0], runs[-1])] == ["", ""]
    assert found.search is not None


def test_the_example_of_the_trace_has_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "openb").mkdir()
    for name in LISTS:
        trace(tmp_path / "openb", name)
    text = (EXAMPLES / "sweep-openb.yaml").read_text()
    runs = read_sweep(str(write(tmp_path / "sweep-openb.yaml", text))).runs()
    assert len(runs) == len({each.key for each in runs}) == 17 * 6 * 5
    assert run(runs[0]).error == ""
