"""Claims, templates, classes and slices of devices that an API server refuses, and changes of them."""

from typing import Any

from tests.embedded.refusals.bad_objects import MERGE, POD, Case, Object, container, metadata, pod

GROUP = "resource.k8s.io/v1"
CLAIM, TEMPLATE = f"{GROUP}/resourceclaims", f"{GROUP}/resourceclaimtemplates"
CLASS, SLICE = f"{GROUP}/deviceclasses", f"{GROUP}/resourceslices"


def exactly(name: str = "gpu", **fields: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **fields}}


def claim(*requests: Object, **devices: Any) -> Object:
    spec = {"devices": {"requests": list(requests or (exactly(),)), **devices}}
    return {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": metadata(), "spec": spec}


def template(*requests: Object) -> Object:
    spec = {"spec": claim(*requests)["spec"]}
    return {"apiVersion": GROUP, "kind": "ResourceClaimTemplate", "metadata": metadata(), "spec": spec}


def device_class(**spec: Any) -> Object:
    return {"apiVersion": GROUP, "kind": "DeviceClass", "metadata": metadata(), "spec": spec}


def devices(count: int, **fields: Any) -> list[Object]:
    return [{"name": f"gpu-{number}", **fields} for number in range(count)]


def device_slice(**spec: Any) -> Object:
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    fields = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-1", "devices": devices(1), **spec}
    fields = {name: value for name, value in fields.items() if value is not None}
    return {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": metadata(), "spec": fields}


def one_device(**fields: Any) -> Object:
    return device_slice(devices=devices(1, **fields))


def result(**fields: Any) -> Object:
    return {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0", **fields}


def allocated(*results: Object, **fields: Any) -> Object:
    return {"devices": {"results": list(results or (result(),))}, **fields}


def user(number: int = 0, **fields: Any) -> Object:
    uid = f"00000000-0000-0000-0000-{number:012}"
    return {"resource": "pods", "name": f"pod-{number}", "uid": uid, **fields}


def status(name: str, body: Object | None = None, **fields: Any) -> Case:
    return Case(name, CLAIM, body or claim(), {"status": fields}, MERGE, subresource="status")


def subrequests(count: int) -> list[Object]:
    return [{"name": f"r{number}", "deviceClassName": "a"} for number in range(count)]


_CAPACITY = {"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi", "16Gi"]}}}
_RANGE = {"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "2Gi", "max": "9Gi"}}}}
_STEPS = {
    "memory": {
        "value": "8Gi",
        "requestPolicy": {"default": "2Gi", "validRange": {"min": "1Gi", "max": "6Gi", "step": "3Gi"}},
    }
}

DEVICES = (
    Case("a claim with 33 requests", CLAIM, claim(*(exactly(f"r{number}") for number in range(33)))),
    Case("a claim with a request twice", CLAIM, claim(exactly(), exactly())),
    Case("a claim of neither form", CLAIM, claim({"name": "gpu"})),
    Case("a claim of both forms", CLAIM, claim({**exactly(), "firstAvailable": subrequests(1)})),
    Case("a claim without a class", CLAIM, claim({"name": "gpu", "exactly": {}})),
    Case("a claim of a class with a bad name", CLAIM, claim(exactly(deviceClassName="A_b"))),
    Case("a claim whose request has a bad name", CLAIM, claim(exactly("Gpu_1"))),
    Case("a claim with nine alternatives", CLAIM, claim({"name": "gpu", "firstAvailable": subrequests(9)})),
    Case("a claim for all and for two", CLAIM, claim(exactly(allocationMode="All", count=2))),
    Case("a claim for fewer than none", CLAIM, claim(exactly(count=-1))),
    Case("a claim of an unknown mode", CLAIM, claim(exactly(allocationMode="Some"))),
    Case("a claim with a selector of nothing", CLAIM, claim(exactly(selectors=[{}]))),
    Case("a claim with 33 selectors", CLAIM, claim(exactly(selectors=[{"cel": {"expression": "true"}}] * 33))),
    Case("a claim with a long selector", CLAIM, claim(exactly(selectors=[{"cel": {"expression": "1" * 10241}}]))),
    Case("a claim with a selector that is cut", CLAIM, claim(exactly(selectors=[{"cel": {"expression": "1 +"}}]))),
    Case("a claim with a selector of a number", CLAIM, claim(exactly(selectors=[{"cel": {"expression": "1 + 1"}}]))),
    Case("a claim with a selector of nobody", CLAIM, claim(exactly(selectors=[{"cel": {"expression": "nobody"}}]))),
    Case(
        "a claim with a selector of an unknown field",
        CLAIM,
        claim(exactly(selectors=[{"cel": {"expression": 'device.drivers == "a"'}}])),
    ),
    Case("a class with a selector that is cut", CLASS, device_class(selectors=[{"cel": {"expression": "device."}}])),
    Case("a claim tolerating with a value", CLAIM, claim(exactly(tolerations=[{"operator": "Exists", "value": "a"}]))),
    Case("a claim tolerating somehow", CLAIM, claim(exactly(tolerations=[{"key": "a", "operator": "Like"}]))),
    Case("a claim tolerating some effect", CLAIM, claim(exactly(tolerations=[{"operator": "Exists", "effect": "A"}]))),
    Case("a constraint on nothing", CLAIM, claim(constraints=[{}])),
    Case("a constraint on a short name", CLAIM, claim(constraints=[{"matchAttribute": "numa"}])),
    Case("a constraint on a bad name", CLAIM, claim(constraints=[{"matchAttribute": "example.com/a-b"}])),
    Case(
        "a constraint on a request of nobody",
        CLAIM,
        claim(constraints=[{"requests": ["x"], "matchAttribute": "example.com/numa"}]),
    ),
    Case("a claim with an empty config", CLAIM, claim(config=[{}])),
    Case("a claim with a config of text", CLAIM, claim(config=[{"opaque": {"driver": "a.b", "parameters": "text"}}])),
    Case("a claim is changed", CLAIM, claim(), {"spec": {"devices": {"requests": [exactly("other")]}}}),
    Case("a template with a request twice", TEMPLATE, template(exactly(), exactly())),
    Case("a template is changed", TEMPLATE, template(), {"spec": template(exactly("o"))["spec"]}),
    Case("a class of an extended resource without a domain", CLASS, device_class(extendedResourceName="gpu")),
    Case("a class with an empty selector", CLASS, device_class(selectors=[{}])),
    status("a reservation without an allocation", reservedFor=[user()]),
    status("a reservation of nobody", allocation=allocated(), reservedFor=[{}]),
    status("a reservation twice", allocation=allocated(), reservedFor=[user(), user()]),
    status("a reservation by 257", allocation=allocated(), reservedFor=[user(number) for number in range(257)]),
    status("an allocation of 33", allocation=allocated(*(result(device=f"gpu-{number}") for number in range(33)))),
    status("an allocation for a request of nobody", allocation=allocated(result(request="x"))),
    status("an allocation without a device", allocation=allocated(result(device=""))),
    status("an allocation without a driver", allocation=allocated(result(driver=""))),
    status("an allocation of a bad pool", allocation=allocated(result(pool="A b"))),
    status("an allocation by a share of no name", allocation=allocated(result(shareID="one"))),
    status("an allocation of no terms", allocation=allocated(nodeSelector={"nodeSelectorTerms": []})),
    status("a status of a device that is not allocated", devices=[{"driver": "a.b", "pool": "c", "device": "d"}]),
    Case("a slice without a driver", SLICE, device_slice(driver="")),
    Case("a slice of no pool", SLICE, device_slice(pool={"name": "", "generation": 1, "resourceSliceCount": 1})),
    Case(
        "a slice of a pool of none", SLICE, device_slice(pool={"name": "a", "generation": -1, "resourceSliceCount": 0})
    ),
    Case("a slice of nowhere", SLICE, device_slice(nodeName=None)),
    Case("a slice of two places", SLICE, device_slice(allNodes=True)),
    Case("a slice not of all nodes", SLICE, device_slice(nodeName=None, allNodes=False)),
    Case("a slice with 129 devices", SLICE, device_slice(devices=devices(129))),
    Case(
        "a slice with 65 tainted devices",
        SLICE,
        device_slice(devices=devices(65, taints=[{"key": "a", "effect": "None"}])),
    ),
    Case("a slice with a device twice", SLICE, device_slice(devices=[*devices(1), *devices(1)])),
    Case("a slice with an attribute of nothing", SLICE, one_device(attributes={"model": {}})),
    Case("a slice with an attribute of two", SLICE, one_device(attributes={"model": {"string": "a", "int": 1}})),
    Case("a slice with a long attribute", SLICE, one_device(attributes={"model": {"string": "a" * 65}})),
    Case("a slice with a bad version", SLICE, one_device(attributes={"driver": {"version": "1.2"}})),
    Case("a slice with a bad attribute's name", SLICE, one_device(attributes={"a-b": {"int": 1}})),
    Case("a slice with 33 attributes", SLICE, one_device(attributes={f"a{n}": {"int": n} for n in range(33)})),
    Case(
        "a slice with 17 taints",
        SLICE,
        one_device(taints=[{"key": f"a{n}", "effect": "NoSchedule"} for n in range(17)]),
    ),
    Case("a slice with a taint of no effect", SLICE, one_device(taints=[{"key": "a"}])),
    Case("a slice with a taint of some effect", SLICE, one_device(taints=[{"key": "a", "effect": "Some"}])),
    Case("a slice with a policy for one user", SLICE, one_device(capacity=_CAPACITY)),
    Case("a slice with a policy of too much", SLICE, one_device(allowMultipleAllocations=True, capacity=_CAPACITY)),
    Case("a slice with a policy out of range", SLICE, one_device(allowMultipleAllocations=True, capacity=_RANGE)),
    Case("a slice with a policy between steps", SLICE, one_device(allowMultipleAllocations=True, capacity=_STEPS)),
    Case("a slice with a device of a node", SLICE, one_device(nodeName="node-1")),
    Case("a slice with devices of no nodes", SLICE, device_slice(nodeName=None, perDeviceNodeSelection=True)),
    Case("a slice with conditions of one kind", SLICE, one_device(bindingConditions=["ready"])),
    Case("a slice with a condition twice", SLICE, one_device(bindingConditions=["a"], bindingFailureConditions=["a"])),
    Case("a slice changes its pool", SLICE, device_slice(), {"spec": {"pool": {"name": "other"}}}),
    Case("a slice changes its node", SLICE, device_slice(), {"spec": {"nodeName": "other"}}),
    Case("a pod with a claim of no source", POD, pod(resourceClaims=[{"name": "gpu"}])),
    Case(
        "a pod with a claim of two sources",
        POD,
        pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]),
    ),
    Case("a pod with a claim twice", POD, pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "a"}] * 2)),
    Case("a container with a claim of nobody", POD, pod(containers=[container(resources={"claims": [{"name": "x"}]})])),
)
