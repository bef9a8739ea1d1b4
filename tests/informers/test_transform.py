"""What is taken off objects before they are stored, and what they share; nothing that a scheduler reads is changed."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod, Volume
from kscheduler.api.devices import ResourceClaim, ResourceSlice
from kscheduler.api.kinds import NODES, PODS
from kscheduler.api.meta import Condition
from kscheduler.api.well_known import LAST_APPLIED
from kscheduler.api.workloads import Service
from kscheduler.client.watch import WatchEvent
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.informers import Informer, transform
from kscheduler.informers.shared import Shared, SharedText
from kscheduler.informers.transform import (
    LARGEST_ANNOTATION,
    AnnotatedPodTransform,
    NodeTransform,
    PodTransform,
    default_transform,
)
from tests.builders import Tree, make_node, make_pod, pod_tree

SOURCES: dict[str, Tree] = {
    "awsElasticBlockStore": {"volumeID": "v"},
    "azureDisk": {"diskURI": "d"},
    "cinder": {"volumeID": "v"},
    "csi": {"driver": "d"},
    "ephemeral": {},
    "gcePersistentDisk": {"pdName": "p"},
    "image": {"reference": "r"},
    "iscsi": {"iqn": "i"},
    "persistentVolumeClaim": {"claimName": "c"},
    "portworxVolume": {"volumeID": "v"},
    "projected": {"sources": [{"podCertificate": {"keyType": "MLDSA44"}}]},
    "rbd": {"image": "i"},
}
REQUESTS = {"cpu": "250m", "memory": "1Gi"}


def rich_pod(name: str = "web", **spec: Any) -> Pod:
    """A pod on a node with something in every part that is shared; decoded again each time."""
    container = {"name": "main", "image": "app", "resources": {"requests": REQUESTS}, "ports": [{"hostPort": 80}]}
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}
    allocated = {"name": "main", "allocatedResources": REQUESTS, "resources": {"requests": REQUESTS}}
    parts: Tree = {
        "metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "uid-web"}]},
        "containers": [container],
        "initContainers": [{**container, "name": "first"}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [constraint],
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "wait"}],
            "containerStatuses": [allocated],
        },
    }
    return make_pod(name, **{"node": "node-1", "labels": {"app": "web"}, **parts, **spec})


def transformed(pod: Pod) -> Pod:
    default_transform("pods")(pod)
    return pod


def test_a_pod_without_luggage_stays_equal() -> None:
    assert transformed(rich_pod()) == rich_pod()


def with_times(name: str, at: str) -> Pod:
    condition = {"status": "True", "lastTransitionTime": at}
    status = {
        "startTime": at,
        "conditions": [{**condition, "type": "PodScheduled"}, {**condition, "type": "Ready", "message": "at last"}],
    }
    return make_pod(name, metadata={"creationTimestamp": at}, status=status)


def test_conditions_that_the_scheduler_does_not_write_lose_their_times_and_become_one_value() -> None:
    share = default_transform("pods")
    early, late = with_times("early", "2026-11-20T12:00:00Z"), with_times("late", "2026-11-21T12:00:00Z")
    share(early)
    share(late)
    scheduled, ready = late.status.conditions
    assert ready is early.status.conditions[1]
    assert (ready.type, ready.status, ready.message, ready.last_transition_time) == ("Ready", "True", "at last", None)
    assert (scheduled.type, scheduled.last_transition_time) == ("PodScheduled", "2026-11-21T12:00:00Z")


def test_equal_times_are_one_text() -> None:
    first, second = (transformed(with_times(name, "2026-11-20T12:00:00Z")) for name in ("a", "b"))
    assert first.status.start_time is first.metadata.creation_timestamp is second.metadata.creation_timestamp
    assert first.status.conditions[0].last_transition_time is first.metadata.creation_timestamp


def test_conditions_with_ever_new_messages_are_not_all_remembered() -> None:
    share = PodTransform()
    for number in range(5000):
        share(make_pod("web", status={"conditions": [{"type": "Ready", "message": f"try {number}"}]}))
    assert len(share._conditions) <= 4096


def test_empty_parts_of_pods_are_one_value() -> None:
    first, second = transformed(make_pod("a")), transformed(make_pod("b"))
    assert first.spec.overhead is second.spec.overhead
    assert first.spec.node_selector is second.spec.node_selector
    assert first.metadata.annotations is second.metadata.annotations
    assert (first.spec.overhead, first.metadata.annotations) == ({}, {})


def test_a_second_time_changes_nothing() -> None:
    pod = rich_pod(volumes=[{"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "token"}])
    once = msgspec.json.encode(transformed(pod))
    assert msgspec.json.encode(transformed(pod)) == once


def test_what_two_pods_have_in_common_is_one_value() -> None:
    share = default_transform("pods")
    first, second = rich_pod("web-1"), rich_pod("web-2")
    share(first)
    share(second)
    for part in ("containers", "init_containers", "tolerations", "affinity", "topology_spread_constraints"):
        assert getattr(first.spec, part) is getattr(second.spec, part), part
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.status.container_statuses is second.status.container_statuses
    assert first.spec.node_name is second.spec.node_name


def placed(pod: Pod) -> None:
    pod.spec = msgspec.structs.replace(pod.spec, node_name="node-2")


def labelled(pod: Pod) -> None:
    pod.metadata.labels = {"app": "other"}


def owned(pod: Pod) -> None:
    pod.metadata.owner_references = ()


def annotated(pod: Pod) -> None:
    pod.metadata.annotations = {"note": "kept", LAST_APPLIED: "{}"}


def tolerant(pod: Pod) -> None:
    pod.spec = msgspec.structs.replace(pod.spec, tolerations=())


def ready(pod: Pod) -> None:
    conditions = (Condition(type="Ready", status="True"),)
    pod.status = msgspec.structs.replace(pod.status, conditions=conditions, container_statuses=())


CHANGES = (placed, labelled, owned, annotated, tolerant, ready)


@pytest.mark.parametrize("was_placed", [True, False], ids=["on a node", "pending"])
@pytest.mark.parametrize("change", [*CHANGES, None], ids=lambda change: change.__name__ if change else "none")
@pytest.mark.parametrize("scheduler", ["annotated", "plain"])
def test_a_newer_version_is_as_if_it_stood_alone_and_shares_what_has_not_changed(
    change: Callable[[Pod], None] | None, was_placed: bool, scheduler: str
) -> None:
    transform = AnnotatedPodTransform() if scheduler == "annotated" else PodTransform()
    node = "node-1" if was_placed else ""
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    old, new, alone = (rich_pod(node=node, volumes=[token]) for _ in range(3))
    if change is not None:
        change(new)
        change(alone)
    transform(old)
    transform.renew(old, new)
    transform(alone)
    assert new == alone
    assert new.metadata.labels is alone.metadata.labels
    for part in ("containers", "init_containers", "tolerations", "affinity", "topology_spread_constraints"):
        assert getattr(new.spec, part) is getattr(alone.spec, part), part
    if change not in (placed, tolerant):
        assert new.spec is old.spec
    if change is not ready:
        assert new.status.container_statuses is old.status.container_statuses
        assert new.status.conditions is old.status.conditions


def test_a_newer_version_of_a_node_likewise() -> None:
    def node(version: str, cpu: str, **labels: str) -> Node:
        images = [{"names": [f"image-{number}:v1"], "sizeBytes": 5} for number in range(3)]
        status = {"allocatable": {"cpu": cpu}, "capacity": {"cpu": "4"}, "images": images}
        status["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": version}]
        annotations = {LAST_APPLIED: "{}"}
        metadata = {"name": "a", "uid": "u", "resourceVersion": version, "labels": labels, "annotations": annotations}
        return convert({"metadata": metadata, "status": status}, Node)

    share = NodeTransform()
    old = node("1", "4", zone="z")
    share(old)
    for changed in (node("2", "4", zone="z"), node("3", "3", zone="z"), node("4", "4", zone="y")):
        alone = msgspec.structs.replace(changed, metadata=msgspec.structs.replace(changed.metadata, annotations={}))
        share.renew(old, changed)
        assert changed == alone
        assert changed.status.capacity is old.status.capacity
        assert all(one is other for one, other in zip(changed.status.images, old.status.images, strict=True))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"requests": {"cpu": "251m", "memory": "1Gi"}}, id="requests"),
        pytest.param({"requests": {"cpu": "250m"}}, id="fewer requests"),
        pytest.param({"requests": REQUESTS, "status": {"containerStatuses": [{"name": "main"}]}}, id="status"),
        pytest.param({"requests": REQUESTS, "tolerations": [{"key": "k"}]}, id="tolerations"),
    ],
)
def test_pods_that_differ_share_nothing_of_it(other: Tree) -> None:
    share = default_transform("pods")
    first, second = make_pod("a", requests=REQUESTS), make_pod("b", **other)
    share(first)
    share(second)
    assert second == make_pod("b", **other)
    assert first == make_pod("a", requests=REQUESTS)


def test_every_volume_that_was_decoded_has_a_case() -> None:
    fields = {field.name: field.encode_name for field in msgspec.structs.fields(Volume)}
    assert set(SOURCES) == {name for field, name in fields.items() if field != "name"}


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_a_volume_that_may_constrain_placement_is_kept(source: str) -> None:
    volume = {"name": "data", source: SOURCES[source]}
    assert transformed(make_pod(volumes=[volume])) == make_pod(volumes=[volume])


def test_pods_of_one_template_have_equal_specs_although_each_has_a_token_of_its_own() -> None:
    def with_token(number: int) -> Pod:
        token = {
            "name": f"kube-api-access-{number}",
            "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
        }
        return transformed(make_pod(f"web-{number}", volumes=[token]))

    assert with_token(1).spec == with_token(2).spec
    assert with_token(1).spec.volumes == ()


def test_large_annotations_and_kubectls_copy_are_dropped() -> None:
    annotations = {LAST_APPLIED: "{}", "file": "x" * (LARGEST_ANNOTATION + 1), "note": "kept"}
    assert transformed(make_pod(metadata={"annotations": annotations})).metadata.annotations == {"note": "kept"}


def test_nodes_share_images_and_sizes_and_stay_equal() -> None:
    def node(name: str) -> Node:
        images = [{"names": [f"image-{number}:v1"], "sizeBytes": 5} for number in range(3)]
        sizes = {"cpu": "4", "memory": "8Gi"}
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"allocatable": sizes, "capacity": sizes, "images": images, "conditions": conditions}
        return convert({"metadata": {"name": name}, "status": status}, Node)

    share = default_transform("nodes")
    first, second = node("a"), node("b")
    share(first)
    share(second)
    assert (first, second) == (node("a"), node("b"))
    assert all(one is other for one, other in zip(first.status.images, second.status.images, strict=True))
    assert first.status.allocatable is second.status.capacity


def test_a_full_memory_begins_anew_and_still_hands_out_equal_values() -> None:
    shared: Shared[tuple[str, ...]] = Shared(most=2)
    for number in (*range(5), *range(5)):
        value = (f"value-{number}",)
        assert shared.of(value) == value
        assert len(shared) <= 2


def test_what_nobody_holds_any_more_is_forgotten_and_what_somebody_holds_stays_one_value() -> None:
    shared: Shared[tuple[str, ...]] = Shared()
    held = [shared.of((f"held-{number}",)) for number in range(700)]
    for number in range(5000):
        shared.of((f"passing-{number}",))
        assert len(shared) <= 2 * 700 + 1
    assert all(shared.of((f"held-{number}",)) is one for number, one in enumerate(held))
    del held
    for number in range(5000):
        shared.of((f"passing-{number}",))
    assert len(shared) <= 512


def test_strings_likewise() -> None:
    texts = SharedText()
    held = [texts.of("".join(("held-", str(number)))) for number in range(700)]
    for number in range(5000):
        texts.of("".join(("passing-", str(number))))
        assert len(texts) <= 2 * 700 + 1
    assert all(texts.of("".join(("held-", str(number)))) is one for number, one in enumerate(held))
    full = SharedText(most=2)
    kept = [full.of("".join(("value-", str(number % 3)))) for number in range(9)]
    assert kept == [f"value-{number % 3}" for number in range(9)]
    assert len(full) <= 2


def test_labels_of_pods_that_are_gone_do_not_stay() -> None:
    transform = PodTransform()
    for number in range(3000):
        pod = rich_pod(f"web-{number}", labels={"run": f"run-{number}"})
        transform(pod)
    assert len(transform._labels) <= 512


async def test_objects_are_transformed_once_on_each_way_into_the_store() -> None:
    seen: list[str] = []
    informer: Informer[Pod] = Informer(PODS, transform=lambda pod: seen.append(pod.metadata.name))
    listed = make_pod("listed")
    informer.prepared(listed)
    await informer.replace([listed], [])
    informer.apply(WatchEvent("ADDED", make_pod("watched")))
    assert seen == ["listed", "watched"]


def test_values_that_nobody_can_report_apart_are_not_confused_between_kinds() -> None:
    """`{}` is what a default of any type is written as."""
    share = default_transform("pods")
    pod = convert({**pod_tree(), "spec": {"containers": [{}], "tolerations": [{}]}}, Pod)
    share(pod)
    assert pod == convert({**pod_tree(), "spec": {"containers": [{}], "tolerations": [{}]}}, Pod)
    assert PodInfo(pod).tolerations == pod.spec.tolerations


def test_a_node_with_nothing_to_share_is_left_alone() -> None:
    node = make_node("bare")
    default_transform(NODES.plural)(node)
    assert node == make_node("bare")


def published(number: int) -> ResourceSlice:
    """Two devices of a node, as a driver publishes them; decoded again each time."""
    attributes = {"model": {"string": "H100"}, "uuid": {"string": f"GPU-{number}"}}
    device = {"attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}
    spec = {"driver": "gpu.example.com", "devices": [device | {"name": "gpu-0"}, device | {"name": "gpu-1"}]}
    return convert({"metadata": {"name": f"slice-{number}"}, "spec": spec}, ResourceSlice)


def claimed(number: int) -> ResourceClaim:
    """An allocated claim of a template."""
    opaque = {"driver": "gpu.example.com", "parameters": {"sharing": {"strategy": "TimeSlicing", "none": None}}}
    config = {"requests": ["gpu"], "opaque": opaque}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": f"gpu-{number}"}
    fields = [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]
    allocation = {
        "devices": {"results": [result], "config": [config | {"source": "FromClaim"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}], "config": [config]}}
    tree = {"metadata": {"name": f"claim-{number}"}, "spec": spec, "status": {"allocation": allocation}}
    return convert(tree, ResourceClaim)


def test_slices_share_all_but_what_reports_devices_apart() -> None:
    share = default_transform("resourceslices.resource.k8s.io")
    first, second = published(0), published(1)
    for each in (first, second):
        share(each)
    assert [first, second] == [published(0), published(1)]
    devices = [*first.spec.devices, *second.spec.devices]
    assert len({id(device.attributes["model"]) for device in devices}) == 1
    assert len({id(device.capacity["memory"]) for device in devices}) == 1
    assert len({id(device.attributes["uuid"]) for device in devices}) == 2


def test_slices_whose_devices_are_equal_share_them_as_a_whole() -> None:
    share = default_transform("resourceslices.resource.k8s.io")
    first, second, other = published(0), published(0), published(1)
    for each in (first, second, other, first):
        share(each)
    assert [first, second, other] == [published(0), published(0), published(1)]
    assert first.spec.devices is second.spec.devices
    assert first.spec.devices is not other.spec.devices


def test_devices_that_are_too_many_to_be_shared_as_a_whole_share_their_parts() -> None:
    share = default_transform("resourceslices.resource.k8s.io")
    first, second = published(0), published(1)
    for each in (first, second):
        many = tuple(each.spec.devices[:1] * 500)
        each.spec = msgspec.structs.replace(each.spec, devices=many)
        share(each)
    assert first.spec.devices[0].attributes["model"] is second.spec.devices[0].attributes["model"]


def test_claims_of_a_template_share_their_spec_and_what_their_allocations_have_in_common() -> None:
    share = default_transform("resourceclaims.resource.k8s.io")
    first, second = claimed(0), claimed(1)
    for each in (first, second):
        share(each)
    assert [first, second] == [claimed(0), claimed(1)]
    assert first.spec is second.spec
    one, other = first.status.allocation, second.status.allocation
    assert one is not None
    assert other is not None
    assert one.devices.config is other.devices.config
    assert one.node_selector is other.node_selector
    free = convert({"metadata": {"name": "free"}}, ResourceClaim)
    share(free)
    assert free.status.allocation is None


@pytest.mark.parametrize("resource", ["pods", "nodes", "services", "resourceclaims.resource.k8s.io"])
def test_thousands_of_labels_of_one_object_are_not_shared(resource: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would push out the labels of all others, and be swept again and again on their way in."""
    shared = SharedText()
    monkeypatch.setattr(transform, "_same_text", shared.of)
    labels = {f"key-{number}": f"value-{number}" for number in range(2000)}
    kinds: dict[str, Any] = {"pods": Pod, "nodes": Node, "resourceclaims.resource.k8s.io": ResourceClaim}
    obj = convert({"metadata": {"name": "x", "labels": labels}}, kinds.get(resource, Service))
    default_transform(resource)(obj)
    assert obj.metadata.labels == labels
    assert len(shared) < 10


def test_values_that_nobody_holds_take_a_quarter_of_a_megabyte_at_most_short_or_long() -> None:
    shared, texts = Shared[tuple[str, ...]](), SharedText()
    for number in range(500):
        shared.of((f"{number:05}" * 600,))
        texts.of(f"{number:05}" * 200)
    assert sum(map(len, shared._first)) <= 2**18
    assert sum(map(len, texts)) <= 2**18


def test_a_large_table_is_swept_after_a_megabyte_too() -> None:
    shared = Shared[tuple[str, ...]]()
    held = [shared.of((f"{number:05}" * 600,)) for number in range(4000)]
    del held
    for number in range(400):
        shared.of((f"later-{number:05}" * 300,))
    assert sum(map(len, shared._first)) < 2**21
