"""The series that the scheduler counts, kube-scheduler's and our own: names, help texts, labels and buckets.

Current states (pods per queue, cache sizes) are not kept here: the collector reads them from their owners. Metrics of
parts that are not built (batching) are absent, as in kube-scheduler until something is observed under one of their
labels. The two metrics of preemption have no label: kube-scheduler exposes them from the start and dashboards divide
by them, so they start here at zero.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from kscheduler.telemetry.series import BatchedHistogram, Counter, Histograms, MetricSeries, exponential_bounds

# Label values that the scheduler's metrics have in common: how attempts end, and whose they are.

# The `type` label of a pod that belongs to no pod group.
SINGLE_POD: Final = "pod"
OF_POD: Final = "pod"
# Who preempts, as metrics name it.
OF_GROUP: Final = "podgroup"
OF_COMPOSITE: Final = "compositepodgroup"
# Labels where metrics tell which kind of entity they are about (`Behaviours.labels_entities`).
_LABELS_OF_ENTITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "scheduler_queue_incoming_entities_total": ("queue", "event", "entity"),
    "scheduler_podgroup_schedule_attempts_total": ("result", "profile", "entity"),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": ("result", "profile", "entity"),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": ("profile", "entity"),
    "scheduler_generated_placements_total": ("profile", "entity"),
    "scheduler_placement_evaluations_total": ("result", "profile", "entity"),
    "scheduler_placement_evaluation_duration_seconds": ("result", "profile", "entity"),
    "scheduler_workload_preemption_attempts_total": ("result", "preemptor"),
    "scheduler_workload_preemption_victims": ("preemptor",),
    "scheduler_preemption_workload_disruptions": ("preemptor", "victim"),
}


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
        self.labels_entities = False
        """Whether metrics tell which kind of entity they are about."""
        self._other_labels = dict(_LABELS_OF_ENTITIES)
        """By series, the labels that it does not have now."""

    def label_entities(self, *, labels_entities: bool) -> None:
        """Give the series of pod groups the labels of the followed version; those that change begin anew."""
        if labels_entities is self.labels_entities:
            return
        self.labels_entities = labels_entities
        metrics: list[Counter | Histograms] = [*self.counters, *self.histograms]
        for metric in (metric for metric in metrics if metric.series.name in self._other_labels):
            name, labels = metric.series.name, metric.series.labels
            metric.clear()
            metric.series = replace(metric.series, labels=self._other_labels[name])
            self._other_labels[name] = labels

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        counter = Counter(MetricSeries(name, text, labels))
        self.counters.append(counter)
        return counter

    def _histogram(self, name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Histograms:
        histograms = Histograms(MetricSeries(name, text, labels), bounds, BatchedHistogram)
        self.histograms.append(histograms)
        return histograms

    def _declare_attempts(self) -> None:
        self.schedule_attempts = self._counter(
            "scheduler_schedule_attempts_total", "Scheduling attempts, by result.", "result", "profile"
        )
        self.attempt_seconds = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of a scheduling attempt, including the binding, by result.",
            _ATTEMPT_SECONDS,
            "result",
            "profile",
        )
        self.algorithm_seconds = self._histogram(
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
            "Time to evict the victims of a preemption, in the background.",
            _SLI_SECONDS,
            "result",
        )
        self.preemption_executions = self._counter(
            "scheduler_preemption_goroutines_execution_total", "Preemptions whose victims were evicted.", "result"
        )

    def _declare_groups(self) -> None:
        self.group_attempts = self._counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Attempts to schedule pod groups, by result.",
            "result",
            "profile",
        )
        self.group_attempt_seconds = self._histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Time of an attempt to schedule a pod group, by result.",
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
            "scheduler_generated_placements_total", "Placements that there were to try pod groups in.", "profile"
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
            "Time to evict the victims of a preemption.",
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
            "Scheduling cycles in which a plugin was called.",
            "plugin",
            "extension_point",
            "profile",
        )

    def _declare_queue(self) -> None:
        self.queue_incoming_pods = self._counter(
            "scheduler_queue_incoming_pods_total", "Pods put into a queue, by event.", "queue", "event"
        )
        self.queue_incoming_entities = self._counter(
            "scheduler_queue_incoming_entities_total",
            "Pods put into a different queue than their hint requested, by event (from Kubernetes 1.37 on).",
            "queue",
            "event",
            "type",
        )
        self.event_seconds = self._histogram(
            "scheduler_event_handling_duration_seconds", "Time to handle a cluster event.", _POINT_SECONDS, "event"
        )
        self.hint_seconds = self._histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Time of a plugin's queueing hint, by its result.",
            _PLUGIN_SECONDS,
            "plugin",
            "event",
            "hint",
        )
        self.after_flush = self._counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods bound after they were retried by the periodic flush only.",
        )

    def _declare_api_calls_and_volumes(self) -> None:
        self.async_api_calls = self._counter(
            "scheduler_async_api_call_execution_total",
            "Asynchronous API requests, by result.",
            "call_type",
            "result",
        )
        self.async_api_call_seconds = self._histogram(
            "scheduler_async_api_call_execution_duration_seconds",
            "Time of asynchronous API requests.",
            _ATTEMPT_SECONDS,
            "call_type",
            "result",
        )
        self.volume_seconds = self._histogram(
            "scheduler_volume_scheduling_duration_seconds",
            "Time to find a pod's volumes (predicate), to assume them (assume), to bind them (bind).",
            _ATTEMPT_SECONDS,
            "operation",
        )
        self.volume_errors = self._counter(
            "scheduler_volume_scheduling_stage_error_total", "Failures of these operations.", "operation"
        )

    def _declare_claims(self) -> None:
        self.claims_created = self._counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Claims created for the extended resources of pods, by result.",
            "status",
            "admin_access",
            "owner_api_group",
            "owner_api_kind",
        )
        self.devices_with_conditions = self._counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Devices with binding conditions that attempts waited for, by result.",
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
            "Time of calls to HTTP extenders, by result: success, timeout, error.",
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
            "Bindings with an unknown outcome that were resolved by reading the pod, by what was found.",
            "outcome",
        )
        self.claim_errors = self._counter(
            "kscheduler_claim_errors_total",
            "Attempts with result=error because a selector of a claim or its class cannot be evaluated.",
        )
        self.pod_group_errors = self._counter(
            "kscheduler_pod_group_errors_total",
            "Attempts with result=error because what a pod group or its members say does not go together.",
        )
        self.decisions_over_budget = self._counter(
            "kscheduler_decisions_over_budget_total",
            "Attempts with result=error because a pod has too many entries for the time of a decision.",
        )
        self.pods_taken = self._counter(
            "kscheduler_pods_bound_by_others_total",
            "Pods with our scheduler names that another client bound while this process was scheduling.",
        )
        self.node_overcommits = self._counter(
            "kscheduler_node_overfills_total",
            "How often a node became overcommitted: its pods request more of a resource than it has, by cause.",
            "resource",
            "cause",
        )
        self.overcommit_evictions = self._counter(
            "kscheduler_overfill_evictions_total",
            "Evictions requested from overcommitted nodes, by result.",
            "result",
        )
        self.plugin_failures = self._counter(
            "kscheduler_plugin_failures_total",
            "Plugin calls that raised, or returned a wrong type.",
            "plugin",
            "extension_point",
        )
        self.plugin_overruns = self._counter(
            "kscheduler_plugin_overruns_total",
            "Plugin calls that exceeded their time budget.",
            "plugin",
            "extension_point",
        )
        self.plugin_circuit_changes = self._counter(
            "kscheduler_plugin_circuit_changes_total",
            "State changes of plugins' circuit breakers: open (quarantined), half-open (on trial), closed (working).",
            "plugin",
            "profile",
            "state",
        )
        self.plugin_holds = self._counter(
            "kscheduler_plugin_holds_total",
            "How often a plugin was not called for a pod or namespace for 10 s or more, because it had been slow.",
            "plugin",
            "profile",
        )
        self.slow_plugin_calls = self._counter(
            "kscheduler_slow_plugin_calls_total",
            "Plugin calls that blocked the event loop for more than 100 ms.",
            "plugin",
            "extension_point",
        )
