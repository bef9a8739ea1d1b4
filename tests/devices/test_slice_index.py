"""An index that takes over what is still true of the one before answers as one that is built again."""

import random
from itertools import product
from typing import Any

import msgspec
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.devices import ResourceSlice, ResourceSliceSpec
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.devices.ids import AllocatedState, PoolID
from kscheduler.devices.pools import Pool
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocatorFeatures
from tests.devices.generated import problem
from tests.effort import example_count

NODES = ("n0", "n1", "n2")
LABELS = {"zone": "z0"}


def slices_of(seed: object) -> list[ResourceSlice]:
    return [convert(piece, ResourceSlice) for piece in problem(seed)["slices"]]


def own_slices(seed: object) -> list[ResourceSlice]:
    """The first slices, once more for two nodes that have them for themselves, with the very same devices."""
    made = []
    for node, piece in product(NODES[:2], slices_of(seed)[:3]):
        spec = piece.spec
        pool = msgspec.structs.replace(spec.pool, name=f"{node}-{piece.metadata.name}", resource_slice_count=1)
        own = ResourceSliceSpec(driver=spec.driver, pool=pool, node_name=node, devices=spec.devices)
        made.append(ResourceSlice(metadata=ObjectMeta(name=f"{node}-{piece.metadata.name}"), spec=own))
    return made


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
    slices = own_slices(seed) if seed % 2 else slices_of(seed)
    index = SliceIndex(slices, features)
    for step in range(5):
        before = {name: seen(index.pools(name, LABELS)) for name in NODES}
        others = slices_of((seed, step)) if chance.random() < 0.5 else own_slices(seed)
        slices = changed(slices, others, chance)
        index = SliceIndex(slices, features, index)
        anew = SliceIndex(slices, features)
        for name in NODES:
            assert seen(index.pools(name, LABELS)) == seen(anew.pools(name, LABELS))
            if index.changed is not None and name not in index.changed:
                assert seen(index.pools(name, LABELS)) == before[name]
            assert index.layout(name, LABELS, AllocatedState()) == anew.layout(name, LABELS, AllocatedState())
        assert index.pool_states == anew.pool_states
        for pool in {PoolID(piece.spec.driver, piece.spec.pool.name) for piece in (*slices, *others)}:
            assert index.owner_of_pool(pool) == anew.owner_of_pool(pool)


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


def test_an_index_after_one_changed_slice_walks_over_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of a new cluster come one by one, between decisions."""
    slices = [node_slice(number) for number in range(50)]
    index = SliceIndex(slices, AllocatorFeatures())
    filed: list[ResourceSlice] = []
    owner = SliceIndex._owner

    def counted(self: SliceIndex, piece: ResourceSlice) -> str:
        filed.append(piece)
        return owner(self, piece)

    monkeypatch.setattr(SliceIndex, "_owner", counted)
    slices[7] = node_slice(7)
    later = SliceIndex(slices, AllocatorFeatures(), index)
    assert later.changed == frozenset({"n7"})
    assert {piece.metadata.name for piece in filed} == {"s7"}
    (pool,), (before,) = later.pools("n7", LABELS), index.pools("n7", LABELS)
    assert pool.devices[0].slice is slices[7]
    assert before.devices[0].slice is not slices[7], "who has the index before is not disturbed"


def node_slice(number: int) -> ResourceSlice:
    pool = {"name": f"p{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "a.example.com", "nodeName": f"n{number}", "pool": pool, "devices": [{"name": "a"}]}
    return convert({"metadata": {"name": f"s{number}"}, "spec": spec}, ResourceSlice)
