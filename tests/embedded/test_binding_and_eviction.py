"""The subresources that move pods: binding and eviction."""

from functools import partial
from typing import Any

import pytest

from kscheduler.api.machinery.api_errors import ApiError
from kscheduler.api.machinery.resources import BUDGETS, PODS
from kscheduler.embedded.objects.registry import NO_OPTIONS, ObjectRegistry
from kscheduler.embedded.objects.subresources import bind, evict
from tests.embedded.cluster_client import pod, refusal_code


def binding(node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "target": {"kind": "Node", "name": node}}


def create(registry: ObjectRegistry, name: str = "p", **spec: Any) -> dict[str, Any]:
    return registry.create(PODS, "default", pod(name, **spec)).value


def set_status(registry: ObjectRegistry, name: str, **status: Any) -> dict[str, Any]:
    value = registry.get(PODS, "default", name).value
    return registry.update(PODS, "default", name, {**value, "status": status}, subresource="status").value


def test_a_binding_assigns_the_pod_and_clears_its_nomination(registry: ObjectRegistry) -> None:
    uid = create(registry)["metadata"]["uid"]
    rejected = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    set_status(registry, "p", nominatedNodeName="n2", conditions=[rejected])
    body = binding(uid=uid, annotations={"a": "1"}, labels={"b": "2"})
    assert bind(registry, "default", "p", body, NO_OPTIONS)["status"] == "Success"
    value = registry.get(PODS, "default", "p").value
    assert value["spec"]["nodeName"] == "n1"
    assert "nominatedNodeName" not in value["status"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert value["status"]["conditions"] == [scheduled]
    assert (value["metadata"]["annotations"], value["metadata"]["labels"]) == ({"a": "1"}, {"app": "web", "b": "2"})


def test_a_pod_is_bound_once(registry: ObjectRegistry) -> None:
    create(registry)
    bind(registry, "default", "p", binding(), NO_OPTIONS)
    with pytest.raises(ApiError, match='pod p is already assigned to node "n1"') as caught:
        bind(registry, "default", "p", binding("n2"), NO_OPTIONS)
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert registry.get(PODS, "default", "p").value["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(
    ("spec", "metadata", "code", "message"),
    [
        pytest.param({}, {"uid": "other"}, 409, "UID in precondition: other", id="another pod of the same name"),
        pytest.param({"schedulingGates": [{"name": "g"}]}, {}, 409, "non-empty .spec.schedulingGates", id="gated"),
    ],
)
def test_bindings_that_are_refused(
    registry: ObjectRegistry, spec: dict[str, Any], metadata: dict[str, Any], code: int, message: str
) -> None:
    create(registry, **spec)
    with pytest.raises(ApiError) as caught:
        bind(registry, "default", "p", binding(**metadata), NO_OPTIONS)
    assert caught.value.code == code
    assert message in caught.value.message


def test_a_pod_that_is_being_deleted_is_not_bound(registry: ObjectRegistry) -> None:
    body = pod()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    registry.create(PODS, "default", body)
    registry.deletion.delete(PODS, "default", "p")
    with pytest.raises(ApiError, match="pod p is being deleted, cannot be assigned to a host"):
        bind(registry, "default", "p", binding(), NO_OPTIONS)


def test_a_binding_needs_a_pod_and_a_node(registry: ObjectRegistry) -> None:
    with pytest.raises(ApiError, match='pods "none" not found'):
        bind(registry, "default", "none", binding(), NO_OPTIONS)
    create(registry)
    with pytest.raises(ApiError, match=r"target\.name: Required value"):
        bind(registry, "default", "p", binding(""), NO_OPTIONS)


def running(registry: ObjectRegistry, name: str) -> None:
    create(registry, name, nodeName="n1")
    set_status(registry, name, phase="Running", conditions=[{"type": "Ready", "status": "True"}])


def budget(registry: ObjectRegistry, **spec: Any) -> dict[str, Any]:
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    return registry.create(BUDGETS, "default", body).value


def is_going(registry: ObjectRegistry, name: str) -> bool:
    return "deletionTimestamp" in registry.get(PODS, "default", name).value["metadata"]


def test_an_eviction_without_budget_is_a_graceful_delete(registry: ObjectRegistry) -> None:
    running(registry, "a")
    evict(registry, "default", "a", {"deleteOptions": {"gracePeriodSeconds": 3}}, dry_run=False)
    assert registry.get(PODS, "default", "a").value["metadata"]["deletionGracePeriodSeconds"] == 3


def test_a_written_budget_gives_its_disruptions_one_by_one(registry: ObjectRegistry) -> None:
    for name in "ab":
        running(registry, name)
    body = budget(registry, minAvailable=1)
    status = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}
    registry.update(BUDGETS, "default", "b", {**body, "status": status}, subresource="status")
    evict(registry, "default", "a", {}, dry_run=False)
    written = registry.get(BUDGETS, "default", "b").value["status"]
    assert (written["disruptionsAllowed"], list(written["disruptedPods"])) == (0, ["a"])
    with pytest.raises(ApiError) as caught:
        evict(registry, "default", "b", {}, dry_run=False)
    assert caught.value.code == 429
    assert caught.value.details["causes"][0]["reason"] == "DisruptionBudget"
    assert not is_going(registry, "b")


def test_a_budget_that_no_controller_has_seen_is_processed_first(registry: ObjectRegistry) -> None:
    running(registry, "a")
    body = budget(registry, minAvailable=0)
    status = {"observedGeneration": 0, "disruptionsAllowed": 5}
    registry.update(BUDGETS, "default", "b", {**body, "status": status}, subresource="status")
    with pytest.raises(ApiError) as caught:
        evict(registry, "default", "a", {}, dry_run=False)
    assert caught.value.retry_after_seconds == 10


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        pytest.param({"minAvailable": 3}, 1, id="three of four"),
        pytest.param({"minAvailable": "60%"}, 1, id="sixty percent rounded up"),
        pytest.param({"maxUnavailable": 2}, 2, id="two may go"),
        pytest.param({"maxUnavailable": "0%"}, 0, id="none may go"),
    ],
)
def test_without_a_controller_healthy_pods_are_counted(
    registry: ObjectRegistry, spec: dict[str, Any], allowed: int
) -> None:
    for name in "abcd":
        running(registry, name)
    budget(registry, **spec)
    evictions = [partial(evict, registry, "default", name, {}, dry_run=False) for name in "abcd"]
    codes = [refusal_code(eviction) for eviction in evictions]
    assert codes == [None] * allowed + [429] * (4 - allowed)


def test_pending_pods_need_no_budget(registry: ObjectRegistry) -> None:
    create(registry, "a")
    budget(registry, minAvailable=1)
    evict(registry, "default", "a", {}, dry_run=False)
    assert registry.store.get("pods", "default", "a") is None
