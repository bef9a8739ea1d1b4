"""A driver of hollow GPUs: publishes each node's devices as slices, as a driver's plugin on the node does.

A node has `--gpus` devices, or as many as its annotation `simulation.kscheduler.io/gpus` says. Its slices form a pool
named as the node; whenever the devices change, also by somebody else, all slices of the pool get the next generation.
The node owns them, so they go with it. Preparing claims is the hollow kubelet's part (`hollow.prepared_claims`).
"""

import uuid
import zlib
from collections.abc import Iterator, Mapping

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import DEVICE_CLASSES, NODES, POD_GROUPS, PODS, RESOURCE_SLICES, ServedResource
from kscheduler.api.names import LONGEST_NAME
from kscheduler.embedded.controllers.engine.plan import Concerned, Create, Delete, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import (
    controller_of,
    is_finished,
    is_terminating,
    itself,
    node_of,
    reference_to,
)
from kscheduler.embedded.objects.store import Change, Key

# The driver's name, and that of the class of its devices.
DRIVER = "gpu.example.com"
# Annotation of a node: how many devices it has, in place of `--gpus`.
GPUS = "simulation.kscheduler.io/gpus"

# Devices per slice: as many as one may have even with taints.
_IN_A_SLICE = 64
_SOCKETS = 2
_LARGE, _SMALL = ("hollow-80", "80Gi"), ("hollow-40", "40Gi")
_EVERY_THIRD = 3


def device_class() -> Object:
    """The class of all devices of the driver."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    metadata = {"name": DRIVER}
    version = DEVICE_CLASSES.group_version
    return {"apiVersion": version, "kind": "DeviceClass", "metadata": metadata, "spec": {"selectors": [selector]}}


def devices(node: str, count: int) -> list[Object]:
    """The devices of a node: on every third node with 80 GiB of memory, on others with 40, on two NUMA nodes."""
    model, memory = _SMALL if zlib.crc32(node.encode()) % _EVERY_THIRD else _LARGE
    return [_device(node, number, count, model, memory) for number in range(count)]


def _device(node: str, number: int, count: int, model: str, memory: str) -> Object:
    attributes = {
        "model": {"string": model},
        "index": {"int": number},
        "uuid": {"string": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{number}.{node}.{DRIVER}')}"},
        "numa": {"int": number * _SOCKETS // count},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": memory}}}


class HollowDeviceDriver:
    """Publishes devices; keyed by node."""

    name = "hollow-device-driver"

    def __init__(self, gpus: int) -> None:
        """`gpus`: devices of a node without the annotation."""
        self._gpus = gpus

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Nodes, and the driver's slices."""
        return {NODES: itself, RESOURCE_SLICES: _own_slice}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Publish the node's devices, if they are not what is published."""
        plan = Plan()
        node = view.get(NODES, key)
        if node is None or "deletionTimestamp" in node["metadata"]:
            return plan
        published = [one for one in view.controlled(RESOURCE_SLICES, node) if one["spec"].get("driver") == DRIVER]
        wanted = self._slices(node)
        if _content(published) == _content(wanted):
            return plan
        generation = 1 + max((one["spec"]["pool"]["generation"] for one in published), default=0)
        by_name = {one["metadata"]["name"]: one for one in published}
        for made in wanted:
            made["spec"]["pool"]["generation"] = generation
            known = by_name.pop(made["metadata"]["name"], None)
            if known is None:
                plan.add(Create(RESOURCE_SLICES, made))
            else:
                plan.add(Update(RESOURCE_SLICES, {**known, "spec": made["spec"]}))
        plan.add(*(Delete(RESOURCE_SLICES, one) for one in by_name.values()))
        return plan

    def _slices(self, node: Object) -> list[Object]:
        name = node["metadata"]["name"]
        found = devices(name, _count_of(node, self._gpus))
        groups = [found[begin : begin + _IN_A_SLICE] for begin in range(0, len(found), _IN_A_SLICE)]
        return [_slice(node, number, group, len(groups)) for number, group in enumerate(groups)]


def _count_of(node: Object, usual: int) -> int:
    written = (node["metadata"].get("annotations") or {}).get(GPUS, "")
    return int(written) if written.isascii() and written.isdigit() else usual


def _slice(node: Object, number: int, group: list[Object], count: int) -> Object:
    name = node["metadata"]["name"]
    pool = {"name": name, "generation": 1, "resourceSliceCount": count}
    return {
        "apiVersion": RESOURCE_SLICES.group_version,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {"name": _slice_name(name, number), "ownerReferences": [reference_to(node)]},
        "spec": {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": group},
    }


def _slice_name(node: str, number: int) -> str:
    """The same each time; of a node with a long name a UUID, as the whole would be no name."""
    name = f"{node}-{DRIVER}-{number}"
    return name if len(name) <= LONGEST_NAME else str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def _content(slices: list[Object]) -> list[tuple[object, ...]]:
    """What slices say, without the generation of their pool."""
    return sorted(
        (
            (one["metadata"]["name"], one["spec"]["pool"]["resourceSliceCount"], one["spec"].get("devices"))
            for one in slices
        ),
        key=lambda entry: str(entry[0]),
    )


def _own_slice(view: View, change: Change) -> Iterator[Key]:
    del view
    spec = change.record.value["spec"]
    if spec.get("driver") == DRIVER and spec.get("nodeName"):
        yield "", spec["nodeName"]


# Facts about device claims: which claims a pod uses, and who still needs a claim.

# Keeps an allocated claim until it is deallocated.
FINALIZER = "resource.kubernetes.io/delete-protection"
# On a claim made from a template: the name by which its pod knows it.
CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
GROUP = "scheduling.k8s.io"


def wanted(pod: Object) -> list[Object]:
    """The entries of a pod's `spec.resourceClaims`."""
    claims: list[Object] = pod["spec"].get("resourceClaims") or []
    return claims


def statuses(pod: Object) -> dict[str, Object]:
    """The entries of a pod's `status.resourceClaimStatuses` by name."""
    found = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {status["name"]: status for status in found}


def claim_name(pod: Object, entry: Object) -> str:
    """The claim of an entry; empty if it is not made yet, or not needed."""
    if entry.get("resourceClaimName"):
        return str(entry["resourceClaimName"])
    return str((statuses(pod).get(entry["name"]) or {}).get("resourceClaimName") or "")


def claims_of(pod: Object) -> Iterator[str]:
    """The names of the claims that a pod uses, with that for its extended resources."""
    yield from filter(None, (claim_name(pod, entry) for entry in wanted(pod)))
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        yield str(extended["resourceClaimName"])


def is_done(pod: Object) -> bool:
    """Whether a pod will not run any more: it has ended, or is deleted before it had a node."""
    return is_finished(pod) or (is_terminating(pod) and not node_of(pod))


def is_reserved(claim: Object, pod: Object) -> bool:
    """Whether the claim is reserved for the pod."""
    uid = pod["metadata"]["uid"]
    return any(one.get("uid") == uid for one in (claim.get("status") or {}).get("reservedFor") or ())


def still_needs(view: View, namespace: str, consumer: Object) -> bool:
    """Whether the consumer exists under its UID and is not done; kinds that nobody here knows are kept."""
    kind = (consumer.get("apiGroup") or "", consumer.get("resource"))
    if kind not in {("", "pods"), (GROUP, "podgroups")}:
        return True
    found = view.get(PODS if kind[1] == "pods" else POD_GROUPS, (namespace, consumer["name"]))
    if found is None or found["metadata"]["uid"] != consumer.get("uid"):
        return False
    return kind[1] != "pods" or not is_done(found)


def pod_of(view: View, claim: Object) -> Object | None:
    """The pod that the claim was made for, if it exists."""
    owner = controller_of(claim)
    if owner is None or owner["kind"] != "Pod":
        return None
    pod = view.get(PODS, (claim["metadata"]["namespace"], owner["name"]))
    return pod if pod is not None and pod["metadata"]["uid"] == owner["uid"] else None
