"""A profile with one policy over a cache: decided with the class engine and without, and the rows counted."""

from typing import Any, cast

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Node, Pod
from kscheduler.assembly import Ports
from kscheduler.assembly.profiles_over import built_profiles, handle_over
from kscheduler.config.loader import from_tree
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo, placed
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class PolicyWorld:
    """Nodes, and pods of a scheduler whose only score is the policy."""

    def __init__(
        self, policy: str, *nodes: Node, args: dict[str, Any] | None = None, client: ClusterClient | None = None
    ) -> None:
        self.cache = Cache()
        self.clock = VirtualClock()
        for node in nodes:
            self.cache.add_node(node)
        plugins: dict[str, Any] = {
            "multiPoint": {"enabled": [{"name": policy}]},
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": policy}]},
        }
        profile = {
            "schedulerName": "kscheduler",
            "plugins": plugins,
            "pluginConfig": [] if args is None else [{"name": policy, "args": args}],
        }
        config = from_tree({**HEAD, "profiles": [profile]}, "test")
        handle = handle_over(self.cache, Ports(client=client), clock=self.clock)
        (self.profile,) = built_profiles(config, registry(), handle).values()
        self.policy = cast("Any", next(each for each in self.profile.instances if each.name == policy))
        self.engine = ClassEngine(self.profile, self.cache, reports_all=True)
        self.queried: list[list[str]] = []
        """Per call of the policy's `score` by the engine, the nodes that it was asked about."""
        self._score = self.policy.score

    def decide(self, pod: Pod) -> SchedulingRecord:
        """The decision by class, which must be that of a cycle without the engine."""

        def counted(cycle: CycleState, info: PodInfo, nodes: NodeTable, rows: Rows) -> Any:
            self.queried.append(sorted(map(nodes.name_of, rows.tolist())))
            return self._score(cycle, info, nodes, rows)

        self.policy.score = counted
        by_class = schedule(self.profile, PodInfo(pod), self.cache, engine=self.engine)
        self.policy.score = self._score
        plain = schedule(self.profile, PodInfo(pod), self.cache)
        assert (by_class.node_name, by_class.totals.tolist(), by_class.message) == (
            plain.node_name,
            plain.totals.tolist(),
            plain.message,
        )
        return by_class

    def place(self, pod: Pod) -> str:
        """Decide, assume and reserve, as an attempt does. Empty: it fits nowhere."""
        record = self.decide(pod)
        if record.node_name:
            info = PodInfo(placed(pod, record.node_name))
            self.cache.assume_pod(info, record.node_name)
            for plugin in self.profile.reserve:
                assert plugin.reserve(CycleState(), PodInfo(pod), record.node_name).is_success
        return record.node_name

    def points(self, pod: Pod) -> dict[str, int]:
        """The policy's points by node that fits."""
        record = self.decide(pod)
        (scores,) = [each for each in record.scores if each.plugin == self.policy.name]
        return dict(zip(record.feasible_names(), scores.points.tolist(), strict=True))
