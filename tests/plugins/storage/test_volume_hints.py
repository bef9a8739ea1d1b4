"""Which changes of storage let a parked pod try again."""

from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.meta import KubeObject
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kscheduler.framework.events import ActionType, ClusterEvent, QueueingHint, Resource
from kscheduler.plugins.in_tree import registry
from tests.plugins.made import HANDLE, info, pod

CLAIMED = info(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
ADD, UPDATE, DELETE = ActionType.ADD, ActionType.UPDATE, ActionType.DELETE
CLAIM, VOLUME, CLASS = Resource.PERSISTENT_VOLUME_CLAIM, Resource.PERSISTENT_VOLUME, Resource.STORAGE_CLASS
CSI_NODE, CAPACITY = Resource.CSI_NODE, Resource.CSI_STORAGE_CAPACITY


def claim(name: str, namespace: str = "default") -> KubeObject:
    return convert({"metadata": {"name": name, "namespace": namespace}}, PersistentVolumeClaim)


def volume(zone: str) -> KubeObject:
    return convert({"metadata": {"name": "pv", "labels": {"topology.kubernetes.io/zone": zone}}}, PersistentVolume)


def storage_class(mode: str, *zones: str) -> KubeObject:
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}]
    return convert({"metadata": {"name": "c"}, "volumeBindingMode": mode, "allowedTopologies": terms}, StorageClass)


def csi_node(count: int, plugins: str = "") -> KubeObject:
    meta = {"name": "n", "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": plugins}}
    return convert({"metadata": meta, "spec": {"drivers": [{"name": "d", "allocatable": {"count": count}}]}}, CSINode)


def capacity(size: str | None, most: str | None = None) -> KubeObject:
    return convert({"metadata": {"name": "s"}, "capacity": size, "maximumVolumeSize": most}, CSIStorageCapacity)


def driver(*, reports: bool) -> KubeObject:
    return convert({"metadata": {"name": "d"}, "spec": {"storageCapacity": reports}}, CSIDriver)


def attachment() -> KubeObject:
    return convert({"metadata": {"name": "a"}, "spec": {"attacher": "ebs.csi.aws.com"}}, VolumeAttachment)


WAITS = "WaitForFirstConsumer"
THEIRS = pod("gone", nodeName="n", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
PLAIN = pod("gone", nodeName="n")

Case = tuple[str, Resource, ActionType, KubeObject | None, KubeObject | None, bool]
CASES: dict[str, Case] = {
    "binding, its claim": ("VolumeBinding", CLAIM, UPDATE, claim("data"), claim("data"), True),
    "binding, another claim": ("VolumeBinding", CLAIM, ADD, None, claim("other"), False),
    "binding, another namespace": ("VolumeBinding", CLAIM, ADD, None, claim("data", "other"), False),
    "binding, any volume": ("VolumeBinding", VOLUME, ADD, None, volume("a"), True),
    "binding, a class": ("VolumeBinding", CLASS, ADD, None, storage_class("Immediate"), True),
    "binding, topologies": ("VolumeBinding", CLASS, UPDATE, storage_class(WAITS), storage_class(WAITS, "a"), True),
    "binding, same class": ("VolumeBinding", CLASS, UPDATE, storage_class(WAITS), storage_class(WAITS), False),
    "binding, migrated": ("VolumeBinding", CSI_NODE, UPDATE, csi_node(1), csi_node(1, "x"), True),
    "binding, limit only": ("VolumeBinding", CSI_NODE, UPDATE, csi_node(1), csi_node(2), False),
    "binding, more room": ("VolumeBinding", CAPACITY, UPDATE, capacity("1Gi"), capacity("2Gi"), True),
    "binding, room known": ("VolumeBinding", CAPACITY, UPDATE, capacity(None), capacity("1Gi"), True),
    "binding, less room": ("VolumeBinding", CAPACITY, UPDATE, capacity("2Gi"), capacity("9Gi", "1Gi"), False),
    "binding, a driver falls silent": (
        *("VolumeBinding", Resource.CSI_DRIVER, UPDATE, driver(reports=True), driver(reports=False), True),
    ),
    "binding, a driver begins to tell": (
        *("VolumeBinding", Resource.CSI_DRIVER, UPDATE, driver(reports=False), driver(reports=True), False),
    ),
    "binding, a silent driver goes": ("VolumeBinding", Resource.CSI_DRIVER, DELETE, driver(reports=False), None, False),
    "binding, a pod with claims goes": ("VolumeBinding", Resource.ASSIGNED_POD, DELETE, THEIRS, None, True),
    "binding, a pod without claims goes": ("VolumeBinding", Resource.ASSIGNED_POD, DELETE, PLAIN, None, False),
    "zone, other zone": ("VolumeZone", VOLUME, UPDATE, volume("a"), volume("b"), True),
    "zone, same zone": ("VolumeZone", VOLUME, UPDATE, volume("a"), volume("a"), False),
    "zone, waiting class": ("VolumeZone", CLASS, ADD, None, storage_class(WAITS), True),
    "zone, immediate class": ("VolumeZone", CLASS, ADD, None, storage_class("Immediate"), False),
    "zone, its claim": ("VolumeZone", CLAIM, ADD, None, claim("data"), True),
    "limits, higher": ("NodeVolumeLimits", CSI_NODE, UPDATE, csi_node(1), csi_node(2), True),
    "limits, lower": ("NodeVolumeLimits", CSI_NODE, UPDATE, csi_node(2), csi_node(1), False),
    "limits, a user of its claim comes": ("NodeVolumeLimits", Resource.ASSIGNED_POD, ADD, None, THEIRS, True),
    "limits, a plain pod comes": ("NodeVolumeLimits", Resource.ASSIGNED_POD, ADD, None, PLAIN, False),
    "limits, a user goes": ("NodeVolumeLimits", Resource.ASSIGNED_POD, DELETE, THEIRS, None, True),
    "limits, a plain pod goes": ("NodeVolumeLimits", Resource.ASSIGNED_POD, DELETE, PLAIN, None, False),
    "limits, detached": ("NodeVolumeLimits", Resource.VOLUME_ATTACHMENT, DELETE, attachment(), None, True),
    "limits, its claim": ("NodeVolumeLimits", CLAIM, ADD, None, claim("data"), True),
    "restrictions, same claim": ("VolumeRestrictions", Resource.ASSIGNED_POD, DELETE, THEIRS, None, True),
    "restrictions, plain pod": ("VolumeRestrictions", Resource.ASSIGNED_POD, DELETE, PLAIN, None, False),
    "restrictions, its claim": ("VolumeRestrictions", CLAIM, ADD, None, claim("data"), True),
    "restrictions, another": ("VolumeRestrictions", CLAIM, ADD, None, claim("other"), False),
}


@pytest.mark.parametrize(("name", "resource", "action", "old", "new", "expected"), CASES.values(), ids=CASES)
def test_a_change_helps_or_not(
    name: str, resource: Resource, action: ActionType, old: KubeObject | None, new: KubeObject | None, expected: bool
) -> None:
    plugin: Any = registry().build(name, None, HANDLE)
    event = ClusterEvent(resource, action)
    registered = [one for one in plugin.events_to_register() if one.event.matches(event)]
    assert registered
    says = (one.hint is None or one.hint(CLAIMED, old, new) is QueueingHint.QUEUE for one in registered)
    assert any(says) is expected


@pytest.mark.parametrize(("old", "new"), [("1500m", "2"), ("10E", "20E")], ids=["below a byte", "beyond int64"])
def test_from_1_38_capacities_are_compared_as_they_are(old: str, new: str) -> None:
    """(1.38: D9) Before, both were rounded up to bytes, and ended at 2^63 - 1."""
    for version in ("1.37", "1.38"):
        plugin: Any = registry().build("VolumeBinding", None, replace(HANDLE, behaviours=BEHAVIOURS[version]))
        event = ClusterEvent(CAPACITY, UPDATE)
        (registered,) = (one for one in plugin.events_to_register() if one.event.matches(event))
        hint = registered.hint(CLAIMED, capacity(old), capacity(new))
        assert hint is (QueueingHint.QUEUE if version == "1.38" else QueueingHint.SKIP)
        assert registered.hint(CLAIMED, capacity(new), capacity(old)) is QueueingHint.SKIP
