"""Random problems: the allocator against the specification.

    python -m tests.devices.problems --count 100000 --seed 1

prints what was compared, and each problem with a difference. A problem whose search is long (each choice of devices is
wrong in the end) is left out, and counted.
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.devices import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.api.selector_errors import SelectorRuntimeError
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.selection import Selections
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures, FailedOnThisNodeError
from kscheduler.state.devices.claims import AllocatedDevices
from tests.devices.generated import problem
from tests.devices.predicates import KNOWN, KnownPredicates
from tests.specification.devices.allocation import (
    ExpressionError,
    Specification,
    TooLongError,
    WrongError,
    WrongHereError,
)

Json = dict[str, Any]
# Of the specification, on one node.
MAX_STEPS: Final = 400


@dataclass(frozen=True)
class Explanation:
    """What becomes of the claims on a node."""

    results: list[Json] | None = None
    error: str = ""
    is_for_node: bool = False

    @property
    def kind(self) -> str:
        if self.error:
            return "errors of nodes" if self.is_for_node else "errors"
        return "nothing found" if self.results is None else "allocations"


def evaluate(expression: str, driver: str, device: Json) -> bool:
    try:
        return KNOWN[expression](driver, device)
    except SelectorRuntimeError as wrong:
        raise ExpressionError(str(wrong)) from None


def specified(one: Json) -> list[Explanation] | None:
    """By node; `None` if it takes too long."""
    memory: dict[Any, Any] = {}
    gates = frozenset(one["gates"])
    answers = []
    for node in one["nodes"]:
        try:
            naive = Specification(one, node, one["version"], gates, evaluate, MAX_STEPS, memory)
            answers.append(Explanation(naive.allocate()))
        except WrongError as wrong:
            answers.append(Explanation(error=str(wrong)))
        except WrongHereError as wrong:
            answers.append(Explanation(error=str(wrong), is_for_node=True))
        except TooLongError:
            return None
    return answers


def allocator_of(one: Json) -> Allocator:
    features = AllocatorFeatures.of(one["gates"], BEHAVIOURS[one["version"]])
    classes = {each["metadata"]["name"]: convert(each, DeviceClass) for each in one["classes"]}
    claims = [convert(each, ResourceClaim) for each in one["claims"]]
    index = SliceIndex([convert(each, ResourceSlice) for each in one["slices"]], features)
    return Allocator(
        features,
        claims,
        state_of(one["taken"], joins_names_of_devices=features.joins_names_of_devices),
        classes.get,
        index,
        Selections(KnownPredicates(), features),
    )


def state_of(taken: list[Json], *, joins_names_of_devices: bool) -> AllocatedState:
    held = AllocatedDevices()
    held.joins_names_of_devices = joins_names_of_devices
    for each in taken:
        result = convert(each, DeviceRequestAllocationResult)
        held.add(AllocationResult(DeviceAllocationResult((result,))))
    return held.state()


def allocated(one: Json) -> list[Explanation]:
    """By node."""
    allocator = allocator_of(one)
    answers = []
    for node in one["nodes"]:
        try:
            found = allocator.allocate(node["metadata"]["name"], node["metadata"]["labels"])
            answers.append(Explanation(None if found is None else [plain(each) for each in found]))
        except AllocationError as wrong:
            answers.append(Explanation(error=str(wrong)))
        except FailedOnThisNodeError as wrong:
            answers.append(Explanation(error=str(wrong), is_for_node=True))
    return answers


def plain(result: AllocationResult) -> Json:
    """As JSON; shares have random names."""
    written: Json = json.loads(msgspec.json.encode(result))
    for each in written["devices"].get("results", ()):
        if "shareID" in each:
            each["shareID"] = "a share"
    written["devices"].setdefault("results", [])
    return written


def compared(seed: object, counts: Counter[str]) -> bool:
    """Whether both agree about one problem; what it was is counted."""
    one = problem(seed)
    expected = specified(one)
    if expected is None:
        counts["too long"] += 1
        return True
    counts["problems"] += 1
    counts["nodes"] += len(expected)
    for each in expected:
        counts[each.kind] += 1
    return allocated(one) == expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    different = [number for number in range(options.count) if not compared((options.seed, number), counts)]
    out = [f"{count} {kind}" for kind, count in counts.items()]
    sys.stdout.write(f"{', '.join(out)}; {len(different)} differences\n")
    for number in different[:1]:
        show((options.seed, number))
    return 1 if different else 0


def show(seed: object) -> None:
    """A problem with a difference, and both answers."""
    one = problem(seed)
    sys.stdout.write(f"\n{seed}: {json.dumps(one)}\n")
    for node, want, got in zip(one["nodes"], specified(one) or (), allocated(one), strict=True):
        if want != got:
            sys.stdout.write(f"{node['metadata']['name']}\n  specified {want}\n  allocated {got}\n")


if __name__ == "__main__":
    sys.exit(main())
