"""One question to a plugin: what it answers about each node, through the same guard as in the service."""

from collections.abc import Sequence
from typing import Any, Final

from kscheduler.api.core import Node, Pod
from kscheduler.assembly import Ports
from kscheduler.assembly.profiles_over import handle_over
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import NodesChanged
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.framework.traits import PluginTraits, traits_of
from kscheduler.scheduling.runtime.cycle_calls import (
    call_filter,
    call_normalize,
    call_pre_filter,
    call_pre_score,
    call_score,
)
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.lifecycle_calls import call_factory
from kscheduler.scheduling.runtime.points import STATUS
from kscheduler.scheduling.runtime.timing import UNTIMED
from kscheduler.scheduling.supervision.alarm import TimeBudgetError, overrun_of
from kscheduler.scheduling.supervision.supervised import SupervisedPlugin
from kscheduler.state.cache import Cache

# By node: the reason to reject it (empty: it passes), and raw points (`None`: none were asked for).
PluginResults = dict[str, tuple[str, int | None]]


# The service's time budget of a call, here for a few nodes.
BUDGET_SECONDS: Final = 0.2
# A call about many nodes that takes longer does not end, probably.
LONGEST_CALL_SECONDS: Final = 10.0


class Unheard:
    """Calls that were too slow and answered are no failures here."""

    def answered(self, plugin: str, point: str, pod: PodInfo | None) -> None:
        """Implements `Overruns`."""

    def overran(self, plugin: str, point: str, pod: PodInfo | None, failure: TimeBudgetError) -> None:
        """Implements `Overruns`."""


class TriedPlugin:
    """A plugin over a cluster."""

    def __init__(
        self,
        registry: Registry,
        name: str,
        args: Any,
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        client: ClusterClient | None = None,
        nodes_changed: NodesChanged | None = None,
    ) -> None:
        """`client`, `nodes_changed`: those of its `Handle`. Raises `PluginFailure` if the plugin cannot be built."""
        self.cache = Cache()
        for node in nodes:
            self.cache.add_node(node)
        for pod in pods:
            self.cache.add_pod(pod)
        handle = handle_over(self.cache, Ports(client=client), nodes_changed=nodes_changed)
        self.plugin: Any = call_factory(registry, name, args, handle)
        self.traits: PluginTraits = traits_of(self.plugin)

    def answers(
        self,
        pod: Pod,
        only: Sequence[str] = (),
        state: CycleState | None = None,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> PluginResults:
        """What it says about all nodes, or about these, and writes into `state`. Raises `PluginFailure`.

        A call that takes longer than the budget is ended and fails, as in the service, if it does so twice: the first
        time it may have imported something, or this machine was busy.
        """
        try:
            return self._answers(pod, only, state, budget_seconds)
        except PluginFailure as failure:
            if overrun_of(failure) is None:
                raise
        return self._answers(pod, only, state, budget_seconds)

    def _answers(self, pod: Pod, only: Sequence[str], state: CycleState | None, budget_seconds: float) -> PluginResults:
        info, nodes = PodInfo(pod), self.cache.nodes
        plugin: Any = SupervisedPlugin(self.plugin, budget_seconds, Unheard())
        state = CycleState() if state is None else state
        rows = nodes.rows()
        if only:
            rows = rows[[nodes.name_of(row) in only for row in rows.tolist()]]
        names = [nodes.name_of(row) for row in rows.tolist()]
        reasons = [""] * len(names)
        points: list[int | None] = [None] * len(names)
        status = None
        if hasattr(plugin, "pre_filter"):
            status = call_pre_filter(plugin, state, info, nodes, UNTIMED).status
            if status.is_rejected:
                return dict.fromkeys(names, (status.message, None))
        if hasattr(plugin, "filter") and not (status is not None and status.is_skip):
            codes = call_filter(plugin, state, info, nodes, rows, UNTIMED)
            reasons = [self._reason(state, code) for code in (() if codes is None else codes.tolist())] or reasons
        if hasattr(plugin, "score") and len(rows):
            skips = hasattr(plugin, "pre_score") and call_pre_score(plugin, state, info, nodes, rows, UNTIMED).is_skip
            if not skips:
                raw = call_score(plugin, state, info, nodes, rows, UNTIMED)
                call_normalize(plugin, self.traits, state, info, rows, raw.copy())  # its bounds are checked there
                points = [int(each) for each in raw]
        return dict(zip(names, zip(reasons, points, strict=True), strict=True))

    def signature(self, pod: Pod) -> Any:
        """What the plugin says that it reads of the pod."""
        return self.plugin.sign(PodInfo(pod))

    def _reason(self, state: CycleState, code: int) -> str:
        if not code:
            return ""
        plugin: Plugin = self.plugin
        return STATUS.call(plugin.name, plugin.status, state, code).message
