"""`kscheduler pending`: the pending pods by reason, with the change that helps most of each."""

import json
from pathlib import Path
from typing import Any

import pytest

from kscheduler.answers.suggestions import CommonSuggestion
from kscheduler.api.groups import SCHEDULER_PLUGINS_LABEL
from kscheduler.cli import main

Tree = dict[str, Any]
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a", "uid": "a"},
    "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}},
}


def pod(
    name: str, *, cpu: str = "1", namespace: str = "shop", created: str = "2026-01-01T00:00:00Z", **spec: Any
) -> Tree:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": created}
    whole = {"schedulerName": "kscheduler", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


PODS = (
    *(pod(f"large-{number}", cpu="9", created=f"2026-01-0{3 - number}T00:00:00Z") for number in range(3)),
    pod("picky", nodeSelector={"disk": "ssd"}),
    pod("gated", schedulingGates=[{"name": "x/quota"}]),
    pod("other", schedulerName="default-scheduler", namespace="elsewhere"),
    pod("fits"),
    pod("runs", nodeName="a"),
)


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "dump.yaml"
    path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in (NODE, *PODS)))
    return str(path)


def freed_text(count: int, **counts: int) -> str:
    change = CommonSuggestion("shop/web", "request", "request less", 1, "", "", (), (), **counts)
    return change.freed(count)


def explanation(capsys: pytest.CaptureFixture[str], *flags: str) -> Any:
    assert main(["pending", "-o", "json", *flags]) == 0
    return json.loads(capsys.readouterr().out)


def test_pods_are_grouped_by_reason(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    tree = explanation(capsys, "--from", dump)
    assert tree["count"] == 7
    first = tree["reasons"][0]
    assert (first["verdict"], first["count"], first["since"]) == ("Unschedulable", 3, "2026-01-01T00:00:00Z")
    assert [each["name"] for each in first["pods"]] == ["large-2", "large-1", "large-0"]
    assert first["suggestion"]["pod"] == "shop/large-2"
    assert first["suggestion"]["kind"] == "request"
    assert (first["suggestion"]["frees"], first["suggestion"]["tried"]) == (3, 3)
    assert first["suggestion"]["steps"][0]["facts"]["to"] == 333
    verdicts = {each["pods"][0]["name"]: each["verdict"] for each in tree["reasons"][1:]}
    assert verdicts == {"picky": "Unschedulable", "gated": "Gated", "other": "Fits", "fits": "Fits"}
    assert tree["byPlugin"] == {"NodeResourcesFit": 3, "NodeAffinity": 1, "SchedulingGates": 1}


@pytest.mark.parametrize("name", ["kscheduler", "default-scheduler"])
def test_a_pod_whose_scheduler_has_failed_is_not_said_to_fit_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """An extender that does not answer keeps a pod waiting that fits by all other rules."""
    waiting = pod("asks", schedulerName=name)
    failed = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "extender x: timeout"}
    waiting["status"] = {"phase": "Pending", "conditions": [failed]}
    path = tmp_path / "dump.json"
    path.write_text(f"{json.dumps(NODE)}\n{json.dumps(waiting)}\n")
    (reason,) = explanation(capsys, "--from", str(path))["reasons"]
    text = "its last attempt failed (SchedulerError): extender x: timeout; by the rules known here it would fit now"
    assert (reason["verdict"], reason["message"]) == ("Error", text)
    assert main(["explain", "--from", str(path), "shop/asks"]) == 0
    assert "it would fit now: the condition is from an earlier attempt" not in " ".join(capsys.readouterr().out.split())


def test_of_one_namespace_and_without_suggestions(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    tree = explanation(capsys, "--from", dump, "-n", "elsewhere", "--no-suggestions")
    assert [each["pods"][0]["name"] for each in tree["reasons"]] == ["other"]
    assert explanation(capsys, "--from", dump, "-n", "nowhere")["reasons"] == []


@pytest.mark.parametrize(
    ("frees", "tried", "count", "text"),
    [
        (1, 1, 1, ""),
        (3, 3, 3, "; helps all 3"),
        (2, 3, 3, "; helps 2 of the 3"),
        (2, 2, 4, "; 2 of the 4 have the same spec: helps both; 2 others have another spec and were not tried"),
        (3, 3, 4, "; 3 of the 4 have the same spec: helps all 3; 1 other has another spec and was not tried"),
        (1, 3, 4, "; 3 of the 4 have the same spec: helps 1 of them; 1 other has another spec and was not tried"),
        (1, 1, 4, "; helps this one of the 4; 3 others have another spec and were not tried"),
    ],
)
def test_how_many_of_the_pods_a_change_frees_is_said_of_all_of_them(
    frees: int, tried: int, count: int, text: str
) -> None:
    assert freed_text(count, frees=frees, tried=tried) == text


TWENTY = "tried for 20 of them, helps all 20; 20 others have another spec and were not tried"


@pytest.mark.parametrize(
    ("alike", "count", "looked", "text"),
    [
        (100, 100, 100, "; tried for 20 of the 100, helps all 20"),
        (80, 100, 100, f"; 80 of the 100 have the same spec: {TWENTY}"),
        (100, 900, 100, "; tried for 20 of the 100 oldest of 900, which have the same spec, helps all 20"),
        (80, 900, 100, f"; 80 of the 100 oldest of 900 have the same spec: {TWENTY}"),
    ],
    ids=("all are alike", "some are not", "of the oldest all are alike", "of the oldest some are not"),
)
def test_of_many_pods_it_is_said_how_many_are_alike(alike: int, count: int, looked: int, text: str) -> None:
    assert freed_text(count, frees=20, tried=20, alike=alike, looked=looked) == text


def test_of_others_that_nobody_has_looked_at_nothing_is_said() -> None:
    assert (
        freed_text(4, frees=1, tried=1, alike=1, looked=1)
        == "; helps this one of the 4, the only one that was looked at"
    )


def test_the_change_is_for_the_largest_set_of_pods_that_are_alike_not_for_the_oldest_pod(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The API server names the volume of the service account's token differently in each pod: they are alike still."""

    def replica(number: int) -> Tree:
        token = {"name": f"kube-api-access-{number}", "projected": {"sources": []}}
        return pod(f"web-{number}", created="2026-01-02T00:00:00Z", nodeSelector={"dedicated": "x"}, volumes=[token])

    path = tmp_path / "dump.yaml"
    typo = pod("aa-typo", nodeSelector={"disktype": "sdd"})
    node = {**NODE, "metadata": {"name": "a", "uid": "a", "labels": {"disktype": "ssd"}}}
    objects = (node, typo, *(replica(number) for number in range(2)))
    path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in objects))
    suggestion = explanation(capsys, "--from", str(path))["reasons"][0]["suggestion"]
    assert suggestion["pod"] == "shop/web-0"
    assert [suggestion[key] for key in ("frees", "tried", "alike", "looked")] == [2, 2, 2, 3]
    assert main(["pending", "--from", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    said = "shop/web-0 would fit: drop dedicated=x from the nodeSelector (1 node; 2 of the 3 have the same spec:"
    assert f"{said} helps both; 1 other has another spec and was not tried)" in text


def test_the_text(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pending", "--from", dump]) == 0
    text = capsys.readouterr().out
    assert text.startswith("7 pods are pending\n\n3  Unschedulable, the oldest for ")
    said = "shop/large-2 would fit: request 333m of cpu instead of 9 (1 node; helps all 3)"
    assert said in " ".join(text.split())
    assert "the command deletes pod large-2 and creates it again" in text
    assert "     kubectl" not in text
    waits = "fits now: scheduler default-scheduler has it in its queue or in backoff, or that scheduler is not running"
    assert waits in " ".join(text.split())
    assert main(["pending", "--from", dump, "--scheduler-name", "kscheduler"]) == 0
    text = capsys.readouterr().out
    assert (
        "not served here: spec.schedulerName is default-scheduler\n  if that is your scheduler: --scheduler-name"
        in text
    )
    fix = "if that scheduler does not run: the pods need schedulerName: kscheduler, in the template that makes them"
    assert fix in " ".join(text.split())
    assert "\n  kubectl get pod large-2 -n shop" in text
    assert main(["pending", "--from", dump, "-n", "nowhere"]) == 0
    assert capsys.readouterr().out == "no pod is pending\n"


def test_a_misspelt_scheduler_name_is_answered_with_the_one_that_may_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dump.yaml"
    path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in (NODE, pod("a", schedulerName="kschedular"))))
    assert main(["pending", "--from", str(path)]) == 0
    assert "or that scheduler is not running; do you mean kscheduler?" in " ".join(capsys.readouterr().out.split())
    assert main(["pending", "--from", str(path), "--scheduler-name", "kscheduler"]) == 0
    assert "\n  do you mean kscheduler?\n" in capsys.readouterr().out


def test_flags_that_cannot_be_used(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pending", "--from", dump, "--master", "http://127.0.0.1:1"]) == 2
    assert "go with a live cluster" in capsys.readouterr().err


def test_a_member_of_a_group_that_is_not_followed_is_not_called_fitting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone it fits, but the running scheduler may follow groups; what fits nowhere alone fits with no group."""
    group = {"podGroupName": "gang"}
    objects = (NODE, pod("small", schedulingGroup=group), pod("large", cpu="9", schedulingGroup=group), pod("alone"))
    path = tmp_path / "dump.yaml"
    path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in objects))
    verdicts = {each["pods"][0]["name"]: each for each in explanation(capsys, "--from", str(path))["reasons"]}
    assert {name: each["verdict"] for name, each in verdicts.items()} == {
        "small": "InAGroup",
        "large": "Unschedulable",
        "alone": "Fits",
    }
    reported = "not judged: member of pod group shop/gang, and groups are not followed here: --feature-gates"
    assert verdicts["small"]["message"].startswith(reported)


def test_pod_groups_with_one_reason_are_one_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What their members were told is put together by group, so that gangs of one fate are told once."""
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        for message in ("0/1 nodes are available: 1 Insufficient cpu.", "minCount (2) cannot be satisfied, ")
    ]
    objects = [NODE]
    for group in ("a", "b", "c"):
        for number, condition in enumerate(conditions):
            member = pod(f"{group}-{number}", cpu="9")
            member["metadata"]["labels"] = {SCHEDULER_PLUGINS_LABEL: group}
            member["status"] = {"conditions": [condition] if group != "c" else []}
            objects.append(member)
    path, config = tmp_path / "dump.yaml", tmp_path / "config.yaml"
    path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in objects))
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "podGroupAPIs: [scheduler-plugins]\nprofiles: [{schedulerName: kscheduler}]\n"
    )
    both, without = explanation(capsys, "--from", str(path), "--config", str(config))["reasons"]
    assert (both["count"], both["podGroups"]) == (4, ["shop/a", "shop/b"])
    reported = f"{conditions[0]['message']} (1 member); minCount (2) cannot be satisfied (1 member)"
    assert both["message"] == f"waits with its pod group, which is explained as a whole; the last attempt: {reported}"
    assert (without["count"], without["podGroups"]) == (2, ["shop/c"])
    assert main(["pending", "--from", str(path), "--config", str(config)]) == 0
    out = capsys.readouterr().out
    assert "  2 pod groups: shop/a, shop/b\n  kscheduler explain podgroup/a -n shop\n" in out
