"""Claims to devices in a free run: each configuration allocates by itself, nothing of the recorded one comes back."""

from typing import Final

import pytest
from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.devices import EXTENDED_RESOURCE_CLAIM
from kscheduler.api.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from kscheduler.api.well_known import HOSTNAME
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration, load_bytes
from kscheduler.in_memory.claims import claim_keys
from kscheduler.recorder.alternatives.comparing import PolicyComparison
from kscheduler.recorder.report.other_policy import comparison_answer, comparison_text
from tests.builders import make_pod
from tests.plugins.dynamic_resources.stage import allocation, claim, device_class, devices_of
from tests.recorder.claim_changes import (
    PACKED,
    READY,
    SPREAD,
    Recording,
    Tree,
    devices_in,
    found,
    held_devices,
    node_of,
    played,
    users_of,
)


def two_small_ones_and_a_large_one(recording: Recording | None = None) -> Recording:
    """The recorded scheduler has spread two pods with a device each, and so had no node for one with two."""
    recording = recording or Recording()
    for name, device in (("a", "n0/gpu-0"), ("b", "n1/gpu-0")):
        recording.claim(name, owner=name)
        recording.pod(name, name)
        recording.claim(name, device, users=(name,), owner=name)
        recording.pod(name, name, node=device[:2])
    recording.claim("large", count=2)
    recording.pod("large", "large")
    recording.wait(3)
    return recording


def test_a_configuration_that_packs_devices_has_a_node_for_the_pod_that_another_one_has_none_for() -> None:
    recording = two_small_ones_and_a_large_one()
    spread, packed = played(recording), played(recording, load_bytes(PACKED, "other"))
    assert {node_of(spread, "a"), node_of(spread, "b")} == {"n0", "n1"}
    assert list(spread.end().pending) == ["default/large"]
    assert (node_of(packed, "a"), node_of(packed, "b"), node_of(packed, "large")) == ("n0", "n0", "n1")
    assert devices_in(packed, "large") == ["n1/gpu-0", "n1/gpu-1"]
    assert users_of(packed, "large") == ["large"]


def test_devices_of_claims_are_in_what_was_free_and_of_no_use() -> None:
    """A free device on each of two nodes is of no use to a pod that wants two of one node."""
    recording = two_small_ones_and_a_large_one()
    name = "deviceclass.resource.kubernetes.io/gpu"
    configs = SPREAD, load_bytes(PACKED, "other")
    looks = [played(recording, config).end().fragments[-1] for config in configs]
    (spread,) = (each for each in looks[0] if each.resource == name)
    assert (spread.allocatable, spread.free) == (4, 2)
    assert spread.fragmented > 0
    assert [each for each in looks[1] if each.resource == name] == [], "none is free"


def test_the_table_has_the_devices_of_a_class_as_shares_of_all_that_there_are() -> None:
    """Also of drivers none of whose devices is free."""
    recording = Recording()
    others = devices_of("n0", "x", driver="other.example.com")
    used = allocation("n0", "x")
    used["devices"]["results"][0]["driver"] = "other.example.com"
    users = {"reservedFor": [{"resource": "pods", "name": "old", "uid": "uid-of-old"}]}
    recording.put(RESOURCE_CLAIMS, claim("old", status=users, allocated=used))
    recording.pod("old", "old", node="n0", requests={})
    recording.put(RESOURCE_SLICES, replace(others, metadata=replace(others.metadata, name="others")))
    recording = two_small_ones_and_a_large_one(recording)
    recording.claim("larger", count=2)
    recording.pod("larger", "larger")
    recording.wait()
    measured = [played(recording, config).end() for config in (SPREAD, load_bytes(PACKED, "other"))]
    answer = comparison_answer(PolicyComparison(measured[0], measured[1], 0, 1), "here")
    lines = [" ".join(line.split()) for line in comparison_text(answer).splitlines()]
    assert lines[lines.index("of all, free at the end") + 1] == "devices of class gpu 40.0% none"
    (share,) = (each for name, each in answer.recorded.fragmented.items() if name.endswith("/gpu"))
    (free,) = (each for each in answer.recorded.fragments if each.device_class == "gpu" and each.free)
    assert share == pytest.approx(free.fragmented / 5)


def test_devices_come_back_with_the_end_of_their_pod_and_not_before() -> None:
    recording = Recording(nodes=1)
    for name in ("a", "b"):
        recording.claim(name, owner=name, count=2)
        recording.pod(name, name)
    recording.claim("a", "n0/gpu-0", "n0/gpu-1", users=("a",), owner="a", count=2)
    recording.wait(20)
    before = played(recording)
    assert (node_of(before, "a"), node_of(before, "b")) == ("n0", "")
    recording.remove(PODS, "a")
    recording.wait(20)
    after = played(recording)
    assert found(after, "a") is None, "it was made for the pod"
    assert node_of(after, "b") == "n0"
    assert devices_in(after, "b") == ["n0/gpu-0", "n0/gpu-1"]


def test_a_driver_s_report_does_not_bring_the_recorded_devices_back() -> None:
    recording = Recording()
    recording.claim("a")
    recording.pod("a", "a", nodeSelector={"no": "node"})
    recording.claim("a", "n0/gpu-0", users=("a",))
    recording.claim("a", "n0/gpu-0", users=("a",), devices=[READY])
    recording.wait()
    run = played(recording)
    assert (devices_in(run, "a"), users_of(run, "a")) == ([], [])
    assert list(held_devices(run)) == []


def test_pods_that_share_a_claim_follow_the_first_one_and_the_last_one_frees_it() -> None:
    recording = Recording()
    recording.claim("shared")
    recording.pod("first", "shared", nodeSelector={HOSTNAME: "n1"})
    recording.claim("shared", "n0/gpu-0", users=("first",))
    recording.pod("second", "shared")
    recording.claim("shared", "n0/gpu-0", users=("first", "second"))
    recording.wait(2)
    run = played(recording)
    assert (node_of(run, "first"), node_of(run, "second")) == ("n1", "n1")
    assert devices_in(run, "shared") == ["n1/gpu-0"]
    assert users_of(run, "shared") == ["first", "second"]
    recording.remove(PODS, "first")
    recording.claim("shared", "n0/gpu-0", users=("second",))
    assert users_of(played(recording), "shared") == ["second"]
    recording.remove(PODS, "second")
    ended = played(recording)
    assert (devices_in(ended, "shared"), users_of(ended, "shared")) == ([], [])
    recording.claim("shared")
    assert found(played(recording), "shared") is not None


def test_what_was_there_before_the_recording_and_what_others_decide_stays_as_recorded() -> None:
    recording = Recording(nodes=1)
    recording.claim("old", "n0/gpu-1", users=("old",))
    recording.pod("old", "old", node="n0")
    recording.pod("foreign", "foreign", schedulerName="other")
    recording.claim("foreign")
    recording.claim("foreign", "n0/gpu-0", users=("foreign",))
    recording.pod("foreign", "foreign", schedulerName="other", node="n0")
    recording.claim("own")
    recording.pod("own", "own")
    recording.wait(2)
    run = played(recording)
    assert (devices_in(run, "old"), devices_in(run, "foreign")) == (["n0/gpu-1"], ["n0/gpu-0"])
    assert node_of(run, "own") == ""
    recording.claim("foreign")  # it was not bound after all, and gives its devices back
    recording.wait(20)
    run = played(recording)
    assert (node_of(run, "own"), devices_in(run, "own")) == ("n0", ["n0/gpu-0"])


def test_what_was_chosen_for_a_pod_that_waits_when_the_recording_begins_is_chosen_anew() -> None:
    """Its claim was written, its Binding was not."""
    recording = Recording(nodes=1)
    recording.claim("a", "n0/gpu-1", users=("a",))
    recording.pod("a", "a")
    run = played(recording)
    assert (node_of(run, "a"), devices_in(run, "a"), users_of(run, "a")) == ("n0", ["n0/gpu-0"], ["a"])


def test_a_pod_that_is_evicted_here_gives_its_devices_back_for_good() -> None:
    recording = Recording(nodes=1)
    recording.claim("low", "n0/gpu-0", users=("low",), owner="low")
    recording.claim("shared", "n0/gpu-1", users=("low",))
    recording.pod("low", "low", "shared", node="n0", priority=0, requests={"cpu": "3"})
    recording.pod("high", priority=9, requests={"cpu": "3"})
    recording.wait(5)
    recording.claim("low", "n0/gpu-0", users=("low",), owner="low", devices=[READY])
    recording.claim("shared", "n0/gpu-1", users=("low",), metadata={"labels": {"of": "somebody"}})
    recording.claim("late", count=2)
    recording.pod("late", "late")
    recording.wait(5)
    run = played(recording)
    assert run.measured.evicted == [("default/low", "default/high")]
    assert (node_of(run, "high"), node_of(run, "late")) == ("n0", "n0")
    assert (found(run, "low"), users_of(run, "shared")) == (None, [])
    assert devices_in(run, "late") == ["n0/gpu-0", "n0/gpu-1"]


@pytest.mark.parametrize("scheduler", ["kscheduler", "other"])
def test_a_pod_that_only_the_recorded_scheduler_has_evicted_keeps_its_devices(scheduler: str) -> None:
    recording = Recording(nodes=1)
    recording.claim("own", "n0/gpu-0", users=("victim",), owner="victim")
    recording.claim("shared", "n0/gpu-1", users=("victim",))
    recording.pod("victim", "own", "shared", node="n0", schedulerName=scheduler)
    recording.remove(PODS, "victim")
    recording.claim("own", owner="victim", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    recording.remove(RESOURCE_CLAIMS, "own")
    recording.claim("shared")
    recording.remove(RESOURCE_CLAIMS, "shared")
    recording.claim("late")
    recording.pod("late", "late")
    recording.wait(2)
    run = played(recording, victims=frozenset({"uid-of-victim"}))
    assert (devices_in(run, "own"), users_of(run, "own")) == (["n0/gpu-0"], ["victim"])
    assert (devices_in(run, "shared"), users_of(run, "shared")) == (["n0/gpu-1"], ["victim"])
    assert list(run.end().pending) == ["default/late"]


def test_a_pod_that_waits_here_keeps_the_claim_that_the_recorded_victim_had() -> None:
    recording = Recording(nodes=1)
    recording.pod("blocker", node="n0", requests={"cpu": "4"})
    recording.claim("own", owner="victim")
    recording.pod("victim", "own")
    recording.claim("own", owner="victim", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    recording.remove(RESOURCE_CLAIMS, "own")
    recording.remove(PODS, "victim")
    recording.remove(PODS, "blocker")
    recording.wait(20)
    run = played(recording, victims=frozenset({"uid-of-victim"}))
    assert (node_of(run, "victim"), devices_in(run, "own")) == ("n0", ["n0/gpu-0"])


def test_an_unused_allocation_that_keeps_its_pod_from_every_node_is_freed() -> None:
    recording = Recording(nodes=2, devices=1)
    recording.claim("a", "n1/gpu-0")
    recording.claim("a", "n1/gpu-0", metadata={"labels": {"of": "somebody"}})
    assert devices_in(played(recording), "a") == ["n1/gpu-0"]
    recording.pod("blocker", requests={"cpu": "4"}, node="n1")
    recording.pod("a", "a")
    recording.wait(20)
    run = played(recording)
    assert (node_of(run, "a"), devices_in(run, "a")) == ("n0", ["n0/gpu-0"])


def test_a_name_that_a_new_claim_has_taken_over_is_that_claim_s() -> None:
    recording = Recording(nodes=1)
    recording.claim("a", owner="a")
    recording.pod("a", "a")
    recording.remove(PODS, "a")
    recording.claim("a", "n0/gpu-1", users=("a",), owner="a")
    recording.remove(RESOURCE_CLAIMS, "a")
    recording.claim("a", metadata={"uid": "another"})
    recording.pod("b", "a")
    run = played(recording)
    assert (devices_in(run, "a"), users_of(run, "a")) == (["n0/gpu-0"], ["b"])


def test_a_claim_of_a_name_that_came_again_in_a_gap_is_another_one() -> None:
    recording = Recording(nodes=1)
    recording.claim("a")
    recording.pod("before", "a")
    recording.claim("a", metadata={"uid": "another"})
    run = played(recording)
    assert (devices_in(run, "a"), users_of(run, "a")) == ([], [])


def test_a_claim_that_was_written_in_a_gap_for_a_pod_that_is_decided_here_has_no_devices() -> None:
    recording = Recording(nodes=1)
    recording.pod("a", "a", nodeSelector={"no": "node"})
    recording.claim("a", "n0/gpu-0", users=("a",))
    run = played(recording)
    assert (devices_in(run, "a"), users_of(run, "a")) == ([], [])


def test_a_claim_of_another_scheduler_s_pod_has_the_devices_that_were_recorded_last() -> None:
    recording = Recording(nodes=1)
    recording.pod("foreign", "foreign", schedulerName="other")
    for device in ("n0/gpu-0", "n0/gpu-1"):
        recording.claim("foreign", device, users=("foreign",))
    assert devices_in(played(recording), "foreign") == ["n0/gpu-1"]


def test_what_drivers_report_is_known_of_devices_that_this_run_has_chosen_too() -> None:
    recording = Recording(nodes=1)
    for name, device in (("same", "gpu-0"), ("else", "gpu-0")):
        recording.claim(name)
        recording.pod(name, name)
        recording.claim(name, f"n0/{device}", users=(name,), devices=[READY])
    run = played(recording)
    reports = {name: found(run, name).status.devices for name in ("same", "else")}  # type: ignore[union-attr]
    assert devices_in(run, "else") == ["n0/gpu-1"]
    assert (len(reports["same"]), len(reports["else"])) == (1, 0)


def test_what_the_recorded_scheduler_writes_is_no_event() -> None:
    recording = Recording(nodes=1)
    recording.claim("a")
    recording.pod("a", "a", nodeSelector={"no": "node"})
    recording.claim("a", "n0/gpu-0", users=("a",))
    run = played(recording)
    assert run.assembly.cache.devices.claims.changes == 1


RESOURCE: Final = "example.com/gpu"


def extended(name: str, *, node: str = "", claim_name: str = "") -> Pod:
    status: Tree = {}
    if claim_name:
        mapping = {"containerName": "main", "resourceName": RESOURCE, "requestName": "container-0-request-0"}
        status = {"extendedResourceClaimStatus": {"resourceClaimName": claim_name, "requestMappings": [mapping]}}
    return make_pod(name, node=node, status=status, requests={"cpu": "1", RESOURCE: "1"})


def with_extended_resources() -> Recording:
    """Of two nodes each has a device; the recorded scheduler gave pod `a` that of n1, pod `old` has it before."""
    recording = Recording(nodes=2, devices=1)
    recording.put(DEVICE_CLASSES, device_class(extendedResourceName=RESOURCE))
    marked = {"annotations": {EXTENDED_RESOURCE_CLAIM: "true"}}
    recording.claim("old-extended", "n0/gpu-0", users=("old",), owner="old", metadata=marked)
    recording.put(PODS, extended("old", node="n0", claim_name="old-extended"))
    recording.put(PODS, extended("a"))
    recording.claim("a-extended", "n1/gpu-0", users=("a",), owner="a", metadata=marked)
    recording.put(PODS, extended("a", claim_name="a-extended"))
    recording.put(PODS, extended("b"))
    recording.put(PODS, extended("old", node="n0", claim_name="old-extended"))
    recording.wait(2)
    return recording


def test_a_claim_for_extended_resources_is_this_run_s_own() -> None:
    config = default_configuration("kscheduler", parse_feature_gates("DRAExtendedResource=true", version="1.37"))
    recording = with_extended_resources()
    run = played(recording, config)
    assert found(run, "a-extended") is None
    assert sorted(held_devices(run)) == ["n0/gpu-0", "n1/gpu-0"]
    assert node_of(run, "a") == "n1"
    assert next(claim_keys(run.pod_of("default/old") or extended("old"))) == "default/old-extended"
    pod = run.pod_of("default/a")
    assert pod is not None
    assert pod.status.extended_resource_claim_status is not None
    own = pod.status.extended_resource_claim_status.resource_claim_name
    assert devices_in(run, own) == ["n1/gpu-0"]
    assert list(run.end().pending) == ["default/b"]
    recording.remove(PODS, "old")
    recording.remove(RESOURCE_CLAIMS, "old-extended")
    recording.remove(PODS, "a")
    recording.remove(RESOURCE_CLAIMS, "a-extended")
    recording.wait(20)
    after = played(recording, config)
    assert found(after, own) is None
    assert list(held_devices(after)) == [f"{node_of(after, 'b')}/gpu-0"]


def test_a_recorded_claim_for_extended_resources_of_a_pod_that_waits_is_left_out() -> None:
    config = default_configuration("kscheduler", parse_feature_gates("DRAExtendedResource=true", version="1.37"))
    recording = Recording(nodes=1, devices=1)
    recording.put(DEVICE_CLASSES, device_class(extendedResourceName=RESOURCE))
    marked = {"annotations": {EXTENDED_RESOURCE_CLAIM: "true"}}
    recording.claim("a-extended", "n0/gpu-0", users=("a",), owner="a", metadata=marked)
    recording.put(PODS, extended("a", claim_name="a-extended"))
    run = played(recording, config)
    assert node_of(run, "a") == "n0"
    assert found(run, "a-extended") is None
    assert run.measured.decisions == 1


@pytest.mark.parametrize("owner", ["web-0", ""], ids=["its own", "shared"])
def test_a_pod_that_takes_the_place_of_a_recorded_victim_frees_what_that_one_held(owner: str) -> None:
    """A StatefulSet's pod comes again under its name, while the victim is still here."""
    recording = Recording(nodes=1, devices=1)
    recording.claim("old", "n0/gpu-0", users=("web-0",), owner=owner)
    recording.pod("web-0", "old", node="n0")
    recording.remove(PODS, "web-0")
    recording.remove(RESOURCE_CLAIMS, "old")
    recording.claim("new")
    assert devices_in(played(recording, victims=frozenset({"uid-of-web-0"})), "old") == ["n0/gpu-0"]
    recording.pod("web-0", "new", uid="again")
    recording.wait(2)
    run = played(recording, victims=frozenset({"uid-of-web-0"}))
    assert (found(run, "old"), devices_in(run, "new")) == (None, ["n0/gpu-0"])
