"""What is attached follows every object that stands behind it; what is assumed holds until something newer comes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.meta import KubeObject, ObjectMeta
from kscheduler.api.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kscheduler.framework.cluster.volumes import CLAIM, POD, UNLIMITED_ROOM, VOLUME, Subject
from kscheduler.state.cache import Cache
from kscheduler.state.storage.assume_cache import AssumeCache
from kscheduler.state.storage.attached_volumes import NodeAttachments
from tests.builders import make_node, make_pod

DRIVER, EBS = "csi.one", "ebs.csi.aws.com"


def volume(name: str = "pv", *, version: str = "1", **source: Any) -> PersistentVolume:
    spec = source or {"csi": {"driver": DRIVER, "volumeHandle": name}}
    return convert({"metadata": {"name": name, "resourceVersion": version}, "spec": spec}, PersistentVolume)


def claim(volume_name: str = "pv") -> PersistentVolumeClaim:
    spec = {"volumeName": volume_name, "storageClassName": "fast"}
    return convert({"metadata": {"name": "data", "namespace": "default"}, "spec": spec}, PersistentVolumeClaim)


def storage_class(provisioner: str) -> StorageClass:
    return convert({"metadata": {"name": "fast"}, "provisioner": provisioner}, StorageClass)


def csi_node(count: int | None, plugins: str = "") -> CSINode:
    notes = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    drivers = [{"name": name, "allocatable": {"count": count}} for name in (DRIVER, EBS)]
    return convert({"metadata": {"name": "node", "annotations": notes}, "spec": {"drivers": drivers}}, CSINode)


def attachment(volume_name: str) -> VolumeAttachment:
    spec = {"attacher": DRIVER, "nodeName": "node", "source": {"persistentVolumeName": volume_name}}
    return convert({"metadata": {"name": "a"}, "spec": spec}, VolumeAttachment)


CLAIMED = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}


def user(uid: str = "user") -> Any:
    return make_pod(uid, node="node", volumes=[CLAIMED])


def cache_with(*objects: KubeObject) -> Cache:
    cache = Cache()
    cache.add_node(make_node("node"))
    cache.add_pod(user())
    for obj in objects:
        cache.volumes.put(obj)
    return cache


def attached(cache: Cache, driver: str = DRIVER) -> int:
    return int(cache.volumes.attached(driver)[cache.nodes.row_of("node")])


OTHER_CLAIM = msgspec.structs.replace(claim("other"), metadata=ObjectMeta(name="others-data", namespace="default"))
IN_TREE: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "aws://a/vol-1"}}

CHANGES: dict[str, tuple[list[KubeObject], Callable[[Cache], object], str, int, int]] = {
    "the claim appears": ([volume()], lambda it: it.volumes.put(claim()), DRIVER, 0, 1),
    "the claim goes": ([volume(), claim()], lambda it: it.volumes.remove(claim()), DRIVER, 1, 0),
    "the volume appears": ([claim()], lambda it: it.volumes.put(volume()), DRIVER, 0, 1),
    "the volume goes": ([volume(), claim()], lambda it: it.volumes.remove(volume()), DRIVER, 1, 0),
    "the class appears": ([claim("")], lambda it: it.volumes.put(storage_class(DRIVER)), DRIVER, 0, 1),
    "the pod goes": ([volume(), claim()], lambda it: it.remove_pod("uid-of-user"), DRIVER, 1, 0),
    "a pod shares the volume": ([volume(), claim()], lambda it: it.add_pod(user("other")), DRIVER, 1, 1),
    "something else is attached": (
        [volume(), claim(), volume("other")],
        lambda it: it.volumes.put(attachment("other")),
        DRIVER,
        1,
        2,
    ),
    "the same is attached": ([volume(), claim()], lambda it: it.volumes.put(attachment("pv")), DRIVER, 1, 1),
    "an attachment ends": (
        [volume(), claim(), volume("other"), attachment("other")],
        lambda it: it.volumes.remove(attachment("other")),
        DRIVER,
        2,
        1,
    ),
    "an attached volume is heard of late": (
        [attachment("other")],
        lambda it: it.volumes.put(volume("other")),
        DRIVER,
        0,
        1,
    ),
    "the node of an in-tree disk gets a CSINode": (
        [volume(**IN_TREE), claim()],
        lambda it: it.volumes.put(csi_node(1)),
        EBS,
        0,
        1,
    ),
    "no more plugins are migrated": (
        [volume(**IN_TREE), claim(), csi_node(1, "kubernetes.io/aws-ebs")],
        lambda it: it.volumes.put(csi_node(1)),
        EBS,
        1,
        1,
    ),
}


@pytest.mark.parametrize(("objects", "change", "driver", "before", "after"), CHANGES.values(), ids=CHANGES)
def test_what_is_attached_follows(
    objects: list[KubeObject], change: Callable[[Cache], object], driver: str, before: int, after: int
) -> None:
    cache = cache_with(*objects)
    assert attached(cache, driver) == before
    change(cache)
    assert attached(cache, driver) == after


def shared_by_two() -> Any:
    mine = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    other = {"name": "w", "persistentVolumeClaim": {"claimName": "others-data"}}
    return make_pod("two", node="node", volumes=[mine, other])


def with_a_disk(handle: str) -> Any:
    disk = {"name": "d", "awsElasticBlockStore": {"volumeID": f"aws://a/{handle}"}}
    return make_pod(f"with-{handle}", node="node", volumes=[disk])


def with_its_own() -> Any:
    return make_pod("owner", node="node", volumes=[{"name": "v", "ephemeral": {}}])


def own_claim(owner: str) -> PersistentVolumeClaim:
    """The claim of the ephemeral volume, made for a pod; the node cannot be counted if it was another one."""
    owned = {"kind": "Pod", "name": "owner", "uid": owner, "controller": True}
    metadata = {"name": "owner-v", "namespace": "default", "ownerReferences": [owned]}
    return convert({"metadata": metadata, "spec": {"storageClassName": "fast"}}, PersistentVolumeClaim)


def count_one(cache: Cache) -> None:
    """A node is counted ahead, or what is in the same pass behind it: a pass of each cache that goes on."""
    at = PASSES.setdefault(cache, cache.volumes.recounting())
    if next(at, AT_END) is AT_END:
        del PASSES[cache]


PASSES: WeakKeyDictionary[Cache, Iterator[None]] = WeakKeyDictionary()
AT_END = object()

STEPS: list[Callable[[Cache], object]] = [
    count_one,
    lambda it: it.volumes.put(volume()),
    lambda it: it.volumes.put(volume(csi={"driver": EBS, "volumeHandle": "pv"})),
    lambda it: it.volumes.put(volume(**IN_TREE)),
    lambda it: it.volumes.remove(volume()),
    lambda it: it.volumes.put(claim()),
    lambda it: it.volumes.put(claim("")),
    lambda it: it.volumes.put(OTHER_CLAIM),
    lambda it: it.volumes.remove(claim()),
    lambda it: it.volumes.put(volume("other")),
    lambda it: it.volumes.put(attachment("other")),
    lambda it: it.volumes.put(attachment("pv")),
    lambda it: it.volumes.remove(attachment("pv")),
    lambda it: it.volumes.put(storage_class(DRIVER)),
    lambda it: it.volumes.put(storage_class("kubernetes.io/aws-ebs")),
    lambda it: it.volumes.put(csi_node(3)),
    lambda it: it.volumes.put(csi_node(1, "kubernetes.io/aws-ebs")),
    lambda it: it.volumes.remove(csi_node(1)),
    lambda it: it.add_pod(user("other")),
    lambda it: it.add_pod(shared_by_two()),
    lambda it: it.add_pod(with_a_disk("vol-1")),
    lambda it: it.add_pod(with_a_disk("no-volume")),
    lambda it: it.remove_pod("uid-of-with-no-volume"),
    lambda it: it.add_pod(with_its_own()),
    lambda it: it.volumes.put(own_claim("uid-of-owner")),
    lambda it: it.volumes.put(own_claim("uid-of-another")),
    lambda it: it.remove_pod("uid-of-owner"),
    lambda it: it.remove_pod("uid-of-two"),
    lambda it: it.remove_pod("uid-of-user"),
    lambda it: it.remove_node("node"),
    lambda it: it.add_node(make_node("node")),
    lambda it: it.add_node(make_node("second")),
    lambda it: it.remove_node("second"),
    lambda it: it.add_pod(make_pod("third", node="second", volumes=[CLAIMED])),
    lambda it: it.remove_pod("uid-of-third"),
    lambda it: it.add_node(make_node("last")),
]


BEGINNING = volume(), claim(), storage_class(DRIVER), csi_node(3)


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), max_size=25))
def test_there_is_never_less_room_than_was_reported(steps: list[tuple[Callable[[Cache], object], int]]) -> None:
    """After any change, a rebuilt table agrees; now and then exact numbers are queried, and are equal."""
    cache, done = cache_with(*BEGINNING), list[Callable[[Cache], object]]()
    for step, luck in steps:
        step(cache)
        done.append(step)
        fresh = cache_with(*BEGINNING)
        for earlier in done:
            earlier(fresh)
        assert_never_less_room(cache, fresh)
        if not luck and not fresh.volumes.uncountable():
            for driver in (DRIVER, EBS):
                assert (cache.volumes.attach_room(driver) == fresh.volumes.attach_room(driver))[
                    cache.nodes.rows()
                ].all()


def test_a_claim_that_becomes_anothers_makes_its_users_node_uncountable_at_once() -> None:
    cache = cache_with(csi_node(3), own_claim("uid-of-owner"))
    cache.add_pod(with_its_own())
    assert cache.volumes.is_countable()
    cache.volumes.put(own_claim("uid-of-another"))
    assert not cache.volumes.is_countable()
    assert set(cache.volumes.uncountable()) == {"node"}
    cache.volumes.put(own_claim("uid-of-owner"))
    assert cache.volumes.is_countable()


def assert_never_less_room(cache: Cache, rebuilt: Cache) -> None:
    rows, uncountable = cache.nodes.rows(), rebuilt.volumes.uncountable()
    if cache.volumes.is_countable():
        assert not uncountable
        for driver in (DRIVER, EBS):
            room = rebuilt.volumes.attach_room(driver)[rows].min(initial=UNLIMITED_ROOM)
            assert all(room >= n for n in range(1, 5) if cache.volumes.surely_take(driver, n, rows))
    else:
        assert cache.volumes.uncountable() == uncountable


def test_a_node_that_comes_after_its_pods_shows_what_they_use_and_its_limit() -> None:
    cache = Cache()
    cache.add_pod(user())
    for obj in (volume(), claim(), csi_node(7)):
        cache.volumes.put(obj)
    assert cache.volumes.attached(DRIVER).sum() == 0
    cache.add_node(make_node("node"))
    row = cache.nodes.row_of("node")
    assert (cache.volumes.attached(DRIVER)[row], cache.volumes.attach_limits(DRIVER)[row]) == (1, 7)
    cache.remove_node("node")
    cache.add_node(make_node("other"))
    assert cache.nodes.row_of("other") == row, "the row is used again"
    assert (cache.volumes.attached(DRIVER)[row], cache.volumes.attach_limits(DRIVER)[row]) == (0, -1)


# --- who listens ------------------------------------------------------------------------------------------------------

CLAIM_OF_POD, VOLUME_OF_POD, USER = (CLAIM, "default/data"), (VOLUME, "pv"), (POD, "uid-of-user")

NEWS: dict[str, tuple[Callable[[Cache], object], set[Subject]]] = {
    "the claim changes": (lambda it: it.volumes.put(claim()), {CLAIM_OF_POD}),
    "the claim goes": (lambda it: it.volumes.remove(claim()), {CLAIM_OF_POD}),
    "its volume changes": (lambda it: it.volumes.put(volume(version="2")), {VOLUME_OF_POD, CLAIM_OF_POD}),
    "its volume goes": (lambda it: it.volumes.remove(volume()), {VOLUME_OF_POD, CLAIM_OF_POD}),
    "the pod leaves its node": (lambda it: it.remove_pod("uid-of-user"), {USER}),
    "another claim changes": (lambda it: it.volumes.put(OTHER_CLAIM), set()),
    "another volume changes": (lambda it: it.volumes.put(volume("other", version="2")), set()),
    "something else is attached": (lambda it: it.volumes.put(attachment("other")), set()),
    "a class changes": (lambda it: it.volumes.put(storage_class(DRIVER)), set()),
}


@pytest.mark.parametrize(("news", "subjects"), NEWS.values(), ids=NEWS)
def test_listeners_hear_of_their_subjects_and_of_nothing_else(
    news: Callable[[Cache], object], subjects: set[Subject]
) -> None:
    cache = cache_with(volume(), claim(), volume("other"), OTHER_CLAIM)
    heard: list[Subject] = []
    for subject in (CLAIM_OF_POD, VOLUME_OF_POD, USER):
        cache.volumes.on_change([subject], partial(heard.append, subject))
    news(cache)
    assert sorted(heard) == sorted(subjects)


def test_a_listener_that_has_ended_hears_nothing_and_others_still_do() -> None:
    cache, heard = cache_with(volume(), claim()), list[str]()
    end = cache.volumes.on_change([CLAIM_OF_POD, VOLUME_OF_POD], lambda: heard.append("ended"))
    cache.volumes.on_change([CLAIM_OF_POD], lambda: heard.append("still there"))
    end()
    cache.volumes.put(volume(version="2"))
    assert heard == ["still there"]


# --- assuming ---------------------------------------------------------------------------------------------------------


def test_an_assumption_holds_until_a_newer_version_comes() -> None:
    cache: AssumeCache[PersistentVolume] = AssumeCache()
    first, assumed, second = volume(version="1"), volume(version="1"), volume(version="2")
    cache.put("pv", first)
    cache.assume(assumed)
    assert cache.get("pv") is assumed
    assert cache.confirmed("pv") is first
    cache.put("pv", first)
    assert cache.get("pv") is assumed, "a relist brings nothing new"
    cache.put("pv", second)
    assert cache.get("pv") is second


def test_an_assumption_can_be_taken_back_but_not_somebody_elses() -> None:
    cache: AssumeCache[PersistentVolume] = AssumeCache()
    first, assumed = volume(version="1"), volume(version="1")
    cache.put("pv", first)
    cache.assume(assumed)
    cache.restore(volume(version="2"))
    assert cache.get("pv") is assumed
    cache.restore(assumed)
    assert cache.get("pv") is first


def test_what_is_gone_or_older_cannot_be_assumed() -> None:
    cache: AssumeCache[PersistentVolume] = AssumeCache()
    with pytest.raises(ValueError, match="is gone"):
        cache.assume(volume())
    cache.put("pv", volume(version="2"))
    with pytest.raises(ValueError, match="out of sync"):
        cache.assume(volume(version="1"))
    cache.remove("pv")
    assert cache.get("pv") is None


def test_marks_of_nodes_that_are_gone_do_not_stay_though_nobody_asks_about_volumes() -> None:
    cache = Cache()
    for number in range(2000):
        cache.add_node(make_node(f"node-{number}"))
        cache.remove_node(f"node-{number}")
    assert len(cache.volumes._attached._marked) <= 300


def test_a_storage_class_whose_capacities_are_gone_leaves_nothing() -> None:
    cache = Cache()
    for number in range(3):
        tree = {"metadata": {"name": f"c-{number}", "namespace": "d"}, "storageClassName": f"class-{number}"}
        cache.volumes.put(convert(tree, CSIStorageCapacity))
        cache.volumes.remove(convert(tree, CSIStorageCapacity))
    assert not cache.volumes._capacities


def test_what_is_counted_ahead_is_not_counted_by_the_next_query(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_with(volume(), claim(), csi_node(3))
    table = cache.volumes
    assert table._attached._marked
    for _ in table.recounting():
        pass

    def counts(name: str) -> NoReturn:
        raise AssertionError(f"{name} is counted again")

    monkeypatch.setattr(table._attached, "_count", counts)
    assert table.surely_take(DRIVER, 2, cache.nodes.rows())
    assert not table.surely_take(DRIVER, 3, cache.nodes.rows())
    assert table.attached(DRIVER).tolist()[: len(cache.nodes)] == [1]


@pytest.mark.parametrize("ahead", [0, 1, 2], ids=["asked", "after one node", "after two nodes"])
def test_what_changes_in_a_pause_is_seen(ahead: int) -> None:
    cache = cache_with(volume(), claim(), csi_node(3))
    for name in ("stays", "goes"):
        cache.add_node(make_node(name))
    steps = cache.volumes.recounting()
    for _ in range(ahead):
        next(steps)
    cache.volumes.put(csi_node(1))
    cache.remove_node("goes")
    cache.add_node(make_node("other"))
    if ahead:
        list(steps)
    assert not cache.volumes.surely_take(DRIVER, 1, cache.nodes.rows())
    rooms = cache.volumes.attach_room(DRIVER)
    assert {name: rooms[cache.nodes.row_of(name)] for name in ("node", "stays", "other")} == {
        "node": 0,
        "stays": UNLIMITED_ROOM,
        "other": UNLIMITED_ROOM,
    }


def test_a_node_that_was_counted_by_a_query_in_a_pause_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_with(volume(), claim(), csi_node(3))
    cache.add_node(make_node("other"))
    steps, counted = cache.volumes.recounting(), list[str]()
    count = cache.volumes._attached._count

    def counts(name: str) -> NodeAttachments:
        counted.append(name)
        return count(name)

    monkeypatch.setattr(cache.volumes._attached, "_count", counts)
    next(steps)
    assert cache.volumes.is_countable()
    list(steps)
    assert sorted(counted) == ["node", "other"]


@pytest.mark.parametrize("objects", [[csi_node(3)], [volume(), claim(), csi_node(None)]], ids=["claims", "limits"])
def test_where_there_are_no_claims_or_no_limits_nothing_is_counted_ahead(objects: list[KubeObject]) -> None:
    cache = cache_with(*objects)
    list(cache.volumes.recounting())
    assert cache.volumes._attached._marked


def test_where_there_are_no_limits_nothing_is_counted_for_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_with(volume(), claim(), csi_node(None))

    def counts(name: str) -> NoReturn:
        raise AssertionError(f"{name} is counted")

    monkeypatch.setattr(cache.volumes._attached, "_count", counts)
    assert cache.volumes.is_countable()
    assert cache.volumes.surely_take(DRIVER, 1, cache.nodes.rows())
    assert not cache.volumes.has_attach_limits("node"), "as for a node in a dry run"


SECRETS = {"name": "v", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}}
IMAGE = {"name": "w", "image": {"reference": "data:1"}}


def test_pods_whose_volumes_attach_nothing_leave_nothing_to_count() -> None:
    cache = cache_with(volume(), claim(), csi_node(3))
    assert cache.volumes.is_countable()
    cache.add_pod(make_pod("secrets", node="node", volumes=[SECRETS, IMAGE]))
    cache.remove_pod("uid-of-secrets")
    assert not cache.volumes._attached._marked


def test_a_node_that_cannot_be_counted_ahead_says_so_and_is_left_to_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_with(volume(), claim(), csi_node(3))

    def fails(_: str) -> NoReturn:
        raise RuntimeError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(cache.volumes._attached, "_count", fails)
        with pytest.raises(RuntimeError, match="a bug"):
            list(cache.volumes.recounting())
    assert cache.volumes.surely_take(DRIVER, 2, cache.nodes.rows())
    assert not cache.volumes.surely_take(DRIVER, 3, cache.nodes.rows())


def test_columns_made_ahead_know_of_pods_that_came_to_nodes_counted_before() -> None:
    cache = Cache()
    cache.add_node(make_node("node"))
    for obj in (volume(), claim(), csi_node(1)):
        cache.volumes.put(obj)
    assert cache.volumes.is_countable(), "the node is counted, and no driver has columns"
    cache.add_pod(user())
    cache.add_node(make_node("second"))
    drivers = [{"name": DRIVER, "allocatable": {"count": 1}}]
    cache.volumes.put(convert({"metadata": {"name": "second"}, "spec": {"drivers": drivers}}, CSINode))
    list(cache.volumes.recounting())
    assert not cache.volumes.surely_take(DRIVER, 1, cache.nodes.rows())


@given(st.lists(st.sampled_from(STEPS), max_size=25))
def test_there_is_never_less_room_than_the_first_query_reports(steps: list[Callable[[Cache], object]]) -> None:
    cache, fresh = cache_with(*BEGINNING), cache_with(*BEGINNING)
    for step in steps:
        step(cache)
        cache.volumes.is_countable()
        if step is not STEPS[0]:
            step(fresh)
    assert_never_less_room(cache, fresh)
