"""What an attempt needs around it: evaluators by profile, ports for its outcome, plugins to be closed later."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.aio.tasks import TaskSet
from kscheduler.api.core import Pod
from kscheduler.framework.cluster.claim_writing import ClaimWriter
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.nodes.search_budget import UnfinishedSearch
from kscheduler.framework.plugin import ClosablePlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt.binding import PreBindPlan
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.evaluator import NodeSampler
from kscheduler.scheduling.eviction.evictions import NominationWriter
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.failures.failure_handler import FailureHandler
from kscheduler.scheduling.failures.infeasible import KnownInfeasible
from kscheduler.scheduling.groups.group_status_writer import GroupReports
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.pod_log.lines import MOVES
from kscheduler.scheduling.profile import Profile, with_whole
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.resizes import DeferredResizes
from kscheduler.scheduling.runtime.lifecycle_calls import call_close
from kscheduler.scheduling.stopwatch import ObservedStopwatch
from kscheduler.scheduling.supervision.supervised import unsupervised
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.state.waiting_pods import PodAtPermit, PodInPreBind, PodsInPreBind, WaitingPodTable
from kscheduler.telemetry.logs import get_logger, verbose

# Plugins that nobody uses any more are closed, each once.
#
# A changed configuration builds all plugins again. An attempt that has begun keeps the plugins that decided it, and may
# wait at Permit for fifteen minutes; so a replaced plugin is looked at again whenever an attempt ends, and closed once
# no profile in force and no attempt has it. At an orderly end all are closed, after the last attempt.
#
# Closing has a few seconds, in the background. A plugin that raises, or needs longer, costs a line of the log.
# Limit:
# a plain `close` that never returns holds the event loop, as any plain method of a plugin does.

_log = get_logger(__name__)

# How long a plugin may take to close.
CLOSE_SECONDS: Final = 5.0
_STOP_SECONDS: Final = CLOSE_SECONDS + 1.0


class RetiredPlugins:
    """Plugins to be closed. Owns the tasks that close them."""

    def __init__(
        self, in_force: Callable[[], Iterable[Profile]], in_use: Callable[[], Iterable[Profile]], clock: Clock
    ) -> None:
        """`in_force`: the profiles that decide now. `in_use`: those of the attempts under way; may repeat itself."""
        self._in_force = in_force
        self._in_use = in_use
        self._clock = clock
        self._retired: dict[int, tuple[ClosablePlugin, PluginListener]] = {}
        """By identity: a factory may have given one plugin to several profiles."""
        self._closing = TaskSet("closing", clock)

    def __len__(self) -> int:
        return len(self._retired)

    def retire(self, profiles: Iterable[Profile]) -> None:
        """Close the plugins of profiles that are in force no more, as soon as no attempt has them."""
        self._retired.update(_closable(profiles))
        self.look()

    def look(self) -> None:
        """Close those that nobody has any more. Called after each attempt while there are any."""
        if not self._retired:
            return
        for number in _closable(self._in_force()):
            self._retired.pop(number, None)  # its factory has returned it again
        in_use = _closable(self._in_use())
        for number in [number for number in self._retired if number not in in_use]:
            self._begin(*self._retired.pop(number))

    async def run(self) -> None:
        """Until cancelled: what is to be done is done when attempts end."""
        await asyncio.get_running_loop().create_future()

    async def stop(self) -> None:
        """Close all plugins: the service ends. Returns after a bounded time."""
        self._retired.update(_closable(self._in_force()))
        while self._retired:
            self._begin(*self._retired.popitem()[1])
        await self._closing.drain(PLUGIN_TIME.at_most(_STOP_SECONDS))

    def _begin(self, plugin: ClosablePlugin, listener: PluginListener) -> None:
        self._closing.spawn(plugin.name, self._close(plugin, listener))

    async def _close(self, plugin: ClosablePlugin, listener: PluginListener) -> None:
        if not await finishes_within(call_close(plugin, listener), PLUGIN_TIME.at_most(CLOSE_SECONDS), self._clock):
            _log.warning("plugin_not_closed", plugin=plugin.name, seconds=CLOSE_SECONDS)


def _closable(profiles: Iterable[Profile]) -> dict[int, tuple[ClosablePlugin, PluginListener]]:
    """The plugins with a `close`, by identity, each with the listener of its profile."""
    plugins: Iterable[tuple[Any, Profile]] = (
        (unsupervised(plugin), profile) for profile in with_whole(profiles) for plugin in profile.instances
    )
    return {
        id(plugin): (cast("ClosablePlugin", plugin), profile.listener)
        for plugin, profile in plugins
        if profile.traits[plugin.name].is_closable
    }


# What the scheduler keeps for each profile between two decisions, and what it knows of classes.
#
# All of it follows from the profiles and is worthless under others. So it is one value: made ready beside the one in
# use, then exchanged as a whole (`Scheduler.apply`), and what was learned under the profiles before goes with it.


@dataclass(frozen=True, slots=True)
class Evaluators:
    """The profiles, and by profile what judges pods."""

    profiles: Profiles
    stopwatches: Mapping[str, ObservedStopwatch]
    engines: Mapping[str, ClassEngine]
    """What plugins answered for the pods of a class; empty if classes are not kept."""
    samplers: Mapping[str, NodeSampler]
    """Where the next search for nodes starts."""
    infeasible: KnownInfeasible
    """Classes of pods that fit nowhere, as earlier attempts found out; always empty without classes."""
    extenders: Extenders | None = None
    """`None`: the configuration has none."""


def evaluators_of(
    profiles: Profiles,
    infeasible: KnownInfeasible,
    cache: Cache,
    observations: Observations,
    clock: Clock,
    *,
    keeps_classes: bool,
    extenders: Extenders | None = None,
) -> Evaluators:
    """Fresh evaluators, which have kept nothing yet."""
    stopwatches = {
        name: ObservedStopwatch(name, observations, clock.monotonic, profile.listener)
        for name, profile in profiles.items()
    }
    engines = {
        name: ClassEngine(profile, cache, engines=len(profiles), reports_all=verbose(MOVES))
        for name, profile in profiles.items()
        if keeps_classes
    }
    samplers = {name: NodeSampler() for name in profiles}
    return Evaluators(profiles, stopwatches, engines, samplers, infeasible, extenders)


# The state of an attempt, which goes from step to step, and the parts of the scheduler that attempts work on.


@dataclass(slots=True)
class Attempt:
    """A pod that has a node, but is not bound yet; or that has none yet, because extenders must be asked first, or a
    search goes on.
    """

    queued: QueuedPodInfo
    profile: Profile
    record: SchedulingRecord
    started: float
    """Monotonic seconds."""
    extenders: Extenders | None = None
    """The extenders of the configuration that the attempt began under, whether the pod concerns them or not."""
    is_consulted: bool = False
    """Extenders have a say in which node is chosen, or in the preemption."""
    rest: UnfinishedSearch | None = None
    """What must be searched before the pod is decided about."""
    objectors: tuple[str, ...] = ()
    """The extenders that have failed or rejected nodes, for the log of a failed attempt."""
    was_given_to_binder: bool = False
    """The extender that binds was asked, and left it to the plugins."""
    held: PodAtPermit | None = None
    plan: PreBindPlan | None = None
    """The plugins whose PreBind has something to do; `None` before PreBindPreFlight."""
    entry: PodInPreBind | None = None
    """Lets preemption cancel PreBind, once it has begun."""
    is_pre_bound: bool = False
    is_bound: bool = False
    """The API server has accepted the Binding: from here on nothing may release the node."""

    @classmethod
    def undecided(cls, queued: QueuedPodInfo, profile: Profile, started: float, extenders: Extenders) -> "Attempt":
        """Of a pod that concerns extenders: nothing is decided and nothing assumed before they have answered."""
        record = SchedulingRecord(queued.pod, profile.name)
        return cls(queued, profile, record, started, extenders, is_consulted=True)

    def leave(self, rest: UnfinishedSearch) -> None:
        """Its cycle has left a search: nothing is decided before that is done."""
        self.record = SchedulingRecord(self.queued.pod, self.profile.name)
        self.rest = rest

    @property
    def node_name(self) -> str:
        """The chosen node; empty while extenders are asked or a search goes on."""
        return self.record.node_name


class PreemptionRunner(Protocol):
    """Carries out preemptions that PostFilter has chosen: `evictions.AsyncEvictions`."""

    def begin(self, preemption: Preemption) -> None:
        """Start the preemption and return at once. From now on its victims count as terminating."""
        ...

    def requeued(self, uid: str) -> None:
        """The pod group with this UID is back in the queue, after the attempt that began its preemption."""
        ...

    def released_node(self, pod: PodInfo) -> None:
        """An attempt has ended without a binding: the pod no longer counts on a node."""
        ...


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What `Scheduler` works on; it gives its own parts what each of them needs."""

    cache: Cache
    queue: SchedulingQueue
    waiting: WaitingPodTable
    failures: FailureHandler
    observers: Observers
    """Those who hear what happens."""
    observations: Observations
    """Where extension points are timed."""
    clock: Clock
    evictions: PreemptionRunner
    announcer: NominationWriter | None
    """`None` if the feature gate NominatedNodeNameForExpectation is off."""
    in_pre_bind: PodsInPreBind | None
    """`None` if the same gate is off: as in kube-scheduler, PreBind cannot be cancelled then."""
    claims: ClaimWriter | None
    """Frees claims of their devices; `None` where nothing is written."""
    pod_of: Callable[[str], Pod | None]
    """The newest version of a pod that the watch has shown, by key."""
    resizes: DeferredResizes
    group_reports: GroupReports
    """Conditions of pod groups."""
