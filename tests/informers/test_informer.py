"""Store, handlers, and objects that come back or cannot be read."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import Node, Pod, PodSpec
from kscheduler.api.kinds import (
    CSI_NODES,
    DEVICE_TAINT_RULES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_CLAIMS,
    Kind,
)
from kscheduler.api.meta import KubeObject, ObjectMeta
from kscheduler.client.watch import Undecodable, WatchEvent, undecodable
from kscheduler.informers import Informer, Store
from kscheduler.informers.unreadable import rule_for

Story = list[tuple[str, ...]]


class Recorder:
    """Writes down what it is told, and fails for objects named `poison`."""

    def __init__(self) -> None:
        self.story: Story = []

    def on_add(self, obj: Pod, initial: bool) -> None:
        self.story.append(("add", obj.key, obj.metadata.uid, "initial" if initial else ""))
        if obj.metadata.name == "poison":
            raise LookupError

    def on_update(self, old: Pod, new: Pod) -> None:
        self.story.append(("update", new.key, old.metadata.resource_version, new.metadata.resource_version))

    def on_delete(self, obj: Pod) -> None:
        self.story.append(("delete", obj.key, obj.metadata.uid, obj.metadata.resource_version))

    def take(self) -> Story:
        story, self.story = self.story, []
        return story


def pod(name: str, version: str = "1", uid: str = "", node: str = "", **labels: str) -> Pod:
    meta = ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}", resource_version=version, labels=labels)
    return Pod(metadata=meta, spec=PodSpec(node_name=node))


def unreadable(name: str, event: str = "MODIFIED", node: str = "", uid: str = "") -> Undecodable:
    return Undecodable(event, "ns", name, uid, "99", node, "spec.x: expected int")


@pytest.fixture
def informer() -> Informer[Pod]:
    return Informer(PODS)


@pytest.fixture
def recorder(informer: Informer[Pod]) -> Recorder:
    recorder = Recorder()
    informer.add_handler(recorder)
    return recorder


def test_before_the_first_list_nothing_is_known(informer: Informer[Pod]) -> None:
    now = informer.statistics()
    assert (now.synced, now.objects, now.resource_version, now.problem) == (False, 0, "", "")


async def test_the_first_list_is_handed_over_before_it_counts_as_synced(informer: Informer[Pod]) -> None:
    seen: list[bool] = []

    class Watcher(Recorder):
        def on_add(self, obj: Pod, initial: bool) -> None:
            seen.append(informer.has_synced)

    informer.add_handler(Watcher())
    await informer.replace([pod("a"), pod("b")], [])
    assert seen == [False, False]
    assert informer.has_synced


async def test_a_kind_that_comes_back_has_no_list_before_it_is_listed_again(informer: Informer[Pod]) -> None:
    seen = [informer.has_list]

    class Watcher(Recorder):
        def on_add(self, obj: Pod, initial: bool) -> None:
            seen.append(informer.has_list)

    informer.add_handler(Watcher())
    await informer.replace([pod("a")], [])
    seen.append(informer.has_list)
    await informer.rest()
    seen.append(informer.has_list)
    informer.wake()
    seen.append(informer.has_list)
    await informer.replace([pod("a")], [])
    assert seen == [False, False, True, False, False, False]
    assert informer.has_list


async def test_a_handler_is_told_when_all_is_known_also_if_that_is_nothing(informer: Informer[Pod]) -> None:
    told = []

    class Waiter(Recorder):
        def on_synced(self) -> None:
            told.append(informer.has_list)

    informer.add_handler(Waiter())
    await informer.rest()
    assert told == [], "the API does not exist"
    informer.wake()
    await informer.replace([], [])
    assert told == [True]
    await informer.replace([pod("a")], [])
    assert told == [True], "a later list says what has changed since the first one"
    await informer.rest()
    informer.wake()
    await informer.replace([], [])
    assert told == [True, True]


async def test_a_relist_reports_updates_additions_and_deletions(informer: Informer[Pod], recorder: Recorder) -> None:
    await informer.replace([pod("same"), pod("changed"), pod("gone")], [])
    assert recorder.take() == [("add", f"ns/{n}", f"uid-{n}", "initial") for n in ("same", "changed", "gone")]
    await informer.replace([pod("same"), pod("changed", "2"), pod("new")], [])
    assert recorder.take() == [
        ("update", "ns/changed", "1", "2"),
        ("add", "ns/new", "uid-new", ""),
        ("delete", "ns/gone", "uid-gone", "1"),
    ]


async def test_the_same_key_with_a_new_uid_is_a_deletion_and_an_addition(
    informer: Informer[Pod], recorder: Recorder
) -> None:
    informer.apply(WatchEvent("ADDED", pod("a", uid="u1")))
    informer.apply(WatchEvent("MODIFIED", pod("a", "2", uid="u2")))
    await informer.replace([pod("a", "3", uid="u3")], [])
    assert [step[0:3:2] for step in recorder.take()] == [
        ("add", "u1"),
        ("delete", "u1"),
        ("add", "u2"),
        ("delete", "u2"),
        ("add", "u3"),
    ]


def test_the_same_version_is_not_reported_twice(informer: Informer[Pod], recorder: Recorder) -> None:
    informer.apply(WatchEvent("ADDED", pod("a")))
    informer.apply(WatchEvent("MODIFIED", pod("a")))
    assert len(recorder.take()) == 1


def test_a_deletion_hands_over_the_last_stored_state(informer: Informer[Pod], recorder: Recorder) -> None:
    informer.apply(WatchEvent("ADDED", pod("a")))
    informer.apply(WatchEvent("DELETED", pod("a", "5")))
    informer.apply(WatchEvent("DELETED", pod("a", "6")))
    assert recorder.take()[1:] == [("delete", "ns/a", "uid-a", "1")]
    assert len(informer.store) == 0


def test_a_handlers_exception_is_that_objects_failure_only(informer: Informer[Pod], recorder: Recorder) -> None:
    second = Recorder()
    informer.add_handler(second)
    informer.apply(WatchEvent("ADDED", pod("poison")))
    informer.apply(WatchEvent("ADDED", pod("b")))
    assert len(recorder.take()) == 2
    assert len(second.take()) == 1 + 1
    assert informer.statistics().handler_errors == 2


@pytest.mark.parametrize("failure", [asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_handler_that_is_cancelled_or_exits_ends_no_watch(informer: Informer[Pod], failure: BaseException) -> None:
    class Ends(Recorder):
        def on_add(self, obj: Pod, initial: bool) -> None:
            raise failure

    after = Recorder()
    informer.add_handler(Ends())
    informer.add_handler(after)
    informer.apply(WatchEvent("ADDED", pod("a")))
    assert len(after.take()) == 1
    assert informer.statistics().handler_errors == 1


def test_a_late_handler_is_reported_what_is_stored(informer: Informer[Pod]) -> None:
    informer.apply(WatchEvent("ADDED", pod("a")))
    late = Recorder()
    informer.add_handler(late)
    assert late.take() == [("add", "ns/a", "uid-a", "initial")]


async def test_a_large_list_lets_others_run_between_slices(informer: Informer[Pod]) -> None:
    class Slow(Recorder):
        def on_add(self, obj: Pod, initial: bool) -> None:
            sum(range(20_000))

    informer.add_handler(Slow())
    turns, ended = 0, asyncio.Event()

    async def other() -> None:
        nonlocal turns
        while not ended.is_set():
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(other())
    await informer.replace([pod(str(number)) for number in range(200)], [])
    ended.set()
    await counting
    assert turns >= 3


def test_an_unreadable_object_is_counted_named_and_skipped(informer: Informer[Pod], recorder: Recorder) -> None:
    informer.apply_undecodable(unreadable("bad", "ADDED"))
    assert recorder.take() == []
    assert informer.statistics().undecodable == {"ns/bad": "spec.x: expected int"}
    informer.apply(WatchEvent("MODIFIED", pod("bad")))
    assert informer.statistics().undecodable == {}
    assert informer.statistics().undecodable_total == 1


def test_a_node_that_became_unreadable_does_not_stay_schedulable() -> None:
    informer: Informer[Node] = Informer(NODES)
    informer.apply(WatchEvent("ADDED", Node(metadata=ObjectMeta(name="n1", uid="u"))))
    informer.apply_undecodable(Undecodable("MODIFIED", "", "n1", "u", "9", "", "bad"))
    assert informer.store.get("n1") is None


@pytest.mark.parametrize(
    ("was_on", "now_on", "kept_on"),
    [
        pytest.param("n1", "n1", "n1", id="bound stays where it is"),
        pytest.param("n1", "", "n1", id="bound and nothing known"),
        pytest.param("", "n2", "n2", id="bound by the unreadable state"),
        pytest.param("", "", None, id="pending is not scheduled any more"),
    ],
)
def test_a_pod_that_became_unreadable_keeps_what_it_holds(
    informer: Informer[Pod], was_on: str, now_on: str, kept_on: str | None
) -> None:
    informer.apply(WatchEvent("ADDED", pod("a", node=was_on)))
    informer.apply_undecodable(unreadable("a", node=now_on, uid="uid-a"))
    kept = informer.store.get("ns/a")
    assert (kept.spec.node_name if kept else None) == kept_on


def test_a_pod_that_is_being_bound_keeps_its_room_when_it_becomes_unreadable() -> None:
    """Its spec can be read and names no node yet: an event of before the Binding, whose status was garbled."""
    informer: Informer[Pod] = Informer(PODS, retain=rule_for("pods", {"uid-a"}.__contains__))
    for name in ("a", "b"):
        informer.apply(WatchEvent("ADDED", pod(name)))
        informer.apply_undecodable(unreadable(name, uid=f"uid-{name}"))
    assert [each.metadata.name for each in informer.store.list()] == ["a"]
    informer.apply_undecodable(unreadable("a", uid="uid-of-another"))
    assert len(informer.store) == 0


@pytest.mark.parametrize("kind", [POD_DISRUPTION_BUDGETS, RESOURCE_CLAIMS, DEVICE_TAINT_RULES, CSI_NODES], ids=str)
def test_what_takes_room_or_protects_stays_when_it_becomes_unreadable(kind: Kind) -> None:
    """Its devices would be given to two claims, its pods evicted without a budget."""
    informer: Informer[Any] = Informer(kind)
    namespace = "ns" if kind.namespaced else ""
    found = kind.type(metadata=ObjectMeta(name="x", namespace=namespace, uid="u", resource_version="1"))
    informer.apply(WatchEvent("ADDED", found))
    informer.apply_undecodable(Undecodable("MODIFIED", namespace, "x", "u", "2", "", "bad"))
    assert informer.store.list() == [found]
    assert informer.statistics().undecodable
    informer.apply_undecodable(Undecodable("DELETED", namespace, "x", "u", "3", "", "bad"))
    assert len(informer.store) == 0


@pytest.mark.parametrize("spec", ["\u2603", None, 7, {"nodeName": 7}, ["n1"]], ids=str)
def test_a_pod_whose_new_state_does_not_report_its_node_is_not_taken_for_gone(
    informer: Informer[Pod], recorder: Recorder, spec: object
) -> None:
    """It may be the answer to our Binding: the cache would free the room that it has assumed for the pod."""
    informer.apply(WatchEvent("ADDED", pod("a")))
    metadata = {"namespace": "ns", "name": "a", "uid": "uid-a", "resourceVersion": "99"}
    informer.apply_undecodable(
        undecodable({"metadata": metadata, "spec": spec}, "MODIFIED", "spec: expected an object")
    )
    assert "ns/a" in informer.store
    assert informer.is_unreadable("ns/a")
    assert [what for what, *_ in recorder.story] == ["add"]


async def test_an_unreadable_pod_in_a_relist_is_not_taken_for_deleted(
    informer: Informer[Pod], recorder: Recorder
) -> None:
    await informer.replace([pod("a", node="n1")], [])
    recorder.take()
    await informer.replace([], [unreadable("a", "LISTED", node="n1")])
    assert recorder.take() == []
    informer.apply_undecodable(unreadable("a", "DELETED"))
    assert [step[0] for step in recorder.take()] == ["delete"]


def test_stored_pods_carry_no_luggage(informer: Informer[Pod]) -> None:
    heavy = pod("a", app="web")
    heavy.metadata.annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "big": "x" * 5000,
        "small": "kept",
    }
    informer.apply(WatchEvent("ADDED", heavy))
    stored = informer.store.get("ns/a")
    assert stored is not None
    assert stored.metadata.annotations == {"small": "kept"}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["u1", "u2"]),
            st.sampled_from(["n1", "n2", ""]),
        ),
        max_size=40,
    )
)
def test_store_index_and_handlers_always_agree_with_a_naive_model(events: list[tuple[str, str, str, str]]) -> None:
    informer: Informer[Pod] = Informer(PODS)
    stored: dict[str, Pod] = {}

    class Model:
        def on_add(self, obj: Pod, initial: bool) -> None:
            assert obj.key not in stored
            stored[obj.key] = obj

        def on_update(self, old: Pod, new: Pod) -> None:
            assert stored[new.key] is old
            assert old.metadata.uid == new.metadata.uid
            stored[new.key] = new

        def on_delete(self, obj: Pod) -> None:
            assert stored.pop(obj.key) is obj

    informer.add_handler(Model())
    informer.store.add_index("node", lambda obj: [obj.spec.node_name] if obj.spec.node_name else [])
    drift_detection: dict[str, tuple[str, str]] = {}
    for version, (event, name, uid, node) in enumerate(events):
        informer.apply(WatchEvent(event, pod(name, str(version), uid, node)))
        drift_detection.pop(name, None)
        if event != "DELETED":
            drift_detection[name] = (uid, node)
    assert {
        one.metadata.name: (one.metadata.uid, one.spec.node_name) for one in informer.store.list()
    } == drift_detection
    assert {key: id(one) for key, one in stored.items()} == {one.key: id(one) for one in informer.store.list()}
    for node in ("n1", "n2"):
        filed = {one.metadata.name for one in informer.store.by_index("node", node)}
        assert filed == {name for name, (_, on) in drift_detection.items() if on == node}
    assert informer.statistics().handler_errors == 0


def test_a_run_is_applied_in_its_order_as_far_as_there_is_time(informer: Informer[Pod], recorder: Recorder) -> None:
    events = [
        WatchEvent("ADDED", pod("a")),
        WatchEvent("MODIFIED", pod("a", "2")),
        WatchEvent("DELETED", pod("a", "3")),
    ]
    assert informer.apply_run(events, ends_at=0.0) == 1, "the first one in any case"
    assert recorder.take() == [("add", "ns/a", "uid-a", "")]
    assert informer.apply_run(events[1:]) == 2
    assert recorder.take() == [("update", "ns/a", "1", "2"), ("delete", "ns/a", "uid-a", "2")]


def test_each_event_of_a_run_is_shown_to_all_handlers_before_the_next_one_is_stored(informer: Informer[Pod]) -> None:
    seen: list[tuple[int, str, tuple[str, ...]]] = []

    class Looks(Recorder):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def on_add(self, obj: Pod, initial: bool) -> None:
            seen.append((self.number, obj.key, tuple(informer.store.keys())))

    informer.add_handler(Looks(1))
    informer.add_handler(Looks(2))
    informer.apply_run([WatchEvent("ADDED", pod("a")), WatchEvent("ADDED", pod("b"))])
    a, both = ("ns/a",), ("ns/a", "ns/b")
    assert seen == [(1, "ns/a", a), (2, "ns/a", a), (1, "ns/b", both), (2, "ns/b", both)]


def test_an_object_that_cannot_be_stored_is_unreadable_and_keeps_none_of_its_run_from_being_applied() -> None:
    def transform(obj: Pod) -> None:
        if obj.metadata.labels:
            raise OverflowError("too many")

    informer: Informer[Pod] = Informer(PODS, transform=transform)
    events = [
        WatchEvent("ADDED", pod("a")),
        WatchEvent("ADDED", pod("bad", node="n1", app="web")),
        WatchEvent("MODIFIED", pod("a", "2", app="web")),
        WatchEvent("ADDED", pod("b")),
    ]
    assert informer.apply_run(events) == len(events)
    assert informer.store.keys() == ["ns/b"], "a pod without a node is not scheduled by a state that is known to be old"
    bad = informer.unreadable_under("ns/bad")
    assert bad is not None
    assert (bad.node_name, bad.uid, bad.error) == ("n1", "uid-bad", "OverflowError: too many")
    assert informer.is_unreadable("ns/a")


def test_an_index_covers_what_was_stored_before_it() -> None:
    store: Store[Pod] = Store()
    store.put("ns/a", pod("a", node="n1"))
    store.add_index("node", lambda obj: [obj.spec.node_name])
    assert [one.key for one in store.by_index("node", "n1")] == ["ns/a"]
    store.remove("ns/a")
    assert store.by_index("node", "n1") == []


def test_a_recorder_hears_each_change_before_the_handlers_and_with_its_key(
    informer: Informer[Pod], recorder: Recorder
) -> None:
    class First:
        def added(self, key: str, obj: KubeObject, initial: bool) -> None:
            recorder.story.append(("first", "add", key, obj.key, str(initial)))

        def updated(self, key: str, old: KubeObject, new: KubeObject) -> None:
            recorder.story.append(("first", "update", key, old.key, new.metadata.resource_version))

        def deleted(self, key: str, obj: KubeObject) -> None:
            recorder.story.append(("first", "delete", key, obj.key))

    informer.recorder = First()
    asyncio.run(informer.replace([pod("a")], ()))
    informer.apply(WatchEvent("MODIFIED", pod("a", "2")))
    informer.apply(WatchEvent("ADDED", pod("a", "3", uid="another")))
    found = recorder.take()
    assert [line for line in found if line[0] == "first"] == [
        ("first", "add", "ns/a", "ns/a", "True"),
        ("first", "update", "ns/a", "ns/a", "2"),
        ("first", "delete", "ns/a", "ns/a"),
        ("first", "add", "ns/a", "ns/a", "False"),
    ]
    assert [line[0] for line in found] == ["first", "add", "first", "update", "first", "delete", "first", "add"]


# --- order ------------------------------------------------------------------------------------------------------------


def test_an_event_that_comes_late_does_not_take_an_object_back(informer: Informer[Pod], recorder: Recorder) -> None:
    informer.apply(WatchEvent("ADDED", pod("a", "9", node="n1")))
    informer.apply(WatchEvent("MODIFIED", pod("a", "8")))
    informer.apply(WatchEvent("ADDED", pod("a", "9")))
    assert [step[0] for step in recorder.take()] == ["add"]
    stored = informer.store.get("ns/a")
    assert stored is not None
    assert stored.spec.node_name == "n1"
    informer.apply(WatchEvent("MODIFIED", pod("a", "10")))
    assert [step[0] for step in recorder.take()] == ["update"], "as numbers, not as text"
    assert informer.statistics().out_of_order == 1


def test_an_event_that_comes_after_the_deletion_does_not_bring_an_object_back(informer: Informer[Pod]) -> None:
    informer.apply(WatchEvent("ADDED", pod("a", "5")))
    informer.apply(WatchEvent("DELETED", pod("a", "12")))
    informer.apply(WatchEvent("MODIFIED", pod("a", "11")))
    assert len(informer.store) == 0
    informer.apply(WatchEvent("ADDED", pod("a", "13")))
    assert len(informer.store) == 1, "a selector may let it go and come back"


def test_a_late_deletion_of_an_earlier_object_of_the_name_is_not_that_of_the_new_one(informer: Informer[Pod]) -> None:
    informer.apply(WatchEvent("ADDED", pod("a", "20", uid="second")))
    informer.apply(WatchEvent("DELETED", pod("a", "19", uid="first")))
    assert len(informer.store) == 1
    informer.apply(WatchEvent("DELETED", pod("a", "21", uid="second")))
    assert len(informer.store) == 0


async def test_a_list_may_go_back_as_after_a_restore_of_etcd(informer: Informer[Pod]) -> None:
    informer.apply(WatchEvent("ADDED", pod("a", "900")))
    await informer.replace([pod("a", "100")], [])
    stored = informer.store.get("ns/a")
    assert stored is not None
    assert stored.metadata.resource_version == "100"
    informer.apply(WatchEvent("MODIFIED", pod("a", "101")))
    assert informer.statistics().out_of_order == 0


def test_only_the_last_deletions_are_remembered(informer: Informer[Pod]) -> None:
    for number in range(5000):
        informer.apply(WatchEvent("ADDED", pod(f"p{number}", str(2 * number + 1))))
        informer.apply(WatchEvent("DELETED", pod(f"p{number}", str(2 * number + 2))))
    assert len(informer._gone) <= 1024


# --- objects whose names cannot be read -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uid", "left"),
    [pytest.param("uid-a", {"ns/a"}, id="known by its uid"), pytest.param("", {"ns/a", "ns/b"}, id="not known at all")],
)
async def test_a_pod_does_not_lose_its_room_because_a_list_garbled_its_name(
    informer: Informer[Pod], uid: str, left: set[str]
) -> None:
    await informer.replace([pod("a", node="n1"), pod("b", node="n1")], [])
    await informer.replace([], [Undecodable("LISTED", "", "", uid, "", "", "it has no name")])
    assert set(informer.store.keys()) == left
    await informer.replace([], [])
    assert len(informer.store) == 0


def test_a_deletion_of_nobody_knows_subject_is_remembered_until_a_list(informer: Informer[Pod]) -> None:
    informer.apply(WatchEvent("ADDED", pod("a")))
    informer.apply_undecodable(Undecodable("DELETED", "", "", "", "", "", "it has no name"))
    assert [bad.key for bad in informer.unreadable()] == [""]
    assert len(informer.store) == 1


async def test_of_a_list_that_shows_a_stored_object_again_the_stored_one_is_kept() -> None:
    """Else each list would be in memory a second time, as a whole."""
    informer: Informer[Pod] = Informer(PODS)
    await informer.replace([pod("same"), pod("changed"), pod("another", uid="before")], [])
    again = [pod("same"), pod("changed", "2"), pod("another", uid="after"), pod("new")]
    kept = [informer.prepared(listed) for listed in again]
    assert [one is informer.store.get(one.key) for one in kept] == [True, False, False, False]
    assert [one is listed for one, listed in zip(kept, again, strict=True)] == [False, True, True, True]
