"""A member of a pod group that waits is explained with its group, any other member by itself."""

import json
import re
from pathlib import Path

import aiohttp
import pytest

from kscheduler.api.groups import SCHEDULER_PLUGINS_LABEL
from kscheduler.api.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES, POD_GROUPS, PODS, served_kinds
from kscheduler.cli import main
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.demo.workload import group_definitions
from tests.explain.rules import without_rules
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.test_command import run, run_beside

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podGroupAPIs: [scheduler-plugins]
profiles: [{schedulerName: default-scheduler}]
"""
FITS = "pod group default/g: would be scheduled now\n  m-0: goes to a\n  m-1: goes to a\n"
VOLCANOS = "; of this name there is default/g (podgroups.scheduling.volcano.sh)"
GATE = "GenericWorkload"
AS_1_37 = ("--emulated-version", "1.37", "--feature-gates", f"{GATE}=true", "--scheduler-name", "default-scheduler")


def dump(tmp_path: Path, cpu: str, *, node: str = "", group: str = "g") -> tuple[str, str]:
    """A file of a cluster with two CPUs and a gang of two, and a configuration that follows its API."""
    members: list[Tree] = []
    for number in range(2):
        member = pod_tree(f"m-{number}", cpu=cpu, **({"nodeName": node} if node else {}))
        member["metadata"]["labels"] = {SCHEDULER_PLUGINS_LABEL: group}
        members.append({"apiVersion": "v1", "kind": "Pod", **member})
    named = {"metadata": {"name": group, "namespace": "default"}}
    gang = {**named, "spec": {"minMember": 2, "scheduleTimeoutSeconds": 10}}
    items = [
        {"apiVersion": "v1", "kind": "Node", **node_tree("a", cpu="2")},
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", **gang},
        *members,
    ]
    path, config = tmp_path / "dump.json", tmp_path / "config.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    config.write_text(CONFIG)
    return str(path), str(config)


def test_a_gang_of_a_cluster_in_a_file_is_explained_once_and_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = dump(tmp_path, cpu="1")
    assert run("--from", path, "--config", config) == 0
    out, err = capsys.readouterr()
    assert without_rules(out) == FITS
    assert err == "kscheduler: members of pod group default/g are decided about together\n"


def test_a_gang_that_does_not_fit_says_so_for_each_member(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, config = dump(tmp_path, cpu="2")
    assert run("default/m-1", "--from", path, "--config", config, "-o", "json") == 0
    outcome = json.loads(capsys.readouterr().out)["podGroupOutcome"]
    assert outcome["condition"]["reason"] == "Unschedulable"
    assert outcome["pods"]["m-1"]["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_member_that_runs_is_explained_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, config = dump(tmp_path, cpu="1", node="a")
    assert run("default/m-1", "--from", path, "--config", config) == 0
    out, err = capsys.readouterr()
    assert "HYPOTHETICAL, as if it were pending now: goes to a" in out
    assert "default/m-1 is a member of pod group default/g; it is explained as if it were in none" in err


def test_without_the_api_a_label_is_only_a_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, _ = dump(tmp_path, cpu="2")
    assert run("default/m-1", "--from", path, "--scheduler-name", "default-scheduler") == 0
    assert "goes to a" in capsys.readouterr().out


@pytest.mark.parametrize("queried", ["default/m-1", "pg/g", "podgroup.scheduling.x-k8s.io/g"])
def test_an_answer_about_one_member_alone_begins_with_why_it_is_not_about_the_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], queried: str
) -> None:
    """Two CPUs for each of two members, on a node with two: a reader would take it for the gang's answer."""
    path, config = dump(tmp_path, cpu="2")
    assert run(queried, "--from", path) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert re.fullmatch("default/m-[01]: goes to a ALONE, NOT JUDGED WITH ITS GROUP", first)
    assert re.match("  pod default/m-[01] is in group g, and groups of scheduler-plugins are not followed here", second)
    assert run(queried, "--from", path, "--config", config) == 0
    assert "NOT JUDGED" not in capsys.readouterr().out


@pytest.mark.parametrize("named", ["podgroup/g", "pg/g"])
def test_a_group_of_a_file_is_named_itself(named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, config = dump(tmp_path, cpu="1")
    assert run(named, "--from", path, "--config", config) == 0
    assert without_rules(capsys.readouterr().out) == FITS


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        pytest.param(["pg/other"], "no pod of namespace default names pod group other, of its 2 pods", id="unknown"),
        pytest.param(["pg/g", "-n", "ml"], "no pod of namespace ml names pod group g, of its 2 pods", id="elsewhere"),
        pytest.param(["pg/ml/g"], "'pg/ml/g' is not pg/NAME: -n gives the namespace of a pod group", id="namespace"),
        pytest.param(["podgroup/"], "'podgroup/' is not podgroup/NAME", id="nameless"),
    ],
)
def test_a_group_of_a_file_that_nobody_names_is_refused(
    words: list[str], refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = dump(tmp_path, cpu="1")
    assert run(*words, "--from", path, "--config", config) == 2
    assert refusal in capsys.readouterr().err


async def test_a_live_group_is_named_itself(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("a", cpu="2"))
        for name, node in (("runs", "a"), ("waits", "")):
            member = pod_tree(name, **({"nodeName": node} if node else {}))
            member["metadata"]["labels"] = {SCHEDULER_PLUGINS_LABEL: "g"}
            server.registry.create(PODS, "default", member)
        assert await run_beside("podgroup/g", "--master", server.url) == 0
        assert capsys.readouterr().out.startswith("default/waits: ")
        assert await run_beside("pg/g", "-n", "ml", "--master", server.url) == 1
    assert "no pod of namespace ml names pod group g; -n gives another namespace" in capsys.readouterr().err


def ended_dump(tmp_path: Path, phases: tuple[str, str]) -> tuple[str, str, Tree]:
    """As `dump`, with members in these phases; and the objects."""
    path, config = dump(tmp_path, cpu="1", node="a")
    tree: Tree = json.loads(Path(path).read_text())
    members = [each for each in tree["items"] if each["kind"] == "Pod"]
    for member, phase in zip(members, phases, strict=True):
        member["status"] = {"phase": phase}
    Path(path).write_text(json.dumps(tree))
    return path, config, tree


@pytest.mark.parametrize(
    ("phases", "reported"),
    [
        (("Succeeded", "Succeeded"), "2 have succeeded, and its minimum is 2"),
        (("Succeeded", "Failed"), "1 has succeeded, 1 has failed, and its minimum is 2"),
        (("Running", "Succeeded"), "1 member is on a node, 1 has succeeded, and its minimum is 2"),
    ],
)
async def test_a_gang_that_has_ended_lacks_nobody_live_and_in_a_file(
    phases: tuple[str, str], reported: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config, tree = ended_dump(tmp_path, phases)
    members = [each for each in tree["items"] if each["kind"] == "Pod"]
    assert run("podgroup/g", "--from", path, "--config", config) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"pod group default/g: no member waits: {reported}"
    async with EmbeddedAPIServer(seed=1) as server:
        for definition in group_definitions():
            server.registry.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition)
        async with aiohttp.ClientSession() as session:
            group = {**tree["items"][1], "metadata": {"name": "g"}}
            url = f"{server.url}/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
            assert (await session.post(url, json=group)).status == 201
            server.registry.create(NODES, "", node_tree("a", cpu="2"))
            for member in members:
                server.registry.create(PODS, "default", member)
                url = f"{server.url}/api/v1/namespaces/default/pods/{member['metadata']['name']}/status"
                merge = {"Content-Type": "application/merge-patch+json"}
                explanation = await session.patch(url, json={"status": member["status"]}, headers=merge)
                assert explanation.status == 200
        assert await run_beside("podgroup/g", "--master", server.url, "--config", config) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"pod group default/g: no member waits: {reported}"


async def test_a_live_member_is_explained_with_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = served_kinds("1.37", lambda gate: gate == GATE)
    async with EmbeddedAPIServer(seed=1, kinds=kinds) as server:
        server.registry.create(NODES, "", node_tree("a", cpu="2"))
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        server.registry.create(POD_GROUPS, "default", group)
        for number in range(2):
            server.registry.create(PODS, "default", pod_tree(f"m-{number}", schedulingGroup={"podGroupName": "g"}))
        assert await run_beside("default/m-0", "--master", server.url, *AS_1_37) == 0
    assert without_rules(capsys.readouterr().out) == FITS


TREES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"


def tree_dump(tmp_path: Path, least: int) -> str:
    """A cluster with two CPUs and a tree of two gangs of two, of which so many are needed."""
    beta, alpha = "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": least}}}
    whole = {"metadata": {"name": "all", "namespace": "default"}, "spec": policy}
    items: list[Tree] = [
        {"apiVersion": "v1", "kind": "Node", **node_tree("a", cpu="2")},
        {"apiVersion": alpha, "kind": "CompositePodGroup", **whole},
    ]
    for name in ("x", "y"):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "parentCompositePodGroupName": "all"}
        metadata = {"name": name, "namespace": "default"}
        items.append({"apiVersion": beta, "kind": "PodGroup", "metadata": metadata, "spec": spec})
        for number in range(2):
            member = pod_tree(f"{name}-{number}", cpu="1", schedulingGroup={"podGroupName": name})
            items.append({"apiVersion": "v1", "kind": "Pod", **member})
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def test_members_of_a_tree_are_explained_once_with_the_whole_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_trees = (*AS_1_37[:3], TREES, *AS_1_37[4:])
    assert run("--from", tree_dump(tmp_path, 1), *as_trees) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "composite pod group default/all, with pod group default/x: would be scheduled now"
    assert lines[1] == "  pod group default/x of the tree: Scheduled"
    assert lines[2].startswith(
        "  pod group default/y of the tree: Unschedulable: pod group is unschedulable, 0/1 placem"
    )
    assert [line for line in lines if "goes to" in line] == ["  x-0: goes to a", "  x-1: goes to a"]
    run("default/y-1", "--from", tree_dump(tmp_path, 2), *as_trees, "-o", "json")
    outcome = json.loads(capsys.readouterr().out)["podGroupOutcome"]
    assert outcome["condition"]["reason"] == "Unschedulable"
    assert {name: group["reason"] for name, group in outcome["groups"].items()} == {
        "x": "Unschedulable",
        "y": "Unschedulable",
    }
    assert "node" not in outcome["pods"]["x-0"]


def test_of_a_tree_that_does_not_fit_each_text_is_said_once_and_nothing_twice_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_trees = (*AS_1_37[:3], TREES, *AS_1_37[4:])
    run("default/y-1", "--from", tree_dump(tmp_path, 2), *as_trees, "--no-suggestions")
    lines = without_rules(capsys.readouterr().out).splitlines()
    assert lines[0].startswith("composite pod group default/all, with pod group default/y: Unschedulable: ")
    assert all(line.count("No preemption victims found") <= 1 for line in lines)
    assert [line.partition(":")[0] for line in lines[4:]] == ["  2 members (x-0, x-1)", "  y-0", "  y-1"]


def test_without_the_gate_the_groups_of_a_tree_are_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--from", tree_dump(tmp_path, 2), *AS_1_37) == 0
    heads = [line for line in without_rules(capsys.readouterr().out).splitlines() if not line.startswith(" ")]
    assert [head.split(":")[0] for head in heads if head] == ["pod group default/x", "pod group default/y"]


UNFOLLOWED = "groups are not followed here: --feature-gates GenericWorkload=true"


@pytest.mark.parametrize("command", ["explain", "pending", "simulate"])
def test_a_group_that_is_not_followed_is_reported(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, name = tree_dump(tmp_path, 2), ("default/x-0",) if command == "explain" else ()
    flags = ("--from", path, "--scheduler-name", "default-scheduler", "-o", "json")
    assert main([command, *name, *flags]) == 0
    out, err = capsys.readouterr()
    more = "" if name else " (3 more pods name one)"
    (note,) = (each for each in json.loads(out)["notes"] if "groups are" in each)
    assert note == f"pod default/x-0 is in group x{more}, and {UNFOLLOWED}"
    assert f"kscheduler: {note}\n" in err
    assert main([command, *name, *flags, *AS_1_37[:4]]) == 0
    assert UNFOLLOWED not in capsys.readouterr().err


def test_a_member_of_a_tree_without_its_top_says_which_group_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(tree_dump(tmp_path, 1))
    dumped = json.loads(path.read_text())
    dumped["items"] = [item for item in dumped["items"] if item["kind"] != "CompositePodGroup"]
    path.write_text(json.dumps(dumped))
    run("default/x-0", "--from", str(path), *AS_1_37[:3], TREES, *AS_1_37[4:])
    missing = "CompositePodGroup default/all (compositepodgroups.scheduling.k8s.io; parent of default/x)"
    lacks = f"waits for {missing}, which does not exist"
    assert capsys.readouterr().out.splitlines()[0] == f"pod group default/x is not tried: {lacks}"


def _without(path: str, kind: str) -> None:
    dumped = json.loads(Path(path).read_text())
    dumped["items"] = [item for item in dumped["items"] if item["kind"] != kind]
    Path(path).write_text(json.dumps(dumped))


def _with(path: str, *items: Tree) -> None:
    dumped = json.loads(Path(path).read_text())
    dumped["items"] += items
    Path(path).write_text(json.dumps(dumped))


@pytest.mark.parametrize(
    ("api", "name", "namespace", "reported"),
    [
        pytest.param("scheduling.volcano.sh/v1beta1", "g", "default", VOLCANOS, id="another API"),
        pytest.param(
            "scheduling.x-k8s.io/v1alpha1",
            "g",
            "ml",
            "; of this name there is ml/g (podgroups.scheduling.x-k8s.io)",
            id="another namespace",
        ),
        pytest.param("scheduling.x-k8s.io/v1alpha1", "trains", "default", "; do you mean trains?", id="a near name"),
        pytest.param("scheduling.x-k8s.io/v1alpha1", "other", "default", "", id="another group"),
    ],
)
def test_a_group_that_is_missing_is_named_with_its_api_and_what_is_there_in_its_place(
    api: str, name: str, namespace: str, reported: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = dump(tmp_path, cpu="1", group="g" if name == "g" else "train")
    Path(config).write_text(CONFIG.replace("[scheduler-plugins]", "[scheduler-plugins, volcano]"))
    _without(path, "PodGroup")
    metadata = {"name": name, "namespace": namespace}
    _with(path, {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": 2}})
    assert run("default/m-0", "--from", path, "--config", config) == 0
    queried = "g" if name == "g" else "train"
    lacks = f"waits for PodGroup default/{queried} (podgroups.scheduling.x-k8s.io), which does not exist{reported}"
    assert capsys.readouterr().out.splitlines()[0] == f"pod group default/{queried} is not tried: {lacks}"


def test_a_member_for_another_scheduler_does_not_count_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = dump(tmp_path, cpu="1")
    dumped = json.loads(Path(path).read_text())
    dumped["items"][-1]["spec"]["schedulerName"] = "another"
    Path(path).write_text(json.dumps(dumped))
    assert run("pg/g", "--from", path, "--config", config) == 0
    head, *_ = capsys.readouterr().out.splitlines()
    foreign = "m-1 names scheduler another, which is not served here, and does not count before it has a node"
    assert head == f"pod group default/g is not tried: 1 of 2 members are there; {foreign}"
    assert run("pg/g", "--from", path, "--config", config, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["situation"]["ofOtherSchedulers"] == {"m-1": "another"}


@pytest.mark.parametrize(
    ("gone", "reported"),
    [
        (0, "no member waits: 2 members are on nodes, and its minimum is 2"),
        (1, "no member waits: 1 member is on a node, and its minimum is 2, so 1 more would have to be created"),
    ],
)
def test_a_group_of_which_nobody_waits_is_reported_as_a_group(
    gone: int, reported: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = dump(tmp_path, cpu="1", node="a")
    dumped = json.loads(Path(path).read_text())
    dumped["items"] = dumped["items"][: len(dumped["items"]) - gone]
    Path(path).write_text(json.dumps(dumped))
    assert run("pg/g", "--from", path, "--config", config) == 0
    lines = without_rules(capsys.readouterr().out).splitlines()
    assert lines == [f"pod group default/g: {reported}", *(f"  m-{number}: is on a" for number in range(2 - gone))]
    assert run("pg/g", "--from", path, "--config", config, "-o", "json") == 0
    explanation = json.loads(capsys.readouterr().out)
    assert explanation["podGroupOutcome"] == {"pods": {f"m-{number}": {"node": "a"} for number in range(2 - gone)}}


def _some_wait(tmp_path: Path, cpu: str, *names: str) -> tuple[str, str]:
    """A gang with its minimum on a node, and more members."""
    path, config = dump(tmp_path, cpu="1", node="a")
    for name in names:
        another = pod_tree(name, cpu=cpu)
        another["metadata"]["labels"] = {SCHEDULER_PLUGINS_LABEL: "g"}
        _with(path, {"apiVersion": "v1", "kind": "Pod", **another})
    return path, config


def test_a_member_beyond_the_minimum_waits_while_its_group_is_scheduled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = _some_wait(tmp_path, "1", "more")
    assert run("pg/g", "--from", path, "--config", config) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("pod group default/g: its minimum of 2 is on nodes, and 1 more member waits: ")
    assert not any("chosen" in line for line in lines)
    path, config = _some_wait(tmp_path, "0", "more")
    assert run("pg/g", "--from", path, "--config", config) == 0
    (head, _) = without_rules(capsys.readouterr().out).splitlines()
    assert head == "pod group default/g: its minimum of 2 is on nodes, and 1 more member would be scheduled now"
    path, config = _some_wait(tmp_path, "0", "more", "most")
    assert run("pg/g", "--from", path, "--config", config) == 0
    head, *_ = capsys.readouterr().out.splitlines()
    assert head == "pod group default/g: its minimum of 2 is on nodes, and 2 more members would be scheduled now"


def test_the_condition_of_an_earlier_try_stands_beside_what_would_be_decided_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dump.json"
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    group = {
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
        "status": {"conditions": [condition]},
    }
    items = [
        {"apiVersion": "v1", "kind": "Node", **node_tree("a", cpu="2")},
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", **group},
        {"apiVersion": "v1", "kind": "Pod", **pod_tree("m", cpu="1", schedulingGroup={"podGroupName": "g"})},
    ]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert run("pg/g", "--from", str(path), *AS_1_37) == 0
    head, reported, *_ = capsys.readouterr().out.splitlines()
    assert head == "pod group default/g: would be scheduled now"
    assert reported == "  condition PodGroupInitiallyScheduled=False (Unschedulable) since 2026-01-01T00:00:00Z: no"


@pytest.mark.parametrize("command", ["explain", "pending", "simulate"])
def test_a_group_of_another_api_that_is_not_followed_is_reported(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = dump(tmp_path, cpu="1")
    flags = ("--from", path, "-o", "json")
    words = (command, *(("default/m-0",) if command == "explain" else ()), *flags)
    assert main([*words, "--scheduler-name", "default-scheduler"]) == 0
    out, _ = capsys.readouterr()
    more = "" if command == "explain" else " (1 more pod names one)"
    setting = "`podGroupAPIs: [scheduler-plugins]` in the configuration, which --config names"
    (note,) = (each for each in json.loads(out)["notes"] if "groups of" in each)
    assert (
        note == f"pod default/m-0 is in group g{more}, and groups of scheduler-plugins are not followed here: {setting}"
    )
    if command == "pending":
        (reason,) = json.loads(out)["reasons"]
        assert (reason["verdict"], reason["message"].startswith("not judged: member of pod group default/g")) == (
            "InAGroup",
            True,
        )
    assert main([*words, "--config", config]) == 0
    assert "not followed" not in capsys.readouterr().out


async def test_a_kind_of_groups_that_the_server_does_not_have_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, config = dump(tmp_path, cpu="1")
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("a", cpu="2"))
        member = pod_tree("m-0", cpu="1")
        member["metadata"]["labels"] = {SCHEDULER_PLUGINS_LABEL: "g"}
        server.registry.create(PODS, "default", member)
        assert await run_beside("pg/g", "--master", server.url, "--config", config) == 0
    out, err = capsys.readouterr()
    kind = "podgroups.scheduling.x-k8s.io"
    lacks = f"waits for PodGroup default/g ({kind}), a kind that the API server does not serve"
    assert out.splitlines()[0] == f"pod group default/g is not tried: {lacks}"
    assert f"{kind} are left out, and the answer may be wrong where they matter" in err


async def test_a_template_that_members_name_and_nobody_has_made_is_to_be_created(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with EmbeddedAPIServer(seed=1, kinds=served_kinds("1.37", lambda gate: gate == GATE)) as server:
        server.registry.create(NODES, "", node_tree("a", cpu="2"))
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        server.registry.create(POD_GROUPS, "default", group)
        for number in range(2):
            claims = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
            member = pod_tree(f"m-{number}", schedulingGroup={"podGroupName": "g"}, resourceClaims=claims)
            server.registry.create(PODS, "default", member)
        assert await run_beside("pg/g", "--master", server.url, *AS_1_37) == 0
    last = without_rules(capsys.readouterr().out).splitlines()[-1]
    create = "create ResourceClaimTemplate gpus in namespace default"
    assert last == f"it waits for a missing object: {create}, which the pod's claim gpu is made from"
