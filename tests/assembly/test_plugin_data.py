"""Data of a plugin's own: what was kept for a node is worked out again, for that node only, and pods wake."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import PLUGIN_DATA_UPDATE, ClusterEventWithHint
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins import in_tree
from kscheduler.scheduling.supervision.supervised import unsupervised
from tests.assembly.configurations import loaded, profile_tree
from tests.builders import make_node, make_pod
from tests.scheduling.scheduler_in_memory import SchedulerInMemory


class Open(Plugin):
    """Lets pods onto the nodes that it has heard are open."""

    name = "Open"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    reasons = {1: "node(s) were shut"}  # noqa: RUF012

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.open: set[str] = set()
        self.judged: list[str] = []

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(PLUGIN_DATA_UPDATE),)

    def sign(self, pod: PodInfo) -> object:
        del pod
        return ()

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        names = [nodes.name_of(row) for row in rows.tolist()]
        self.judged += names
        return np.array([int(name not in self.open) for name in names], dtype=np.int64)


class AnotherDoor(Open):
    """Knows of other data."""

    name = "AnotherDoor"


class Points(Plugin):
    """Scores alone, by data of its own."""

    name = "Points"
    depends_on = (Source.ROW,)

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def sign(self, pod: PodInfo) -> object:
        del pod
        return ()

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        return np.zeros(len(rows), dtype=np.int64)


class Cluster(SchedulerInMemory):
    """A thousand nodes, and the plugins."""

    def __init__(self) -> None:
        made: list[Open] = []

        def make(_args: Any, handle: Handle) -> Open:
            handle.nodes_changed(["node-1"])  # harmless, even before there is a queue
            made.append(Open(handle))
            return made[-1]

        known = in_tree.registry()
        known.register("Open", make)
        known.register("AnotherDoor", lambda _, handle: AnotherDoor(handle))
        known.register("Points", lambda _, handle: Points(handle))
        config = loaded(profile_tree("red", plugins=["Open", "AnotherDoor", "Points"]))
        super().__init__(config, known, has_classes=True)
        self.plugin = made[-1]
        instances: dict[str, Any] = {one.name: one for one in self.assembly.profiles["red"].instances}
        self.another: AnotherDoor = unsupervised(instances["AnotherDoor"])
        self.another.open.update(f"node-{number}" for number in range(1000))
        self.points: Points = unsupervised(instances["Points"])
        self.add(*(make_node(f"node-{number}") for number in range(1000)), initial=True)

    def add_pod(self, name: str) -> None:
        self.add(make_pod(name, schedulerName="red"))

    def chosen(self) -> str:
        attempt = self.decide()
        return attempt.node_name if attempt is not None else ""


async def test_one_node_is_judged_anew_and_parked_pods_wake() -> None:
    cluster = Cluster()
    cluster.add_pod("first")
    assert cluster.chosen() == ""
    assert cluster.where("first") == "unschedulable"
    assert len(cluster.plugin.judged) == 1000

    cluster.plugin.judged.clear()
    cluster.plugin.open.add("node-7")
    cluster.plugin.handle.nodes_changed(["node-7", "unknown"])
    assert cluster.where("first") == "backoff"
    cluster.clock._now += 2.0
    cluster.assembly.queue.flush_backoff(cluster.clock.time())
    assert cluster.chosen() == "node-7"
    assert cluster.plugin.judged == ["node-7"]


async def test_a_change_that_nobody_was_reported_of_is_not_seen() -> None:
    """The reverse: what `nodes_changed` is for. A plugin that forgets it decides by what it knew before."""
    cluster = Cluster()
    cluster.add_pod("first")
    assert cluster.chosen() == ""
    cluster.plugin.open.add("node-7")
    cluster.add_pod("second")
    assert cluster.chosen() == ""


async def test_data_of_another_plugin_do_not_wake_the_pod() -> None:
    cluster = Cluster()
    cluster.add_pod("first")
    assert cluster.chosen() == ""
    cluster.another.handle.nodes_changed(["node-7"])
    assert cluster.where("first") == "unschedulable"
    cluster.plugin.handle.nodes_changed(["node-7"])
    assert cluster.where("first") == "backoff"


async def test_points_that_change_leave_what_is_known_of_hopeless_pods() -> None:
    cluster = Cluster()
    cluster.add_pod("first")
    assert cluster.chosen() == ""
    before = cluster.assembly.cache.generation
    cluster.points.handle.nodes_changed(["node-7"])
    assert cluster.assembly.cache.generation == before
    assert cluster.where("first") == "unschedulable"
    cluster.another.handle.nodes_changed(["node-7"])
    assert cluster.assembly.cache.generation > before


async def test_pods_that_other_plugins_rejected_stay_where_they_are() -> None:
    cluster = Cluster()
    cluster.plugin.open.update(f"node-{number}" for number in range(1000))
    cluster.add(make_pod("large", schedulerName="red", requests={"cpu": "1000"}))
    assert cluster.chosen() == ""
    cluster.plugin.handle.nodes_changed(["node-7"])
    assert cluster.where("large") == "unschedulable"
