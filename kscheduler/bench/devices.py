"""scheduler_perf's scenarios of device claims, under its names: ten devices on each node, half of them in use.

Upstream's come from Kubernetes 1.37, test/integration/scheduler_perf/dra. There a test driver publishes the slices and
the claims in use are allocated before; here both come with the nodes. Each pod has a claim of its own from a template.
"""

from typing import Any, Final

from kscheduler.api.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from kscheduler.bench import objects
from kscheduler.bench.scenario import BenchmarkScenario, CreateNodes, CreateObjects, CreatePods
from kscheduler.bench.template import Object, Template, template

DRIVER: Final = "test-driver.cdi.k8s.io"
PCI_ROOT: Final = "resource.kubernetes.io/pciRoot"
# On each node.
DEVICES: Final = 10
IN_USE: Final = 5
NODES: Final = 500
PODS: Final = 2500
SELECTOR: Final = (
    f'device.attributes["{DRIVER}"].driverVersion.major() >= 1 && '
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("1Mi"))'
)


def device(number: int) -> Object:
    """A device as in a slice."""
    attributes: Object = {
        "driver": {"string": "xe"},
        "driverVersion": {"version": "1.2.3"},
        "resource.k8s.io/pciRoot": {"string": f"{number % 2}"},
        "family": {"string": "Arc Pro B-Series"},
        "health": {"string": "Healthy"},
        "model": {"string": "B60"},
        "pciAddress": {"string": f"0000:0{number}:00.0"},
        "pciId": {"string": "0xe211"},
        "pciRoot": {"string": f"0{number % 2}"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:0{number}:00.0"},
        PCI_ROOT: {"string": f"pci0000:0{number % 2}"},
        "sriov": {"bool": True},
        "type": {"string": "gpu"},
    }
    capacity = {"memory": {"value": "24480Mi"}, "millicores": {"value": "1k"}}
    return {"name": f"basic-device-{number}", "attributes": attributes, "capacity": capacity}


def _slice() -> Template:
    pool = {"name": "resourceslice-$node", "generation": 1, "resourceSliceCount": 1}
    devices = [device(number) for number in range(DEVICES)]
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "$node", "devices": devices}
    return template(RESOURCE_SLICES, "resourceslice-$node", {"spec": spec})


def _claim_in_use(number: int) -> Template:
    result = {"request": "req-0", "driver": DRIVER, "pool": "resourceslice-$node", "device": f"basic-device-{number}"}
    place = {"key": "metadata.name", "operator": "In", "values": ["$node"]}
    selector = {"nodeSelectorTerms": [{"matchFields": [place]}]}
    status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}
    spec = {"devices": {"requests": [_request(0)]}}
    return template(RESOURCE_CLAIMS, f"init-$node-{number}", {"spec": spec, "status": status})


def _class(name: str, driver: str) -> CreateObjects:
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    return CreateObjects(template(DEVICE_CLASSES, name, {"spec": {"selectors": selectors}}))


def _request(number: int, **fields: Any) -> Object:
    exactly = {"deviceClassName": "test-class", "allocationMode": "ExactCount", "count": 1, **fields}
    return {"name": f"req-{number}", "exactly": exactly}


def _claim(requests: list[Object], constraints: list[Object]) -> Template:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "$pod", "uid": "$poduid", "controller": True}
    metadata = {"ownerReferences": [owner], "annotations": {"resource.kubernetes.io/pod-claim-name": "resource"}}
    return template(
        RESOURCE_CLAIMS,
        "$pod-resource",
        {"metadata": metadata, "spec": {"devices": {"requests": requests, "constraints": constraints}}},
    )


_POD: Final = objects.pod(
    "test-dra-",
    resourceClaims=[{"name": "resource", "resourceClaimTemplateName": "test-claim-template"}],
    status={"resourceClaimStatuses": [{"name": "resource", "resourceClaimName": "$name-resource"}]},
)


def _scenario(
    name: str,
    source: str,
    *requests: Object,
    constraints: tuple[Object, ...] = (),
    in_use: int = IN_USE,
    pods: int = PODS,
) -> BenchmarkScenario:
    wanted = list(requests) or [_request(0)]
    used = tuple(_claim_in_use(number) for number in range(in_use))
    return BenchmarkScenario(
        name,
        f"dra/{source}",
        (
            _class("test-class", DRIVER),
            _class("no-devices-class", "no-such-driver.cdi.k8s.io"),
            CreateNodes(NODES, objects.node("scheduler-perf-dra-"), companions=(_slice(), *used)),
            CreatePods(pods, _POD, measured=True, companions=(_claim(wanted, list(constraints)),)),
        ),
        most_per_node=(DEVICES - in_use) / len(wanted),
    )


_FIRST_AVAILABLE: Final[Object] = {
    "name": "req-0",
    "firstAvailable": [
        {"name": f"sub-{number}", "deviceClassName": name, "allocationMode": "ExactCount", "count": 1}
        for number, name in enumerate(("no-devices-class", "test-class"))
    ],
}

DEVICE_SCENARIOS: Final = (
    _scenario("SchedulingWithResourceClaimTemplate", "SchedulingWithResourceClaimTemplate 5000pods_500nodes"),
    _scenario(
        "SchedulingWithResourceClaimTemplateSelector",
        "SchedulingWithResourceClaimTemplate selector_empty_500nodes, as a burst",
        _request(0, selectors=[{"cel": {"expression": SELECTOR}}]),
    ),
    _scenario(
        "SchedulingWithResourceClaimTemplateMatch",
        "SchedulingWithResourceClaimTemplate match_empty_500nodes, as a burst",
        *(_request(number) for number in range(5)),
        constraints=({"matchAttribute": PCI_ROOT},),
        in_use=0,
        pods=1000,
    ),
    _scenario(
        "SchedulingWithResourceClaimTemplateFirstAvailable",
        "prioritizedlist/SchedulingWithResourceClaimTemplate 5000pods_500nodes",
        _FIRST_AVAILABLE,
    ),
)
