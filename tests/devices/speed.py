"""What an allocation costs per node: `python -m tests.devices.speed`, on 1,000 nodes with 8 devices each.

CPU time in microseconds per node, for each of some claims: `first`, when nothing is known of the slices yet, and
`then`, the best of three more rounds, as in later cycles. Selectors are functions of the test, so CEL is not in it.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from kscheduler.api.codec import convert
from kscheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.ids import AllocatedState, DeviceID
from kscheduler.devices.selection import Selections
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocatorFeatures
from tests.devices.building import DRIVER, Json, claim, first_of, wants, wants_all
from tests.devices.predicates import PREDICATES, KnownPredicates

NODES: Final = 1000
DEVICES: Final = 8
FEATURES: Final = AllocatorFeatures()
ONE_NUMA: Final[Json] = {"matchAttribute": f"{DRIVER}/numa"}
# Claims, and how many devices of each node are taken.
CLAIMS: Final[dict[str, tuple[Json, int]]] = {
    "one": (claim(wants()), 0),
    "one, all are taken": (claim(wants()), DEVICES),
    "two, one is left": (claim(wants("r", 2)), DEVICES - 1),
    "four in one NUMA node": (claim(wants("r", 4), constraints=[ONE_NUMA]), 0),
    "eight": (claim(wants("r", 8)), 0),
    "all": (claim(wants_all()), 0),
    "nine, or else two": (claim(first_of("r", wants("much", 9), wants("little", 2))), 0),
}


def slice_of(node: int) -> ResourceSlice:
    devices: list[dict[str, Any]] = [
        {
            "name": f"gpu-{number}",
            "attributes": {"numa": {"int": number // 4}, "uuid": {"string": f"{node}-{number}"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(DEVICES)
    ]
    pool = {"name": f"node-{node}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": f"node-{node}", "pool": pool, "devices": devices}
    return convert({"metadata": {"name": f"slice-{node}"}, "spec": spec}, ResourceSlice)


def microseconds(slices: Sequence[ResourceSlice], one: Json, taken: int) -> tuple[list[float], int]:
    """Per node, for each of four rounds; and how many nodes fit."""
    index, selections = SliceIndex(slices, FEATURES), Selections(KnownPredicates(), FEATURES)
    selectors = [{"cel": {"expression": next(iter(PREDICATES))}}]
    device_class = convert({"metadata": {"name": "class"}, "spec": {"selectors": selectors}}, DeviceClass)
    names = [DeviceID(DRIVER, f"node-{node}", f"gpu-{at}") for node in range(NODES) for at in range(taken)]
    claims, state = [convert(one, ResourceClaim)], AllocatedState(frozenset(names))
    rounds, fitting = [], 0
    for _ in range(4):
        allocator = Allocator(FEATURES, claims, state, {"class": device_class}.get, index, selections)
        began = time.process_time()
        fitting = sum(allocator.allocate(f"node-{node}", {}) is not None for node in range(NODES))
        rounds.append((time.process_time() - began) / NODES * 1e6)
    return rounds, fitting


def main() -> None:
    slices = [slice_of(node) for node in range(NODES)]
    for name, (one, taken) in CLAIMS.items():
        rounds, fitting = microseconds(slices, one, taken)
        sys.stdout.write(f"{name:24} first {rounds[0]:6.1f}  then {min(rounds[1:]):6.1f}  {fitting} nodes fit\n")


if __name__ == "__main__":
    main()
