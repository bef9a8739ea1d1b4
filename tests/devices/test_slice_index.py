"""An index that takes over what is still true of the one before answers as one that is built again."""

import random
from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.devices import ResourceSlice
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.devices.ids import PoolID
from kscheduler.devices.pools import Pool
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocatorFeatures
from tests.devices.generated import problem
from tests.effort import example_count

NODES = ("n0", "n1", "n2")
LABELS = {"zone": "z0"}


def slices_of(seed: object) -> list[ResourceSlice]:
    return [convert(piece, ResourceSlice) for piece in problem(seed)["slices"]]


def seen(pools: list[Pool]) -> list[Any]:
    return [
        (
            pool.id,
            pool.is_incomplete,
            pool.is_invalid,
            [found.id for found in pool.devices],
            {found.id for found in pool.elsewhere},
            dict(pool.counter_sets),
        )
        for pool in pools
    ]


def changed(slices: list[ResourceSlice], others: list[ResourceSlice], chance: random.Random) -> list[ResourceSlice]:
    """Some slices gone, some new, the rest the same objects."""
    kept = [piece for piece in slices if chance.random() < 0.8]
    names = {piece.metadata.name for piece in kept}
    return kept + [piece for piece in others if piece.metadata.name not in names and chance.random() < 0.3]


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@pytest.mark.parametrize("seed", range(example_count(40)))
def test_what_is_taken_over_is_still_true(seed: int, version: str) -> None:
    chance = random.Random(seed)
    features = AllocatorFeatures.of(problem(seed)["gates"], BEHAVIOURS[version])
    slices = slices_of(seed)
    index = SliceIndex(slices, features)
    for step in range(5):
        before = {name: seen(index.pools(name, LABELS)) for name in NODES}
        slices = changed(slices, slices_of((seed, step)), chance)
        index = SliceIndex(slices, features, index)
        anew = SliceIndex(slices, features)
        for name in NODES:
            assert seen(index.pools(name, LABELS)) == seen(anew.pools(name, LABELS))
            if index.changed is not None and name not in index.changed:
                assert seen(index.pools(name, LABELS)) == before[name]


def test_an_index_with_other_features_takes_nothing_over() -> None:
    slices = slices_of(1)
    before = SliceIndex(slices, AllocatorFeatures())
    before.pools("n0", LABELS)
    assert SliceIndex(slices, AllocatorFeatures(partitionable_devices=False), before).changed is None


def test_a_node_whose_labels_change_reaches_other_devices() -> None:
    piece = {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "a.example.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z0"]}]}]
            },
            "devices": [{"name": "d"}],
        },
    }
    index = SliceIndex([convert(piece, ResourceSlice)], AllocatorFeatures())
    assert index.pools("n0", {"zone": "z1"}) == []
    assert [pool.id for pool in index.pools("n0", {"zone": "z0"})] == [PoolID("a.example.com", "p")]
    assert index.pools("n0", {"zone": "z1"}) == []


def test_nodes_that_reach_the_same_slices_share_their_pool() -> None:
    piece = {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "a.example.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": "d"}],
        },
    }
    index = SliceIndex([convert(piece, ResourceSlice)], AllocatorFeatures())
    assert index.pools("n0", {})[0] is index.pools("n1", {})[0]
