"""`kubectl kscheduler why -f`: how the manifests are divided into questions, whichever groups the service follows."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kscheduler.api.groups import VOLCANO_ANNOTATION
from kscheduler.cli.kubectl.manifests import explanation_requests
from kscheduler.cli.kubectl.new_pod_questions import MAX_QUERIED_AT_ONCE, Question
from kscheduler.cli.kubectl.service import ServiceProxyClient, service_address
from kscheduler.client.access.connection import plain_connection
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.explain.queries.new_pods_request import MAX_EXPLAINED
from kscheduler.scenario.object_files import Document
from tests.cli.kubectl.test_asking_the_service import cluster, plugin
from tests.simulate.test_claims_to_devices import device_class, new_pod

Tree = dict[str, Any]
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
ABOVE_SIXTEEN: Final = MAX_QUERIED_AT_ONCE + 1


def group(name: str, **spec: Any) -> Tree:
    return {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def member(name: str, of: str) -> Tree:
    pod = new_pod(name, schedulerName="kscheduler")
    pod["metadata"]["annotations"] = {VOLCANO_ANNOTATION: of}
    return pod


async def questions_about(*trees: Tree) -> list[Question]:
    documents = [Document(tree, f"new.yaml: {number}") for number, tree in enumerate(trees)]
    address = service_address("kube-system/kscheduler:10259")
    async with (
        EmbeddedAPIServer(seed=1) as server,
        ServiceProxyClient(plain_connection(server.url), address) as proxy,
    ):
        return await explanation_requests(documents, "shop", [], proxy)


def named(questions: Sequence[Question]) -> list[list[str]]:
    """The names in each body, which agrees with itself."""
    for question in questions:
        assert len(question.body["objects"]) == len(question.body["places"])
    return [[each["metadata"]["name"] for each in question.body["objects"]] for question in questions]


def test_the_plugin_asks_about_as_many_pods_as_the_service_answers_at_once() -> None:
    assert MAX_QUERIED_AT_ONCE == MAX_EXPLAINED


async def test_members_of_a_group_go_to_the_service_in_one_question_with_their_group() -> None:
    """Other pods go sixteen by sixteen, without it: it would be answered about each time."""
    members = [member(f"m-{number}", "g") for number in range(20)]
    others = [new_pod(f"p-{number}") for number in range(17)]
    found = await questions_about(group("g"), *members[:10], *others, device_class(), *members[10:])
    sent = named(found)
    assert [len(names) for names in sent] == [17, 2, 22]
    assert sent[2] == [*(f"m-{number}" for number in range(20)), "g", sent[0][-1]]
    assert [len(question.body["admitted"]) for question in found] == [16, 1, 20]
    sixteens = named(found[2].parts)
    assert [len(names) for names in sixteens] == [17, 5], "where the service follows no such groups"
    assert "g" not in [name for names in sixteens for name in names]
    assert named(await questions_about(group("g"))) == [["g"]]


async def test_groups_are_asked_about_together_up_to_sixteen_manifests() -> None:
    trees = [
        tree for number in range(ABOVE_SIXTEEN) for tree in (group(f"g-{number}"), member(f"m-{number}", f"g-{number}"))
    ]
    found = await questions_about(*trees)
    assert [len(names) for names in named(found)] == [32, 2]
    assert named(found[0].parts)[0] == ["m-0", "g-0"]
    empty = await questions_about(*(group(f"g-{number}") for number in range(ABOVE_SIXTEEN)))
    assert [len(names) for names in named(empty)] == [16, 1]


async def test_groups_of_one_tree_stay_together() -> None:
    """Also if a pod shows only later that two of them belong together."""
    version = "scheduling.k8s.io/v1alpha3"
    root: Tree = {"apiVersion": version, "kind": "CompositePodGroup", "metadata": {"name": "root"}, "spec": {}}
    leaves = [group(f"g-{number}", parentCompositePodGroupName="root") for number in range(2)]
    members = [member(f"m-{number}", f"g-{number % 2}") for number in range(20)]
    found = await questions_about(*members, *leaves, root)
    assert [len(names) for names in named(found)] == [23]


async def test_pods_of_a_group_that_the_service_does_not_follow_are_answered_by_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.yaml"
    pods = [member(f"m-{number}", "g") for number in range(ABOVE_SIXTEEN)]
    file.write_text(yaml.safe_dump_all([{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods]))
    async with cluster() as front:
        assert await plugin(front, "why", "-f", str(file), "-o", "json") == 0
        out = capsys.readouterr().out
        answers = [json.loads(line) for line in out.splitlines() if '"kind":"Explanation"' in line]
        assert [each["pod"]["name"] for each in answers] == [pod["metadata"]["name"] for pod in pods]
