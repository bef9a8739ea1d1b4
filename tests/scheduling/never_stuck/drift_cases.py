"""What must hold when a never-stuck run has come to rest.

Everything is judged on a cluster made afresh from the true objects: a new cache, new profiles, nothing of the state
that the events have built. A pod that the live queue has parked must fit nowhere there, and the live cache must say of
each pod what the new one says.

With KSCHEDULER_ASKS_FOR_VICTIMS=1 it must not be able to make room for itself by preemption either, unless it waits for
room that is being made. That is no duty: a hint tells of events that let a pod through, here as in kube-scheduler, and
only those plugins are asked that rejected the pod (a node that gets its zone tells nothing to a pod whose claim is
in use there, though it might now evict who uses it). What such runs find is looked at one by one.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.assembly import profiles_over
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.decide import cluster_cache, scenario_ports
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scheduling.cycle.schedule import find_feasible, schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE
from tests.scheduling.never_stuck.service import CONFIG, Service

_NOBODY = Pod()
_ASKS_FOR_VICTIMS: Final = os.environ.get("KSCHEDULER_ASKS_FOR_VICTIMS") == "1"


class Afresh:
    """The true cluster, built from its objects alone."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self.view = cluster_cache(objects, _NOBODY)
        self.waiting = [pod for pod in objects.pods if wants_a_node(pod)]
        for pod in self.waiting:
            self.view.nominator.add(PodInfo(pod))
        self._records: dict[str, SchedulingRecord] = {}

    @cached_property
    def profiles(self) -> Profiles:
        """Only where somebody waits to be judged."""
        ports = scenario_ports(self._objects)
        return profiles_over(self.view, CONFIG, registry(), ports)

    def judge(self, pod: Pod) -> SchedulingRecord:
        """Where the pod fits; worked out once."""
        record = self._records.get(pod.metadata.uid)
        if record is None:
            profile = self.profiles[pod.spec.scheduler_name]
            record = self._records[pod.metadata.uid] = _judged(profile, pod, self.view)
        return record

    def victims_of(self, pod: Pod) -> list[str]:
        """Whose going would let the pod through, by key; none where it waits for somebody who is going already."""
        victims = self._chosen_for(PodInfo(pod))
        if all(one.is_terminating for one in victims) or self._waits_for_room(PodInfo(pod)):
            return []
        keys = [one.key for one in victims]
        without = tuple(one for one in self._objects.pods if one.key not in keys)
        # Of pods with one host port on one node, which no kubelet lets in, preemption evicts one in vain: as upstream.
        fits = Afresh(msgspec.structs.replace(self._objects, pods=without)).judge(pod).status.is_success
        return keys if fits else []

    def _chosen_for(self, pod: PodInfo) -> Sequence[PodInfo]:
        record = schedule(self.profiles[pod.pod.spec.scheduler_name], pod, self.view)
        return record.preemption.victims if record.preemption is not None else ()

    def _waits_for_room(self, pod: PodInfo) -> bool:
        row = self.view.nodes.row_of(pod.pod.status.nominated_node_name)
        there = self.view.nodes.info(row).pods.values() if row >= 0 else ()
        return any(one.is_terminating and one.priority < pod.priority for one in there)


def _judged(profile: Profile, pod: Pod, view: Cache) -> SchedulingRecord:
    """Without PostFilter: nobody is to be preempted for the sake of a question."""
    return find_feasible(replace(profile, post_filter=()), PodInfo(pod), view)


def wants_a_node(pod: Pod) -> bool:
    """Whether it is ours to schedule."""
    return not pod.spec.node_name and not pod.is_terminal and pod.spec.scheduler_name == "kscheduler"


def problems(service: Service) -> list[str]:
    """What does not hold, in words; nothing is the only good answer."""
    afresh = Afresh(service.server.cluster())
    return [
        *_handlers(service),
        *_misplaced(service, afresh),
        *_uncounted(service, afresh),
        *_differing(service, afresh),
    ]


def _handlers(service: Service) -> Iterator[str]:
    for kind, informer in service.informers.items():
        if informer.statistics().handler_errors:
            yield f"a handler of {kind.plural} has failed"
    if any(service.observations.after_flush.values()):
        yield "a pod was scheduled by the safety net"


def _misplaced(service: Service, afresh: Afresh) -> Iterator[str]:
    for pod in afresh.waiting:
        found = service.queue.find(pod.key)
        if pod.metadata.deletion_timestamp is not None:
            continue
        if found is None:
            yield f"{pod.key} is lost"
        elif found[1].pod.uid != pod.metadata.uid:
            yield f"{pod.key} is queued as its predecessor"
        else:
            yield from _misjudged(pod, found[0], afresh)


def _misjudged(pod: Pod, queue: str, afresh: Afresh) -> Iterator[str]:
    profile: Profile = afresh.profiles[pod.spec.scheduler_name]
    is_held_back = not profile.run_pre_enqueue(PodInfo(pod)).is_success
    if is_held_back != (queue == GATED):
        yield f"{pod.key} is {queue}, and its gates say otherwise"
    if queue in (GATED, ACTIVE):
        return
    record = afresh.judge(pod)
    is_error = record.status.code is Code.ERROR or not len(afresh.view.nodes)
    if queue == UNSCHEDULABLE and record.status.is_success:
        yield f"{pod.key} is parked and fits on {sorted(record.feasible_names())}"
    if queue == UNSCHEDULABLE and _ASKS_FOR_VICTIMS and (victims := afresh.victims_of(pod)):
        yield f"{pod.key} is parked and could preempt {victims}"
    if queue == BACKOFF and not is_error:
        yield f"{pod.key} backs off after an error that is none: {record.message or record.feasible_names()}"


def _uncounted(service: Service, afresh: Afresh) -> Iterator[str]:
    sizes = service.queue.statistics()
    wanting = {pod.metadata.uid for pod in afresh.waiting}
    queued = sizes.active + sizes.backoff + sizes.unschedulable + sizes.gated
    found = [found[1].pod.uid for key in service.server.objects[PODS] if (found := service.queue.find(key))]
    if sizes.in_flight or sizes.in_flight_events:
        yield f"in flight for ever: {sizes.in_flight} pods, events {dict(sizes.in_flight_events)}"
    if queued != len(found) or not set(found) <= wanting:
        yield f"the queue counts {sizes}, and holds {found} of {wanting}"
    parked = [pod.pod.uid for pod in service.queue.parked()]
    if len(parked) != sizes.unschedulable + sizes.gated or len(set(parked)) != len(parked):
        yield f"{parked} are parked, and the queue counts {sizes}"


def _differing(service: Service, afresh: Afresh) -> Iterator[str]:
    live, new = _picture(service.cache), _picture(afresh.view)
    for name in sorted(live.keys() | new.keys()):
        if live.get(name) != new.get(name):
            yield f"the cache has {name} as {live.get(name)}, and it is {new.get(name)}"
    for pod in afresh.waiting:
        profile = service.profiles[pod.spec.scheduler_name]
        said, true = _judged(profile, pod, service.cache), afresh.judge(pod)
        if _verdict(said) != _verdict(true):
            yield f"of {pod.key} the cache says {_verdict(said)}, and true is {_verdict(true)}"


def _verdict(record: SchedulingRecord) -> tuple[Any, ...]:
    if record.status.code is Code.ERROR:
        return record.status.code, record.status.message
    rejected = {name: (status.plugin, status.reasons) for name, status in record.diagnosis.by_node()}
    return record.status.code, sorted(record.feasible_names()), rejected


def _picture(cache: Cache) -> dict[str, Any]:
    """Each node with what the columns say of it, and who is there."""
    nodes = cache.nodes
    drawn: dict[str, Any] = {"nominations": sorted(_nominations(cache)), "assumed": cache.statistics().assumed_pods}
    for row in nodes.rows().tolist():
        info = nodes.info(row)
        # What only pods name has no column, unless a node offered it some time ago.
        offered = {name: at for name, at in nodes.resources.items() if nodes.allocatable[at].any()}
        requested = {name: int(nodes.requested[at][row]) for name, at in offered.items()}
        allocatable = {name: int(nodes.allocatable[at][row]) for name, at in nodes.resources.items()}
        drawn[nodes.name_of(row)] = (
            {name: amount for name, amount in requested.items() if amount},
            {name: amount for name, amount in allocatable.items() if amount},
            int(nodes.pod_count[row]),
            sorted((uid, sorted(pod.labels.items())) for uid, pod in info.pods.items()),
        )
    return drawn


def _nominations(cache: Cache) -> Iterator[tuple[str, str]]:
    for name in (cache.nodes.name_of(row) for row in cache.nodes.rows().tolist()):
        for pod in cache.nominator.nominated_pods(name):
            yield name, pod.uid
