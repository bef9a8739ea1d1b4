"""The series that the scheduler counts, kube-scheduler's and our own: names, help texts, labels and buckets.

Current states (pods per queue, cache sizes) are not kept here: the collector reads them from their owners. Metrics of
parts that are not built (batching) are absent, as in kube-scheduler until something is observed under one of their
labels. The two metrics of preemption have no label: kube-scheduler exposes them from the start and dashboards divide
by them, so they start here at zero.
"""

from enum import StrEnum
from typing import Final

from kscheduler.telemetry.series import Counter, Histograms, MetricSeries, exponential_bounds

# Label values that the scheduler's metrics have in common: how attempts end, and whose they are.

SINGLE_POD: Final = "pod"
"""The `type` label of a pod that belongs to no pod group."""
OF_POD: Final = "pod"
OF_GROUP: Final = "podgroup"
"""Who preempts, as metrics name it."""


class AttemptResult(StrEnum):
    """How a scheduling attempt ended: kube-scheduler's `result` label."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"

    __hash__ = str.__hash__  # as fast as a string's: Enum implements its own in Python


class GroupAttemptResult(StrEnum):
    """How an attempt to place a pod group ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING_ON_PREEMPTION = "waiting_on_preemption"
    ERROR = "error"

    __hash__ = str.__hash__


_ATTEMPT_SECONDS = exponential_bounds(0.001, 2, 15)
_POINT_SECONDS = exponential_bounds(0.0001, 2, 12)
_SLI_SECONDS = exponential_bounds(0.01, 2, 20)
_PLUGIN_SECONDS = exponential_bounds(0.00001, 1.5, 20)
_DEVICE_SECONDS = exponential_bounds(0.1, 2, 14)
_ATTEMPTS = exponential_bounds(1, 2, 5)
_VICTIMS = exponential_bounds(1, 2, 7)
_WORKLOAD_VICTIMS = exponential_bounds(1, 2, 11)
_PREEMPTION_SECONDS = exponential_bounds(0.001, 2, 16)


class DeclaredSeries:
    """All series of one scheduler, empty."""

    def __init__(self) -> None:
        self.counters: list[Counter] = []
        self.histograms: list[Histograms] = []
        """Both in the order in which they are exposed."""
        self._declare_attempts()
        self._declare_groups()
        self._declare_plugins()
        self._declare_queue()
        self._declare_api_calls_and_volumes()
        self._declare_claims()
        self._declare_our_own()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        counter = Counter(MetricSeries(name, text, labels))
        self.counters.append(counter)
        return counter

    def _histogram(self, name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Histograms:
        histograms = Histograms(MetricSeries(name, text, labels), bounds)
        self.histograms.append(histograms)
        return histograms

    def _declare_attempts(self) -> None:
        self.schedule_attempts = self._counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule pods, by how they ended.", "result", "profile"
        )
        self.attempt_seconds = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of an attempt, decision and binding, by how it ended.",
            _ATTEMPT_SECONDS,
            "result",
            "profile",
        )
        self._algorithm = self._histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "Time of the decision alone.", _ATTEMPT_SECONDS
        )[()]
        self._pod_attempts = self._histogram(
            "scheduler_pod_scheduling_attempts", "Attempts that a bound pod needed.", _ATTEMPTS
        )[()]
        self.sli_seconds = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's first entry into the active queue to its binding, by attempts.",
            _SLI_SECONDS,
            "attempts",
        )
        self.permit_wait_seconds = self._histogram(
            "scheduler_permit_wait_duration_seconds", "Time that pods waited for Permit.", _ATTEMPT_SECONDS, "result"
        )
        self.preemption_attempts = self._counter(
            "scheduler_preemption_attempts_total", "Searches for victims of preemption."
        )
        self._victims = self._histogram("scheduler_preemption_victims", "Victims per preemption.", _VICTIMS)[()]
        self.preemption_seconds = self._histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Time to take the victims of a preemption away, beside the decisions.",
            _SLI_SECONDS,
            "result",
        )
        self.preemption_executions = self._counter(
            "scheduler_preemption_goroutines_execution_total", "Preemptions whose victims were taken away.", "result"
        )

    def _declare_groups(self) -> None:
        self.group_attempts = self._counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Attempts to place pod groups, by how they ended.",
            "result",
            "profile",
        )
        self.group_attempt_seconds = self._histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Time of an attempt to place a pod group, by how it ended.",
            _ATTEMPT_SECONDS,
            "result",
            "profile",
        )
        self.group_algorithm_seconds = self._histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Time of the decision about a pod group alone.",
            _ATTEMPT_SECONDS,
        )
        self.group_algorithm_seconds.clear()  # absent where groups are off, as in kube-scheduler
        self._declare_placements()
        self._declare_preemption_with_groups()

    def _declare_placements(self) -> None:
        self.generated_placements = self._counter(
            "scheduler_generated_placements_total", "Placements that pod groups were tried in.", "profile"
        )
        self.placement_evaluations = self._counter(
            "scheduler_placement_evaluations_total",
            "Trials of a pod group in one placement, by whether it fits there.",
            "result",
            "profile",
        )
        self.placement_seconds = self._histogram(
            "scheduler_placement_evaluation_duration_seconds",
            "Time of the trial of a pod group in one placement, by whether it fits there.",
            _ATTEMPT_SECONDS,
            "result",
            "profile",
        )

    def _declare_preemption_with_groups(self) -> None:
        self.workload_preemption_attempts = self._counter(
            "scheduler_workload_preemption_attempts_total", "Searches for victims of a pod group.", "result"
        )
        self.workload_victims = self._histogram(
            "scheduler_workload_preemption_victims", "Victims per preemption by a pod group.", _WORKLOAD_VICTIMS
        )
        self.workload_victims.clear()
        self.workload_disruptions = self._histogram(
            "scheduler_preemption_workload_disruptions",
            "Pod groups, or single members of one, among the victims of a preemption.",
            _WORKLOAD_VICTIMS,
            "preemptor",
        )
        self.broken_budgets = self._counter(
            "scheduler_preemption_pdb_violations_total",
            "Victims whose eviction breaks a disruption budget.",
            "preemptor",
        )
        self.evaluation_seconds = self._histogram(
            "scheduler_preemption_evaluation_duration_seconds",
            "Time of a search for victims.",
            _PREEMPTION_SECONDS,
            "preemptor",
            "result",
        )
        self.execution_seconds = self._histogram(
            "scheduler_preemption_execution_duration_seconds",
            "Time to take the victims of a preemption away.",
            _PREEMPTION_SECONDS,
            "preemptor",
            "result",
        )

    def _declare_plugins(self) -> None:
        self.extension_points = self._histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time of all plugins of an extension point.",
            _POINT_SECONDS,
            "extension_point",
            "status",
            "profile",
        )
        self.plugin_seconds = self._histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Time of one plugin at one extension point, in a sample of the cycles.",
            _PLUGIN_SECONDS,
            "plugin",
            "extension_point",
            "status",
        )
        self.plugin_evaluations = self._counter(
            "scheduler_plugin_evaluation_total",
            "Cycles in which a plugin was asked.",
            "plugin",
            "extension_point",
            "profile",
        )

    def _declare_queue(self) -> None:
        self.queue_incoming_pods = self._counter(
            "scheduler_queue_incoming_pods_total", "Pods put into a queue, by the event that did it.", "queue", "event"
        )
        self.queue_incoming_entities = self._counter(
            "scheduler_queue_incoming_entities_total",
            "Pods put into another queue than their hint has meant, by the event that did it (Kubernetes 1.37).",
            "queue",
            "event",
            "type",
        )
        self.event_seconds = self._histogram(
            "scheduler_event_handling_duration_seconds", "Time to take in a cluster event.", _POINT_SECONDS, "event"
        )
        self.hint_seconds = self._histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Time of a plugin's queueing hint, by its answer.",
            _PLUGIN_SECONDS,
            "plugin",
            "event",
            "hint",
        )
        self.after_flush = self._counter(
            "scheduler_pod_scheduled_after_flush_total", "Pods bound after only the flush had brought them back."
        )

    def _declare_api_calls_and_volumes(self) -> None:
        self.async_api_calls = self._counter(
            "scheduler_async_api_call_execution_total",
            "Requests that no decision waited for, by how they ended.",
            "call_type",
            "result",
        )
        self.async_api_call_seconds = self._histogram(
            "scheduler_async_api_call_execution_duration_seconds",
            "Time of requests that no decision waited for.",
            _ATTEMPT_SECONDS,
            "call_type",
            "result",
        )
        self.volume_seconds = self._histogram(
            "scheduler_volume_scheduling_duration_seconds",
            "Time to look for a pod's volumes (predicate), to set them aside (assume), to bind them (bind).",
            _ATTEMPT_SECONDS,
            "operation",
        )
        self.volume_errors = self._counter(
            "scheduler_volume_scheduling_stage_error_total", "Failures of these.", "operation"
        )

    def _declare_claims(self) -> None:
        self.claims_created = self._counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Claims created for the extended resources of pods, by how it ended.",
            "status",
            "admin_access",
            "owner_api_group",
            "owner_api_kind",
        )
        self.devices_with_conditions = self._counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Devices with binding conditions that attempts have waited for, by how the wait ended.",
            "profile",
            "driver",
            "status",
        )
        self.device_wait_seconds = self._histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time that PreBind has waited for binding conditions, by driver of each device of the pod.",
            _DEVICE_SECONDS,
            "profile",
            "driver",
            "status",
        )

    def _declare_our_own(self) -> None:
        self.extender_seconds = self._histogram(
            "kscheduler_extender_call_duration_seconds",
            "Time of calls to HTTP extenders, by how they ended: success, timeout, error.",
            _ATTEMPT_SECONDS,
            "extender",
            "verb",
            "result",
        )
        self.bind_conflicts = self._counter(
            "kscheduler_bind_conflicts_total", "Bindings that the API server refused with 409."
        )
        self.binds_settled = self._counter(
            "kscheduler_binds_settled_total",
            "Binds with an unknown outcome that reading the pod has settled, by what was found.",
            "outcome",
        )
        self.claim_errors = self._counter(
            "kscheduler_claim_errors_total",
            "Attempts with result=error because what a claim, its class or a device says cannot be evaluated.",
        )
        self.decisions_over_budget = self._counter(
            "kscheduler_decisions_over_budget_total",
            "Attempts with result=error because a pod has more entries than can be judged in a decision's time.",
        )
        self.pods_taken = self._counter(
            "kscheduler_pods_bound_by_others_total",
            "Pods of our scheduler names that somebody else has bound while this process scheduled.",
        )
        self.node_overfills = self._counter(
            "kscheduler_node_overfills_total",
            "How often the pods of a node have begun to request more of a resource than it has, by what caused it.",
            "resource",
            "cause",
        )
        self.overfill_evictions = self._counter(
            "kscheduler_overfill_evictions_total",
            "Evictions from overfilled nodes that were requested, by how they ended.",
            "result",
        )
        self.plugin_failures = self._counter(
            "kscheduler_plugin_failures_total",
            "Calls of plugins that raised, or answered with a wrong type.",
            "plugin",
            "extension_point",
        )
        self.plugin_overruns = self._counter(
            "kscheduler_plugin_overruns_total",
            "Calls of plugins that exceeded their time budget.",
            "plugin",
            "extension_point",
        )
        self.plugin_circuit_changes = self._counter(
            "kscheduler_plugin_circuit_changes_total",
            "How often a plugin was quarantined (open), tried again (half-open), and has answered again (closed).",
            "plugin",
            "profile",
            "state",
        )
        self.plugin_holds = self._counter(
            "kscheduler_plugin_holds_total",
            "How often a plugin was held back from a pod or a namespace for 10 s or more, because calls took too long.",
            "plugin",
            "profile",
        )
        self.slow_plugin_calls = self._counter(
            "kscheduler_slow_plugin_calls_total",
            "Calls of plugins that held the event loop for more than 100 ms.",
            "plugin",
            "extension_point",
        )
