"""What explanations say stands in the way agrees with the allocator: nothing where it finds devices, else something."""

from collections import Counter
from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.devices.obstacles import ClaimObstacles, Obstacles
from kscheduler.devices.pools import NodeIdentity
from kscheduler.devices.selection import Selections
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures
from tests.devices.generated import problem
from tests.devices.predicates import KnownPredicates
from tests.devices.problems import Explanation, allocated, state_of

Json = dict[str, Any]


def reported(one: Json) -> list[ClaimObstacles | None]:
    """By node, for the first claim; `None` where a selector fails."""
    features = AllocatorFeatures.of(one["gates"], BEHAVIOURS[one["version"]])
    classes = {each["metadata"]["name"]: convert(each, DeviceClass) for each in one["classes"]}
    index = SliceIndex([convert(each, ResourceSlice) for each in one["slices"]], features)
    selections = Selections(KnownPredicates(), features)
    obstacles = Obstacles(
        features,
        state_of(one["taken"], joins_names_of_devices=features.joins_names_of_devices),
        classes.get,
        index,
        selections,
    )
    claim = convert(one["claims"][0], ResourceClaim)
    found: list[ClaimObstacles | None] = []
    for node in one["nodes"]:
        try:
            found.append(obstacles.of(claim, NodeIdentity(node["metadata"]["name"], node["metadata"]["labels"])))
        except AllocationError:
            found.append(None)
    return found


def judged(one: Json, answer: Explanation, obstacles: ClaimObstacles) -> str:
    """How both agree; `wrong` if they do not."""
    spec = one["claims"][0]["spec"]["devices"]
    plain = [each for each in spec["requests"] if "exactly" in each]
    names = {each["name"] for each in plain}
    short = [each for each in obstacles.requests if each.request in names and each.is_short]
    if answer.results is not None:
        return "wrong" if short or obstacles.constraints else "served"
    if short or obstacles.constraints or obstacles.pools:
        return "explained"
    # What requests take from each other, constraints between alternatives and shared counters are not looked at.
    is_simple = len(spec["requests"]) == len(plain) == 1 and not spec.get("constraints")
    shares = any("consumesCounters" in device for each in one["slices"] for device in each["spec"].get("devices", ()))
    skips = any(each["spec"].get("skipNodeOperations") for each in one["slices"])
    return "wrong" if is_simple and not shares and not skips else "left"


@pytest.mark.parametrize("seed", range(4))
def test_obstacles_are_reported_where_the_allocator_finds_nothing(seed: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(150):
        one = problem((f"obstacles {seed}", number))
        one["claims"] = one["claims"][:1]
        for node, answer, obstacles in zip(one["nodes"], allocated(one), reported(one), strict=True):
            if answer.error or obstacles is None:
                continue
            agreement = judged(one, answer, obstacles)
            assert agreement != "wrong", (number, node["metadata"]["name"], obstacles)
            counts[agreement] += 1
    assert counts["served"] > 20
    assert counts["explained"] > 20
    assert counts["explained"] > 2 * counts["left"]
