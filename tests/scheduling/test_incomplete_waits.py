"""Pods of groups that are not whole are told: by one function that says why, in the log, in `/readyz?verbose`."""

from collections.abc import Iterator

import pytest
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.groups import COMPOSITE_POD_GROUPS
from kscheduler.framework.cluster.pod_groups import (
    NOT_SERVED,
    GroupDefinition,
    GroupKey,
    unreadable,
    why_incomplete,
    why_missing,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS
from kscheduler.scheduling.long_waits import IncompleteWaits
from kscheduler.scheduling.pending_pods import PendingPods
from kscheduler.state.group_apis import SCHEDULER_PLUGINS, VOLCANO, kubernetes_apis
from kscheduler.state.pod_groups import PodGroupTable
from kscheduler.state.queue.admission import QueuePolicy
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.group_queue import IncompleteGroup
from kscheduler.state.queue.hints import HintTable
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from tests.builders import make_pod
from tests.server.status_page.page_scene import StoredPods
from tests.state.queue.model import sort_key

COMPOSITE = "compositepodgroups.scheduling.k8s.io"
RESOURCE = "podgroups.scheduling.x-k8s.io"
UNREADABLE = "which exists, but cannot be read: no int"
PARENT = f"waits for CompositePodGroup default/{{}} ({COMPOSITE}; parent of default/x), which does not exist"


def leaf(name: str) -> GroupKey:
    return GroupKey("scheduling.k8s.io", "default", name)


def above(name: str) -> GroupKey:
    return GroupKey("scheduling.k8s.io", "default", name, is_composite=True)


class World:
    def __init__(self) -> None:
        self.clock, self.pods = VirtualClock(), StoredPods()
        self.table = PodGroupTable(kubernetes_apis(None, COMPOSITE_POD_GROUPS))
        policy = QueuePolicy(
            sort_key, lambda *_: SUCCESS, HintTable({}), BackoffPolicy(0.0, 0.0), lambda *_: None, groups=self.table
        )
        self.queue = SchedulingQueue(policy)
        self.waits = IncompleteWaits(self._incomplete, self.queue.groups_version, self.clock.monotonic)
        self.looked = 0

    def _incomplete(self) -> Iterator[IncompleteGroup]:
        self.looked += 1
        return self.queue.incomplete_groups()

    def put(self, key: GroupKey, parent: str = "") -> None:
        self.table.put(GroupDefinition(key, 1, parent=above(parent) if parent else None))

    def add_pod(self, name: str, group: str) -> None:
        pod = make_pod(name, schedulingGroup={"podGroupName": group})
        self.pods[pod.key] = pod
        self.queue.add(PodInfo(pod), self.clock.time())

    async def look(self, times: int = 1) -> list[tuple[object, ...]]:
        """What so many looks log, a second apart."""
        with structlog.testing.capture_logs() as lines:
            for _ in range(times):
                self.waits.look()
                await self.clock.advance(1.0)
        return [(line["event"], line["pod_group"], line["pods"], line["reason"]) for line in lines]


def test_the_reason_names_the_missing_group_or_the_circle_or_the_depth() -> None:
    world = World()

    def why(name: str) -> str:
        found = why_incomplete(world.table.definition, leaf(name))
        assert (found == "") == (world.table.root_of(leaf(name)) is not None)
        return found

    assert why("x") == "waits for PodGroup default/x (podgroups.scheduling.k8s.io), which does not exist"
    world.put(leaf("x"), "y")
    assert why("x") == PARENT.format("y")
    world.put(above("y"), "z")
    world.put(above("z"), "y")
    assert why("x") == "its groups name each other as parents: default/y -> default/z -> default/y"
    world.put(above("y"), "y")
    assert why("x") == "its CompositePodGroup default/y names itself as parent"
    for name, parent in (("y", "l2"), ("l2", "l3"), ("l3", "l4")):
        world.put(above(name), parent)
    assert why("x").startswith("trees deeper than four levels are not followed: default/x -> default/y")
    world.put(above("l3"))
    assert why("x") == ""


def test_a_group_of_the_same_name_elsewhere_is_reported_and_so_is_a_kind_that_is_not_served() -> None:
    table = PodGroupTable((SCHEDULER_PLUGINS, VOLCANO))
    queried = GroupKey("scheduling.x-k8s.io", "default", "g")

    def why() -> str:
        return why_incomplete(table.definition, queried, table.absence).partition(", which does not exist")[2]

    table.put(GroupDefinition(GroupKey("scheduling.volcano.sh", "default", "other"), 1))
    assert why() == ""
    elsewhere = GroupKey("scheduling.x-k8s.io", "a", "g")
    table.put(GroupDefinition(elsewhere, 1))
    assert why() == "; of this name there is a/g (podgroups.scheduling.x-k8s.io)"
    volcano = GroupKey("scheduling.volcano.sh", "default", "g")
    table.put(GroupDefinition(volcano, 1))
    own_first = "default/g (podgroups.scheduling.volcano.sh), a/g (podgroups.scheduling.x-k8s.io)"
    assert why() == f"; of this name there are {own_first}"
    for key in (elsewhere, volcano):
        table.remove(key)
    assert why() == ""


@pytest.mark.parametrize(
    ("known", "reported"),
    [
        pytest.param({RESOURCE: NOT_SERVED}, "a kind that the API server does not serve", id="not served"),
        pytest.param({f"{RESOURCE} default/g": unreadable("no int")}, UNREADABLE, id="unreadable"),
        pytest.param({f"{RESOURCE} default/x": unreadable("no int")}, "which does not exist", id="another one"),
    ],
)
def test_a_group_that_may_be_there_is_not_said_to_be_missing(known: dict[str, str], reported: str) -> None:
    table = PodGroupTable(why_missing=why_missing(known))
    queried = GroupKey("scheduling.x-k8s.io", "default", "g")
    whole = why_incomplete(table.definition, queried, table.absence)
    assert whole == f"waits for PodGroup default/g ({RESOURCE}), {reported}"


async def test_nobody_is_looked_at_once_everything_is_reported_and_nothing_changes() -> None:
    world = World()
    for number in range(50):
        world.add_pod(f"p{number}", f"g{number}")
    assert len(await world.look(5)) == 50
    looked = world.looked
    assert await world.look(5) == []
    assert world.looked == looked
    world.put(leaf("another"))
    await world.look()
    assert world.looked == looked + 1


async def test_a_group_is_logged_once_and_again_when_it_waits_for_something_else() -> None:
    world = World()
    for name in ("one", "two"):
        world.add_pod(name, "x")
    missing = "waits for PodGroup default/x (podgroups.scheduling.k8s.io), which does not exist"
    assert await world.look() == []
    assert await world.look(5) == [("pod_group_incomplete", "default/x", 2, missing)]
    world.put(leaf("x"), "y")
    parent = PARENT.format("y")
    assert await world.look(5) == [("pod_group_incomplete", "default/x", 2, parent)]
    world.put(above("y"))
    world.queue.group_appeared(above("y"), world.clock.time())
    assert await world.look(5) == []
    assert list(world.queue.incomplete_groups()) == []


async def test_a_wait_of_a_minute_is_a_note_with_the_first_group() -> None:
    world = World()
    world.add_pod("one", "first")
    await world.look()
    world.add_pod("two", "second")
    await world.look(58)
    assert list(world.waits.notes()) == []
    await world.look(2)
    (note,) = world.waits.notes()
    assert note == (
        "2 pods of 2 pod groups are not tried, default/first for the longest time (61 s): "
        "waits for PodGroup default/first (podgroups.scheduling.k8s.io), which does not exist"
    )


async def test_pending_says_what_the_group_lacks() -> None:
    world = World()
    world.put(leaf("x"), "gone")
    world.add_pod("one", "x")
    (reason,) = (await PendingPods(world.queue, world.pods, lambda _: True).all()).reasons
    expected = PARENT.format("gone")
    assert (reason.queue, reason.message) == ("incomplete", expected)
