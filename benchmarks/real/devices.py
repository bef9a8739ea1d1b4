"""Devices for the benchmarks on a real API server: ten on each node, one class, and a claim for each pod.

The devices are those of scheduler_perf's claims. Claims are made with the pods, by name: what the controller of claim
templates costs would be the same for every scheduler, and is left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kscheduler.bench.devices import DEVICES, DRIVER, PCI_ROOT, SELECTOR, device

Object = dict[str, Any]

GROUP_PATH: Final = "/apis/resource.k8s.io/v1"
CLASS: Final = "test-class"


def claim_name(number: int) -> str:
    return f"claim-{number:05}"


def one_device(number: int, app: str) -> Object:  # noqa: ARG001 one signature for all
    return {"resourceClaims": [{"name": "device", "resourceClaimName": claim_name(number)}]}


def plain_claims(nodes: int, pods: int, namespace: str) -> Iterator[tuple[str, Iterable[Object]]]:
    """Claims to one device of the class."""
    yield from _published(nodes)
    yield _claims_path(namespace), (_claim(number, [_request()]) for number in range(pods))


def selected_claims(nodes: int, pods: int, namespace: str) -> Iterator[tuple[str, Iterable[Object]]]:
    """Claims to one device that a CEL expression about its version and memory holds for."""
    yield from _published(nodes)
    request = _request(selectors=[{"cel": {"expression": SELECTOR}}])
    yield _claims_path(namespace), (_claim(number, [request]) for number in range(pods))


def matching_claims(nodes: int, pods: int, namespace: str) -> Iterator[tuple[str, Iterable[Object]]]:
    """Claims to two devices behind one PCI root."""
    yield from _published(nodes)
    requests = [_request(name="first"), _request(name="second")]
    constraints = [{"matchAttribute": PCI_ROOT}]
    yield _claims_path(namespace), (_claim(number, requests, constraints) for number in range(pods))


def device_faults(claims: Iterable[Object]) -> list[str]:
    """A line per device that more than one claim has."""
    given: Counter[tuple[str, str, str]] = Counter()
    for claim in claims:
        allocation = claim.get("status", {}).get("allocation") or {}
        results = allocation.get("devices", {}).get("results", ())
        given.update((result["driver"], result["pool"], result["device"]) for result in results)
    return [f"device {'/'.join(device)} was given to {count} claims" for device, count in given.items() if count > 1]


def _published(nodes: int) -> Iterator[tuple[str, Iterable[Object]]]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    yield f"{GROUP_PATH}/deviceclasses", [{"metadata": {"name": CLASS}, "spec": {"selectors": [selector]}}]
    yield f"{GROUP_PATH}/resourceslices", (_slice(f"node-{number:05}") for number in range(nodes))


def _slice(node: str) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [device(number) for number in range(DEVICES)]
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
    return {"metadata": {"name": f"slice-{node}"}, "spec": spec}


def _request(name: str = "device", **fields: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": CLASS, **fields}}


def _claim(number: int, requests: list[Object], constraints: list[Object] | None = None) -> Object:
    devices = {"requests": requests, "constraints": constraints or []}
    return {"metadata": {"name": claim_name(number)}, "spec": {"devices": devices}}


def _claims_path(namespace: str) -> str:
    return f"{GROUP_PATH}/namespaces/{namespace}/resourceclaims"
