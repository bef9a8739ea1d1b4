"""What is attached follows every object that stands behind it; what is assumed holds until something newer comes."""

from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kscheduler.state.assume_cache import AssumeCache
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod

DRIVER, EBS = "csi.one", "ebs.csi.aws.com"


def volume(name: str = "pv", *, version: str = "1", **source: Any) -> PersistentVolume:
    spec = source or {"csi": {"driver": DRIVER, "volumeHandle": name}}
    return convert({"metadata": {"name": name, "resourceVersion": version}, "spec": spec}, PersistentVolume)


def claim(volume_name: str = "pv") -> PersistentVolumeClaim:
    spec = {"volumeName": volume_name, "storageClassName": "fast"}
    return convert({"metadata": {"name": "data", "namespace": "default"}, "spec": spec}, PersistentVolumeClaim)


def storage_class(provisioner: str) -> StorageClass:
    return convert({"metadata": {"name": "fast"}, "provisioner": provisioner}, StorageClass)


def csi_node(count: int | None, plugins: str = "") -> CSINode:
    notes = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    drivers = [{"name": name, "allocatable": {"count": count}} for name in (DRIVER, EBS)]
    return convert({"metadata": {"name": "node", "annotations": notes}, "spec": {"drivers": drivers}}, CSINode)


def attachment(volume_name: str) -> VolumeAttachment:
    spec = {"attacher": DRIVER, "nodeName": "node", "source": {"persistentVolumeName": volume_name}}
    return convert({"metadata": {"name": "a"}, "spec": spec}, VolumeAttachment)


def user(uid: str = "user") -> Any:
    return make_pod(uid, node="node", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])


def cache_with(*objects: KubeObject) -> Cache:
    cache = Cache()
    cache.add_node(make_node("node"))
    cache.add_pod(user())
    for one in objects:
        cache.volumes.put(one)
    return cache


def attached(cache: Cache, driver: str = DRIVER) -> int:
    return int(cache.volumes.attached(driver)[cache.nodes.row_of("node")])


IN_TREE: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "aws://a/vol-1"}}

CHANGES: dict[str, tuple[list[KubeObject], Callable[[Cache], object], str, int, int]] = {
    "the claim appears": ([volume()], lambda it: it.volumes.put(claim()), DRIVER, 0, 1),
    "the claim goes": ([volume(), claim()], lambda it: it.volumes.remove(claim()), DRIVER, 1, 0),
    "the volume appears": ([claim()], lambda it: it.volumes.put(volume()), DRIVER, 0, 1),
    "the volume goes": ([volume(), claim()], lambda it: it.volumes.remove(volume()), DRIVER, 1, 0),
    "the class appears": ([claim("")], lambda it: it.volumes.put(storage_class(DRIVER)), DRIVER, 0, 1),
    "the pod goes": ([volume(), claim()], lambda it: it.remove_pod("uid-of-user"), DRIVER, 1, 0),
    "a pod shares the volume": ([volume(), claim()], lambda it: it.add_pod(user("other")), DRIVER, 1, 1),
    "something else is attached": (
        [volume(), claim(), volume("other")],
        lambda it: it.volumes.put(attachment("other")),
        DRIVER,
        1,
        2,
    ),
    "the same is attached": ([volume(), claim()], lambda it: it.volumes.put(attachment("pv")), DRIVER, 1, 1),
    "an attachment ends": (
        [volume(), claim(), volume("other"), attachment("other")],
        lambda it: it.volumes.remove(attachment("other")),
        DRIVER,
        2,
        1,
    ),
    "an attached volume is heard of late": (
        [attachment("other")],
        lambda it: it.volumes.put(volume("other")),
        DRIVER,
        0,
        1,
    ),
    "the plugin is migrated": (
        [volume(**IN_TREE), claim(), csi_node(1)],
        lambda it: it.volumes.put(csi_node(1, "kubernetes.io/aws-ebs")),
        EBS,
        0,
        1,
    ),
}


@pytest.mark.parametrize(("objects", "change", "driver", "before", "after"), CHANGES.values(), ids=CHANGES)
def test_what_is_attached_follows(
    objects: list[KubeObject], change: Callable[[Cache], object], driver: str, before: int, after: int
) -> None:
    cache = cache_with(*objects)
    assert attached(cache, driver) == before
    change(cache)
    assert attached(cache, driver) == after


def test_a_node_that_comes_after_its_pods_shows_what_they_use_and_its_limit() -> None:
    cache = Cache()
    cache.add_pod(user())
    for one in (volume(), claim(), csi_node(7)):
        cache.volumes.put(one)
    assert cache.volumes.attached(DRIVER).sum() == 0
    cache.add_node(make_node("node"))
    row = cache.nodes.row_of("node")
    assert (cache.volumes.attached(DRIVER)[row], cache.volumes.attach_limits(DRIVER)[row]) == (1, 7)
    cache.remove_node("node")
    cache.add_node(make_node("other"))
    assert cache.nodes.row_of("other") == row, "the row is used again"
    assert (cache.volumes.attached(DRIVER)[row], cache.volumes.attach_limits(DRIVER)[row]) == (0, -1)


def test_an_assumption_holds_until_a_newer_version_comes() -> None:
    cache: AssumeCache[PersistentVolume] = AssumeCache()
    first, assumed, second = volume(version="1"), volume(version="1"), volume(version="2")
    cache.put(first)
    cache.assume(assumed)
    assert cache.get("pv") is assumed
    assert cache.confirmed("pv") is first
    cache.put(first)
    assert cache.get("pv") is assumed, "a relist brings nothing new"
    cache.put(second)
    assert cache.get("pv") is second


def test_an_assumption_can_be_taken_back_but_not_somebody_elses() -> None:
    cache: AssumeCache[PersistentVolume] = AssumeCache()
    first, assumed = volume(version="1"), volume(version="1")
    cache.put(first)
    cache.assume(assumed)
    cache.restore(volume(version="2"))
    assert cache.get("pv") is assumed
    cache.restore(assumed)
    assert cache.get("pv") is first


def test_what_is_gone_or_older_cannot_be_assumed() -> None:
    cache: AssumeCache[PersistentVolume] = AssumeCache()
    with pytest.raises(ValueError, match="is gone"):
        cache.assume(volume())
    cache.put(volume(version="2"))
    with pytest.raises(ValueError, match="out of sync"):
        cache.assume(volume(version="1"))
    cache.remove("pv")
    assert cache.get("pv") is None
