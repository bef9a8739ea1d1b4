"""What servers of 1.38 refuse of devices and claims, and those before take."""

from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.api.machinery.api_errors import ApiError
from kscheduler.api.machinery.resources import BY_KEY, served_kinds
from kscheduler.api.validation.objects import check_update
from kscheduler.embedded.objects.registry import NO_OPTIONS, ObjectRegistry
from kscheduler.embedded.objects.store import ObjectStore
from tests.embedded.refusals.bad_devices import (
    allocated,
    claim,
    device_class,
    device_slice,
    exactly,
    one_device,
    result,
    template,
)

BEFORE, SINCE = "1.37", "1.38"
CLASSES = BY_KEY["deviceclasses.resource.k8s.io"]
CLAIMS = BY_KEY["resourceclaims.resource.k8s.io"]
TEMPLATES = BY_KEY["resourceclaimtemplates.resource.k8s.io"]
SLICES = BY_KEY["resourceslices.resource.k8s.io"]
REQUEST = "spec.devices.requests[0].exactly.capacity.requests"
DEVICE = "spec.devices[0]"
NO_SEMVER = "must be a string compatible with semver.org spec 2.0.0, with at most 18 digits in numbers"
SLASHES = "must not contain more than one slash"
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}

Writes = Callable[[ObjectRegistry], Any]


def server(version: str) -> ObjectRegistry:
    return ObjectRegistry(ObjectStore(), kinds=served_kinds(version, lambda _: False))


def refused(write: Writes, version: str) -> list[str]:
    """The causes, each with its field."""
    try:
        write(server(version))
    except ApiError as error:
        return [f"{cause['field']}: {cause['message']}" for cause in error.details["causes"]]
    return []


def unplaced(value: Any) -> Any:
    return {**value, "metadata": {"name": "bad"}}


def new_claim(**asked: Any) -> Writes:
    body = claim(exactly(capacity={"requests": asked}))
    return lambda registry: registry.create(CLAIMS, "default", unplaced(body))


def new_slice(body: Any) -> Writes:
    return lambda registry: registry.create(SLICES, "", unplaced(body))


def alternatives(requests: Any) -> Writes:
    one = {"name": "a", "deviceClassName": "gpu.example.com", "capacity": {"requests": requests}}
    body = template({"name": "r", "firstAvailable": [one]})
    return lambda registry: registry.create(TEMPLATES, "default", unplaced(body))


def written(**consumed: Any) -> Writes:
    def write(registry: ObjectRegistry) -> None:
        made = registry.create(CLAIMS, "default", unplaced(claim()))
        status = {"allocation": allocated(result(consumedCapacity=consumed))}
        registry.replace(CLAIMS, made, {**made.value, "status": status}, NO_OPTIONS, "status")

    return write


def placed(*terms: Any) -> Any:
    device = {"name": "gpu-0", "nodeSelector": {"nodeSelectorTerms": list(terms)}}
    return device_slice(nodeName=None, perDeviceNodeSelection=True, devices=[device])


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (new_claim(**{f"c{number}": "1" for number in range(33)}), [f"{REQUEST}: Too many: 33: must have at most 32 "]),
        (new_claim(**{f"c{number}": "1" for number in range(32)}), []),
        (new_claim(memory="-1"), [f'{REQUEST}[memory]: Invalid value: "-1": must be greater than or equal to 0']),
        (new_claim(**{"a b": "1"}), [f'{REQUEST}: Invalid value: "a b": a valid C identifier must start']),
        (new_claim(**{"a.b/c/d": "1"}), [f'{REQUEST}: Invalid value: "a.b/c/d": {SLASHES}']),
        (new_claim(**{"a.b/memory": "1Gi"}), []),
        (
            alternatives({"/m": "1"}),
            ['spec.spec.devices.requests[0].firstAvailable[0].capacity.requests: Invalid value: "": the domain'],
        ),
        (
            written(memory="-1"),
            ['status.allocation.devices.results[0].consumedCapacity[memory]: Invalid value: "-1": must be greater'],
        ),
        (written(memory="1"), []),
        (new_slice(placed(TERM, TERM)), [f"{DEVICE}.nodeSelector.nodeSelectorTerms: Invalid value: "]),
        (new_slice(placed(TERM)), []),
        (new_slice(one_device(attributes={"a.b/c/d": {"bool": True}})), [f"{DEVICE}.attributes: Invalid value: "]),
        (new_slice(one_device(capacity={"a.b/c/d": {"value": "1"}})), [f"{DEVICE}.capacity: Invalid value: "]),
        (
            new_slice(one_device(attributes={"v": {"version": f"1.0.{'9' * 19}"}})),
            [f'{DEVICE}.attributes[v].version: Invalid value: "1.0.{"9" * 19}": {NO_SEMVER}'],
        ),
        (new_slice(one_device(attributes={"v": {"version": f"1.0.{'9' * 18}-a{'9' * 30}"}})), []),
    ],
)  # fmt: skip
def test_what_is_refused_since_1_38(write: Writes, told: list[str]) -> None:
    assert refused(write, BEFORE) == []
    causes = refused(write, SINCE)
    assert len(causes) == len(told)
    assert all(cause.startswith(start) for cause, start in zip(causes, told, strict=True)), causes


def test_an_attribute_of_a_constraint_has_one_slash() -> None:
    body = claim()
    body["spec"]["devices"]["constraints"] = [{"matchAttribute": "a.b/c/d"}]

    def write(registry: ObjectRegistry) -> None:
        registry.create(CLAIMS, "default", unplaced(body))

    assert refused(write, BEFORE) == []
    assert refused(write, SINCE) == [f'spec.devices.constraints[0].matchAttribute: Invalid value: "a.b/c/d": {SLASHES}']


def test_devices_that_do_not_change_stay_as_valid_as_they_were() -> None:
    made = server(BEFORE).create(SLICES, "", unplaced(placed(TERM, TERM))).value
    changed = {**made, "spec": {**made["spec"], "pool": {**made["spec"]["pool"], "generation": 2}}}
    check_update(SLICES, made, changed, "", limits_devices=True)
    devices = [*made["spec"]["devices"], {"name": "gpu-1", "allNodes": True}]
    changed["spec"]["devices"] = devices
    check_update(SLICES, made, changed, "")
    with pytest.raises(ApiError, match="must have exactly one node selector term"):
        check_update(SLICES, made, changed, "", limits_devices=True)


def test_selectors_are_of_the_servers_version() -> None:
    selectors = [{"cel": {"expression": "cidr('10.0.0.0/8').isMask()"}}]
    body = unplaced(device_class(selectors=selectors))

    def write(registry: ObjectRegistry) -> None:
        made = registry.create(CLASSES, "", body)
        config = [{"opaque": {"driver": "gpu.example.com", "parameters": {}}}]
        registry.replace(CLASSES, made, {**made.value, "spec": {**made.value["spec"], "config": config}}, NO_OPTIONS)

    (cause,) = refused(write, BEFORE)
    assert "undeclared reference to 'isMask'" in cause
    assert refused(write, SINCE) == []
