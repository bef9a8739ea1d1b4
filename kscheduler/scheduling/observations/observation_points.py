"""A method for each moment that kube-scheduler counts or times, from a pod's entry into the queue to its binding."""

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar

from kscheduler.api.releases import Behaviours
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.status import Fault
from kscheduler.scheduling.attempt_events import (
    AttemptFailed,
    BindingInDoubt,
    BindingSettled,
    ClaimCreated,
    DevicesWaitEnded,
    GroupAttempted,
    GroupCycleTimed,
    GroupPreemptionSearched,
    PermitGivenAtOnce,
    PlacementsTried,
    PodBound,
    PodWaitEnded,
    PreemptionBegun,
    PreemptionEnded,
)
from kscheduler.scheduling.observations.declared_series import (
    OF_GROUP,
    SINGLE_POD,
    AttemptResult,
    DeclaredSeries,
)
from kscheduler.scheduling.observers import hears
from kscheduler.scheduling.runtime.points import PERMIT, POD_GROUP_POST_FILTER
from kscheduler.telemetry.series import BatchedHistogram, Counter, Histogram, Histograms

# Drivers with a label of their own.
_MAX_DRIVERS = 100
_MAX_ATTEMPTS = 15
# Attempts and events until what was observed is counted: a list of as many numbers for each histogram at most, mostly.
SETTLED_EVERY = 256
# Label values by number of attempts.
_ATTEMPT_VALUES = (*((str(attempt),) for attempt in range(_MAX_ATTEMPTS)), (f"{_MAX_ATTEMPTS}+",))


class _HandlingSeconds(dict[str, Callable[[float], None]]):
    """By event label, the `observe` of its histogram: looked up once, since each pod has three events."""

    def __init__(self, observations: "Observations") -> None:
        super().__init__()
        self._observations = observations

    def __missing__(self, event: str) -> Callable[[float], None]:
        observations = self._observations
        name = observations.handled_event_names.get(event, event)
        observe = self[event] = observations.event_seconds[(name,)].observe
        return observe


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
        self.handling = _HandlingSeconds(self)
        """By event label, what takes the seconds of handling an event."""
        self._until_settled = SETTLED_EVERY
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
        self.handling.clear()
        self.counts_entities = behaviours.counts_entities
        self.counts_victims_at_once = behaviours.counts_victims_at_once
        self.label_entities(labels_entities=behaviours.labels_entities)
        if not self.counts_entities:
            self.queue_incoming_entities.reset()

    def settle(self) -> None:
        """Count what was observed lately: each so many events and failed attempts. A bound pod has two events."""
        self._until_settled = SETTLED_EVERY
        for histograms in self.histograms:
            for child in histograms.values():
                if isinstance(child, BatchedHistogram):
                    child.settle()

    # ---- attempts ----

    def attempt(self, result: AttemptResult, profile: str, seconds: float) -> None:
        """A scheduling attempt ended: bound (from the start of its cycle to after the bind), rejected, or failed."""
        key = result, profile
        self.schedule_attempts[key] += 1
        self.attempt_seconds[key].observe(seconds)
        self._until_settled -= 1
        if self._until_settled <= 0:
            self.settle()

    @hears(PodBound)
    def bound(self, event: PodBound) -> None:
        """A pod was bound. Written out, without calls of the methods around it: each pod comes by here."""
        queued, key = event.queued, (AttemptResult.SCHEDULED, event.profile)
        attempts, first = queued.attempts, queued.initial_attempt_timestamp
        self.schedule_attempts[key] += 1
        self.attempt_seconds[key].observe(event.seconds)
        self._pod_attempts.observe(attempts)
        if first is not None:  # since it first entered the active queue: gated time does not count
            values = _ATTEMPT_VALUES[min(attempts, _MAX_ATTEMPTS)]
            self.sli_seconds[values].observe(max(event.now - first, 0.0))
        if queued.was_flushed:  # only the flush of old unschedulable pods had brought it back: a hint missed its event
            self.after_flush[()] += 1

    @hears(AttemptFailed)
    def failed(self, event: AttemptFailed) -> None:
        """An attempt was rejected, or ended in error. Counts errors that are due to what users have written."""
        failure = event.failure
        self.attempt(
            AttemptResult.ERROR if failure.is_error else AttemptResult.UNSCHEDULABLE, event.profile, event.seconds
        )
        if failure.is_error and failure.fault is Fault.CLAIM:
            self.claim_errors[()] += 1
        elif failure.is_error and failure.fault is Fault.POD_GROUP:
            self.pod_group_errors[()] += 1
        elif failure.is_error and failure.fault is Fault.OVER_BUDGET:
            self.decisions_over_budget[()] += 1

    @hears(GroupAttempted)
    def group_attempt(self, event: GroupAttempted) -> None:
        """An attempt to place a pod group ended."""
        labels = (event.result, event.profile, *self._entity(event.kind))
        self.group_attempts[labels] += 1
        self.group_attempt_seconds[labels].observe(event.seconds)

    @hears(GroupCycleTimed)
    def group_algorithm(self, event: GroupCycleTimed) -> None:
        """A pod group was decided about."""
        labels = (event.profile, event.kind) if self.labels_entities else ()
        self.group_algorithm_seconds[labels].observe(event.seconds)

    @hears(PlacementsTried)
    def placements(self, event: PlacementsTried) -> None:
        """A pod group was tried in these placements."""
        entity = self._entity(event.kind)
        if event.generated:
            self.generated_placements[event.profile, *entity] += event.generated
        for is_feasible, seconds in event.tried:
            labels = ("feasible" if is_feasible else "infeasible", event.profile, *entity)
            self.placement_evaluations[labels] += 1
            self.placement_seconds[labels].observe(seconds)

    @hears(PodWaitEnded)
    def wait_ended(self, event: PodWaitEnded) -> None:
        """A pod's wait for Permit plugins ended; that of PreBind is not counted."""
        if event.point == PERMIT.label:
            self.permit_wait_seconds[(event.status,)].observe(event.seconds)

    @hears(PermitGivenAtOnce)
    def permit_given_at_once(self, event: PermitGivenAtOnce) -> None:
        """A group's member has waited for Permit within the decision."""
        self.permit_wait_seconds[(event.status,)].observe(0.0)

    def preemption_attempt(self) -> None:
        """PostFilter looked for victims."""
        self.preemption_attempts[()] += 1

    @hears(PreemptionBegun)
    def preemption_begun(self, event: PreemptionBegun) -> None:
        """A preemption has chosen victims; groups, or members of groups, and broken budgets are among the harm."""
        preemption = event.preemption
        if event.to_go or self.counts_victims_at_once:
            is_single = preemption.group is None
            histogram = self._victims if is_single else self.workload_victims[self._entity(preemption.kind)]
            histogram.observe(len(preemption.victims))
        if self.follows_groups:
            self._disruptions(preemption)
        if self.follows_groups and preemption.broken_budgets:
            self.broken_budgets[(preemption.kind,)] += preemption.broken_budgets

    def _disruptions(self, preemption: Preemption) -> None:
        if not self.labels_entities:
            if preemption.disrupted_groups:
                self.workload_disruptions[(preemption.kind,)].observe(preemption.disrupted_groups)
        elif preemption.group is not None:
            for victim, count in preemption.disrupted.items():
                self.workload_disruptions[preemption.kind, victim].observe(count)

    def _entity(self, kind: str) -> tuple[str, ...]:
        """The label of the kind, where metrics have it."""
        return (kind,) if self.labels_entities else ()

    @hears(GroupPreemptionSearched)
    def group_preemption_searched(self, event: GroupPreemptionSearched) -> None:
        """A pod group has gone through PodGroupPostFilter; perhaps no plugin has looked for victims there."""
        if event.result:
            self.workload_preemption_attempts[event.result, *self._entity(event.kind)] += 1
            preemptor = event.kind if self.labels_entities else OF_GROUP
            self.preemption_evaluation(preemptor, event.result, event.seconds)
        self.extension_point(POD_GROUP_POST_FILTER.label, event.status, event.profile, event.seconds)

    def preemption_evaluation(self, preemptor: str, result: str, seconds: float) -> None:
        """A search for victims has ended; `preemptor` is `pod`, or the kind of a group."""
        if self.follows_groups:
            self.evaluation_seconds[preemptor, result].observe(seconds)

    @property
    def victims(self) -> Histogram:
        """Victims per preemption."""
        return self._victims

    @hears(PreemptionEnded)
    def preemption_ended(self, event: PreemptionEnded) -> None:
        """All victims of a preemption were dealt with (`success`), or some could not be (`error`)."""
        result = "success" if event.succeeded else "error"
        self.preemption_executions[(result,)] += 1
        self.preemption_seconds[(result,)].observe(event.seconds)
        if self.follows_groups:
            self.execution_seconds[event.preemption.kind, result].observe(event.seconds)

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
        self.handling[event](seconds)
        self._until_settled -= 1
        if self._until_settled <= 0:
            self.settle()

    def queueing_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A hint answered `Queue` or `QueueSkip`, or failed (`Error`)."""
        self.hint_seconds[plugin, self.event_names.get(event, event), hint].observe(seconds)

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

    @hears(ClaimCreated)
    def claim_created(self, event: ClaimCreated) -> None:
        """A claim for a pod's extended resources was created, or could not be."""
        self.claims_created["success" if event.is_created else "failure", "false", "", "Pod"] += 1

    @hears(DevicesWaitEnded)
    def devices_wait_ended(self, event: DevicesWaitEnded) -> None:
        """An attempt has waited for binding conditions of some device; the time counts for each device of the pod."""
        profile, result = event.profile, event.result
        for driver in event.drivers:
            self.device_wait_seconds[profile, self._known_driver(driver), result].observe(event.seconds)
        for driver in event.drivers_with_conditions:
            self.devices_with_conditions[profile, self._known_driver(driver), result] += 1

    def _known_driver(self, driver: str) -> str:
        """The driver as a label: administrators install drivers, but anyone who publishes devices names them."""
        if len(self._drivers) < _MAX_DRIVERS:
            self._drivers.add(driver)
        return driver if driver in self._drivers else "other"

    # ---- beyond kube-scheduler ----

    @hears(BindingInDoubt)
    def bind_in_doubt(self, _event: BindingInDoubt) -> None:
        """The API server refused a Binding with 409, or its response does not show what has become of it."""
        self.bind_conflicts[()] += 1

    @hears(BindingSettled)
    def bind_settled(self, event: BindingSettled) -> None:
        """A bind without a clear answer was settled by reading the pod."""
        self.binds_settled[(event.outcome,)] += 1

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
