"""The plugin: which constraints apply, and the extension points in cycle order."""

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import ClassVar, Final

from msgspec.structs import replace

from kscheduler.api.core import Node, Pod, TopologySpreadConstraint
from kscheduler.api.meta import KubeObject
from kscheduler.api.well_known import HOSTNAME, ZONE
from kscheduler.config.plugin_args import SYSTEM_DEFAULTING, PodTopologySpreadArgs
from kscheduler.framework.cluster.lister import NO_WORKLOADS
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.hint_index import IndexedEvent
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.repeats import BucketJudge, Conditions, NotByBucketError
from kscheduler.framework.plugin import SKIPPED, UNSIGNABLE, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    SpreadConstraint,
    parse_spread_constraint,
)
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.rules.node_match import COMPARISON_OPERATORS
from kscheduler.framework.status import SKIP, SUCCESS, Status, error
from kscheduler.plugins.pod_topology_spread import details
from kscheduler.plugins.pod_topology_spread.buckets import SpreadBuckets
from kscheduler.plugins.pod_topology_spread.default_selector import DeducedConstraints, selecting
from kscheduler.plugins.pod_topology_spread.details import spread_details
from kscheduler.plugins.pod_topology_spread.filtering import MISSING_LABEL, TOO_UNEVEN, HardSpread, hard_spread
from kscheduler.plugins.pod_topology_spread.hint_index import POD_CHANGES
from kscheduler.plugins.pod_topology_spread.layout import Layout, Layouts
from kscheduler.plugins.pod_topology_spread.scoring import SoftSpread, soft_spread

Constraints = tuple[SpreadConstraint, ...]

# For pods without constraints that a service or a controller selects, unless the profile says otherwise.
SYSTEM_CONSTRAINTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY),
)

_REASON = "node(s) didn't match pod topology spread constraints"
_PREPARED: Final = PreFilterResult(SUCCESS)


class PodTopologySpread(Plugin):
    """Rejects nodes whose domain would have too large a skew; scores by how many matching pods domains have."""

    name = "PodTopologySpread"
    depends_on = (Source.ROW, Source.TOPOLOGY_COUNTERS)
    reasons: ClassVar = {MISSING_LABEL: f"{_REASON} (missing required label)", TOO_UNEVEN: _REASON}

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        args = args or PodTopologySpreadArgs()
        self._is_system = args.defaulting_type == SYSTEM_DEFAULTING
        defaults = SYSTEM_CONSTRAINTS if self._is_system else args.default_constraints
        self._defaults = tuple(parse_spread_constraint(constraint, "", {}) for constraint in defaults)
        self._default_actions = frozenset(constraint.action for constraint in self._defaults)
        self._deduced = DeducedConstraints(self._defaults)
        self._layouts = Layouts(
            compares=COMPARISON_OPERATORS in handle.features,
            empty_selectors_count_all=handle.behaviours.empty_selectors_count_all_pods,
        )
        original, actual = PodTopologySpread, type(self)
        self._scores_itself = actual.score is original.score and actual.normalize is original.normalize
        """Whether no subclass overrides `score` or `normalize`, and so might change the scores in between."""
        self._counters = handle.counters
        self._workloads = handle.workloads
        if DO_NOT_SCHEDULE in self._default_actions and self._workloads is NO_WORKLOADS:
            raise ValueError("defaultConstraints with DoNotSchedule need services and controllers to select pods by")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Pods that begin or stop to count, and nodes that change the domains.

        Terminating pods do not count, so the begin of a termination is an event, too. It has no action of its own
        (`UPDATE_OTHER`), and upstream does not register it.
        """
        pod_actions = (
            ActionType.ADD
            | ActionType.DELETE
            | ActionType.UPDATE_POD_LABEL
            | ActionType.UPDATE_POD_TOLERATION
            | ActionType.UPDATE_OTHER
        )
        node_actions = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return (
            IndexedEvent(ClusterEvent(Resource.POD, pod_actions), self._after_pod_change, POD_CHANGES),
            ClusterEventWithHint(ClusterEvent(Resource.NODE, node_actions), self._after_node_change),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's constraints and what selects the nodes that count for it.

        The profile's constraints depend on the pod's services and its owner. No event says that services have changed,
        so where such constraints forbid nodes, the pod has no signature; where they only score, the owner is signed.
        """
        places = pod.node_selector, pod.required_node_terms, pod.tolerations
        if pod.pod.spec.topology_spread_constraints:
            return pod.spread_constraints, places
        if DO_NOT_SCHEDULE in self._default_actions:
            return UNSIGNABLE
        return (pod.pod.metadata.owner_references, places) if self._defaults else ()

    def rejects_by_defaults(self, pod: PodInfo) -> bool:
        """Whether constraints that only the profile has may reject nodes for the pod: it has none of its own."""
        return DO_NOT_SCHEDULE in self._default_actions and not pod.pod.spec.topology_spread_constraints

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip without hard constraints; otherwise count all nodes' pods by domain."""
        constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        if not constraints:
            return SKIPPED
        if not all(constraint.is_readable for constraint in constraints):
            return PreFilterResult(self._unreadable())
        layout = self._layout(constraints, pod, nodes, needs_all_keys=True)
        cycle.write(hard_spread(layout, pod, self._counters))
        return _PREPARED

    def skips_while(self, pod: PodInfo) -> Conditions | None:
        """A pod without constraints is skipped where the profile has none; else as long as no service selects it."""
        if pod.pod.spec.topology_spread_constraints:
            return None
        if not self._defaults:
            return Conditions()
        found = selecting(pod, self._workloads)
        if found.services or found.controller is not None or _is_of_replication_controller(pod):
            return None
        return self._while_services_stay(pod)

    def labels_read(self, pod: PodInfo) -> frozenset[str]:
        """Those that decide whether the pod counts for its own constraints. Constraints of the profile only score, or
        the pod is not signed.
        """
        if not pod.pod.spec.topology_spread_constraints:
            return frozenset()
        return frozenset([need.key for each in pod.spread_constraints for need in each.selector.requirements])

    def by_bucket(self, pod: PodInfo, nodes: NodeTable) -> BucketJudge | None:
        """The judge of pods like this one; `None` where rows must be judged one by one."""
        counters = self._counters
        if counters is None or type(self) is not PodTopologySpread:
            return None
        constraints = {action: self._constraints(pod, action) for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)}
        every = [each for of_action in constraints.values() for each in of_action]
        if not every or not all(each.is_readable for each in every):
            return None
        conditions, is_current = Conditions(), _always
        if not pod.pod.spec.topology_spread_constraints:
            found, conditions = selecting(pod, self._workloads), self._while_services_stay(pod)
            is_current = partial(found.is_current, self._workloads)
            if not is_current() or (found.controller is None and _is_of_replication_controller(pod)):
                return None
        read = {need.key for each in every for need in each.selector.requirements}
        hard, soft = (
            self._layout(of_action, pod, nodes, needs_all_keys=needs_all_keys) if of_action else None
            for of_action, needs_all_keys in (
                (constraints[DO_NOT_SCHEDULE], True),
                (constraints[SCHEDULE_ANYWAY], self._needs_all_keys(pod)),
            )
        )
        conditions = replace(conditions, labels=conditions.labels | read)
        try:
            return SpreadBuckets(hard, soft, pod, counters, conditions, is_current)
        except NotByBucketError:
            return None

    def _while_services_stay(self, pod: PodInfo) -> Conditions:
        """The same services select the pods."""
        workloads = self._workloads
        return Conditions((workloads.service_changes,), workloads.labels_of_services(pod.namespace, pod.labels))

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeTable, row: int) -> None:
        """Count a pod that is nominated to the row as if it ran there."""
        cycle.write(cycle.read(HardSpread).moved(pod, added, nodes, row, 1))

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeTable, row: int) -> None:
        """Stop counting a victim."""
        cycle.write(cycle.read(HardSpread).moved(pod, removed, nodes, row, -1))

    def move_pods(self, cycle: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable) -> None:
        """Stop counting victims on many nodes, or count them again; each node sees only its own victims."""
        before = cycle.read(HardSpread)
        after = before.moved_by_row(pod, moved, nodes)
        if after is not before:
            cycle.write(after)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """Rows that lack one of the keys, and rows whose domain would have too large a skew: int64 [rows]."""
        del pod, nodes
        return cycle.read(HardSpread).codes(rows)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Skip without soft constraints; otherwise work out the raw scores of the feasible rows."""
        constraints = self._constraints(pod, SCHEDULE_ANYWAY)
        if not constraints:
            return SKIP
        if not all(constraint.is_readable for constraint in constraints):
            return self._unreadable()
        layout = self._layout(constraints, pod, nodes, needs_all_keys=self._needs_all_keys(pod))
        cycle.write(soft_spread(layout, rows, self._counters))
        return SUCCESS

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The raw scores that PreScore worked out for the same rows: int64 [rows]."""
        del pod, nodes, rows
        return cycle.read(SoftSpread).raw

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """0..100, int64 [rows]: the emptiest domains are the best."""
        del pod, rows
        kept = cycle.read(SoftSpread)
        return kept.normalized(scores, are_own=self._scores_itself and scores is kept.raw)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Per constraint and domain: how many pods it has, and the skew with one pod more."""
        found = cycle.find(HardSpread)
        return () if found is None else spread_details(found, pod, nodes, rows)

    def _constraints(self, pod: PodInfo, action: str) -> Constraints:
        """The pod's own constraints, or, where it has none at all, the profile's."""
        if pod.pod.spec.topology_spread_constraints:
            return pod.spread_by_action.get(action, ())
        return self._default_constraints(pod, action) if action in self._default_actions else ()

    def _default_constraints(self, pod: PodInfo, action: str) -> Constraints:
        return self._deduced.of(pod, self._workloads).get(action, ())

    def _layout(self, constraints: Constraints, pod: PodInfo, nodes: NodeTable, *, needs_all_keys: bool) -> Layout:
        is_shared = pod.is_like_another or not pod.pod.spec.topology_spread_constraints
        return self._layouts.of(constraints, pod, nodes, needs_all_keys=needs_all_keys, is_shared=is_shared)

    def _needs_all_keys(self, pod: PodInfo) -> bool:
        return bool(pod.pod.spec.topology_spread_constraints) or not self._is_system

    def _unreadable(self) -> Status:
        return error("a topology spread constraint has a label selector that cannot be parsed", plugin=self.name)

    def _after_pod_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        before, after = (version if isinstance(version, Pod) else None for version in (old, new))
        if any(version is not None and not details.is_involved(version, pod) for version in (before, after)):
            return QueueingHint.SKIP
        return details.after_pod_change(pod, self._constraints(pod, DO_NOT_SCHEDULE), before, after)

    def _after_node_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        before, after = (version if isinstance(version, Node) else None for version in (old, new))
        return details.after_node_change(pod, self._constraints(pod, DO_NOT_SCHEDULE), before, after)


def _always() -> bool:
    return True


def _is_of_replication_controller(pod: PodInfo) -> bool:
    """Whether such a controller owns the pod: until the cache has it, it selects nothing."""
    owner = pod.pod.metadata.controller
    return owner is not None and owner.kind == "ReplicationController"
