"""A pod of a live cluster, in each state that a stranger may find it in: what stands in the first lines."""

import asyncio
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kscheduler.api.machinery.resources import BY_KEY, NODES, PODS, RESOURCE_CLAIM_TEMPLATES
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.explain.schema import schema_text
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.test_command import run

VALIDATOR = Draft202012Validator(json.loads(schema_text()))
OURS = ("--scheduler-name", "default-scheduler")


def with_status(pod: Tree, **status: Any) -> Tree:
    return {**pod, "status": {"phase": "Pending", **status}}


def condition(status: str, reason: str = "", message: str = "") -> list[Tree]:
    when = "2026-11-22T10:00:00Z"
    return [
        {"type": "PodScheduled", "status": status, "reason": reason, "message": message, "lastTransitionTime": when}
    ]


class PodSelection:
    """Text and JSON of one pod."""

    def __init__(self, text: str, tree: Tree) -> None:
        self.text = text
        self.tree = tree


async def explained(
    capsys: pytest.CaptureFixture[str], pod: Tree, *flags: str, nodes: int = 2, others: tuple[Any, ...] = ()
) -> PodSelection:
    async with EmbeddedAPIServer(seed=1) as server:
        for number in range(nodes):
            server.registry.create(NODES, "", node_tree(f"node-{number}", cpu=str(number + 1)))
        for resource, namespace, body in others:
            server.registry.create(resource, namespace, body)
        store(server, pod)
        answers = []
        for output in ("text", "json"):
            command = ("default/web", "--master", server.url, "-o", output, *flags)
            assert await asyncio.to_thread(run, *command) == 0
            answers.append(capsys.readouterr().out)
    tree = json.loads(answers[1])
    assert [one.message for one in VALIDATOR.iter_errors(tree)] == []
    assert max(len(line) for line in answers[0].splitlines() if not line.startswith("     kubectl ")) <= 100
    return PodSelection(answers[0], tree)


def store(server: EmbeddedAPIServer, pod: Tree) -> None:
    """Create it, and write what a create does not take: status, and a deletion under way."""
    status = pod.pop("status", None)
    deleted = pod["metadata"].pop("deletionTimestamp", None)
    server.registry.create(PODS, "default", pod)
    record = server.registry.get(PODS, "default", pod["metadata"]["name"])
    if status is not None:
        record.value["status"] = status
    if deleted:
        record.value["metadata"]["deletionTimestamp"] = deleted


async def test_a_pod_of_another_scheduler_is_answered_as_that_one_decides(capsys: pytest.CaptureFixture[str]) -> None:
    explanation = await explained(capsys, pod_tree(schedulerName="volcano"))
    first, second, *_ = explanation.text.splitlines()
    assert first == "default/web: goes to node-1"
    assert second == "  scheduler volcano decides about it, with the default plugins unless --config says more"
    assert (explanation.tree["outcome"], explanation.tree["cycleOutcome"]) == ("Placed", "Placed")
    assert (explanation.tree["isHypothetical"], explanation.tree["best"]) == (False, ["node-1"])
    assert explanation.tree["situation"]["servedSchedulerNames"] == ["kscheduler", "volcano"]


async def test_a_pod_that_is_not_served_is_answered_by_the_default_plugins_under_its_schedulers_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    explanation = await explained(capsys, pod_tree(schedulerName="volcano"), "--scheduler-name", "kscheduler")
    first, *rest = explanation.text.splitlines()
    assert first == "default/web: goes to node-1"
    words = " ".join(" ".join(rest).split())
    assert "scheduler volcano decides about it, which is not served here: kscheduler (--scheduler-name)" in words
    assert "answered by the default plugins under that name" in words
    assert (explanation.tree["outcome"], explanation.tree["cycleOutcome"]) == ("NotServed", "Placed")
    assert (explanation.tree["isHypothetical"], explanation.tree["profile"]) == (True, "volcano")


async def test_a_misspelt_scheduler_name_is_answered_with_the_one_that_may_be_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for flags in ((), ("--scheduler-name", "kscheduler")):
        explanation = await explained(capsys, pod_tree(schedulerName="kschedular"), *flags)
        assert "; do you mean kscheduler?" in " ".join(explanation.text.split())


async def test_a_configuration_says_who_is_served(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("config") / "config.yaml"
    path.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: one}, {schedulerName: two}]\n"
    )
    served = await explained(capsys, pod_tree(schedulerName="two"), "--config", str(path))
    assert (served.tree["outcome"], served.tree["profile"]) == ("Placed", "two")
    not_served = await explained(capsys, pod_tree(schedulerName="three"), "--config", str(path))
    words = " ".join(not_served.text.split())  # where the line breaks depends on how long the path is
    assert f"scheduler three decides about it, which is not served here: one, two (profiles of {path})" in words
    assert not_served.tree["profile"] == "three"


async def test_a_bound_pod_says_so_before_anything_else(capsys: pytest.CaptureFixture[str]) -> None:
    pod = with_status(pod_tree(nodeName="node-0"), phase="Running", conditions=condition("True"))
    explanation = await explained(capsys, pod, *OURS)
    assert explanation.text.splitlines()[:4] == [
        "default/web: is on node node-0 already (bound, phase Running)",
        "  condition PodScheduled=True since 2026-11-22T10:00:00Z",
        "",
        "HYPOTHETICAL, as if it were pending now: goes to node-1",
    ]
    assert (explanation.tree["outcome"], explanation.tree["situation"]["nodeName"]) == ("Bound", "node-0")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_is_not_decided_about(capsys: pytest.CaptureFixture[str], phase: str) -> None:
    explanation = await explained(capsys, with_status(pod_tree(nodeName="node-0"), phase=phase), *OURS)
    assert explanation.text == (
        f"default/web: has finished ({phase}); no scheduler handles it any more\n  it ran on node-0\n"
    )
    assert (explanation.tree["outcome"], explanation.tree["cycleOutcome"], explanation.tree["best"]) == (
        "Finished",
        None,
        None,
    )


async def test_a_terminating_pod_is_not_decided_about(capsys: pytest.CaptureFixture[str]) -> None:
    pod = pod_tree()
    pod["metadata"]["deletionTimestamp"] = "2026-11-22T10:00:00Z"
    explanation = await explained(capsys, pod, *OURS)
    assert explanation.text == (
        "default/web: has been terminating since 2026-11-22T10:00:00Z; no scheduler handles it any more\n"
    )
    assert explanation.tree["outcome"] == "Terminating"


async def test_a_gated_pod_names_its_gates(capsys: pytest.CaptureFixture[str]) -> None:
    explanation = await explained(capsys, pod_tree(schedulingGates=[{"name": "quota"}]), *OURS)
    assert explanation.text.startswith("default/web: gated\n")
    assert "  SchedulingGates: waiting for scheduling gates: [quota]\n" in explanation.text
    assert explanation.tree["outcome"] == "Gated"


async def test_a_pod_whose_device_claim_is_missing_waits_before_the_queue(capsys: pytest.CaptureFixture[str]) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    explanation = await explained(capsys, pod_tree(resourceClaims=claims), *OURS)
    assert explanation.text.startswith("default/web: gated\n")
    assert 'DynamicResources: could not find ResourceClaim "default/gpu"' in explanation.text
    assert explanation.tree["outcome"] == "Gated"


async def test_a_pod_whose_claim_template_is_missing_waits_for_it_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
    }
    missing = await explained(capsys, pod_tree(resourceClaims=claims), *OURS)
    assert "ResourceClaim not created yet" in missing.text
    words = " ".join(missing.text.split())
    assert "create ResourceClaimTemplate one-gpu in namespace default, which the pod's claim gpu is made from" in words
    assert "ResourceClaimTemplate one-gpu does not exist in namespace default" in missing.tree["notes"]
    others = ((RESOURCE_CLAIM_TEMPLATES, "default", template),)
    there = await explained(capsys, pod_tree(resourceClaims=claims), *OURS, others=others)
    words = " ".join(there.text.split())
    assert "the pod's claim gpu is made from ResourceClaimTemplate one-gpu, and is not made yet" in words
    assert there.tree["notes"] == []


async def test_a_pod_that_fits_and_of_which_nobody_spoke_says_where_to_ask(
    capsys: pytest.CaptureFixture[str],
) -> None:
    explanation = await explained(capsys, pod_tree(), *OURS)
    assert explanation.text.startswith("default/web: goes to node-1\n")
    words = " ".join(explanation.text.split())
    assert "no scheduler has reported anything about it yet (no PodScheduled condition)" in words
    assert "waits for Permit only the running service can tell: `kubectl kscheduler why POD` asks it" in words


async def test_a_condition_that_no_longer_holds_is_reported_as_an_earlier_try(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pod = with_status(pod_tree(), conditions=condition("False", "Unschedulable", "0/1 nodes are available"))
    explanation = await explained(capsys, pod, *OURS)
    words = " ".join(explanation.text.split())
    assert "condition PodScheduled=False (Unschedulable) since 2026-11-22T10:00:00Z: 0/1 nodes are" in words
    assert "it would fit now: the condition is from an earlier attempt, or from a scheduler with other plugins" in words


async def test_a_pod_that_is_expected_on_a_node_may_wait_for_permit(capsys: pytest.CaptureFixture[str]) -> None:
    explanation = await explained(capsys, with_status(pod_tree(), nominatedNodeName="node-0"), *OURS)
    words = " ".join(explanation.text.split())
    assert "nominated to node-0 (status.nominatedNodeName) a scheduler has nominated that node; whether it" in words
    assert "waits for Permit or is being bound" in words
    assert "no scheduler has said anything" not in words


CLASS = {
    "metadata": {"name": "fast"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def claim(**annotations: str) -> Tree:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "5Gi"}},
    }
    return {"metadata": {"name": "data", "annotations": annotations}, "spec": spec}


CLAIMS = BY_KEY["persistentvolumeclaims"]
CLASSES = BY_KEY["storageclasses.storage.k8s.io"]
VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


async def test_a_pod_that_waits_for_its_volume_says_which_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    selected = claim(**{"volume.kubernetes.io/selected-node": "node-0"})
    others = ((CLASSES, "", CLASS), (CLAIMS, "default", selected))
    explanation = await explained(capsys, pod_tree(volumes=VOLUMES), *OURS, others=others)
    words = " ".join(explanation.text.split())
    assert "claim data waits for its volume: a scheduler has selected node node-0, and csi.example.com has" in words
    assert "no scheduler has said anything" not in words
    assert explanation.tree["situation"]["waitsForVolumes"] == ["data"]
    (rejection,) = [one for one in explanation.tree["rejections"] if one["plugin"] == "VolumeBinding"]
    assert rejection["details"][0]["facts"]["selectedNode"] == "node-0"


async def test_a_claim_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    explanation = await explained(capsys, pod_tree(volumes=VOLUMES), *OURS)
    assert "  claim data does not exist\n" in explanation.text
    assert explanation.tree["outcome"] == "Unschedulable"


async def test_only_the_nominated_node_was_tried_and_what_holds_without_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pod = with_status(pod_tree(), nominatedNodeName="node-0")
    explanation = await explained(capsys, pod, *OURS, nodes=3)
    lines = [line.strip() for line in explanation.text.splitlines()]
    assert lines[0] == "default/web: goes to node-0"
    assert "only its nominated node node-0 was tried, and it fits there; the other 2 nodes were not looked at" in lines
    assert "without the nomination it would go to node-2" in lines
    assert "3 of 3 nodes fit" in lines
    assert "1 of 3 nodes fit" not in explanation.text
    nomination = explanation.tree["nomination"]
    assert (nomination["onlyNodeTried"], nomination["passes"]) == (True, True)
    assert nomination["withoutIt"]["best"] == ["node-2"]
    assert (explanation.tree["evaluatedCount"], explanation.tree["feasibleCount"], explanation.tree["nodeCount"]) == (
        1,
        1,
        3,
    )


@pytest.mark.parametrize(
    ("node", "text"),
    [("gone", "which does not exist"), ("node-0", "where it does not fit (any more)")],
    ids=["gone", "full"],
)
async def test_a_nomination_that_does_not_hold_is_reported(
    capsys: pytest.CaptureFixture[str], node: str, text: str
) -> None:
    explanation = await explained(capsys, with_status(pod_tree(cpu="2"), nominatedNodeName=node), *OURS)
    assert f"  nominated to {node}, {text}: all nodes were judged\n" in explanation.text
    assert explanation.tree["nomination"]["withoutIt"] is None


async def test_a_preemptor_waits_for_its_victims_to_be_gone(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("node-0", cpu="1"))
        victim = pod_tree("victim", nodeName="node-0")
        victim["metadata"]["deletionTimestamp"] = "2026-11-22T10:00:00Z"
        store(server, victim)
        store(server, with_status(pod_tree(), nominatedNodeName="node-0"))
        command = ("default/web", "--master", server.url, *OURS)
        assert await asyncio.to_thread(run, *command) == 0
        text = capsys.readouterr().out
        assert await asyncio.to_thread(run, *command, "-o", "json") == 0
    line = "nominated to node-0, where it does not fit yet: default/victim is being deleted there"
    assert line in map(str.strip, text.splitlines())
    nomination = json.loads(capsys.readouterr().out)["nomination"]
    assert (nomination["passes"], nomination["podsBeingDeleted"]) == (False, ["default/victim"])


async def test_whose_nomination_is_in_the_way_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    expected = with_status(pod_tree("expected", cpu="2"), nominatedNodeName="node-1")
    async with EmbeddedAPIServer(seed=1) as server:
        server.registry.create(NODES, "", node_tree("node-1", cpu="2"))
        store(server, expected)
        store(server, pod_tree())
        assert await asyncio.to_thread(run, "default/web", "--master", server.url, "-o", "json", *OURS) == 0
    (rejection,) = json.loads(capsys.readouterr().out)["rejections"]
    (detail,) = rejection["details"]
    assert detail["besideNominatedPods"] == ["default/expected"]
    assert detail["facts"]["closest"][0]["free"] == 0


async def test_an_unknown_pod_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        assert await asyncio.to_thread(run, "none", "-n", "default", "--master", server.url) == 1
    assert capsys.readouterr().err == (
        'kscheduler: pod default/none is unknown to the API server: pods "none" not found\n'
    )
