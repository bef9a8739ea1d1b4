"""CompositePodGroups over HTTP, a kind of 1.37 with a gate of its own; and what trees of templates may be."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from kscheduler.api.machinery.resources import served_kinds
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.embedded.cluster_client import Client

ALPHA = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"
BETA = "/apis/scheduling.k8s.io/v1beta1/namespaces/default"
REFERENCE = {"workloadName": "training", "templateName": "workers"}
GANG = {"gang": {"minGroupCount": 2}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    kinds = served_kinds("1.37", {"GenericWorkload", "CompositePodGroup"}.__contains__)
    async with (
        EmbeddedAPIServer(seed=1, kinds=kinds) as server,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
    ):
        yield Client(session, server.url)


@pytest.fixture
async def newer() -> AsyncIterator[Client]:
    kinds = served_kinds("1.38", {"GenericWorkload", "CompositePodGroup"}.__contains__)
    async with (
        EmbeddedAPIServer(seed=1, kinds=kinds) as server,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
    ):
        yield Client(session, server.url)


def composite(**spec: Any) -> Any:
    return {"metadata": {"name": "all"}, "spec": {"schedulingPolicy": GANG, "workloadRef": REFERENCE, **spec}}


def template(name: str, **spec: Any) -> Any:
    return {"name": name, "schedulingPolicy": {"gang": {"minGroupCount": 1}}, **spec}


def leaf(name: str, **spec: Any) -> Any:
    return {"name": name, "schedulingPolicy": {"gang": {"minCount": 1}}, **spec}


def workload(*templates: Any) -> Any:
    return {"metadata": {"name": "training"}, "spec": {"compositePodGroupTemplates": list(templates)}}


def nested(levels: int) -> Any:
    below: Any = {"podGroupTemplates": [leaf("leaf")]}
    for level in range(levels):
        below = {"compositePodGroupTemplates": [template(f"level-{level}", **below)]}
    return below["compositePodGroupTemplates"][0]


async def test_a_composite_group_gets_its_priority_and_is_shown_in_a_table(client: Client) -> None:
    await client.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    made = await client.post(ALPHA, composite(priorityClassName="high"))
    assert made["spec"]["priority"] == 1000
    table = await client.get(ALPHA, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Policy", "Workload", "Age"]
    assert table["rows"][0]["cells"][:3] == ["all", "Gang", "training"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"gang": {"minGroupCount": 0}}}, "spec.schedulingPolicy.gang.minGroupCount"),
        ({"workloadRef": None}, "spec.workloadRef"),
        ({"parentCompositePodGroupName": "No Name"}, "spec.parentCompositePodGroupName"),
    ],
)
async def test_a_composite_group_that_cannot_be_is_refused(client: Client, spec: Any, field: str) -> None:
    code, answer = await client.request("POST", ALPHA, composite(**spec))
    assert (code, answer["details"]["causes"][0]["field"]) == (422, field)


async def test_nothing_of_a_composite_group_may_change(client: Client) -> None:
    await client.post(ALPHA, composite())
    for change in ({"schedulingPolicy": {"gang": {"minGroupCount": 1}}}, {"parentCompositePodGroupName": "other"}):
        code, answer = await client.patch(f"{ALPHA}/all", {"spec": change}, "application/merge-patch+json")
        assert (code, "field is immutable" in answer["message"]) == (422, True)


async def test_a_group_may_name_its_parent_with_a_workload(client: Client) -> None:
    group: Any = {"metadata": {"name": "a"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    group["spec"]["parentCompositePodGroupName"] = "all"
    code, answer = await client.request("POST", f"{BETA}/podgroups", group)
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "spec.workloadRef")
    group["spec"]["workloadRef"] = REFERENCE
    await client.post(f"{BETA}/podgroups", group)


@pytest.mark.parametrize(
    ("templates", "field"),
    [
        ([nested(4)], "spec.compositePodGroupTemplates[0]"),
        ([template("alone")], "spec.compositePodGroupTemplates[0]"),
        (
            [template("twice", podGroupTemplates=[leaf("twice")])],
            "spec.compositePodGroupTemplates[0].podGroupTemplates[0].name",
        ),
        ([template("all", podGroupTemplates=[leaf("a", priority=1)])], "spec"),
    ],
)
async def test_a_tree_of_templates_that_cannot_be_is_refused(client: Client, templates: Any, field: str) -> None:
    code, answer = await client.request("POST", f"{BETA}/workloads", workload(*templates))
    assert (code, answer["details"]["causes"][0]["field"]) == (422, field)


async def test_a_tree_of_templates_may_have_four_levels(client: Client) -> None:
    await client.post(f"{BETA}/workloads", workload(nested(3)))


async def test_in_1_38_they_are_of_v1beta1_and_their_minimum_may_change(newer: Client) -> None:
    groups = f"{BETA}/compositepodgroups"
    made = await newer.post(groups, composite())
    assert made["apiVersion"] == "scheduling.k8s.io/v1beta1"
    made["spec"]["schedulingPolicy"]["gang"]["minGroupCount"] = 1
    status, changed = await newer.request("PUT", f"{groups}/all", made)
    assert (status, changed["spec"]["schedulingPolicy"]["gang"]["minGroupCount"]) == (200, 1)
    assert (await newer.request("GET", ALPHA))[0] == 404
