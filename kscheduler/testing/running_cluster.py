"""A cluster whose pods are scheduled: the service's queue, workers and every extension point, in virtual time.

`Cluster.decide` ends where the node is chosen. What comes after (Reserve, Permit, PreBind, Bind, PostBind) and between
(the queue, its gates, hints and backoff) needs a running scheduler. Here it has a clock that only `advance` moves, so
that a test of a ten-minute Permit takes a millisecond. The API server is in memory: every Binding succeeds at once.
"""

import warnings
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Self

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.assembly import Assembly, Ports
from kscheduler.assembly.configured import Configured
from kscheduler.assembly.ports import NoEvents, NoEviction
from kscheduler.framework.binding_annotations import NO_ANNOTATIONS
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cluster.lister import Lister
from kscheduler.framework.handle import WaitingPods
from kscheduler.framework.status import Status
from kscheduler.in_memory.at_work import at_work, turns, workers_over
from kscheduler.in_memory.cluster import KeptConditions, ShownSoon
from kscheduler.scenario.listed_kinds import ListedKinds, OwnObjects, ShownObjects
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scheduling.background.refreshed_plugins import RefreshedPlugins
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import misspelt

# Turns of the event loop in which every task comes to a point where it waits for time.
_SETTLING_TURNS: Final = 100


class _Events(NoEvents):
    """Keeps Events as lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def record(self, regarding: Any, **fields: Any) -> None:
        del regarding
        self.lines.append(f"{fields['reason']}: {fields['note']}")


def warn_of_misspelt(profiles: Iterable[Profile]) -> None:
    """Warn of names in plugins that have no effect: otherwise a test of such a plugin is about the defaults."""
    for plugin, text in misspelt(profiles):
        warnings.warn(f"plugin {plugin}: {text}", stacklevel=3)


class RunningCluster:
    """A scheduler at work. Made by `Cluster.running`."""

    def __init__(
        self,
        configured: Configured,
        objects: Iterable[Node | Pod],
        client: ClusterClient | None = None,
        own: OwnObjects | None = None,
    ) -> None:
        self.clock = VirtualClock()
        """The clock of the plugins, too: their `Handle` has it."""
        self._statuses, self._events = KeptConditions(), _Events()
        self._cluster = ShownSoon()
        self._known: set[str] = set()
        """The keys of all pods that were ever added."""
        self._shown = {kind: ShownObjects() for kind in (NODES, PODS)}
        """What the watch has shown, for plugins' listers."""
        for kind, lister in self._shown.items():  # first: plugins see a pod in their lister when they are told of it
            self._cluster.listeners[kind].add_handler(lister)
        self._assembly = Assembly(configured.config, configured.registry, self._ports(client, own), self.clock)
        self._assembly.listen_to(self._cluster.listeners)
        warn_of_misspelt(self._assembly.profiles.values())
        self._workers = workers_over(self._assembly, self._cluster)
        self._refreshed = RefreshedPlugins(self._assembly.profiles.values, self.clock)
        self._first = tuple(objects)

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that Permit holds back, to be allowed or rejected."""
        return self._assembly.waiting

    @property
    def events(self) -> list[str]:
        """The Events so far, each as `Reason: note`."""
        return self._events.lines

    async def add(self, *objects: Node | Pod) -> Self:
        """Nodes and pods appear; returns when everybody waits for time, or for somebody else."""
        for added in objects:
            if isinstance(added, Pod):
                self._known.add(added.key)
            self._cluster.put(PODS if isinstance(added, Pod) else NODES, added)
        await self._settle()
        return self

    async def delete(self, pod: Pod) -> Self:
        """A pod goes. Raises `KeyError` if it was never added, as all methods that are asked about a pod."""
        self._check_known(pod)
        self._cluster.remove(PODS, pod.key)
        await self._settle()
        return self

    async def advance(self, seconds: float) -> Self:
        """Time passes: backoffs, timeouts and refreshes that are due happen."""
        await self.clock.advance(seconds)
        await self._settle()
        return self

    def node_of(self, pod: Pod) -> str:
        """The node that the pod was bound to; empty if it was not."""
        self._check_known(pod)
        found = self._cluster.pod_of(pod.key)
        return found.spec.node_name if found is not None else ""

    def pod_of(self, pod: Pod) -> Pod:
        """The pod as the API server has it now: with its node, and the annotations that it got with the Binding.

        Raises `KeyError` also for a pod that is gone.
        """
        self._check_known(pod)
        found = self._cluster.pod_of(pod.key)
        if found is None:
            raise KeyError(f"{pod.key} is gone")
        return found

    def place_of(self, pod: Pod) -> str:
        """`bound`, `waiting` (for Permit, PreBind or Bind), or its queue.

        The queues are `active`, `backoff`, `unschedulable` and `gated`.
        """
        if self.node_of(pod):
            return "bound"
        found = self._assembly.queue.find(pod.key)
        return found[0] if found is not None else "waiting"

    def message_of(self, pod: Pod) -> str:
        """Why the pod was not scheduled the last time, as its condition says it."""
        self._check_known(pod)
        condition = self._statuses.conditions.get(pod.key)
        return condition.message if condition is not None else ""

    def _check_known(self, pod: Pod) -> None:
        if pod.key not in self._known:  # else a misspelt name would look like a pod that waits
            raise KeyError(f"{pod.key} was never added")

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Self]:
        """With workers, flushes of the queue and refreshes."""
        async with at_work(self._assembly, self._workers, self._refreshed.run()):
            await self._settle()
            yield await self.add(*self._first)

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> Status:
        """The API server's part of a Binding: it succeeds, and the watch shows it."""
        return await self._cluster.bind(pod, node_name, annotations)

    def _ports(self, client: ClusterClient | None, own: OwnObjects | None) -> Ports:
        return self._cluster.ports(
            evictor=NoEviction(),
            statuses=self._statuses,
            events=self._events,
            lister=partial(self._lister, ListedKinds(ClusterObjects(), own)),
            client=client,
        )

    def _lister(self, others: ListedKinds, kind: Kind) -> Lister:
        shown = self._shown.get(kind)
        return others.lister(kind) if shown is None else shown

    async def _settle(self) -> None:
        await turns(_SETTLING_TURNS)
