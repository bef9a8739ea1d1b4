"""Pods go when an allocated device gets a NoExecute taint that the claim does not tolerate."""

from typing import Any

import pytest

from kscheduler.api.machinery.api_errors import Object
from tests.embedded.controllers.miniature import Miniature, template

CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"
GROUP = "resource.k8s.io/v1"
KEY = "example.com/broken"
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}


def mini_with(*tolerations: Object) -> Miniature:
    """A running pod `worker` whose claim holds `gpu-0` of `node-0`."""
    mini = Miniature()
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
    head = {"apiVersion": GROUP, "metadata": {"name": "one"}}
    mini.create({**head, "kind": "ResourceClaim", "spec": {"devices": {"requests": requests}}})
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    spec: Object = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-0"}
    spec["devices"] = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    mini.create({**head, "kind": "ResourceSlice", "spec": spec})
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}}
    mini.create({**pod, "spec": template(resourceClaims=claims)["spec"]})
    user = {"resource": "pods", "name": "worker", "uid": mini.get("pods", "worker")["metadata"]["uid"]}
    result = {**RESULT, **({"tolerations": list(tolerations)} if tolerations else {})}
    mini.change(CLAIMS, "one", "status", allocation={"devices": {"results": [result]}}, reservedFor=[user])
    mini.run_pods()
    return mini


def taint_device(mini: Miniature, device: str = "gpu-0", effect: str = "NoExecute") -> None:
    devices = mini.get(SLICES, "one")["spec"]["devices"]
    tainted = [{**one, "taints": [{"key": KEY, "effect": effect}]} if one["name"] == device else one for one in devices]
    mini.change(SLICES, "one", devices=tainted)


def taint_by_rule(mini: Miniature, **selector: str) -> None:
    spec = {"deviceSelector": selector, "taint": {"key": KEY, "effect": "NoExecute"}}
    mini.create({"apiVersion": GROUP, "kind": "DeviceTaintRule", "metadata": {"name": "one"}, "spec": spec})


def is_going(mini: Miniature) -> bool:
    return not mini.has("pods", "worker") or "deletionTimestamp" in mini.get("pods", "worker")["metadata"]


def test_a_tainted_device_ends_its_pod_which_is_reported() -> None:
    mini = mini_with()
    taint_device(mini)
    assert is_going(mini)
    assert mini.events("DeviceTaintManagerEviction") == ["Marking for deletion"]


@pytest.mark.parametrize(("device", "effect"), [("gpu-1", "NoExecute"), ("gpu-0", "NoSchedule"), ("gpu-0", "None")])
def test_other_devices_and_effects_end_nothing(device: str, effect: str) -> None:
    mini = mini_with()
    taint_device(mini, device, effect)
    assert not is_going(mini)


@pytest.mark.parametrize(
    ("selector", "ends"),
    [
        ({"driver": "gpu.example.com"}, True),
        ({"pool": "node-0", "device": "gpu-0"}, True),
        ({}, True),
        ({"pool": "node-1"}, False),
        ({"driver": "gpu.example.com", "device": "gpu-1"}, False),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(selector: Any, ends: bool) -> None:
    mini = mini_with()
    taint_by_rule(mini, **selector)
    assert is_going(mini) is ends


def test_a_tolerated_taint_ends_nothing() -> None:
    mini = mini_with({"key": KEY, "operator": "Exists", "effect": "NoExecute"})
    taint_device(mini)
    mini.advance(3600)
    assert not is_going(mini)


def test_a_toleration_without_an_effect_does_not_count() -> None:
    mini = mini_with({"key": KEY, "operator": "Exists"})
    taint_device(mini)
    assert is_going(mini)


def test_a_toleration_for_a_while_ends_with_it() -> None:
    tolerated = {"key": KEY, "operator": "Exists", "effect": "NoExecute"}
    mini = mini_with({**tolerated, "tolerationSeconds": 600}, {**tolerated, "tolerationSeconds": 60})
    taint_device(mini)
    mini.advance(59)
    assert not is_going(mini)
    mini.advance(1)
    assert is_going(mini)
