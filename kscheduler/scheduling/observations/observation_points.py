"""A method for each moment that kube-scheduler counts or times, from a pod's entry into the queue to its binding."""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from kscheduler.api.releases import Behaviours
from kscheduler.framework.status import Fault
from kscheduler.scheduling.observations.declared_series import (
    OF_GROUP,
    OF_POD,
    SINGLE_POD,
    AttemptResult,
    DeclaredSeries,
    GroupAttemptResult,
)
from kscheduler.telemetry.series import Counter, Histogram, Histograms

# Drivers with a label of their own.
_MOST_DRIVERS = 100
_MOST_ATTEMPTS = 15
# Label values by number of attempts.
_ATTEMPT_VALUES = (*((str(attempt),) for attempt in range(_MOST_ATTEMPTS)), (f"{_MOST_ATTEMPTS}+",))


class Observations(DeclaredSeries):
    """All counts of one scheduler, and a method per observation point. Seconds are floats of a monotonic clock."""

    PLUGIN_SAMPLE_PERCENT: ClassVar[int] = 10
    """The share of cycles whose plugin calls are timed one by one, as in kube-scheduler."""

    def __init__(self) -> None:
        super().__init__()
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
        """The driver as a label: administrators install drivers, but anyone who publishes devices names them."""
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

    def attempt_failed(self, fault: Fault) -> None:
        """An attempt ended in error. Counts those that are due to what users have written."""
        if fault is Fault.CLAIM:
            self.claim_errors[()] += 1
        elif fault is Fault.OVER_BUDGET:
            self.decisions_over_budget[()] += 1

    def pod_taken(self) -> None:
        """Somebody else has bound a pod that names one of our profiles."""
        self.pods_taken[()] += 1

    def node_overcommitted(self, resource: str, cause: str) -> None:
        """The pods of a node have begun to request more of a resource than it has."""
        self.node_overcommits[resource, cause] += 1

    def overcommit_eviction(self, result: str) -> None:
        """An eviction from an overcommitted node was requested: `evicted`, `budget`, `changed`, `failed`."""
        self.overcommit_evictions[(result,)] += 1

    def plugin_failed(self, plugin: str, point: str) -> None:
        """A plugin has raised, or answered with a wrong type."""
        self.plugin_failures[plugin, point] += 1

    def plugin_overran(self, plugin: str, point: str) -> None:
        """A call has exceeded its time budget; it counts as a failure as well."""
        self.plugin_overruns[plugin, point] += 1

    def plugin_circuit_changed(self, plugin: str, profile: str, state: str) -> None:
        """A plugin's circuit has come into a state: `open`, `half-open` or `closed`."""
        self.plugin_circuit_changes[plugin, profile, state] += 1

    def plugin_was_held_back(self, plugin: str, profile: str) -> None:
        """A plugin is not called for the pods of one namespace for a while."""
        self.plugin_holds[plugin, profile] += 1

    def plugin_was_slow(self, plugin: str, point: str) -> None:
        """A call has held the event loop for more than 100 ms."""
        self.slow_plugin_calls[plugin, point] += 1
