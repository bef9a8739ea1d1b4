"""A cache, what looks for overcommitted nodes over it, and everything that it says."""

from dataclasses import dataclass, field
from typing import Any

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Node, Pod
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.foreign_bindings import ForeignBindings
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.overcommit.incidents import Overcommit, OvercommittedNodes
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod

OURS, THEIRS = "kscheduler", "default-scheduler"


@dataclass
class Heard:
    """Implements `incidents.OvercommitReports`."""

    begun: list[Overcommit] = field(default_factory=list)
    ended_as: list[tuple[str, str, float, bool]] = field(default_factory=list)
    """Node, resource, seconds, whether the node is gone."""

    def began(self, overcommit: Overcommit, info: NodeInfo) -> None:
        assert info.name == overcommit.node_name
        self.begun.append(overcommit)

    def ended(self, overcommit: Overcommit, seconds: float, *, is_node_gone: bool) -> None:
        self.ended_as.append((overcommit.node_name, overcommit.excess.resource, seconds, is_node_gone))


class Looking:
    """The cache of a process that schedules, and its watch over nodes."""

    def __init__(self, *nodes: Node, schedules: bool = True) -> None:
        self.clock = VirtualClock()
        self.cache = Cache()
        self.observations = Observations()
        self.taken = ForeignBindings(self.observations, self.clock)
        self.heard = Heard()
        self.nodes = OvercommittedNodes(self.cache, {OURS}, self.taken, self.heard, self.clock)
        self.taken.is_scheduling = self.nodes.is_reporting = schedules
        for node in nodes:
            self.cache.add_node(node)

    def ours(self, name: str, node: str = "a", *, is_confirmed: bool = True, **fields: Any) -> Pod:
        """A pod that this process has placed; confirmed: the watch has shown it on its node."""
        self.cache.assume_pod(PodInfo(make_pod(name, **fields)), node)
        pod = make_pod(name, node=node, **fields)
        if is_confirmed:
            self.cache.add_pod(pod)
        return pod

    def theirs(self, name: str, node: str = "a", **fields: Any) -> Pod:
        """A pod that the watch shows on a node, bound by another scheduler."""
        pod = make_pod(name, node=node, **{"schedulerName": THEIRS, **fields})
        self.cache.add_pod(pod)
        return pod

    def found(self) -> dict[tuple[str, str], str]:
        """Look, then: causes by node and resource."""
        self.nodes.look()
        return {
            (overcommit.node_name, overcommit.excess.resource): overcommit.cause.value
            for overcommit in self.nodes.incidents()
        }


def looking(*nodes: Node, **settings: bool) -> Looking:
    """By default over one node `a` of 4 cpu that was looked at once while it was empty."""
    made = Looking(*(nodes or (make_node("a"),)), **settings)
    assert made.found() == {}
    return made
