"""resource.k8s.io over HTTP: patches and tables; kinds of 1.37 by version and gate."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from kscheduler.api.machinery.resources import LATER, served_kinds
from kscheduler.api.typed.api_types import type_of_resource
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.embedded.cluster_client import Client
from tests.embedded.refusals.bad_devices import allocated, claim, device_class, device_slice, user

DEVICES, GROUPS = "/apis/resource.k8s.io/v1", "/apis/scheduling.k8s.io/v1beta1/namespaces/default"
CLAIMS = f"{DEVICES}/namespaces/default/resourceclaims"
RULE = {
    "metadata": {"name": "broken"},
    "spec": {
        "deviceSelector": {"pool": "node-1"},
        "taint": {"key": "example.com/broken", "value": "yes", "effect": "NoExecute"},
    },
}


def unplaced(value: Any) -> Any:
    metadata = {name: part for name, part in value["metadata"].items() if name != "namespace"}
    return {**value, "metadata": metadata}


async def rows(client: Client, path: str) -> tuple[list[str], list[list[Any]]]:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = await client.get(path, headers={"Accept": accept})
    names = [column["name"] for column in table["columnDefinitions"]]
    return names, [row["cells"] for row in table["rows"]]


async def test_a_reservation_is_patched_away_by_its_uid(client: Client) -> None:
    await client.post(CLAIMS, unplaced(claim()))
    path, merge = f"{CLAIMS}/bad/status", "application/merge-patch+json"
    users = [user(number) for number in range(3)]
    code, answer = await client.patch(path, {"status": {"allocation": allocated(), "reservedFor": users}}, merge)
    assert code == 200, answer
    gone = {"metadata": {"uid": answer["metadata"]["uid"]}}
    gone |= {"status": {"reservedFor": [{"$patch": "delete", "uid": users[1]["uid"]}]}}
    code, answer = await client.patch(path, gone, "application/strategic-merge-patch+json")
    assert code == 200, answer
    assert answer["status"]["reservedFor"] == [users[0], users[2]]
    added = {"status": {"reservedFor": [user(7)]}}
    code, answer = await client.patch(path, added, "application/strategic-merge-patch+json")
    assert {one["name"] for one in answer["status"]["reservedFor"]} == {"pod-0", "pod-2", "pod-7"}
    gone["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    code, _ = await client.patch(path, gone, "application/strategic-merge-patch+json")
    assert code == 409


async def test_a_status_is_written_apart_from_the_spec(client: Client) -> None:
    made = await client.post(CLAIMS, {**unplaced(claim()), "status": {"allocation": allocated()}})
    assert made["status"] == {}, "a status at creation is dropped"
    changed = {**made, "spec": {"devices": {}}, "status": {"allocation": allocated(), "reservedFor": [user()]}}
    code, answer = await client.request("PUT", f"{CLAIMS}/bad/status", changed)
    assert code == 200, answer
    assert answer["spec"] == made["spec"]
    other: Any = {"devices": {"results": []}}
    code, refused = await client.request("PUT", f"{CLAIMS}/bad/status", {**answer, "status": {"allocation": other}})
    assert code == 422
    assert "status.allocation: Invalid value" in refused["message"]
    assert "field is immutable" in refused["message"]
    code, cleared = await client.request("PUT", f"{CLAIMS}/bad/status", {**answer, "status": {}})
    assert (code, cleared["status"]) == (200, {})


async def test_tables_have_the_columns_of_the_real_server(client: Client) -> None:
    await client.post(CLAIMS, unplaced(claim()))
    await client.post(f"{DEVICES}/resourceslices", unplaced(device_slice()))
    await client.post(f"{DEVICES}/deviceclasses", unplaced(device_class()))
    names, ((name, state, _),) = await rows(client, CLAIMS)
    assert names == ["Name", "State", "Age"]
    assert (name, state) == ("bad", "pending")
    merge = "application/merge-patch+json"
    for status, expected in (
        ({"allocation": allocated()}, "allocated"),
        ({"reservedFor": [user()]}, "allocated,reserved"),
    ):
        await client.patch(f"{CLAIMS}/bad/status", {"status": status}, merge)
        assert (await rows(client, CLAIMS))[1][0][1] == expected
    await client.patch(f"{CLAIMS}/bad", {"metadata": {"finalizers": ["example.com/held"]}}, merge)
    await client.request("DELETE", f"{CLAIMS}/bad")
    assert (await rows(client, CLAIMS))[1][0][1] == "deleted,allocated,reserved"
    names, (cells,) = await rows(client, f"{DEVICES}/resourceslices")
    assert names == ["Name", "Node", "Driver", "Pool", "Age"]
    assert cells[:4] == ["bad", "node-1", "gpu.example.com", "node-1"]
    assert (await rows(client, f"{DEVICES}/deviceclasses"))[0] == ["Name", "Age"]


async def test_the_usual_server_does_not_know_later_kinds(client: Client) -> None:
    for path in (f"{DEVICES}/devicetaintrules", f"{GROUPS}/podgroups", "/apis/scheduling.k8s.io/v1beta1"):
        code, _ = await client.request("GET", path)
        assert code == 404


REFERENCE = {"workloadName": "training", "templateName": "workers"}


@pytest.fixture
async def later() -> AsyncIterator[Client]:
    gates = parse_feature_gates("GenericWorkload=true", version="1.37")
    async with (
        EmbeddedAPIServer(seed=1, kinds=served_kinds("1.37", gates.enabled)) as server,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
    ):
        yield Client(session, server.url)


def test_each_later_kind_has_a_type_a_release_and_a_gate() -> None:
    assert [one.key for one in LATER if type_of_resource(one) is None] == []
    assert all(one.since and one.gate for one in LATER)


@pytest.mark.parametrize(
    ("version", "gates", "found"),
    [
        ("1.36", "", set()),
        ("1.37", "", {"DeviceTaintRule"}),
        ("1.37", "DRADeviceTaintRules=false", set()),
        ("1.37", "GenericWorkload=true", {"DeviceTaintRule", "PodGroup", "Workload"}),
    ],
)
def test_version_and_gates_decide_what_is_served(version: str, gates: str, found: set[str]) -> None:
    kinds = served_kinds(version, parse_feature_gates(gates, version=version).enabled)
    assert {one.kind for one in kinds.resources if one in LATER} == found


async def test_a_later_server_names_its_release_and_both_versions_of_a_group(later: Client) -> None:
    assert (await later.get("/version"))["gitVersion"] == "v1.37.0"
    group = await later.get("/apis/scheduling.k8s.io")
    assert [one["version"] for one in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"
    groups = (await later.get("/apis"))["groups"]
    assert [one["name"] for one in groups].count("scheduling.k8s.io") == 1
    listed = await later.get("/apis/scheduling.k8s.io/v1beta1")
    assert {one["name"] for one in listed["resources"]} == {"podgroups", "podgroups/status", "workloads"}
    document = await later.get("/openapi/v3/apis/scheduling.k8s.io/v1beta1")
    assert "io.k8s.api.scheduling.v1beta1.PodGroup" in document["components"]["schemas"]


async def test_a_taint_rule_is_stamped_and_shown(later: Client) -> None:
    made = await later.post(f"{DEVICES}/devicetaintrules", RULE)
    assert made["spec"]["taint"]["timeAdded"] == made["metadata"]["creationTimestamp"]
    assert made["metadata"]["generation"] == 1
    names, (cells,) = await rows(later, f"{DEVICES}/devicetaintrules")
    assert names == ["Name", "Key", "Value", "Effect", "TimeAdded", "Age"]
    assert cells[:4] == ["broken", "example.com/broken", "yes", "NoExecute"]
    bad = {**RULE, "metadata": {"name": "bad"}, "spec": {"taint": {"key": "a b", "effect": "NoExecute"}}}
    code, answer = await later.request("POST", f"{DEVICES}/devicetaintrules", bad)
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "spec.taint.key")


def group(name: str = "team", **spec: Any) -> Any:
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}, **spec}}


async def test_a_group_gets_its_priority_and_shows_its_condition(later: Client) -> None:
    priority = {"metadata": {"name": "high"}, "value": 1000}
    await later.post("/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    made = await later.post(f"{GROUPS}/podgroups", group(priorityClassName="high"))
    assert made["spec"]["priority"] == 1000
    names, (cells,) = await rows(later, f"{GROUPS}/podgroups")
    assert names == ["Name", "Policy", "Workload", "Status", "Age"]
    assert cells[:4] == ["team", "Gang", "<none>", "Pending"]
    for state, shown in (("False", "Unschedulable"), ("True", "Scheduled")):
        condition = {"type": "PodGroupInitiallyScheduled", "status": state, "reason": "a", "message": ""}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        patch = {"status": {"conditions": [condition]}}
        code, _ = await later.patch(f"{GROUPS}/podgroups/team/status", patch, "application/strategic-merge-patch+json")
        assert code == 200
        assert (await rows(later, f"{GROUPS}/podgroups"))[1][0][3] == shown


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (group(schedulingPolicy={}), "spec.schedulingPolicy"),
        (group(schedulingPolicy={"gang": {"minCount": 1}, "basic": {}}), "spec.schedulingPolicy"),
        (group(schedulingPolicy={"gang": {"minCount": 0}}), "spec.schedulingPolicy.gang.minCount"),
        (group(parentCompositePodGroupName="all", workloadRef=REFERENCE), "spec.parentCompositePodGroupName"),
    ],
)
async def test_a_group_that_cannot_be_is_refused(later: Client, body: Any, field: str) -> None:
    code, answer = await later.request("POST", f"{GROUPS}/podgroups", body)
    assert (code, [cause["field"] for cause in answer["details"]["causes"]]) == (422, [field])


async def test_only_the_size_of_a_gang_may_change(later: Client) -> None:
    await later.post(f"{GROUPS}/podgroups", group())
    merge = "application/merge-patch+json"
    path = f"{GROUPS}/podgroups/team"
    code, _ = await later.patch(path, {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}, merge)
    assert code == 200
    changes: Any = ({"schedulingPolicy": {"gang": None, "basic": {}}}, {"disruptionMode": {"all": {}}})
    for change in changes:
        code, answer = await later.patch(path, {"spec": change}, merge)
        assert code == 422
        assert "field is immutable" in answer["message"]


async def test_a_workload_has_templates_of_groups(later: Client) -> None:
    def workload(*names: str) -> Any:
        templates = [{"name": name, "schedulingPolicy": {"gang": {"minCount": 1}}} for name in names]
        return {"metadata": {"name": "training"}, "spec": {"podGroupTemplates": templates}}

    for bad, field in ((workload(), "spec"), (workload("a", "a"), "spec.podGroupTemplates[1]")):
        code, answer = await later.request("POST", f"{GROUPS}/workloads", bad)
        assert (code, answer["details"]["causes"][0]["field"]) == (422, field)
    await later.post(f"{GROUPS}/workloads", workload("a", "b"))
    code, _ = await later.patch(f"{GROUPS}/workloads/training", workload("a"), "application/merge-patch+json")
    assert code == 422
