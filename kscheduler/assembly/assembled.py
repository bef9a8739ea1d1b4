"""A scheduler: every part is built once, in the order of their dependencies.

    cache, waiting, queue --------------+
    evictions  (hold them)              |
    profiles   (hold all by a Handle) --+-> classes, the queue's policy -> failures, scheduler, handlers

Plugins reach the queue (`Handle.nodes_changed`), and its policy is made of the plugins: so it is built empty before
them, and follows the policy once that is there. Nothing is assigned to a part after it was built.

What follows from the configuration is a `CompiledConfiguration`. Another one can be drafted at any time, and applied in
one step.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Protocol

from msgspec.structs import replace

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.assembly.compiled_configuration import (
    ApplyResult,
    CompiledConfiguration,
    PodClasses,
    classes_are_on,
    group_apis,
    pod_classes,
)
from kscheduler.assembly.plugin_circuits import PluginCircuits
from kscheduler.assembly.ports import Ports
from kscheduler.assembly.profiles_over import built_profiles, handle_over
from kscheduler.assembly.writers import claim_commits_of, evictions_of
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.loader import LoadedConfig
from kscheduler.config.types import KubeSchedulerConfiguration
from kscheduler.framework.events import ClusterEvent, data_of
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.informers.informer import Handler, Informer
from kscheduler.scheduling.attempt.attempt import Scheduler
from kscheduler.scheduling.attempt.context import AttemptContext, PreemptionRunner
from kscheduler.scheduling.attempt.evaluators import evaluators_of
from kscheduler.scheduling.attempt_events import STEP_BEGAN, ConfigurationApplied, NodesTouched
from kscheduler.scheduling.eviction.evictions import RunningPreemption
from kscheduler.scheduling.failures.failure_handler import FailureHandler, failed_condition
from kscheduler.scheduling.failures.infeasible import KnownInfeasible
from kscheduler.scheduling.groups.group_status_writer import GroupReports
from kscheduler.scheduling.handlers.dependency_handlers import handlers_of
from kscheduler.scheduling.handlers.event_handlers import NodeHandler, PodHandler
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.plugin_reports import PluginReports
from kscheduler.scheduling.pod_log.lines import WAKING
from kscheduler.scheduling.profile import Profile, with_whole
from kscheduler.scheduling.profiles import Profiles, queue_policy
from kscheduler.scheduling.reports import Reporter
from kscheduler.scheduling.resizes import DeferredResizes
from kscheduler.scheduling.supervision.supervisor import CircuitObserver
from kscheduler.state.cache import Cache
from kscheduler.state.pods_in_pre_bind import PodsInPreBind
from kscheduler.state.queue.admission import policy_before_profiles
from kscheduler.state.queue.scheduling_queue import QueuePolicy, SchedulingQueue
from kscheduler.state.waiting_pods import WaitingPodTable
from kscheduler.telemetry.logs import get_logger, verbose
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger(__name__)

# The gate: a pod that waits for Permit or PreBind names its node, and PreBind can be called back (Q27).
EXPECTATION: Final = "NominatedNodeNameForExpectation"
WHY_GONE: Final = "the configuration has changed, or it is quarantined"


def _instances(profiles: Iterable[Profile]) -> set[tuple[str, int]]:
    """Name and identity of each plugin, also of those that are quarantined."""
    return {(plugin.name, id(plugin)) for profile in with_whole(profiles) for plugin in profile.instances}


BuildProfiles = Callable[[LoadedConfig, Registry, Handle, PluginListener, CircuitObserver], Profiles]


class Informers(Protocol):
    """An informer per kind: `InformerFactory`, or a mapping."""

    def __getitem__(self, kind: Kind, /) -> Informer[Any]:
        """The informer of a kind. Raises `KeyError`."""
        ...


class _Handled(Protocol):
    """The part of an informer that `listen_to` needs."""

    def add_handler(self, handler: Handler[Any], /) -> None: ...


class _HandledKinds(Protocol):
    def __getitem__(self, kind: Kind, /) -> _Handled: ...


class Assembly:
    """Every part of a scheduler, joined; nothing here runs yet."""

    def __init__(
        self,
        config: LoadedConfig,
        registry: Registry,
        ports: Ports,
        clock: Clock,
        *,
        cache: Cache | None = None,
        has_classes: bool | None = None,
        build: BuildProfiles = built_profiles,
        preemptions: PreemptionRunner | None = None,
        on_quarantine: Callable[[], None] | None = None,
        carry_out: Callable[[RunningPreemption], None] | None = None,
    ) -> None:
        """Raises `ConfigError` where a profile cannot be built.

        `cache`: one that holds a cluster already, or differs in what breaks ties or in the groups that are served.
        `has_classes`: whether pods that are alike are judged together; by default as the environment says. `build`: for
        tests that bring ready profiles. `preemptions`: who carries out what PostFilter wants done, for tests that only
        look at it; by default `evictions`. `on_quarantine` is called, perhaps in the middle of a decision, when
        `draft_quarantines` may have something to draft, to be applied after that decision; `None`: nobody exchanges
        profiles, so a quarantined plugin stays in them. `carry_out`: what follows once `evictions` has noted a
        preemption, in a replay; by default the victims are evicted.
        """
        self.ports = ports
        self.clock = clock
        self.cache = Cache() if cache is None else cache
        self.cache.pod_groups.follow(group_apis(config))
        self.cache.topology_levels.follow(config.configuration.topology_apis)
        self.cache.topology_levels.configure(config.configuration.topology_levels)
        self.queue = SchedulingQueue(policy_before_profiles())
        self.waiting = WaitingPodTable()
        self.in_pre_bind = PodsInPreBind() if config.gates.enabled(EXPECTATION) else None
        self.resizes = DeferredResizes()
        self.reporter = Reporter(ports.events, ports.successes)
        self.observers = Observers(ports.journal, ports.observations, self.reporter, ports.log.recent, ports.log)
        """Those who hear what happens, in this order."""
        self.plugin_reports = self._build_plugin_reports()
        self.evictions = evictions_of(
            self.ports,
            self.cache,
            self.waiting,
            self.in_pre_bind,
            self.observers,
            self._activate,
            self._retry,
            self.clock,
            carry_out,
        )
        self.claims = claim_commits_of(self.ports, self.cache, self.observers, self._activate, self.clock)
        """Writes claims to devices; `None` where nothing can be written."""
        self.profiles: dict[str, Profile] = {}
        """The profiles in force, by scheduler name: one table for everybody who asks whose a pod is."""
        self.circuits = PluginCircuits(
            self.profiles, ports.observations, self.reporter, clock, self._end_hold, on_quarantine
        )
        handle = handle_over(
            self.cache,
            ports,
            gates=config.gates,
            clock=clock,
            waiting=self.waiting,
            evictions=self.evictions,
            claim_writer=self.claims,
            nodes_changed=self.nodes_changed,
        )
        reports, circuits = self.plugin_reports, self.circuits

        def build_under(of: LoadedConfig, known: Registry) -> Profiles:
            gates = of.gates
            own = replace(handle, features=gates.enabled_names(), behaviours=gates.behaviours)
            return build(of, known, own, reports, circuits)

        self._build_profiles = build_under
        self.registry = registry
        """The plugins in force, by name."""
        self.has_classes = classes_are_on() if has_classes is None else has_classes
        """Whether pods that are alike are judged together."""
        self._follow(config.gates)
        first = self.draft(config)
        self.config = config
        """The configuration in force."""
        self.profiles.update(first.profiles)
        self.classes = first.classes
        self.queue.apply(first.policy, self._is_served, clock.time())
        self.failures = FailureHandler(
            self.queue,
            self.cache.nominator,
            ports.pod_of,
            ports.statuses,
            self.observers,
            self._is_served,
            self.resizes,
            self.circuits.held_pods.seconds_held,
        )
        self.scheduler = Scheduler(self._attempt_context(preemptions or self.evictions), first.evaluators)
        self.pod_handler = self._build_pod_handler()
        self.node_handler = NodeHandler(self.cache, self.queue, clock, ports.observations)
        self.handlers = handlers_of(
            self.pod_handler, self.node_handler, self.cache, self.queue, self.clock, self.ports.observations
        )

    def listen_to(self, informers: _HandledKinds) -> None:
        """Register each handler with the informer of its kind, or what stands for it. Raises `KeyError` without one."""
        for kind, handler in self.handlers.items():
            informers[kind].add_handler(handler)
        # After the handler of pods: the cache must already have the change when a preemptor hears of it.
        informers[PODS].add_handler(self.evictions.pod_change_waits)

    # --- another configuration ----------------------------------------------------------------------------------------

    def draft(self, config: LoadedConfig, registry: Registry | None = None) -> CompiledConfiguration:
        """What follows from a configuration; nothing is changed. Plugins are built again. Raises `ConfigError`.

        `registry`: by default the one in force.
        """
        known = self.registry if registry is None else registry
        return self._compile(config, known, self._build_profiles(config, known))

    def _compile(self, config: LoadedConfig, registry: Registry, profiles: Profiles) -> CompiledConfiguration:
        classes = pod_classes(profiles, self.cache.nominator) if self.has_classes else PodClasses()
        evaluators = evaluators_of(
            profiles,
            KnownInfeasible(
                classes.class_of, lambda: self.cache.generation, self.cache.devices.serve, classes.verdict_class
            ),
            self.cache,
            self.ports.observations,
            self.clock,
            keeps_classes=classes.are_kept,
            extenders=self.ports.extenders(config.configuration.extenders),
        )
        policy = self._queue_policy(config.configuration, profiles, classes)
        return CompiledConfiguration(config, registry, profiles, classes, policy, evaluators)

    def mute_reports(self) -> None:
        """In a copy of the process: plugins that fail there are reported to nobody and quarantined by nobody.

        The exchange of a quarantined plugin needs the event loop, which no copy has.
        """
        self.plugin_reports.mute_reports()
        self.circuits.mute_reports()

    def draft_quarantines(self) -> CompiledConfiguration | None:
        """The compiled configuration in force with the quarantines that have begun or are due to be tried; `None`:
        nothing is new.
        """
        changed = self.circuits.changed_profiles()
        return self._compile(self.config, self.registry, {**self.profiles, **changed}) if changed else None

    def nodes_changed(self, names: Iterable[str], *, plugin: str = "") -> None:
        """A plugin that rejects no pod keeps no pod waiting: then what is known of hopeless pods still holds."""
        traits = [found for profile in self.profiles.values() if (found := profile.traits.get(plugin)) is not None]
        self.observers.tell(STEP_BEGAN)
        may_fit = not traits or any(found.rejects for found in traits)
        changed = tuple(names)
        self.cache.touch(changed, may_fit=may_fit)
        if may_fit:
            self.queue.move_all(data_of(plugin), None, None, self.clock.time())
        self.observers.tell(NodesTouched(changed, plugin))

    def own_kind_changed(self, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None) -> None:
        """An object of a kind that plugins alone watch has changed; they have heard of it."""
        self.queue.move_all(event, old, new, self.clock.time())

    def apply(self, compiled: CompiledConfiguration, listed: Callable[[Kind], Iterable[Any]]) -> ApplyResult:
        """Decide by another compiled configuration from now on.

        `listed`: all objects of a kind that the watch has shown; of the pods among them none is lost.

        Never awaits, so it lies between two decisions. Linear in the number of waiting pods, and of all pods if a
        profile comes or goes.
        """
        before, plugins = frozenset(self.profiles), _instances(self.profiles.values())
        version = self.config.gates.version
        self.observers.tell(STEP_BEGAN)
        self.profiles.clear()
        self.profiles.update(compiled.profiles)
        # a quarantine exchanges profiles, too, and keeps the plugins
        self.plugin_reports.restart({name for name, _ in _instances(self.profiles.values()) - plugins})
        self.config, self.registry, self.classes = compiled.config, compiled.registry, compiled.classes
        self._follow(compiled.config.gates)
        self.cache.pod_groups.follow(group_apis(compiled.config))
        self.cache.topology_levels.configure(compiled.config.configuration.topology_levels)
        if compiled.config.gates.version != version:
            self._define_again(listed)
        self.scheduler.apply(compiled.evaluators)
        placed = self.queue.apply(compiled.policy, self._is_served, self.clock.time())
        called_back = self._call_back()
        quarantines = [each for profile in self.profiles.values() for each in profile.quarantines]
        quarantined = [(each.profile, each.plugin) for each in quarantines]
        self.observers.tell(ConfigurationApplied(compiled.config, quarantined))
        added, removed = self.profiles.keys() - before, before - self.profiles.keys()
        self.ports.observations.forget_profiles(removed)
        let_go = taken_up = 0
        for pod in listed(PODS) if added or removed else ():
            name = pod.spec.scheduler_name
            if name in removed and self._is_waiting(pod):
                self._let_go(pod)
                let_go += 1
            elif name in added and self._is_waiting(pod):
                taken_up += self._take_up(pod)
        return ApplyResult(placed.kept, let_go, taken_up, called_back, sorted(added), sorted(removed))

    def _follow(self, gates: FeatureGates) -> None:
        self.resizes.follow(gates)
        self.cache.follow(gates.behaviours)
        self.cache.devices.follow(taint_rules=gates.enabled("DRADeviceTaintRules"))
        follows_groups = bool(self.cache.pod_groups.apis)
        self.ports.observations.follow(gates.behaviours, follows_groups=follows_groups)

    def _define_again(self, listed: Callable[[Kind], Iterable[Any]]) -> None:
        """Another version reads other things in the groups that are here."""
        table = self.cache.pod_groups
        for api in table.apis:
            for group in listed(api.kind):
                table.put(api.definition_of(group))

    def _is_served(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self.profiles

    def _is_waiting(self, pod: Pod) -> bool:
        """Whether the pod has no node, here or in the API server, and nobody tries it: an attempt keeps its pod.

        Between two decisions a pod that is being tried is assumed on a node, or extenders are asked about it.
        """
        uid = pod.metadata.uid
        return not (pod.spec.node_name or pod.is_terminal or self.cache.is_assumed(uid) or self.queue.is_in_flight(uid))

    def _call_back(self) -> int:
        """Fail pods that wait for a plugin that is not called any more: nothing would ever let them go on.

        A plugin that is called, but no longer at Permit, holds nobody back by the rules in force: it lets them go on.
        """
        called_back = 0
        for held in self.waiting.all():
            profile = self.profiles.get(held.pod.pod.spec.scheduler_name)
            instances, permit = ((), ()) if profile is None else (profile.instances, profile.permit)
            awaited = held.pending_plugins - {plugin.name for plugin in permit}
            gone = sorted(awaited - {plugin.name for plugin in instances})
            if gone:
                called_back += held.preempt(gone[0], f"{gone[0]} is no longer called: {WHY_GONE}")
                continue
            for name in sorted(awaited):
                held.allow(name)
        return called_back

    def _let_go(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.cache.nominator.remove(uid)
        self.cache.pod_groups.remove_member(PodInfo(pod))
        self.ports.statuses.withdraw(uid)
        self.evictions.call_off(uid)

    def _take_up(self, pod: Pod) -> bool:
        """Treat the pod as one that has just appeared; one that cannot be handled keeps no other from it."""
        try:
            self.pod_handler.on_add(pod, initial=True)
        except BaseException:  # noqa: BLE001  as in the informer, which calls this handler otherwise
            count_caught(Boundary.EVENT_HANDLER)
            _log.exception("pod_not_taken_up", pod=pod.key, uid=pod.metadata.uid)
            return False
        return True

    # --- building -----------------------------------------------------------------------------------------------------

    def _build_plugin_reports(self) -> PluginReports:
        observations, now = self.ports.observations, self.clock.monotonic
        return PluginReports(observations, now, self.reporter.plugin_failed, self._report_held)

    def _report_held(self, pod: Pod, note: str) -> None:
        """Report a pod that a failure keeps out of the queue: no attempt will report it."""
        self.ports.statuses.report(pod, failed_condition(note), note)

    def _activate(self, keys: Collection[str]) -> None:
        """Wake these pods."""
        self.queue.activate(keys, self.clock.time())

    def _retry(self, keys: Collection[str]) -> None:
        """Let PreEnqueue judge the groups of these pods again."""
        self.queue.retry(keys, self.clock.time())

    def _end_hold(self, namespace: str) -> None:
        """Plugins are called again for the pods of a namespace: those that waited for it are tried."""
        self.queue.end_hold(namespace, self.clock.time())

    def _queue_policy(
        self, configuration: KubeSchedulerConfiguration, profiles: Profiles, classes: PodClasses
    ) -> QueuePolicy:
        observations, wake_worker = self.ports.observations, self.ports.wake_worker

        def on_incoming(queue: str, event: str, pods: int, unasked: int) -> None:
            observations.queue_incoming_many(queue, event, pods, unasked)
            wake_worker()

        policy = queue_policy(
            profiles,
            configuration,
            on_incoming,
            classes.class_of,
            observations.queueing_hint,
            classes.hints_alike,
            lambda *labels: observations.extension_points[labels].observe,
            self.clock.monotonic,
        )
        on_moved = self.ports.log.moved if verbose(WAKING) else None
        on_kept_out = self.ports.log.kept_out
        groups = self.cache.pod_groups if self.cache.pod_groups.apis else None
        return replace(policy, on_moved=on_moved, on_kept_out=on_kept_out, groups=groups)

    def _attempt_context(self, preemptions: PreemptionRunner) -> AttemptContext:
        return AttemptContext(
            cache=self.cache,
            queue=self.queue,
            waiting=self.waiting,
            failures=self.failures,
            observers=self.observers,
            observations=self.ports.observations,
            clock=self.clock,
            evictions=preemptions,
            claims=self.claims,
            announcer=self.ports.statuses if self.in_pre_bind is not None else None,
            in_pre_bind=self.in_pre_bind,
            pod_of=self.ports.pod_of,
            wake_worker=self.ports.wake_worker,
            resizes=self.resizes,
            group_reports=GroupReports(self.ports.group_statuses, self.cache.pod_groups),
        )

    def _build_pod_handler(self) -> PodHandler:
        seen = self.clock, self.ports.observations, self.observers, self.ports.taken
        return PodHandler(
            self.cache, self.queue, self.waiting, self.profiles, *seen, self.resizes, self.circuits.held_pods
        )
