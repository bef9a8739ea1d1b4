"""What the scheduler counts: plain numbers and lists, which `metrics` converts to Prometheus' types.

The problem: fifteen observations with prometheus-client's own types (locks, label lookups) cost as much as a decision.
The idea: a histogram is a list of counts found by bisection, a labelled metric is a dict keyed by its label values, and
`Observations` has one method per observation point of kube-scheduler, under its names, labels and buckets. A caller in
an inner loop binds a child once (`observations.extension_points["Filter", "Success", profile]`) and keeps it.

Limits: one event loop; nothing here is safe across threads, so the collector copies on the loop and renders elsewhere.
Label values are names of profiles, plugins, events and outcomes, never a user's text. Current states (pods per queue,
cache sizes) are not kept here: the collector reads them from their owners. Metrics of parts that are not built
(pod groups, batching) are absent, as in kube-scheduler until something is observed under one of their
labels. The two metrics of preemption have no label: kube-scheduler exposes them from the start and dashboards divide by
them, so they start here at zero.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from kscheduler.upstream.behaviours import Behaviours

LabelValues = tuple[str, ...]

SINGLE_POD: Final = "pod"
"""The `type` label of a pod that belongs to no pod group."""


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


def exponential_bounds(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds start, start * factor, ... (the +Inf bucket is implied).

    Multiplied step by step as Prometheus' Go library does, so that each bound is the same float and prints the same.
    """
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


class Histogram:
    """Counts of values by upper bound; `counts` has one element more than `bounds`, for values above the last."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value in the first bucket whose bound is not below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def reset(self) -> None:
        """Back to zero in place, so that bound children go on counting."""
        self.counts[:] = [0] * len(self.counts)
        self.total = 0.0


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """A metric's name, its help text, and the names of its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


class Counter(dict[LabelValues, int]):
    """Counts by label values; a metric without labels counts under `()`."""

    def __init__(self, series: MetricSeries) -> None:
        super().__init__({} if series.labels else {(): 0})
        self.series = series

    def __missing__(self, _values: LabelValues) -> int:
        return 0

    def reset(self) -> None:
        """Forget all label values; without labels, back to zero."""
        self.clear()
        if not self.series.labels:
            self[()] = 0


class Histograms(dict[LabelValues, Histogram]):
    """A histogram per combination of label values, made at its first use and then kept."""

    def __init__(self, series: MetricSeries, bounds: tuple[float, ...]) -> None:
        super().__init__()
        self.series = series
        self.bounds = bounds
        if not series.labels:
            self[()] = Histogram(bounds)

    def __missing__(self, values: LabelValues) -> Histogram:
        child = self[values] = Histogram(self.bounds)
        return child

    def reset(self) -> None:
        """Reset all children to zero; they are kept, because callers hold references to them."""
        for child in self.values():
            child.reset()


_ATTEMPT_SECONDS = exponential_bounds(0.001, 2, 15)
_POINT_SECONDS = exponential_bounds(0.0001, 2, 12)
_SLI_SECONDS = exponential_bounds(0.01, 2, 20)
_PLUGIN_SECONDS = exponential_bounds(0.00001, 1.5, 20)
_DEVICE_SECONDS = exponential_bounds(0.1, 2, 14)
_MOST_DRIVERS = 100
"""Drivers with a label of their own."""
_ATTEMPTS = exponential_bounds(1, 2, 5)
_VICTIMS = exponential_bounds(1, 2, 7)
_WORKLOAD_VICTIMS = exponential_bounds(1, 2, 11)
_PREEMPTION_SECONDS = exponential_bounds(0.001, 2, 16)
OF_POD: Final = "pod"
OF_GROUP: Final = "podgroup"
"""Who preempts, as metrics name it."""
_MOST_ATTEMPTS = 15
_ATTEMPT_VALUES = (*((str(attempt),) for attempt in range(_MOST_ATTEMPTS)), (f"{_MOST_ATTEMPTS}+",))
"""Label values by number of attempts."""


class Observations:
    """All counts of one scheduler, and a method per observation point. Seconds are floats of a monotonic clock."""

    PLUGIN_SAMPLE_PERCENT: ClassVar[int] = 10
    """The share of cycles whose plugin calls are timed one by one, as in kube-scheduler."""

    def __init__(self) -> None:
        self.event_names: Mapping[str, str] = {}
        """How the followed version calls events, where it has another name for them."""
        self._drivers: set[str] = set()
        self.handled_event_names: Mapping[str, str] = {}
        """The same where their handling is timed."""
        self.counts_victims_at_once = False
        """Whether victims are counted that are terminating already."""
        self.counts_entities = False
        """Whether the followed version counts what enters the queue, besides its pods."""
        self.follows_groups = False
        """Whether pod groups are followed: kube-scheduler has more series of preemption then."""
        self.counters: list[Counter] = []
        self.histograms: list[Histograms] = []
        self._declare_attempts()
        self._declare_groups()
        self._declare_plugins()
        self._declare_queue()
        self._declare_api_calls_and_volumes()
        self._declare_claims()
        self._declare_our_own()

    # ---- the whole ----

    def reset(self) -> None:
        """Everything back to zero, as after a start."""
        for counter in self.counters:
            counter.reset()
        for histograms in self.histograms:
            histograms.reset()

    def forget_profiles(self, gone: Collection[str]) -> None:
        """Drop the series of profiles that are gone, so that reloads that rename profiles do not add up."""
        metrics: list[Counter | Histograms] = [*self.counters, *self.histograms]
        for by_labels in metrics:
            if "profile" in by_labels.series.labels:
                place = by_labels.series.labels.index("profile")
                for values in [values for values in by_labels if values[place] in gone]:
                    del by_labels[values]

    def follow(self, behaviours: Behaviours, *, follows_groups: bool = False) -> None:
        """Count as kube-scheduler of this version does; with more series where pod groups are followed."""
        self.follows_groups = follows_groups
        self.event_names, self.handled_event_names = behaviours.event_names, behaviours.handled_event_names
        self.counts_entities = behaviours.counts_entities
        self.counts_victims_at_once = behaviours.counts_victims_at_once
        if not self.counts_entities:
            self.queue_incoming_entities.reset()

    # ---- attempts ----

    def attempt(self, result: AttemptResult, profile: str, seconds: float) -> None:
        """A scheduling attempt ended: bound (from the start of its cycle to after the bind), rejected, or failed."""
        key = result, profile
        self.schedule_attempts[key] += 1
        self.attempt_seconds[key].observe(seconds)

    def algorithm(self, seconds: float) -> None:
        """The decision itself ran, PostFilter included, whatever it decided."""
        self._algorithm.observe(seconds)

    def pod_scheduled(self, attempts: int) -> None:
        """A pod was bound at its attempt number `attempts` (1 is the first)."""
        self._pod_attempts.observe(attempts)

    def sli(self, attempts: int, seconds: float) -> None:
        """A pod was bound `seconds` after it first entered the active queue; gated time does not count."""
        values = _ATTEMPT_VALUES[min(attempts, _MOST_ATTEMPTS)]
        self.sli_seconds[values].observe(max(seconds, 0.0))

    def group_attempt(self, result: GroupAttemptResult, profile: str, seconds: float) -> None:
        """An attempt to place a pod group ended; binding its members comes after it."""
        self.group_attempts[result, profile] += 1
        self.group_attempt_seconds[result, profile].observe(seconds)

    def group_algorithm(self, seconds: float) -> None:
        """A pod group was decided about, without the search for room by preemption."""
        self.group_algorithm_seconds[()].observe(seconds)

    def placements(self, profile: str, tried: Sequence[tuple[bool, float]]) -> None:
        """A pod group was tried in these placements; for each, whether it fits there, and the seconds of the trial."""
        if tried:
            self.generated_placements[(profile,)] += len(tried)
        for is_feasible, seconds in tried:
            labels = ("feasible" if is_feasible else "infeasible", profile)
            self.placement_evaluations[labels] += 1
            self.placement_seconds[labels].observe(seconds)

    def permit_wait(self, result: str, seconds: float) -> None:
        """A pod's wait for Permit plugins ended with this status code (its label, such as `Success`)."""
        self.permit_wait_seconds[(result,)].observe(seconds)

    def preemption_attempt(self) -> None:
        """PostFilter looked for victims."""
        self.preemption_attempts[()] += 1

    def preemption_victims(self, victims: int, *, to_go: int, of_group: bool = False) -> None:
        """A preemption chose this many victims, of whom `to_go` do not terminate yet. `of_group`: for a pod group."""
        if to_go or self.counts_victims_at_once:
            (self.workload_victims[()] if of_group else self._victims).observe(victims)

    def preemption_harm(self, preemptor: str, disrupted_groups: int, broken_budgets: int) -> None:
        """A preemption by `preemptor` (`pod`, `podgroup`) has so many groups, or members, among its victims, and so
        many victims that break a disruption budget.
        """
        if self.follows_groups and disrupted_groups:
            self.workload_disruptions[(preemptor,)].observe(disrupted_groups)
        if self.follows_groups and broken_budgets:
            self.broken_budgets[(preemptor,)] += broken_budgets

    def workload_preemption(self, result: str, seconds: float) -> None:
        """A pod group has looked for victims; `result` is the label of the status code."""
        self.workload_preemption_attempts[(result,)] += 1
        self.preemption_evaluation(OF_GROUP, result, seconds)

    def preemption_evaluation(self, preemptor: str, result: str, seconds: float) -> None:
        """A search for victims has ended; `preemptor` is `pod` or `podgroup`."""
        if self.follows_groups:
            self.evaluation_seconds[preemptor, result].observe(seconds)

    @property
    def victims(self) -> Histogram:
        """Victims per preemption."""
        return self._victims

    def preemption_goroutine(self, result: str, seconds: float, preemptor: str = OF_POD) -> None:
        """All victims of a preemption were dealt with (`success`), or some could not be (`error`)."""
        self.preemption_executions[(result,)] += 1
        self.preemption_seconds[(result,)].observe(seconds)
        if self.follows_groups:
            self.execution_seconds[preemptor, result].observe(seconds)

    # ---- extension points and plugins ----

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of a point ran for one pod; for Filter the whole pass over the nodes."""
        self.extension_points[point, status, profile].observe(seconds)

    def plugin_execution(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin ran; the caller samples (`PLUGIN_SAMPLE_PERCENT` of the cycles)."""
        self.plugin_seconds[plugin, point, status].observe(seconds)

    # ---- queue and events ----

    def queue_incoming_many(self, queue: str, event: str, pods: int, unasked: int) -> None:
        """Several pods moved as one element; `unasked` of them into another queue than their hint has asked for.

        kube-scheduler counts entities in this case only: where hint and queue agree, it takes the entity for one that
        has not moved.
        """
        name = self.event_names.get(event, event)
        self.queue_incoming_pods[queue, name] += pods
        if unasked and self.counts_entities:
            self.queue_incoming_entities[queue, name, SINGLE_POD] += unasked

    def event_handling(self, event: str, seconds: float) -> None:
        """A cluster event was taken into cache and queue."""
        self.event_seconds[(self.handled_event_names.get(event, event),)].observe(seconds)

    def queueing_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A hint answered `Queue` or `QueueSkip`, or failed (`Error`)."""
        self.hint_seconds[plugin, self.event_names.get(event, event), hint].observe(seconds)

    def scheduled_after_flush(self) -> None:
        """A pod was bound that only the flush of old unschedulable pods had brought back: a hint missed its event."""
        self.after_flush[()] += 1

    # ---- the API server and volumes ----

    def async_api_call(self, call_type: str, result: str, seconds: float) -> None:
        """A request that no decision waited for has ended (`success`, `error`): `pod_binding`, `pod_status_patch`."""
        self.async_api_calls[call_type, result] += 1
        self.async_api_call_seconds[call_type, result].observe(seconds)

    def volume_scheduling(self, operation: str, seconds: float, *, is_ok: bool) -> None:
        """A pod's volumes were looked for (`predicate`), set aside (`assume`) or written and waited for (`bind`)."""
        self.volume_seconds[(operation,)].observe(seconds)
        if not is_ok:
            self.volume_errors[(operation,)] += 1

    # ---- claims to devices ----

    def claim_created(self, *, is_created: bool) -> None:
        """A claim for a pod's extended resources was created, or could not be."""
        self.claims_created["success" if is_created else "failure", "false", "", "Pod"] += 1

    def device_with_conditions(self, profile: str, driver: str, result: str) -> None:
        """An attempt has waited for this device of a driver, with this result."""
        self.devices_with_conditions[profile, self._known_driver(driver), result] += 1

    def waited_for_device(self, profile: str, driver: str, result: str, seconds: float) -> None:
        """An attempt with this device has waited for binding conditions, its own or those of another device."""
        self.device_wait_seconds[profile, self._known_driver(driver), result].observe(seconds)

    def _known_driver(self, driver: str) -> str:
        """The driver as a label: administrators install drivers, but whoever publishes devices names them."""
        if len(self._drivers) < _MOST_DRIVERS:
            self._drivers.add(driver)
        return driver if driver in self._drivers else "other"

    # ---- beyond kube-scheduler ----

    def bind_conflict(self) -> None:
        """The API server refused a Binding with 409."""
        self.bind_conflicts[()] += 1

    def bind_settled(self, outcome: str) -> None:
        """A bind without a clear answer was settled by reading the pod. `outcome`: `bound` or `lost`."""
        self.binds_settled[(outcome,)] += 1

    def pod_taken(self) -> None:
        """Somebody else has bound a pod that names one of our profiles."""
        self.pods_taken[()] += 1

    def node_overfilled(self, resource: str, cause: str) -> None:
        """The pods of a node have begun to request more of a resource than it has."""
        self.node_overfills[resource, cause] += 1

    def overfill_eviction(self, result: str) -> None:
        """An eviction from an overfilled node was requested: `evicted`, `budget`, `changed`, `failed`."""
        self.overfill_evictions[(result,)] += 1

    def plugin_failed(self, plugin: str, point: str) -> None:
        """A plugin has raised, or answered with a wrong type."""
        self.plugin_failures[plugin, point] += 1

    def plugin_overran(self, plugin: str, point: str) -> None:
        """A call has exceeded its time budget; it counts as a failure as well."""
        self.plugin_overruns[plugin, point] += 1

    def plugin_was_slow(self, plugin: str, point: str) -> None:
        """A call has held the event loop for more than 100 ms."""
        self.slow_plugin_calls[plugin, point] += 1

    # ---- declarations ----

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
        self.slow_plugin_calls = self._counter(
            "kscheduler_slow_plugin_calls_total",
            "Calls of plugins that held the event loop for more than 100 ms.",
            "plugin",
            "extension_point",
        )
