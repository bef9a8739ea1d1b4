"""Plugins whose answers a test chooses, and profiles made of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ASSIGNED_POD_DELETE, NODE_ADD, ClusterEventWithHint
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import PermitResult, Plugin, PreFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.scheduling.profile import Profile, WeightedScore
from kscheduler.state.cache import Cache
from tests.builders import make_node

# What a plugin says, or what it dies of.
Explanation = Status | Exception


def given(answer: Explanation) -> Status:
    """The answer, raised if it is a failure."""
    if isinstance(answer, Exception):
        raise answer
    return answer


class Sort(Plugin):
    """First come, first served."""

    name = "Sort"

    def sort_key(self, queued: QueuedPodInfo) -> tuple[float, str]:
        return queued.timestamp, queued.key


class Looks(Plugin):
    """A PreFilter."""

    def __init__(self, name: str, answer: Explanation = SUCCESS, names: frozenset[str] | None = None) -> None:
        self.name = name
        self.answer = answer
        self.names = names
        self.looked = 0

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        self.looked += 1
        return PreFilterResult(given(self.answer), self.names)


class TurnsDown(Plugin):
    """A Filter that rejects the named nodes, or dies. It hears of nodes that come and of pods that go."""

    def __init__(self, name: str, *nodes: str, failure: Exception | None = None, code: int = 1) -> None:
        self.name = name
        self.nodes = nodes
        self.failure = failure
        self.reasons = {code: f"not for {name}"}  # type: ignore[misc]  # one per instance here
        self._code = code
        self.queried: list[str] = []

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return ClusterEventWithHint(NODE_ADD), ClusterEventWithHint(ASSIGNED_POD_DELETE)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        if self.failure is not None:
            raise self.failure
        names = [nodes.name_of(row) for row in rows.tolist()]
        self.queried = names
        return np.array([self._code if name in self.nodes else 0 for name in names], dtype=np.int64)


class Likes(Plugin):
    """A Score with chosen points."""

    def __init__(self, name: str, points: Mapping[str, int] | Exception, pre: Explanation = SUCCESS) -> None:
        self.name = name
        self.points = points
        self.pre = pre

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        return given(self.pre)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        if isinstance(self.points, Exception):
            raise self.points
        points = self.points
        return np.array([points.get(nodes.name_of(row), 0) for row in rows.tolist()], dtype=np.int64)


class Normalizes(Likes):
    """A Score whose normalisation a test chooses."""

    def __init__(self, name: str, points: Mapping[str, int], failure: Exception | None = None) -> None:
        super().__init__(name, points)
        self.failure = failure

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        if self.failure is not None:
            raise self.failure
        return scores // 10


class AroundBinding(Plugin):
    """Takes part in everything from Reserve to PostBind, and writes down what it was asked."""

    def __init__(
        self, name: str, service_log: list[str], answers: Mapping[str, Explanation | PermitResult] | None = None
    ) -> None:
        self.name = name
        self.service_log = service_log
        self.answers = dict(answers or {})

    def _log_query(self, point: str) -> Any:
        self.service_log.append(f"{self.name}.{point}")
        answer = self.answers.get(point, SUCCESS)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        status: Status = self._log_query("reserve")
        return status

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        self._log_query("unreserve")

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        answer = self._log_query("permit")
        return answer if isinstance(answer, PermitResult) else PermitResult(answer)

    def pre_bind_pre_flight(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        status: Status = self._log_query("pre_flight")
        return status

    async def pre_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        status: Status = self._log_query("pre_bind")
        return status

    async def bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        status: Status = self._log_query("bind")
        return status

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        self._log_query("post_bind")


def profile(
    *plugins: Plugin, enabled: frozenset[str] = frozenset(), weights: Mapping[str, int] | None = None
) -> Profile:
    """A profile of these plugins, each at every point that it has a method for."""

    def at(method: str) -> tuple[Any, ...]:
        return tuple(plugin for plugin in plugins if hasattr(plugin, method))

    return Profile(
        name="kscheduler",
        enabled=enabled,
        queue_sort=Sort(),
        pre_filter=at("pre_filter"),
        filter=at("filter"),
        pre_score=at("pre_score"),
        score=tuple(WeightedScore(plugin, (weights or {}).get(plugin.name, 1)) for plugin in at("score")),
        reserve=at("reserve"),
        permit=at("permit"),
        pre_bind=at("pre_bind"),
        bind=at("bind"),
        post_bind=at("post_bind"),
        instances=plugins,
    )


def cluster(*names: str) -> Cache:
    """A cache with these nodes."""
    cache = Cache()
    for name in names:
        cache.add_node(make_node(name))
    return cache
