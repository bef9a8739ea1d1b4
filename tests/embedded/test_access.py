"""Who may do what on the embedded API server, and what it answers when asked about that."""

from typing import Any

import pytest

from kscheduler.api.machinery.resources import BY_KEY, NAMESPACES
from kscheduler.embedded.objects.access.reviews import account_of
from kscheduler.embedded.objects.access.roles import ADMIN, Attributes, User, allows
from kscheduler.embedded.objects.registry import ObjectRegistry
from tests.embedded.cluster_client import Client, pod

RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1"
ROBOT = User("system:serviceaccount:shop:robot")


@pytest.fixture
def shop(registry: ObjectRegistry) -> ObjectRegistry:
    """A namespace in which the service account `robot` reads pods, their logs, and one config map."""
    registry.create(NAMESPACES, "", {"metadata": {"name": "shop"}})
    rules = [
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["settings"]},
        {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"]},
    ]
    registry.create(BY_KEY[f"roles.{RBAC}"], "shop", {"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "robot-reads"},
        "roleRef": {"kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot"}],
    }
    registry.create(BY_KEY[f"rolebindings.{RBAC}"], "shop", binding)
    return registry


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        (Attributes("get", "", "pods", "shop"), True),
        (Attributes("get", "", "pods/log", "shop"), True),
        (Attributes("get", "", "pods/exec", "shop"), False),
        (Attributes("delete", "", "pods", "shop"), False),
        (Attributes("get", "", "pods", "default"), False),
        (Attributes("get", "", "pods", ""), False),
        (Attributes("get", "metrics.k8s.io", "pods", "shop"), False),
        (Attributes("get", "", "configmaps", "shop", "settings"), True),
        (Attributes("get", "", "configmaps", "shop", "other"), False),
        (Attributes("update", "apps", "deployments/scale", "shop"), True),
        (Attributes("update", "apps", "deployments", "shop"), False),
    ],
    ids=lambda value: f"{value.verb} {value.resource} {value.namespace}" if isinstance(value, Attributes) else "",
)
def test_rules_cover_what_they_name(shop: ObjectRegistry, attributes: Attributes, allowed: bool) -> None:
    assert allows(shop.store, ROBOT, attributes) is allowed
    assert allows(shop.store, ADMIN, attributes)
    assert not allows(shop.store, User("bob"), attributes)


def test_urls_are_covered_by_patterns(registry: ObjectRegistry) -> None:
    everybody = User("bob", ("system:authenticated",))
    assert allows(registry.store, everybody, Attributes("get", url="/apis/apps/v1"))
    assert not allows(registry.store, everybody, Attributes("get", url="/metrics"))
    assert not allows(registry.store, User("bob"), Attributes("get", url="/apis"))


async def review(client: Client, kind: str, spec: dict[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
    path = f"{client.url}{REVIEWS}/{kind}"
    async with client.session.post(path, json={"spec": spec}, headers=headers) as response:
        return response.status, await response.json()


async def test_reviews_are_answered_and_not_stored(client: Client) -> None:
    attributes = {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}
    status, own = await review(client, "selfsubjectaccessreviews", attributes)
    assert (status, own["kind"], own["status"]) == (201, "SelfSubjectAccessReview", {"allowed": True})
    impersonated = {"Impersonate-User": "bob"}
    assert (await review(client, "selfsubjectaccessreviews", attributes, **impersonated))[1]["status"][
        "allowed"
    ] is False
    other = await review(client, "subjectaccessreviews", {**attributes, "user": "bob"})
    assert other[1]["status"]["allowed"] is False
    assert (await client.request("GET", f"{REVIEWS}/subjectaccessreviews"))[0] == 405


async def test_a_review_of_nothing_is_refused(client: Client) -> None:
    status, refusal = await review(client, "selfsubjectaccessreviews", {})
    assert (status, refusal["reason"]) == (422, "Invalid")
    assert "exactly one of nonResourceAttributes or resourceAttributes must be specified" in refusal["message"]


async def test_who_acts_as_somebody_else_may_do_what_that_one_may(client: Client) -> None:
    await client.post("/api/v1/namespaces/default/pods", pod())
    headers = {"Impersonate-User": "bob", "Impersonate-Group": "admins"}
    path = f"{client.url}/api/v1/namespaces/default/pods"
    async with client.session.get(path, headers=headers) as response:
        refusal = await response.json()
    assert (response.status, refusal["reason"]) == (403, "Forbidden")
    assert refusal["message"] == (
        'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    async with client.session.get(path, headers={"Impersonate-User": "x", "Impersonate-Group": "system:masters"}) as ok:
        assert ok.status == 200


async def test_tokens_name_their_account(client: Client) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    status, made = await client.request("POST", f"{path}/default/token", {"spec": {"expirationSeconds": 600}})
    assert (status, account_of(made["status"]["token"])) == (201, ("default", "default"))
    assert (await client.request("POST", f"{path}/nobody/token", {}))[0] == 404
    for token, authenticated in ((made["status"]["token"], True), ("other", None), ("kscheduler-embedded.%", None)):
        reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
        answer = (await client.request("POST", reviews, {"spec": {"token": token}}))[1]
        assert answer["status"].get("authenticated") is authenticated


async def test_a_namespace_comes_with_its_service_account(client: Client) -> None:
    await client.post("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    assert (await client.request("GET", "/api/v1/namespaces/shop/serviceaccounts/default"))[0] == 200
    named = pod(serviceAccountName="robot")
    status, refusal = await client.request("POST", "/api/v1/namespaces/shop/pods", named)
    assert (status, refusal["message"]) == (
        403,
        'pods "p" is forbidden: error looking up service account shop/robot: serviceaccount "robot" not found',
    )
    await client.post("/api/v1/namespaces/shop/serviceaccounts", {"metadata": {"name": "robot"}})
    assert (await client.request("POST", "/api/v1/namespaces/shop/pods", named))[0] == 201
    await client.request("DELETE", "/api/v1/namespaces/shop")
    assert (await client.request("GET", "/api/v1/namespaces/shop"))[0] == 404


async def test_a_runtime_class_gives_pods_their_overhead(client: Client) -> None:
    overhead = {"podFixed": {"cpu": "100m"}}
    value = {
        "metadata": {"name": "vm"},
        "handler": "vm",
        "overhead": overhead,
        "scheduling": {"nodeSelector": {"vm": "1"}},
    }
    await client.post("/apis/node.k8s.io/v1/runtimeclasses", value)
    status, made = await client.request("POST", "/api/v1/namespaces/default/pods", pod(runtimeClassName="vm"))
    assert (status, made["spec"]["overhead"], made["spec"]["nodeSelector"]) == (201, {"cpu": "100m"}, {"vm": "1"})
