"""Packing as a process: devices that DeviceShares chooses arrive with Bindings, and policies count devices of DRA."""

import json
from pathlib import Path
from typing import Final

import pytest

from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE
from kscheduler.config.types import API_VERSION, FIRST_IN_ORDER, KIND
from tests.controlplane.rest import Object
from tests.e2e.devices import DevicesRoom
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME

GPU, SHARE, INDEX = "nvidia.com/gpu", "example.com/gpu-milli", "example.com/gpu-index"
PROFILE: Final[Object] = {
    "schedulerName": NAME,
    "tieRule": FIRST_IN_ORDER,
    "plugins": {"multiPoint": {"enabled": [{"name": "DeviceShares"}]}},
}
OWN: Final = {"example.com/owner": "ours"}

pytestmark = pytest.mark.usefixtures("only_kscheduler")


def written(folder: Path, profile: Object) -> Path:
    file = folder / "config.yaml"
    file.write_text(json.dumps({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}))
    return file


def add_pod(scenario: Scenario, name: str, resource: str, amount: int) -> None:
    requests = {"cpu": "100m", resource: str(amount)}
    resources = {"requests": requests, "limits": {resource: str(amount)}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    scenario.add_pod(name, annotations=OWN, containers=[container])


def test_the_device_is_written_with_the_binding_and_a_share_that_fits_on_no_device_waits(
    scenario: Scenario, tmp_path: Path
) -> None:
    file = written(tmp_path, PROFILE)
    scenario.add_node("node-0")
    scenario.set_allocatable("node-0", **{GPU: "2", SHARE: "2000"})
    version = scenario.api.get(scenario.pods_path)["metadata"]["resourceVersion"]
    first = scenario.start_scheduler("--config", str(file))
    for name, milli in (("first", 600), ("second", 300), ("third", 600)):
        add_pod(scenario, name, SHARE, milli)
        scenario.wait_bound(name)
    add_pod(scenario, "no-device", SHARE, 450)  # 500 are left of both devices together
    scenario.wait_rejected("no-device", "0/1 nodes are available: 1 node(s) had too little left on each device")
    assert devices_with_bindings(scenario, version) == {"first": "0", "second": "0", "third": "1"}

    scenario.terminate(first)  # the next one knows what is taken from the annotations alone
    scenario.start_scheduler("--config", str(file))
    add_pod(scenario, "fits", SHARE, 350)
    scenario.wait_bound("fits")
    assert devices_with_bindings(scenario, version)["fits"] == "1"
    assert not scenario.node_of("no-device")
    for name in ("third", "fits"):
        scenario.delete_pod(name)
    scenario.wait_bound("no-device")
    assert devices_with_bindings(scenario, version)["no-device"] == "1"


def devices_with_bindings(scenario: Scenario, version: str) -> dict[str, str]:
    """By pod the devices of the first version of it that has a node: no version has one of the two without the other.

    `version`: from which on the history is read.
    """
    found: dict[str, str] = {}
    parameters = {"resourceVersion": version, "timeoutSeconds": "1"}
    with scenario.api.watch(scenario.pods_path, parameters) as history:
        for event in history:
            assert event["type"] != "ERROR", event
            metadata, node = event["object"]["metadata"], event["object"]["spec"].get("nodeName")
            assert (INDEX in metadata["annotations"]) is bool(node), metadata
            assert metadata["annotations"].items() >= OWN.items()
            if node:
                found.setdefault(metadata["name"], metadata["annotations"][INDEX])
    return found


def test_claims_fill_a_node_before_they_begin_another(scenario: Scenario, devices: DevicesRoom, tmp_path: Path) -> None:
    resource = f"{IMPLICIT_EXTENDED_RESOURCE}{devices.device_class}"
    args = {"resources": [{"name": resource, "largest": "2"}]}
    scores = {"enabled": [{"name": "BestFit"}], "disabled": [{"name": "*"}]}
    profile = PROFILE | {"plugins": {"score": scores}, "pluginConfig": [{"name": "BestFit", "args": args}]}
    for node in ("node-1", "node-2"):
        devices.publish(node, "gpu-0", "gpu-1")
    devices.add_template("each")
    scenario.start_scheduler("--config", str(written(tmp_path, profile)), wait_started=True)

    def place(name: str) -> str:
        devices.add_pod(name, template="each")
        scenario.wait_bound(name)
        return scenario.node_of(name)

    assert [place(f"pod-{number}") for number in range(3)] == ["node-1", "node-1", "node-2"]
    for name in ("pod-0", "pod-1"):
        scenario.delete_pod(name)
    scenario.wait("the devices are given back", lambda: len(devices.claims()) == 1)
    assert place("last") == "node-2"
    assert place("after-it") == "node-1"
