"""A scheduler that takes the steps of a recording: the service's cache, queue, handlers and cycle, and no event loop.

What other tasks came to (a Binding accepted, a victim evicted, a wait for Permit over) is in the recording, so nothing
is awaited here. A decision that differs is undone, and the recorded one is followed instead: each decision is judged on
the history that really was.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, RESOURCE_CLAIMS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.assembly import Assembly
from kscheduler.assembly.configured import Configured
from kscheduler.assembly.profiles_over import that_only_decide
from kscheduler.config.extenders import decides, is_queried_about
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.cluster.preemption import Preemption, outbid_by
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.registry import Registry
from kscheduler.framework.status import Code, Fault, Status
from kscheduler.informers.store import Store
from kscheduler.plugins.default_preemption import DefaultPreemption
from kscheduler.recorder.entries import DecisionEnd, Digest, Entry, Op, Output, Verb
from kscheduler.recorder.packed_answers import unpack_answers
from kscheduler.recorder.packing import ObjectUnpacker
from kscheduler.recorder.replaying.ports_of_replay import OutputJournal, RecordedCluster, RecordedLister
from kscheduler.recorder.replaying.recorded_configuration import (
    RecordedConfiguration,
    changed_plugins,
    configured_as,
    followed_kinds,
    read_description,
)
from kscheduler.recorder.replaying.service_steps import decide, decide_group
from kscheduler.recorder.reservations import RecordedClaimWriter, Reservations, release_on_failure, reserve_again
from kscheduler.recorder.restored_state import SnapshotRestore
from kscheduler.recorder.step_clock import ReplayedClock
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt_events import EvictionStep
from kscheduler.scheduling.eviction.evictions import RunningPreemption
from kscheduler.scheduling.extenders.extender_results import ExtenderResults
from kscheduler.scheduling.failure import SCHEDULER_ERROR, UNSCHEDULABLE, Failure
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.supervision.supervisor import CircuitObserver
from kscheduler.state.cache import Cache
from kscheduler.state.queue.queued_group import GroupOutcome, QueuedPodGroup

# What decides; by default what is recorded.
Configure = Callable[[RecordedConfiguration], Configured]


class ReplayLostError(Exception):
    """The replay cannot go on from here: the message says why. It goes on at the next snapshot."""


class UnrecordedError(ReplayLostError):
    """What happened is not in the recording; a snapshot follows it."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision, or another outcome, as it came out again."""

    outcome: Entry
    """Without its time; equal to the recorded one, or not."""
    profile: str = ""
    followed: str = ""
    """Why it was followed and not judged; empty: it was judged."""


class ReplayedScheduler:
    """From one snapshot on."""

    def __init__(
        self, description: RecordedConfiguration, kinds: Sequence[Kind], configure: Configure = configured_as
    ) -> None:
        """Raises `ConfigError` where the configuration cannot be built."""
        self.clock = ReplayedClock()
        configured = configure(description)
        kinds = followed_kinds(kinds, configured.config)
        self._cluster = RecordedCluster(kinds)
        self.stores: Mapping[Kind, Store[Any]] = self._cluster.stores
        self.attempts: dict[int, Attempt] = {}
        """Under way, by number."""
        self._kinds = kinds
        self._configure = configure
        self._objects = ObjectUnpacker()
        self.is_redacted = description.is_redacted
        self._journal = OutputJournal(is_redacted=self.is_redacted)
        self._preemptions: dict[int, RunningPreemption] = {}
        self._in_line: dict[str, QueuedPodInfo] = {}
        self._queried_groups: dict[str, QueuedPodGroup] = {}
        """The pod groups about which extenders were asked, by name."""
        self._answers: dict[str, dict[str, ExtenderResults]] = {}
        """What they have said, likewise, and by member."""
        self._awaited: Mapping[str, str] = {}
        """By resource, why objects that name levels of the topology are not known."""
        cache = Cache(why_awaited=lambda kind: self._awaited.get(kind.resource, ""))
        self.origins = configured.origins
        self._claims = RecordedClaimWriter(cache.devices.claims)
        self.assembly = Assembly(
            configured.config,
            configured.registry,
            self._cluster.reading_ports(journal=self._journal, lister=self._lister, log=PodLog(has_errors=False)),
            self.clock,
            cache=cache,
            has_classes=description.has_classes,
            build=self._build,
            carry_out=self._note_preemption,
        )
        self.assembly.plugin_reports.ignore_slow_calls()
        self.assembly.listen_to(self._cluster.listeners)
        self.notes: list[str] = []
        """What happened that nobody decided: a reload, a repair."""
        self._steps: Mapping[int, Callable[..., Replayed | None]] = {
            Op.OBJECT: self._object,
            Op.DECIDED: self._decided,
            Op.GROUP: self._group,
            Op.GROUP_WAITS: self._group_waits,
            Op.ANSWERED: self._answered,
            Op.LATER: self._later,
            Op.LEAVES: self._leaves,
            Op.BOUND: self._bound,
            Op.RELEASED: self.assembly.waiting.release,
            Op.ABANDONED: self._abandoned,
            Op.GIVEN_UP: self._given_up,
            Op.BACKOFF: lambda: self.assembly.queue.flush_backoff(self.clock.time()),
            Op.NET: lambda: self.assembly.queue.flush_unschedulable(self.clock.time()),
            Op.BEGAN: self.assembly.queue.begin_scheduling,
            Op.EVICTION: self._eviction,
            Op.APPLIED: self._applied,
            Op.TOUCHED: lambda names, plugin: self.assembly.nodes_changed(names, plugin=plugin),
            Op.COSTLY: self.assembly.queue.costly_tried,
            Op.AWAITED: self._await,
            Op.CLAIM: self._claim,
            Op.RESERVED: self._reserved,
            Op.STAYS_PENDING: self._claims.stays_pending,
            Op.NOT_PENDING: lambda uid, force: self._claims.no_longer_pending(uid, force=force),
            Op.REPAIRED: self._repaired,
        }

    def _build(
        self,
        config: LoadedConfig,
        known: Registry,
        handle: Handle,
        listener: PluginListener,
        circuits: CircuitObserver,
    ) -> Profiles:
        return that_only_decide(config, known, replace(handle, claim_writer=self._claims), listener, circuits)

    def _lister(self, kind: Kind) -> RecordedLister:
        return RecordedLister(self.stores.get(kind, Store()))

    # --- the beginning ------------------------------------------------------------------------------------------------

    def follow_segment(self) -> None:
        """Entries of another segment come, with a table of specs of their own, and what is awaited told anew."""
        self._objects = ObjectUnpacker()
        self._awaited = {}

    def stored(self, number: int, objects: Sequence[KubeObject]) -> None:
        """The store has them when the snapshot is taken."""
        store = self.stores[self._kinds[number]]
        for obj in objects:
            store.put(obj.key, obj)

    def put_back(self, state: Mapping[str, Any], versions: Sequence[tuple[int, KubeObject]], micros: int) -> None:
        """Become what the snapshot says."""
        self.clock.set(micros)
        self.attempts = SnapshotRestore(self.assembly, self.stores, versions).put(state, self.clock.time())
        self._preemptions = {entry.number: entry for entry in self.assembly.evictions.running()}
        self._journal.take()

    # --- steps --------------------------------------------------------------------------------------------------------

    def take(self, entry: Entry) -> Replayed | None:
        """Take a step; returns what came of it, if the recording says what should.

        Raises `ReplayLostError` where the recorded step cannot be taken.
        """
        op, micros, *rest = entry
        self.clock.set(micros)
        step = self._steps.get(op)
        if step is None:
            raise ReplayLostError(f"this kscheduler does not know steps of the recorded kind {op}")
        return step(*rest)

    def _await(self, resources: Mapping[str, str]) -> None:
        self._awaited = resources

    def _object(self, number: int, verb: int, key: str, packed: Sequence[Any]) -> None:
        kind = self._kinds[number]
        if verb == Verb.DELETED:
            self._cluster.remove(kind, key)
        elif verb == Verb.UPDATED:
            old = self.stores[kind].get(key)
            if old is None:
                raise ReplayLostError(f"{kind.name} {key} changed in the recording, and the replay does not have it")
            self._cluster.put(kind, self._objects.update(kind, old, packed))
        else:
            self._cluster.put(kind, self._objects.whole(kind, packed), initial=verb == Verb.LISTED)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def _decided(self, number: int, key: str, attempts: int, how: int, node: str, outputs: Sequence[Any]) -> Replayed:
        recorded = (Op.DECIDED, number, key, attempts, how, node, outputs)
        queued = self._in_line.pop(key, None) or self._popped(key)
        profile = queued.pod.pod.spec.scheduler_name
        if how in (DecisionEnd.AWAITED, DecisionEnd.IN_LINE):
            return self._wait(number, queued, how, Replayed(recorded, profile, self._why_awaited(how, queued.pod.pod)))
        if _was_ended(outputs):
            self._follow(queued, 0, "", outputs)
            return Replayed(recorded, profile, _ENDED)
        attempt = decide(self.assembly.scheduler, queued)
        own_outputs = self._journal.take()
        found_node = "" if attempt is None else attempt.node_name
        found = (
            DecisionEnd.OVER
            if attempt is None and own_outputs
            else DecisionEnd.IN_LINE
            if attempt is None
            else DecisionEnd.NODE
        )
        outcome = (
            Op.DECIDED,
            number if attempt is not None else 0,
            queued.key,
            queued.attempts,
            found,
            found_node,
            own_outputs,
        )
        if _same(recorded, outcome):
            if attempt is not None:
                self.attempts[number] = attempt
        else:
            self._correct(queued, attempt, number, node, outputs)
        return Replayed(outcome, profile)

    def _popped(self, key: str) -> QueuedPodInfo:
        queued = self.assembly.queue.pop_next(self.clock.time())
        if queued is None:
            raise ReplayLostError(f"the recording popped pod {key}, and in the replay no pod is ready")
        if isinstance(queued, QueuedPodGroup) or queued.key != key:
            name = queued.key.text if isinstance(queued, QueuedPodGroup) else queued.key
            raise ReplayLostError(f"the recording popped pod {key}, and in the replay {name} comes first")
        return queued

    def _wait(self, number: int, queued: QueuedPodInfo, how: int, followed: Replayed) -> Replayed:
        """Extenders, or a search that went on: neither is done again."""
        if how == DecisionEnd.IN_LINE:
            self.assembly.queue.rest(queued.pod.uid)
            self._in_line[queued.key] = queued
            return followed
        self.attempts[number] = self._attempt(queued, "")
        return followed

    def _attempt(self, queued: QueuedPodInfo, node_name: str) -> Attempt:
        profile = self.assembly.profiles[queued.pod.pod.spec.scheduler_name]
        return Attempt(queued, profile, SchedulingRecord(queued.pod, profile.name, node_name=node_name), 0.0)

    def _later(self, number: int, key: str, has_node: bool, node: str, outputs: Sequence[Any]) -> Replayed:
        recorded = (Op.LATER, number, key, has_node, node, outputs)
        attempt = self.attempts.pop(number, None)
        if attempt is not None:
            self._make_room(attempt.queued.pod, outputs)
            self._follow(attempt.queued, number, node, outputs)
        if attempt is None:
            return Replayed(recorded, "", _EITHER)
        return Replayed(recorded, attempt.profile.name, self._why_awaited(DecisionEnd.AWAITED, attempt.queued.pod.pod))

    def _why_awaited(self, how: int, pod: Pod) -> str:
        """What was waited for: a pod that concerns no extender can only have been searched for."""
        if how == DecisionEnd.IN_LINE:
            return "it waited in line for extenders"
        extenders = self.assembly.config.configuration.extenders
        by_extenders = any(decides(extender) and is_queried_about(extender, pod) for extender in extenders)
        return "extenders decided" if by_extenders else "a long search for devices decided, and no extenders"

    def _group(self, name: str, placed: Sequence[Any], outputs: Sequence[Any]) -> Replayed:
        group, answers = self._queried_groups.pop(name, None), self._answers.pop(name, None)
        if group is not None and answers is None:  # an exception ended it
            self._stop_querying(group, outputs)
            return Replayed((Op.GROUP, name, placed, outputs), followed="an exception ended what was awaited")
        group = group or self._popped_group(name)
        if _was_ended(outputs):
            self._follow_group(group, placed, outputs)
            return Replayed((Op.GROUP, name, placed, outputs), followed=_ENDED)
        attempts = decide_group(self.assembly.scheduler, group, answers)
        numbers = {key: number for number, key, _ in placed}
        found = [(numbers.get(each.queued.key, 0), each.queued.key, each.node_name) for each in attempts]
        for attempt in attempts:
            self.attempts[numbers.get(attempt.queued.key, 0)] = attempt
        return Replayed((Op.GROUP, name, found, self._journal.take()), "")

    def _group_waits(self, name: str) -> None:
        self._queried_groups[name] = self._popped_group(name)

    def _answered(self, name: str, packed: Sequence[Any]) -> None:
        self._answers[name] = unpack_answers(packed)

    def _popped_group(self, name: str) -> QueuedPodGroup:
        group = self.assembly.queue.pop_next(self.clock.time())
        if not isinstance(group, QueuedPodGroup) or group.key.text != name:
            other = "no pod is ready" if group is None else f"{group.key} comes first"
            raise ReplayLostError(f"the recording popped pod group {name}, and in the replay {other}")
        return group

    def _stop_querying(self, group: QueuedPodGroup, outputs: Sequence[Any]) -> None:
        for queued in group.members.values():
            if self.assembly.queue.is_in_flight(queued.pod.uid):
                self._follow(queued, 0, "", outputs)
        self.assembly.queue.group_attempted(group, GroupOutcome.ERROR, self.clock.time())

    def _follow_group(self, group: QueuedPodGroup, placed: Sequence[Any], outputs: Sequence[Any]) -> None:
        nodes = {key: (number, node) for number, key, node in placed}
        for queued in group.members.values():
            if self.assembly.queue.is_in_flight(queued.pod.uid):
                self._follow(queued, *nodes.get(queued.key, (0, "")), outputs)
        outcome = GroupOutcome.SUCCESS if placed else GroupOutcome.ERROR
        self.assembly.queue.group_attempted(group, outcome, self.clock.time())

    # --- following what was recorded ----------------------------------------------------------------------------------

    def _correct(
        self, queued: QueuedPodInfo, attempt: Attempt | None, number: int, node: str, outputs: Sequence[Any]
    ) -> None:
        """Undo the decision made here, and follow the recorded one."""
        assembly = self.assembly
        if attempt is not None:
            assembly.scheduler.release(attempt)
        else:
            assembly.queue.delete(queued.key)
            if not assembly.queue.is_in_flight(queued.pod.uid):
                assembly.queue.resume(queued)
        self._follow(queued, number, node, outputs)

    def _make_room(self, preemptor: PodInfo, outputs: Sequence[Any]) -> None:
        """Begin the recorded preemption of a decision that is not made again, or let it wait for another one's end."""
        cache = self.assembly.cache
        for output in outputs:
            if output[0] == Output.CONTINUES_IN_BACKGROUND:
                self.assembly.evictions.is_clearing(output[2], preemptor)
            if output[0] != Output.PREEMPTS:
                continue
            _, _, node_name, keys = output
            info = cache.node_info(node_name)
            there = {pod.key: pod for pod in info.pods.values()} if info is not None else {}
            victims = tuple(there[key] for key in keys if key in there)
            outbid = outbid_by(preemptor, cache.nominator.nominated_pods(node_name))
            self.assembly.evictions.begin(Preemption(preemptor, node_name, victims, DefaultPreemption.name, outbid))

    def _follow(self, queued: QueuedPodInfo, number: int, node: str, outputs: Sequence[Any]) -> None:
        assembly, now = self.assembly, self.clock.time()
        if node:
            with contextlib.suppress(ValueError):  # it counts somewhere already
                assembly.cache.assume_pod(queued.pod, node)
            self.attempts[number] = self._attempt(queued, node)
            return
        for output in outputs:
            if output[0] == Output.FAILED and output[1] == queued.key:
                assembly.failures.handle(queued, _failure(output), now)
                break
        else:
            assembly.queue.done(queued.pod.uid)
        self._journal.take()

    # --- after the decision -------------------------------------------------------------------------------------------

    def _leaves(self, number: int) -> None:
        attempt = self.attempts.get(number)
        if attempt is not None:
            self.assembly.queue.done(attempt.queued.pod.uid)

    def _bound(self, number: int) -> None:
        attempt = self.attempts.pop(number, None)
        if attempt is not None:
            self.assembly.scheduler.bound(attempt)

    def _abandoned(
        self, number: int, code: int, reasons: Sequence[str], plugin: str, fault: str, outputs: Sequence[Any]
    ) -> Replayed | None:
        attempt = self.attempts.pop(number, None)
        own_outputs = outputs
        if attempt is not None:
            status = Status(Code(code), tuple(reasons), plugin, Fault(fault))
            self.assembly.scheduler.release_and_requeue(attempt, status)
            own_outputs = self._journal.take()
        return Replayed((Op.ABANDONED, number, code, reasons, plugin, fault, own_outputs))

    def _given_up(self, number: int, text: str, outputs: Sequence[Any]) -> Replayed:
        attempt = self.attempts.pop(number, None)
        if attempt is not None:
            self._follow(attempt.queued, number, "", outputs)
        return Replayed((Op.GIVEN_UP, number, text, outputs), followed="an exception ended what was awaited")

    # --- in the background -----------------------------------------------------------------------------------------

    def _note_preemption(self, entry: RunningPreemption) -> None:
        self._preemptions[entry.number] = entry

    def _eviction(self, number: int, step: int, subject: str, keys: Sequence[str]) -> None:
        evictions = self.assembly.evictions
        if not number:
            evictions.apply_apart(EvictionStep(step), subject, tuple(keys))
            return
        entry = self._preemptions.get(number)
        if entry is None:
            return  # a preemption that was not found here
        with contextlib.suppress(KeyError):  # of other victims, after a decision that differs
            evictions.apply(entry, EvictionStep(step), subject)
        if step == EvictionStep.FORGOTTEN:
            del self._preemptions[number]

    def _applied(self, description: Mapping[str, Any], quarantined: Sequence[Sequence[str]]) -> None:
        described = read_description(description)
        configured = self._configure(described)
        self.notes += [f"from a reload on: {note}" for note in changed_plugins(described, configured.origins)]
        before = self.assembly.config
        compiled = self.assembly.draft(configured.config, configured.registry)
        self.assembly.apply(compiled, self._cluster.listed)
        self.notes.append(_taken_over(before, configured.config))
        for profile, plugin in quarantined:
            self.notes.append(f"plugin {plugin} of profile {profile} was quarantined; the replay calls it all the same")

    def _claim(self, packed: Sequence[Any]) -> None:
        claim: Any = self._objects.whole(RESOURCE_CLAIMS, packed)
        with contextlib.suppress(ValueError):  # the watch was faster
            self.assembly.cache.devices.claims.assume(claim)

    def _reserved(self, number: int, claims: Sequence[Any], bindings: Sequence[Any], provisions: Sequence[Any]) -> None:
        attempt = self.attempts.get(number)
        whole: Any = self._objects.whole
        found = Reservations(
            tuple((uid, whole(RESOURCE_CLAIMS, claim)) for uid, claim in claims),
            tuple((whole(PERSISTENT_VOLUMES, of), whole(PERSISTENT_VOLUME_CLAIMS, claim)) for of, claim in bindings),
            tuple(whole(PERSISTENT_VOLUME_CLAIMS, claim) for claim in provisions),
        )
        if attempt is not None:
            reserve_again(self.assembly.cache, found)
            release_on_failure(attempt, found)

    def _repaired(self, what: str) -> None:
        self.notes.append(f"cache or queue were corrected: {what}")
        raise UnrecordedError


_EITHER: Final = "extenders or a long search for devices decided"
_ENDED: Final = "it was ended at its budget of processor time"


def _failure(output: Sequence[Any]) -> Failure:
    _, _, message, node, plugins, pending, fault, is_error = output
    reason = SCHEDULER_ERROR if is_error else UNSCHEDULABLE
    return Failure(message, reason, frozenset(plugins), frozenset(pending), node, Fault(fault))


def _was_ended(outputs: Sequence[Any]) -> bool:
    """Whether the decision was ended at its budget of processor time, of which a replay knows nothing."""
    return any(output[0] == Output.FAILED and _failure(output).fault is Fault.OVER_BUDGET for output in outputs)


def _same(one: Entry, other: Entry) -> bool:
    return Digest.of(one) == Digest.of(other)


def _taken_over(before: LoadedConfig, now: LoadedConfig) -> str:
    """A service that is given no version begins with one and follows the API server's as soon as it knows it."""
    if before.gates.version == now.gates.version:
        return "another configuration was taken over"
    return f"followed version: {now.gates.version}, as the API server; {before.gates.version} before"
