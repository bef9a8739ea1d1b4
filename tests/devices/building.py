"""What problems of allocation are made of: nodes, slices and claims in few words, and what the allocator answers."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.devices.problems import Explanation, allocated

Json = dict[str, Any]

DRIVER: Final = "a.example.com"
OTHER: Final = "b.example.com"
GATES: Final = (
    "DRAAdminAccess",
    "DRAPrioritizedList",
    "DRAPartitionableDevices",
    "DRADeviceTaints",
    "DRADeviceBindingConditions",
    "DRAResourceClaimDeviceStatus",
    "DRAConsumableCapacity",
    "DRAFractionalCapacityRange",
)
# A gate that the version does not know.
NEW: Final = ("DRAFractionalCapacityRange", "1.36")
ALL: Final = pytest.mark.parametrize("version", ["1.36", "1.37", "1.38"])


def device(name: str, **fields: Any) -> Json:
    return {"name": name, **fields}


def piece(name: str, *devices: Json, pool: str = "p", count: int = 1, **fields: Any) -> Json:
    """A slice for node `n` unless it says otherwise; `generation` and `driver` may be given."""
    spec: Json = {"driver": fields.pop("driver", DRIVER), "devices": list(devices)}
    spec["pool"] = {"name": pool, "generation": fields.pop("generation", 1), "resourceSliceCount": count}
    if not {"allNodes", "nodeSelector", "nodeName", "perDeviceNodeSelection"} & fields.keys():
        spec["nodeName"] = "n"
    return {"metadata": {"name": name}, "spec": {**spec, **fields}}


def wants(name: str = "r", count: int = 1, /, **fields: Any) -> Json:
    return {
        "name": name,
        "exactly": {"deviceClassName": "class", "allocationMode": "ExactCount", "count": count} | fields,
    }


def wants_all(name: str = "r", **fields: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": "class", "allocationMode": "All", **fields}}


def first_of(name: str, *subs: Json) -> Json:
    return {"name": name, "firstAvailable": [{"name": sub["name"], **sub["exactly"]} for sub in subs]}


def claim(*requests: Json, name: str = "c", **devices: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": {"requests": list(requests), **devices}}}


def answer(
    claims: Sequence[Json],
    *slices: Json,
    version: str = "1.37",
    without: Sequence[str] = (),
    more: Sequence[str] = (),
    taken: Sequence[str | Json] = (),
    class_spec: Json | None = None,
) -> Explanation:
    """Of node `n` in zone `z`. `taken`: devices of pool `p`, or results of allocations."""
    [got] = allocated(
        {
            "version": version,
            "gates": [gate for gate in (*GATES, *more) if gate not in without and (gate, version) != NEW],
            "nodes": [{"metadata": {"name": "n", "labels": {"zone": "z"}}}],
            "slices": list(slices),
            "classes": [{"metadata": {"name": "class"}, "spec": class_spec or {}}],
            "claims": list(claims),
            "taken": [{"driver": DRIVER, "pool": "p", "device": one} if isinstance(one, str) else one for one in taken],
        }
    )
    return got


def chosen(got: Explanation) -> list[list[str]] | None:
    """By claim: `request=device`."""
    assert not got.error
    if got.results is None:
        return None
    return [[f"{each['request']}={each['device']}" for each in one["devices"]["results"]] for one in got.results]


def color(name: str, value: Any = "red", **fields: Any) -> Json:
    return device(name, attributes={"color": value if isinstance(value, dict) else {"string": value}}, **fields)
