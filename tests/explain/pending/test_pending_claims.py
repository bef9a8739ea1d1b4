"""`kscheduler pending` of pods with claims: what waits for a device, and what a selector that fails could say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.explain.pending.test_pending import NODE, explanation, pod

Tree = dict[str, Any]
DRIVER = "gpu.example.com"


def resource(kind: str, name: str, spec: Tree, **more: Any) -> Tree:
    metadata = {"name": name, "uid": name} | ({"namespace": "shop"} if kind == "ResourceClaim" else {})
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec, **more}


def claim(name: str, *, selector: str = "true", status: Tree | None = None) -> Tree:
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": selector}}],
    }
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return resource("ResourceClaim", name, spec, **({} if status is None else {"status": status}))


def reported(tmp_path: Path, capsys: pytest.CaptureFixture[str], wanted: Tree) -> Tree:
    """The reason of a pod with this claim."""
    device = {"name": "gpu-0", "attributes": {"model": {"string": "a"}}, "bindingConditions": ["Attached"]}
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    slices = {"driver": DRIVER, "nodeName": "a", "pool": pool, "devices": [device]}
    entries = [{"name": "c", "resourceClaimName": wanted["metadata"]["name"]}]
    user = pod("web", resourceClaims=entries)
    objects = (NODE, resource("DeviceClass", "gpu", {}), resource("ResourceSlice", "s", slices), wanted, user)
    path = tmp_path / "dump.yaml"
    path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in objects))
    (reason,) = explanation(capsys, "--from", str(path))["reasons"]
    found: Tree = reason
    return found


def test_a_pod_that_waits_for_its_device_says_for_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = {"request": "r", "driver": DRIVER, "pool": "a", "device": "gpu-0", "bindingConditions": ["Attached"]}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": "2099-01-01T00:00:00Z"}
    user = {"resource": "pods", "name": "web", "uid": "uid-web"}
    reason = reported(tmp_path, capsys, claim("own", status={"allocation": allocation, "reservedFor": [user]}))
    assert reason["verdict"] == "Fits"
    assert reason["message"] == (
        f"fits, and waits in PreBind for device {DRIVER}/a/gpu-0 of claim own: driver {DRIVER} has to report Attached "
        "(since 2099-01-01T00:00:00Z, until 2099-01-01T00:10:00Z at most)"
    )


def test_a_selector_that_fails_has_a_suggestion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = claim("own", selector=f'device.attributes["{DRIVER}"].modell == "a"')
    reason = reported(tmp_path, capsys, wrong)
    assert (reason["verdict"], reason["suggestion"]["kind"]) == ("Error", "deviceSelector")
    assert reason["suggestion"]["steps"][0]["facts"]["to"] == f'device.attributes["{DRIVER}"].model == "a"'
