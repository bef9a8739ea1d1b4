"""Devices all the way: drivers publish, users claim, kscheduler allocates, kube-controller-manager gives back.

In every scenario a pod ends bound rightly or pending with a true reason, and the audit of devices finds nothing.
"""

import time

import pytest

from tests.controlplane.rest import Object
from tests.e2e.devices import PROTECTION, DevicesRoom
from tests.e2e.scenario import Scenario

NO_DEVICE = "cannot allocate all claims"


def test_a_pod_goes_where_its_device_is_and_the_next_one_waits_until_it_is_free(
    scenario: Scenario, devices: DevicesRoom
) -> None:
    devices.publish("node-1", "gpu-0")
    for name in ("a", "b"):
        devices.add_claim(name)
    scenario.start_scheduler()
    devices.add_pod("first", "a")
    scenario.wait_bound("first")
    assert scenario.node_of("first") == "node-1"
    claim = devices.claim("a")
    assert PROTECTION in claim["metadata"]["finalizers"]
    assert claim["status"]["allocation"]["allocationTimestamp"]
    assert devices.held_by("a") == ["node-1/gpu-0"]
    assert devices.users("a") == ["first"]
    devices.add_pod("second", "b")
    scenario.wait_rejected("second", f"0/4 nodes are available: 4 {NO_DEVICE}")
    scenario.delete_pod("first")  # kube-controller-manager takes the claim's allocation away
    scenario.wait_bound("second")
    assert devices.held_by("b") == ["node-1/gpu-0"]


def test_a_template_makes_a_claim_for_each_pod(scenario: Scenario, devices: DevicesRoom) -> None:
    for node in ("node-0", "node-1"):
        devices.publish(node, "gpu-0", "gpu-1")
    devices.add_template("each")
    scenario.start_scheduler()
    for number in range(5):
        devices.add_pod(f"pod-{number}", template="each")
    scenario.wait("four are bound", lambda: len(scenario.pending()) == 1)
    (waiting,) = scenario.pending()
    scenario.wait_rejected(waiting, NO_DEVICE)
    devices.publish("node-2", "gpu-0")
    scenario.wait_bound(waiting)
    assert scenario.node_of(waiting) == "node-2"


def test_pods_that_share_a_claim_go_to_its_node(scenario: Scenario, devices: DevicesRoom) -> None:
    devices.publish("node-2", "gpu-0")
    devices.add_claim("shared")
    for number in range(4):
        devices.add_pod(f"pod-{number}", "shared")
    scenario.start_scheduler()
    scenario.wait_bound()
    assert {scenario.node_of(f"pod-{number}") for number in range(4)} == {"node-2"}
    assert sorted(devices.users("shared")) == [f"pod-{number}" for number in range(4)]


def test_a_pod_waits_for_a_claim_that_does_not_exist_yet(scenario: Scenario, devices: DevicesRoom) -> None:
    devices.publish("node-0", "gpu-0")
    scenario.start_scheduler()
    devices.add_pod("early", "late")
    scenario.add_pod("without-claims")
    scenario.wait_bound("without-claims")
    assert not scenario.node_of("early")
    devices.add_claim("late")
    scenario.wait_bound("early")


def test_devices_of_a_driver_that_is_gone_are_not_given_away_and_come_back_with_it(
    scenario: Scenario, devices: DevicesRoom
) -> None:
    devices.publish("node-0", "gpu-0")
    devices.add_claim("a")
    scenario.start_scheduler(wait_started=True)
    devices.withdraw("node-0")
    devices.add_pod("user", "a")
    scenario.wait_rejected("user", NO_DEVICE)
    devices.publish("node-0", "gpu-0")
    scenario.wait_bound("user")


def test_a_tainted_device_is_left_alone_until_the_taint_is_gone(scenario: Scenario, devices: DevicesRoom) -> None:
    devices.publish("node-0", "gpu-0", taints=[{"key": "example.com/broken", "effect": "NoSchedule"}])
    devices.add_claim("a")
    scenario.start_scheduler()
    devices.add_pod("user", "a")
    scenario.wait_rejected("user", NO_DEVICE)
    devices.publish("node-0", "gpu-0", generation=2)
    scenario.wait_bound("user")


@pytest.mark.usefixtures("serves_taint_rules")
def test_a_rule_taints_devices_and_its_end_gives_them_free(scenario: Scenario, devices: DevicesRoom) -> None:
    devices.publish("node-0", "gpu-0", "gpu-1")
    for name in ("a", "b"):
        devices.add_claim(name)
    devices.add_rule("broken", device="gpu-0")
    scenario.start_scheduler()
    devices.add_pod("first", "a")
    scenario.wait_bound("first")
    assert devices.held_by("a") == ["node-0/gpu-1"]
    devices.add_pod("second", "b")
    scenario.wait_rejected("second", NO_DEVICE)
    devices.remove_rule("broken")
    scenario.wait_bound("second")
    assert devices.held_by("b") == ["node-0/gpu-0"]


def test_an_allocated_claim_whose_node_cannot_take_its_pod_is_given_back_and_allocated_elsewhere(
    scenario: Scenario, devices: DevicesRoom
) -> None:
    """The claim was allocated on node-0 for a pod that has gone before it ran; node-0 takes nobody any more."""
    for node in ("node-0", "node-1"):
        devices.publish(node, "gpu-0")
    devices.add_claim("a")
    devices.allocate("a", "node-0", "gpu-0")
    scenario.patch_node("node-0", {"spec": {"unschedulable": True}})
    scenario.start_scheduler()
    devices.add_pod("user", "a")
    scenario.wait_bound("user")
    assert scenario.node_of("user") == "node-1"
    assert devices.held_by("a") == ["node-1/gpu-0"]


def test_a_pod_is_bound_when_its_device_is_ready_and_not_before(scenario: Scenario, devices: DevicesRoom) -> None:
    fields: Object = {"bindingConditions": ["example.com/attached"], "bindingFailureConditions": ["example.com/broken"]}
    devices.publish("node-0", "gpu-0", bindsToNode=True, **fields)
    devices.add_claim("a")
    scenario.start_scheduler()
    devices.add_pod("user", "a")
    scenario.wait("the device is allocated", lambda: devices.claim("a").get("status", {}).get("allocation"))
    scenario.wait("its wait is told", lambda: scenario.events("user", "BindingConditionsPending"))
    time.sleep(1)
    assert not scenario.node_of("user")
    devices.report("a", **{"example.com/attached": "True"})
    scenario.wait_bound("user")


def test_a_device_that_fails_is_given_back_and_another_one_is_taken(scenario: Scenario, devices: DevicesRoom) -> None:
    fields: Object = {"bindingConditions": ["example.com/attached"], "bindingFailureConditions": ["example.com/broken"]}
    devices.publish("node-0", "gpu-0", **fields)
    devices.add_claim("a")
    scenario.start_scheduler()
    devices.add_pod("user", "a")
    scenario.wait("the device is allocated", lambda: devices.claim("a").get("status", {}).get("allocation"))
    devices.report("a", **{"example.com/broken": "True"})
    devices.publish("node-1", "gpu-0")
    devices.withdraw("node-0")
    scenario.wait_bound("user")
    assert scenario.node_of("user") == "node-1"
    assert devices.held_by("a") == ["node-1/gpu-0"]


def test_a_pod_asks_for_devices_by_an_extended_resource(scenario: Scenario, devices: DevicesRoom) -> None:
    devices.publish("node-3", "gpu-0", "gpu-1")
    amounts = {devices.resource: "2", "cpu": "100m"}
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": amounts, "limits": amounts},
    }
    scenario.start_scheduler()
    for name in ("first", "second"):
        scenario.add_pod(name, containers=[container])
    scenario.wait("one is bound", lambda: len(scenario.pending()) == 1)
    (waiting,) = scenario.pending()
    (bound,) = {"first", "second"} - {waiting}
    scenario.wait_rejected(waiting, "0/4 nodes are available")
    (claim,) = devices.claims()
    reported = scenario.pod(bound)["status"]["extendedResourceClaimStatus"]
    assert reported["resourceClaimName"] == claim["metadata"]["name"]
    assert [one["resourceName"] for one in reported["requestMappings"]] == [devices.resource]
    assert sorted(devices.held_by(claim["metadata"]["name"])) == ["node-3/gpu-0", "node-3/gpu-1"]
    scenario.delete_pod(bound)
    scenario.wait_bound(waiting)
