"""What a running pod holds of memory for itself: a cluster of a million pods holds it a million times.

Counted is what the interpreter says of each object that is reached from the store and the cache and that no other pod
shares, so the sums are the same on each run; resident memory is some 15 % more (`python -m benchmarks.scale`).
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from benchmarks import scale_objects
from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.informers import Informer
from kscheduler.state.cache import Cache

PODS_COUNT: Final = 600
NODES_COUNT: Final = 60
POD_BYTES: Final = 1_250
NODE_BYTES: Final = 2_700


def parts_of(obj: object) -> Iterator[object]:
    """What an object refers to, as far as a cluster's state is made of it."""
    if isinstance(obj, msgspec.Struct):
        yield from (getattr(obj, field) for field in obj.__struct_fields__)
    elif isinstance(obj, PodInfo):
        yield from (obj.pod, obj.uid, obj.signature, obj.accounted, obj.nonzero_accounted, obj.host_ports)
        if vars(obj):  # asking makes an empty dict
            yield vars(obj)
    elif isinstance(obj, dict):
        yield from obj
        yield from obj.values()
    elif isinstance(obj, tuple | list | set | frozenset):
        yield from obj


def own_bytes(roots: Iterable[object]) -> float:
    """Bytes per root of all that is reached from it, shared objects counted once."""
    seen: dict[int, object] = {}
    roots = list(roots)
    left = list(roots)
    total = 0
    while left:
        obj = left.pop()
        if id(obj) in seen or obj is None or isinstance(obj, type):
            continue
        seen[id(obj)] = obj
        total += sys.getsizeof(obj)
        left.extend(parts_of(obj))
    return total / len(roots)


def filled(kind: Kind, trees: Iterable[dict[str, Any]]) -> Informer[Any]:
    """An informer after its first list."""
    informer: Informer[Any] = Informer(kind)
    objects = [informer.prepared(convert(msgspec.json.decode(msgspec.json.encode(tree)), kind.type)) for tree in trees]
    asyncio.run(informer.replace(objects, ()))
    return informer


def running_pods() -> Informer[Pod]:
    trees = (scale_objects.running_pod(number, PODS_COUNT, NODES_COUNT, "s") for number in range(PODS_COUNT))
    return filled(PODS, trees)


def test_a_running_pod_holds_little_for_itself() -> None:
    store, cache = running_pods().store, Cache()
    for pod in store.list():
        cache.add_pod(pod)
    counted = [cache.pod_of(uid) for uid in cache.pod_uids()]
    keys = sum(map(sys.getsizeof, store.keys())) / PODS_COUNT
    assert own_bytes(counted) + keys < POD_BYTES


def test_a_node_holds_little_for_itself() -> None:
    images = [scale_objects.image(number) for number in range(scale_objects.IMAGES)]
    store = filled(NODES, (scale_objects.node(number, images) for number in range(PODS_COUNT))).store
    assert own_bytes(store.list()) < NODE_BYTES


def test_nothing_is_worked_out_for_a_counted_pod_but_what_counting_needs() -> None:
    cache = Cache()
    for pod in running_pods().store.list():
        cache.add_pod(pod)
    counted = [cache.pod_of(uid) for uid in cache.pod_uids()]
    assert [vars(info) for info in counted if info is not None and vars(info)] == []


def test_sums_of_more_workloads_than_are_remembered_are_still_the_same_few() -> None:
    cache = Cache()
    for number in range(3000):
        tree = scale_objects.pod(number, number, "node", "s")
        tree["spec"]["containers"][0]["image"] = f"image-{number}"
        cache.add_pod(convert(tree, Pod))
    counted = [cache.pod_of(uid) for uid in cache.pod_uids()]
    assert len({id(info.accounted) for info in counted if info is not None}) == 1
    assert len({id(info.nonzero_accounted) for info in counted if info is not None}) == 1
