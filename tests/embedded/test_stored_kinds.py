"""Kinds that no scheduling rule reads: taken, stored, listed, watched and deleted as they are; and kinds that a
CustomResourceDefinition defines.
"""

from typing import Any

import pytest

from kscheduler.api.machinery.resources import OTHER_VERSIONS, RESOURCES, ServedResource
from tests.embedded.cluster_client import Client

PLAIN = [resource for resource in (*RESOURCES, *OTHER_VERSIONS) if resource.is_plain]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
SETS = "/apis/apps.kruise.io/v1/namespaces/default/statefulsets"


def collection(resource: ServedResource) -> str:
    prefix = f"/apis/{resource.group_version}" if resource.group else f"/api/{resource.version}"
    return f"{prefix}/namespaces/default/{resource.plural}" if resource.namespaced else f"{prefix}/{resource.plural}"


def definition(plural: str = "statefulsets", kind: str = "StatefulSet", *versions: str, **spec: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    listed = [
        {"name": name, "served": True, "storage": place == 0, "schema": schema, "subresources": {"status": {}}}
        for place, name in enumerate(versions or ("v1",))
    ]
    names = {"plural": plural, "kind": kind, "shortNames": ["asts"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.apps.kruise.io"},
        "spec": {"group": "apps.kruise.io", "scope": "Namespaced", "names": names, "versions": listed, **spec},
    }


def custom(name: str = "web", kind: str = "StatefulSet", version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"apps.kruise.io/{version}", "kind": kind, "metadata": {"name": name}, **fields}


@pytest.mark.parametrize("resource", PLAIN, ids=lambda one: f"{one.group_version} {one.kind}")
async def test_a_kind_that_no_rule_reads_is_kept_as_it_was_written(client: Client, resource: ServedResource) -> None:
    path, spec = collection(resource), {"anything": [{"goes": 1}], "deep": {"a": {"b": "c"}}}
    head = {"apiVersion": resource.group_version, "kind": resource.kind}
    body: dict[str, Any] = {"metadata": {"name": "mine"}, "spec": spec}
    body = definition() if resource.kind == "CustomResourceDefinition" else body
    name = body["metadata"]["name"]
    created = await client.post(path, {**head, **body})
    assert created["spec"] == body["spec"] or resource.kind == "CustomResourceDefinition"
    assert [one["metadata"]["name"] for one in (await client.get(path))["items"] if one["kind"]] == [name]
    async with client.watch(path, resourceVersion=created["metadata"]["resourceVersion"]) as events:
        assert (await client.patch(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}}, MERGE))[0] == 200
        assert (await client.request("DELETE", f"{path}/{name}"))[0] == 200
        assert await events.take(2) == [("MODIFIED", name), ("DELETED", name)]


async def test_the_versions_of_a_kind_show_the_same_objects(client: Client) -> None:
    spec = {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    one, two = (f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2"))
    await client.post(one, {"metadata": {"name": "web"}, "spec": spec})
    assert (await client.get(f"{two}/web"))["apiVersion"] == "autoscaling/v2"
    assert [item["apiVersion"] for item in (await client.get(one))["items"]] == ["autoscaling/v1"]
    assert (await client.request("DELETE", f"{two}/web"))[0] == 200
    assert (await client.get(one))["items"] == []


async def test_what_a_definition_defines_is_served_at_once_and_goes_with_it(client: Client) -> None:
    assert (await client.request("GET", SETS))[0] == 404
    created = await client.post(DEFINITIONS, definition())
    assert {c["type"]: c["status"] for c in created["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    (entry,) = [
        one for one in (await client.get("/apis/apps.kruise.io/v1"))["resources"] if one["name"] == "statefulsets"
    ]
    assert (entry["kind"], entry["shortNames"], entry["namespaced"]) == ("StatefulSet", ["asts"], True)
    assert "apps.kruise.io" in [group["name"] for group in (await client.get("/apis"))["groups"]]
    await client.post(SETS, custom(spec={"replicas": 3}))
    assert len((await client.get("/apis/apps.kruise.io/v1/statefulsets"))["items"]) == 1
    assert (await client.request("DELETE", f"{DEFINITIONS}/statefulsets.apps.kruise.io"))[0] == 200
    assert (await client.request("GET", SETS))[0] == 404
    await client.post(DEFINITIONS, definition())
    assert (await client.get(SETS))["items"] == []


async def test_a_kind_of_another_project_is_not_treated_as_the_one_of_kubernetes(client: Client) -> None:
    await client.post(DEFINITIONS, definition())
    spec = {"template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}}
    created = await client.post(SETS, custom(spec=spec))
    assert created["spec"] == spec
    assert created["metadata"]["generation"] == 1
    status, changed = await client.patch(f"{SETS}/web", {"spec": {"replicas": 2}}, MERGE)
    assert (status, changed["metadata"]["generation"]) == (200, 2)
    status, shown = await client.patch(f"{SETS}/web/status", {"status": {"ready": 1}, "spec": {"replicas": 9}}, MERGE)
    assert (status, shown["spec"]["replicas"], shown["status"]) == (200, 2, {"ready": 1})
    assert (await client.patch(f"{SETS}/web", {}, STRATEGIC))[0] == 415
    containers = [{"name": "d"}]
    applied = custom(spec={"template": {"spec": {"containers": containers}}})
    query = {"fieldManager": "t", "force": "true"}
    status, replaced = await client.patch(f"{SETS}/web", applied, APPLY, params=query)
    assert (status, replaced["spec"]["template"]["spec"]["containers"]) == (200, containers)


async def test_the_versions_of_a_definition_are_one_collection(client: Client) -> None:
    await client.post(DEFINITIONS, definition("jobs", "Job", "v1beta1", "v1alpha1"))
    paths = [f"/apis/apps.kruise.io/{version}/namespaces/default/jobs" for version in ("v1alpha1", "v1beta1")]
    await client.post(paths[0], custom("a", "Job", "v1alpha1"))
    assert [(await client.get(f"{path}/a"))["apiVersion"] for path in paths] == [
        "apps.kruise.io/v1alpha1",
        "apps.kruise.io/v1beta1",
    ]


async def test_custom_objects_go_with_their_namespace_and_their_owner(client: Client) -> None:
    await client.post(DEFINITIONS, definition())
    await client.post("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    await client.post(SETS.replace("default", "shop"), custom())
    owner = await client.post(SETS, custom("owner"))
    reference = {**{name: owner[name] for name in ("apiVersion", "kind")}, "name": "owner"}
    metadata = {"name": "owned", "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}]}
    await client.post("/api/v1/namespaces/default/configmaps", {"metadata": metadata})
    assert (await client.request("DELETE", "/api/v1/namespaces/shop"))[0] == 200
    assert (await client.request("DELETE", f"{SETS}/owner"))[0] == 200
    assert (await client.request("GET", "/api/v1/namespaces/default/configmaps/owned"))[0] == 404
    assert (await client.get("/apis/apps.kruise.io/v1/statefulsets"))["items"] == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"group": ""}, "spec.group: Required value", id="no group"),
        pytest.param({"versions": []}, "exactly one version marked as storage version", id="no version"),
        pytest.param({"group": "other.example"}, "must be spec.names.plural", id="another name"),
    ],
)
async def test_a_definition_of_nothing_is_refused(client: Client, change: dict[str, Any], text: str) -> None:
    status, answer = await client.request("POST", DEFINITIONS, definition(**change))
    assert status == 422
    assert text in answer["message"]


async def test_a_strategic_patch_says_by_its_order_what_identifies_elements(client: Client) -> None:
    path = "/api/v1/namespaces/default/podtemplates"
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    await client.post(path, {"metadata": {"name": "t"}, "template": {"spec": {"containers": containers}}})
    order = [{"name": "b"}, {"name": "a"}]
    change = {"$setElementOrder/containers": order, "containers": [{"name": "a", "image": "a:2"}]}
    status, patched = await client.patch(f"{path}/t", {"template": {"spec": change}}, STRATEGIC)
    assert status == 200
    assert patched["template"]["spec"]["containers"] == [containers[1], {"name": "a", "image": "a:2"}]
