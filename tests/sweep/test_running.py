"""A run is a pure function of its spec, and its key tells it from all others."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kscheduler.recorder.alternatives.comparing import RecordedRun, compared
from kscheduler.recorder.replaying.recorded_configuration import configured_as
from kscheduler.recorder.replaying.replay import last_run_of
from kscheduler.sweep.policies import configured, default_profile, weighted
from kscheduler.sweep.row import COLUMNS, MEASURED, SweepRow
from kscheduler.sweep.run_spec import (
    GeneratedNodes,
    GeneratedPods,
    NodeShaping,
    PlayedPolicy,
    PolicyPlugin,
    RecordedWorkload,
    RunSpec,
    TraceWorkload,
    code_version,
    digest_of,
)
from kscheduler.sweep.running import recording_digest, run
from kscheduler.sweep.trace.openb import TraceError
from tests.docs.source_index import text_of
from tests.recorder.recorded import record
from tests.recorder.test_stories_of_claims import ClaimStory, configuration
from tests.sweep.sweeps import DEFAULT, GPU, SHOP, TASK_FILE, TINY, spec, trace

replace = msgspec.structs.replace


@pytest.mark.parametrize("workload", [TINY, SHOP], ids=["trace", "timed"])
def test_the_same_key_has_the_same_row_except_for_measured_columns(workload: Any) -> None:
    first, second = run(spec(workload=workload)), run(spec(workload=workload))
    assert first.without_measured() == second.without_measured()
    assert first.error == ""
    assert first.pods == (first.placed or 0) + (first.waiting or 0)
    assert run(spec(workload=workload, seed=2)).placements != first.placements
    assert {name for name in MEASURED if getattr(first, name)} == set(MEASURED)


@pytest.mark.parametrize(
    "other",
    [
        spec(seed=2),
        spec(workload=SHOP),
        spec(policy=replace(DEFAULT, name="other")),
        spec(policy=replace(DEFAULT, configuration=json.dumps({"profiles": [{"schedulerName": "x"}]}))),
        spec(policy=replace(DEFAULT, plugins=(PolicyPlugin("a.py", "1"),))),
        spec(workload=replace(TINY, shape=NodeShaping("half", (), 0.5))),
        replace(spec(), version="0.1.0+other"),
    ],
    ids=["seed", "workload", "name", "configuration", "plugin", "shape", "version"],
)
def test_each_part_of_a_run_has_a_part_in_its_key(other: RunSpec) -> None:
    assert other.key != spec().key
    assert spec().key == spec().key


def test_where_files_are_has_no_part_in_it() -> None:
    here, there = (
        RunSpec(
            replace(DEFAULT, plugins=(PolicyPlugin(f"{folder}/p.py", "1", "text" * (folder == "/a")),)),
            TraceWorkload("t", folder, "default", 1.3, "2"),
            1,
            "v",
        )
        for folder in ("/a", "/b")
    )
    assert here.key == there.key
    recorded = [RunSpec(DEFAULT, RecordedWorkload("r", path, "3", GPU), 0, "v") for path in ("/a", "/b")]
    assert recorded[0].key == recorded[1].key


def test_a_run_of_other_code_or_other_data_is_refused_by_the_one_that_makes_it(tmp_path: Path) -> None:
    assert "the run is one of kscheduler 0.0.1" in run(replace(spec(), version="0.0.1")).error
    assert "install the same kscheduler here" in run(replace(spec(), version="0.0.1")).error
    trace(tmp_path)
    of_trace = RunSpec(DEFAULT, TraceWorkload("t", str(tmp_path), "default", 1.0, "stale"), 1, code_version())
    assert "the trace is not the one that the sweep began with: start the command again" in run(of_trace).error


def test_a_recording_that_is_still_written_is_refused_with_what_to_do(tmp_path: Path) -> None:
    record(tmp_path, 20, seed=1)
    workload = RecordedWorkload("week", str(tmp_path), recording_digest(tmp_path), GPU)
    newest = last_run_of(tmp_path)[-1].path
    newest.write_bytes(newest.read_bytes() + b"more")
    error = run(RunSpec(PlayedPolicy("recorded", "recorded"), workload, 0, code_version())).error
    assert error.startswith(f"StaleDataError: {tmp_path}: the recording is not the one that the sweep began with")
    assert "copy it and name the copy in the sweep file" in error


def test_a_trace_is_read_from_the_users_files(tmp_path: Path) -> None:
    row = run(RunSpec(PlayedPolicy("FGD", "trace", "FGD"), trace(tmp_path), 1, code_version()))
    assert (row.error, row.nodes) == ("", 2)
    assert row.gpu_allocated is not None
    assert 0 < row.gpu_allocated <= 100


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("openb_pod_list_default.csv", None, "there is no such file, nor one with .gz behind it"),
        ("openb_pod_list_default.csv", "name,cpu\nt0,1\n", "no column cpu_milli, memory_mib, num_gpu, gpu_milli"),
        ("openb_pod_list_default.csv", TASK_FILE.replace("t0,1000", "t0,many"), "csv:2: cpu_milli is 'many'"),
        ("openb_node_list_gpu_node.csv", "sn", "no column cpu_milli"),
        ("openb_pod_list_default.csv.gz", "no gzip", "cannot be read"),
    ],
    ids=["missing", "columns", "number", "nodes", "gzip"],
)
def test_a_trace_that_cannot_be_read_is_named_with_where_to_get_it(
    name: str, text: str | None, message: str, tmp_path: Path
) -> None:
    from kscheduler.sweep.trace.openb import drawn_run

    trace(tmp_path)
    (tmp_path / name.removesuffix(".gz")).unlink()
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(TraceError) as raised:
        drawn_run(tmp_path, "default", 1)
    assert message in str(raised.value)
    assert name.removesuffix(".gz") in str(raised.value)
    assert "github.com/hkust-adsl/kubernetes-scheduler-simulator" in str(raised.value)


def test_a_share_is_counted_by_device_whatever_the_profile_enables(tmp_path: Path) -> None:
    row = run(RunSpec(DEFAULT, trace(tmp_path), 1, code_version()))
    assert row.error == ""
    assert row.gpu_allocated is not None
    assert row.gpu_allocated <= 100


# --- shapes, prices, waiting ------------------------------------------------------------------------------------------


def test_fewer_or_smaller_nodes_take_fewer_pods() -> None:
    rows = [
        run(spec(workload=replace(TINY, shape=shape)))
        for shape in (NodeShaping(), NodeShaping("half", (), 0.5), NodeShaping("small", (("cpu", 0.5),)))
    ]
    whole, half, small = rows
    assert whole.pods == half.pods == small.pods
    assert half.nodes is not None
    assert whole.nodes is not None
    assert half.nodes < whole.nodes == small.nodes
    placed = [row.placed or 0 for row in rows]
    assert placed[0] > max(placed[1:])


def test_a_shape_that_leaves_no_gpu_of_a_trace_is_named() -> None:
    row = run(spec(workload=replace(TINY, shape=NodeShaping("none", (("nvidia.com/gpu", 0.001),)))))
    assert "node shape none leaves no GPU" in row.error


def test_generated_pods_wait_for_room_and_leave_it_again() -> None:
    scarce = replace(SHOP, nodes=(GeneratedNodes(1, {"cpu": "1"}),), pods=(GeneratedPods(1, {"cpu": "1"}),), count=5)
    row = run(spec(workload=scarce))
    assert (row.pods, row.placed, row.waiting) == (5, 5, 0)
    assert row.queue_seconds_mean is not None
    assert row.queue_seconds_mean > 1
    forever = run(spec(workload=replace(scarce, life_seconds=0.0)))
    assert (forever.placed, forever.waiting) == (1, 4)
    assert run(spec(workload=SHOP)).price is not None


def test_gpus_on_nodes_without_cpu_are_unusable() -> None:
    stranded = replace(
        SHOP,
        nodes=(GeneratedNodes(1, {"cpu": "2", GPU: "4"}),),
        pods=(GeneratedPods(1, {"cpu": "2", GPU: "1"}),),
        count=3,
        life_seconds=0.0,
    )
    row = run(spec(workload=stranded))
    assert row.gpus_free == row.gpus_unusable
    assert row.gpus_free is not None
    assert row.gpus_free > 2


# --- recordings -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("recording")
    record(directory, 200, seed=11, nodes=8)
    return directory


def test_a_recording_is_played_as_replay_plays_it(recording: Path) -> None:
    workload = RecordedWorkload("week", str(recording), recording_digest(recording), GPU)
    as_it_was = run(RunSpec(PlayedPolicy("recorded", "recorded"), workload, 0, code_version()))
    other = run(RunSpec(replace(DEFAULT, name="default"), workload, 0, code_version()))
    recorded = RecordedRun(last_run_of(recording))
    found = compared(recorded, configured_as(recorded.description))
    assert (as_it_was.error, other.error) == ("", "")
    assert (as_it_was.placed, as_it_was.waiting) == (len(found.before.placed), len(found.before.pending))
    assert other.pods == as_it_was.pods


def test_what_a_recording_lacks_is_in_its_rows(recording: Path, tmp_path: Path) -> None:
    (segment,) = last_run_of(recording)
    cut = tmp_path / segment.path.name
    cut.write_bytes(segment.path.read_bytes()[:-7])
    whole, short = (RecordedWorkload("week", str(path), recording_digest(path), GPU) for path in (recording, cut))
    rows = [run(RunSpec(replace(DEFAULT, name="default"), workload, 0, code_version())) for workload in (whole, short)]
    assert [row.error for row in rows] == ["", ""]
    assert "it was cut" not in rows[0].notes
    assert rows[1].notes.startswith(f"{cut.name}: it was cut within block ")
    assert "; everything before it is used" in rows[1].notes


def test_a_note_says_that_devices_of_claims_are_in_no_column(tmp_path: Path) -> None:
    record(tmp_path, 30, seed=11, config=configuration("1.37"), cluster_type=ClaimStory)
    workload = RecordedWorkload("week", str(tmp_path), recording_digest(tmp_path), GPU)
    row = run(RunSpec(PlayedPolicy("recorded", "recorded"), workload, 0, code_version()))
    assert row.error == ""
    assert f"the gpu columns count {GPU} of nodes: devices that claims ask for are not in them" in row.notes


# --- policies ---------------------------------------------------------------------------------------------------------


def test_a_weight_of_the_grid_replaces_that_of_the_profile_and_0_leaves_a_plugin_out() -> None:
    tree = json.loads(DEFAULT.configuration)
    policy = replace(DEFAULT, configuration=json.dumps(weighted(tree, {"NodeResourcesFit": 7, "ImageLocality": 0})))
    (profile,) = configured(policy).config.configuration.profiles
    weights = {entry.name: entry.weight for entry in profile.plugins.score.enabled}
    assert weights["NodeResourcesFit"] == 7
    assert "ImageLocality" not in weights


def test_a_plugin_goes_with_the_run_where_its_file_is_not_there() -> None:
    text = (
        "from kscheduler import plugin\n\n"
        "@plugin(\"Last\")\ndef score(pod, node):\n    return int(node.name.rsplit('-', 1)[-1])\n"
    )
    policy = replace(DEFAULT, plugins=(PolicyPlugin("/nowhere/last.py", "1", text),), enables_plugins=True)
    row = run(spec(policy=policy, workload=SHOP))
    assert row.error == ""
    assert row.placements != run(spec(workload=SHOP)).placements


@pytest.mark.parametrize("workload", [TINY, SHOP], ids=["trace", "timed"])
def test_a_run_whose_plugin_fails_has_no_result(workload: Any) -> None:
    text = 'from kscheduler import plugin\n\n@plugin("Fails")\ndef score(pod, node):\n    return 1 // 0\n'
    policy = replace(DEFAULT, plugins=(PolicyPlugin("/nowhere/fails.py", "1", text),), enables_plugins=True)
    row = run(spec(policy=policy, workload=workload))
    assert row.error.startswith("FailedPluginError: plugins failed: Fails (Score) ")
    assert row.placements == ""


def test_a_run_that_raises_is_a_row_with_its_error() -> None:
    row = run(spec(policy=replace(DEFAULT, configuration='{"profiles": [{"schedulerName": 3}]}')))
    assert row.error.startswith("ConfigError: ")
    assert row.placed is None


# --- columns ----------------------------------------------------------------------------------------------------------


def test_each_column_is_described_in_code_and_on_the_page() -> None:
    assert list(COLUMNS) == list(SweepRow.__struct_fields__)
    page = text_of("docs/sweeps.md")
    assert [name for name, about in COLUMNS.items() if f"| `{name}` | {about} |" not in page] == []


def test_a_digest_is_of_content(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("a")
    assert digest_of([one]) == digest_of([two])
    two.write_text("bb")
    assert digest_of([one]) != digest_of([two])


def test_what_is_a_group_is_as_recorded_unless_the_policy_says_otherwise() -> None:
    recorded = {"podGroupAPIs": ["volcano"], "topologyLevels": [["example.com/rack"]], "parallelism": 3}
    own = {**default_profile(), "podGroupAPIs": ["scheduler-plugins"]}
    found = [
        configured(PlayedPolicy("p", configuration=json.dumps(tree)), beside=recorded).config.configuration
        for tree in (default_profile(), own)
    ]
    assert [each.pod_group_apis for each in found] == [("volcano",), ("scheduler-plugins",)]
    assert [each.topology_levels for each in found] == [(("example.com/rack",),)] * 2
    assert found[0].parallelism != 3


# --- samples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ignored", "unusable"), [([], 100.0), (["a.b/licence"], 0.0)], ids=["looked at", "ignored"])
def test_a_resource_that_the_profile_ignores_makes_nothing_unusable(ignored: list[str], unusable: float) -> None:
    """No node has the licence that all pods ask for."""
    tree = default_profile()
    tree["profiles"][0]["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {"ignoredResources": ignored}}]
    pods = (GeneratedPods(1, {"cpu": "1", "a.b/licence": "1"}),)
    row = run(spec(replace(DEFAULT, configuration=json.dumps(tree)), replace(SHOP, pods=pods)))
    assert row.error == ""
    assert row.cpu_unusable is not None
    assert abs(row.cpu_unusable - unusable) < 5


def test_nodes_that_have_more_together_than_an_int64_holds_are_used_in_part() -> None:
    nodes = (GeneratedNodes(3, {"cpu": "4", "memory": "8E"}),)
    row = run(spec(workload=replace(SHOP, nodes=nodes, pods=(GeneratedPods(1, {"cpu": "1", "memory": "1E"}),))))
    assert row.error == ""
    assert row.memory_allocated is not None
    assert 0 < row.memory_allocated <= 100
