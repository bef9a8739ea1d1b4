"""`-f`: a file that holds a pod group, or pods that name one, is judged as the group, and not pod by pod."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kscheduler.api.groups import SCHEDULER_PLUGINS_LABEL, VOLCANO_ANNOTATION
from kscheduler.api.machinery.resources import NODES, PODS, served_kinds
from kscheduler.api.machinery.resources import POD_GROUPS as KUBERNETES_GROUPS
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.explain.rules import without_rules
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.test_command import run

CONFIG: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podGroupAPIs: [scheduler-plugins, volcano]
topologyAPIs: [kueue]
profiles: [{schedulerName: default-scheduler}]
"""
GATE: Final = "GenericWorkload"
AS_1_37: Final = ("--emulated-version", "1.37", "--feature-gates", f"{GATE}=true")
CONFIGURED: Final = ("--config", "config.yaml")
NODE: Final[Tree] = {"apiVersion": "v1", "kind": "Node", **node_tree("a", cpu="2")}
FITS: Final = "pod group default/g: would be scheduled now\n  m-0: goes to a\n  m-1: goes to a\n"
LABELLED: Final[Tree] = {"labels": {SCHEDULER_PLUGINS_LABEL: "g"}}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(CONFIG)


def gang(api: str = "scheduler-plugins", least: int = 2, **metadata: Any) -> Tree:
    versions = {
        "kubernetes": ("scheduling.k8s.io/v1beta1", {"schedulingPolicy": {"gang": {"minCount": least}}}),
        "scheduler-plugins": ("scheduling.x-k8s.io/v1alpha1", {"minMember": least}),
        "volcano": ("scheduling.volcano.sh/v1beta1", {"minMember": least}),
    }
    version, spec = versions[api]
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g", **metadata}, "spec": spec}


def members(count: int = 2, cpu: str = "1", api: str = "scheduler-plugins", group: str = "g") -> list[Tree]:
    made = []
    for number in range(count):
        spec = {"schedulingGroup": {"podGroupName": group}} if api == "kubernetes" else {}
        member = pod_tree(f"m-{number}", cpu=cpu, **spec)
        if api == "scheduler-plugins":
            member["metadata"]["labels"] = {SCHEDULER_PLUGINS_LABEL: group}
        if api == "volcano":
            member["metadata"]["annotations"] = {VOLCANO_ANNOTATION: group}
        made.append({"apiVersion": "v1", "kind": "Pod", **member})
    return made


def of_workload(kind: str, count: int) -> Tree:
    """Pods of one CPU each."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    labels = {"app": "m", SCHEDULER_PLUGINS_LABEL: "g"}
    template: Tree = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        spec: Tree = {"parallelism": count, "completions": count, "suspend": True, "template": template}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "m"}, "spec": spec}
    spec = {"replicas": count, "selector": {"matchLabels": {"app": "m"}}, "serviceName": "m", "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "m"}, "spec": spec}


def written(*new: Tree) -> None:
    Path("new.yaml").write_text(yaml.safe_dump_all(new))


def explain(*flags: str, new: Sequence[Tree], there: Sequence[Tree] = (NODE,)) -> int:
    Path("there.yaml").write_text(yaml.safe_dump_all(there))
    written(*new)
    return run("--from", "there.yaml", "-f", "new.yaml", *flags)


@pytest.mark.parametrize("api", ["kubernetes", "scheduler-plugins", "volcano"])
def test_a_gang_in_a_file_is_judged_as_a_whole(api: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (*AS_1_37, "--scheduler-name", "default-scheduler") if api == "kubernetes" else CONFIGURED
    assert explain(*flags, new=[gang(api), *members(api=api)]) == 0
    out, err = capsys.readouterr()
    assert without_rules(out) == FITS
    assert err == "kscheduler: members of pod group default/g are decided about together\n"


def test_pods_that_fit_one_by_one_do_not_fit_as_a_gang_and_the_file_is_what_to_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explain(*CONFIGURED, "-o", "json", new=[gang(), *members(cpu="2")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["kind"] == "PodGroupExplanation"
    assert answer["podGroupOutcome"]["condition"]["reason"] == "Unschedulable"
    of_file = {each["kind"]: (each["command"], each["commandNote"]) for each in answer["suggestions"]}
    assert of_file["request"] == ("", "the members are in the file: change them in the file")
    note = "g (podgroups.scheduling.x-k8s.io) is in the file: change it in the file"
    assert of_file["groupMinCount"] == ("", note)


@pytest.mark.parametrize(
    ("new", "there", "reported"),
    [
        pytest.param(members(), (NODE, gang()), "would be scheduled now", id="the group is there"),
        pytest.param([gang()], (NODE, *members()), "would be scheduled now", id="the members are there"),
        pytest.param(members()[1:], (NODE, gang(), members()[0]), "would be scheduled now", id="one is there"),
        pytest.param([gang(least=1)], (NODE, gang(least=3), *members()), "would be scheduled now", id="another group"),
        pytest.param([gang(least=3), *members()], (NODE,), "is not tried: 2 of 3 members are there", id="too few"),
        pytest.param(
            members(),
            (NODE,),
            "is not tried: waits for PodGroup default/g (podgroups.scheduling.x-k8s.io), which does not exist",
            id="the group is missing",
        ),
        pytest.param([gang()], (NODE,), "no member waits: its members have ended or", id="there are no members"),
    ],
)
def test_the_group_and_its_members_may_be_in_the_file_or_in_the_cluster(
    new: Sequence[Tree], there: Sequence[Tree], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(*CONFIGURED, new=new, there=there) == 0
    assert reported in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("kind", "names"),
    [("Job", ["m-new", "m-new-1"]), ("StatefulSet", ["m-0", "m-1"]), ("Deployment", ["m-new", "m-new-1"])],
)
def test_all_pods_of_a_workload_are_members(kind: str, names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Three of one CPU do not fit on two, whoever makes them; a Job that waits for its quota makes them later."""
    assert explain(*CONFIGURED, "-o", "json", new=[gang(), of_workload(kind, 2)]) == 0
    outcome = json.loads(capsys.readouterr().out)["podGroupOutcome"]
    assert {name: each.get("node") for name, each in outcome["pods"].items()} == dict.fromkeys(names, "a")
    assert explain(*CONFIGURED, new=[gang(least=3), of_workload(kind, 3)]) == 0
    assert capsys.readouterr().out.startswith("pod group default/g: Unschedulable: ")


def test_more_pods_than_a_decision_may_take_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(*CONFIGURED, new=[gang(), of_workload("Job", 10_002)]) == 2
    assert "Job default/m asks for 10002 pods: at most 9999 are judged with their group" in capsys.readouterr().err


def test_a_group_that_cannot_be_asked_about_is_noted_and_the_others_are_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = {"apiVersion": "v1", "kind": "Pod", **pod_tree("other", cpu="2")}
    assert explain(*CONFIGURED, "-o", "json", new=[gang(), of_workload("Job", 10_002), other]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["default/other"]
    assert "Job default/m asks for 10002 pods: at most 9999 are judged with their group: it is left out" in err


def test_a_note_about_many_members_names_three(capsys: pytest.CaptureFixture[str]) -> None:
    new = of_workload("StatefulSet", 5)
    new["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gone"}]
    running = [{"apiVersion": "v1", "kind": "Pod", **pod_tree(f"m-{number}")} for number in range(5)]
    assert explain(*CONFIGURED, new=[gang(), new], there=[NODE, *running]) == 0
    err = capsys.readouterr().err
    three = "default/m-0, default/m-1, default/m-2, and 2 more"
    assert f"pods {three} exist already; this explains those of the file" in err
    assert f"ResourceClaimTemplate default/gone, which claim gpu of {three} is made from, is not known" in err
    assert "m-3" not in err


def test_other_pods_of_the_file_are_answered_by_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    other = {"apiVersion": "v1", "kind": "Pod", **pod_tree("other", cpu="2")}
    assert explain(*CONFIGURED, "-o", "json", new=[gang(), *members(), other]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["kind"], each["id"]) for each in answers] == [
        ("Explanation", "default/other"),
        ("PodGroupExplanation", "default/g"),
    ]


def test_the_domains_of_a_new_group_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = []
    for name, rack in (("a", "r0"), ("b", "r0"), ("c", "r1")):
        nodes.append({"apiVersion": "v1", "kind": "Node", **node_tree(name, cpu="1")})
        nodes[-1]["metadata"]["labels"] = {"example.com/rack": rack}
    levels = {"levels": [{"nodeLabel": "example.com/rack"}]}
    topology = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "t"}, "spec": levels}
    asks = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}
    assert explain(*CONFIGURED, new=[gang(annotations=asks), *members()], there=[*nodes, topology]) == 0
    assert '  placement "r0" (2 nodes): fits - chosen: 1 of 2 example.com/rack\n' in capsys.readouterr().out
    three = [gang(least=3, annotations=asks), *members(3)]
    assert explain(*CONFIGURED, new=three, there=[*nodes, topology]) == 0
    assert capsys.readouterr().out.startswith("pod group default/g: Unschedulable: ")


def test_claims_are_made_for_each_member(capsys: pytest.CaptureFixture[str]) -> None:
    """Without their claims the members would wait for somebody to make them."""
    pods = members()
    for pod in pods:
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    requests = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    template: Tree = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"}}
    template["spec"] = {"spec": requests}
    version = "resource.k8s.io/v1"
    devices = [{"name": f"d-{number}"} for number in range(2)]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    piece = {"driver": "x.example", "nodeName": "a", "pool": pool, "devices": devices}
    there = [
        NODE,
        {"apiVersion": version, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
        {"apiVersion": version, "kind": "ResourceSlice", "metadata": {"name": "a"}, "spec": piece},
    ]
    assert explain(*CONFIGURED, new=[gang(), template, *pods], there=there) == 0
    assert "m-1: goes to a with x.example/a/d-1 (m-1-gpu-1, r)\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("new", "code"), [pytest.param([gang(), *members()], 0, id="pods"), pytest.param([gang()], 2, id="none")]
)
def test_a_group_that_is_not_followed_is_noted(
    new: Sequence[Tree], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(new=new) == code
    assert "groups of scheduler-plugins are not followed here: `podGroupAPIs: [scheduler-plugins]`" in (
        capsys.readouterr().err
    )


def test_nodes_of_one_member_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(*CONFIGURED, "--against", "a", new=[gang(), *members()]) == 0
    assert "nodes of one member are not compared" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["group", "members"])
async def test_of_a_live_cluster_the_other_part_is_read_and_nothing_is_written(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    new, flags = [gang("kubernetes"), *members(api="kubernetes")], (*AS_1_37, "--scheduler-name", "default-scheduler")
    async with EmbeddedAPIServer(seed=1, kinds=served_kinds("1.37", lambda gate: gate == GATE)) as server:
        server.registry.create(NODES, "", node_tree("a", cpu="2"))
        if given == "members":
            server.registry.create(KUBERNETES_GROUPS, "default", new[0])
        else:
            for member in new[1:]:
                server.registry.create(PODS, "default", member)
        written(*(new[:1] if given == "group" else new[1:]))
        assert await asyncio.to_thread(run, "-f", "new.yaml", "--master", server.url, *flags) == 0
        absent = PODS if given == "members" else KUBERNETES_GROUPS
        assert not server.store.collection(absent.collection).records
    assert without_rules(capsys.readouterr().out) == FITS
