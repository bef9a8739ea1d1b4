"""The state of the service as questions see it; read in a copy of the process, where nothing moves any more."""

from collections.abc import Collection, Iterable
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import KINDS, NODES, PODS
from kscheduler.assembly import group_apis
from kscheduler.explain.in_service import EXTENDER_LINE, NOWHERE, PERMIT, UNDER_WAY, InService
from kscheduler.explain.queries.running_scheduler import WHERE, RunningScheduler
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scenario.membership import waiting_group_of
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving
from kscheduler.service.parts import Parts

_PARKED: Final = "unschedulable"


_MANY: Final = frozenset((NODES.plural, PODS.plural))


def live_objects(parts: Parts, *, in_order: bool = False, without: Collection[str] = ()) -> ClusterObjects:
    """Everything that the informers hold, without the kinds `without`. The objects are shared, not copied.

    `in_order`: pods that wait stand in the order in which they came to the queue.
    """
    objects: dict[str, Any] = {
        plural: tuple(parts.informers.informer(kind).store.list())
        for plural, kind in KINDS.items()
        if plural not in without
    }
    if in_order:
        objects["pods"] = _in_order(objects["pods"], parts)
    for kind in (api.kind for api in group_apis(parts.assembly.config) if api.kind.group == POD_GROUPS.group):
        objects[kind.plural] = tuple(parts.informers.informer(kind).store.list())
    for kind in parts.assembly.cache.topology_levels.kinds:
        objects[kind.plural] = tuple(parts.informers.informer(kind).store.list())
    return ClusterObjects(**objects)


def _in_order(pods: Iterable[Pod], parts: Parts) -> tuple[Pod, ...]:
    """Those on nodes, and those that nobody here serves, come first."""
    placed: list[Pod] = []
    waiting: list[tuple[float, Pod]] = []
    for pod in pods:
        found = None if pod.spec.node_name else parts.assembly.queue.find(pod.key)
        if found is None:
            placed.append(pod)
        else:
            waiting.append((found[1].timestamp, pod))
    return (*placed, *(pod for _, pod in sorted(waiting, key=lambda entry: entry[0])))


def hold(parts: Parts, known: ClusterObjects, wanted: ClusterObjects) -> None:
    """In a copy: have the service know the objects of `wanted` that are not among the `known`, its own.

    As if the watches had shown them, so that its plugins find them, too. The pods stay as they are.
    """
    handlers = parts.assembly.handlers
    for plural, kind in KINDS.items():
        before = set(map(id, getattr(known, plural)))
        store = parts.informers.informer(kind).store
        for added in getattr(wanted, plural) if kind is not PODS else ():
            if id(added) in before or store.get(added.key) is added:
                continue
            old = store.get(added.key)
            store.put(added.key, added)
            if kind in handlers and old is None:
                handlers[kind].on_add(added, initial=True)
            elif kind in handlers:
                handlers[kind].on_update(old, added)


def live_pod(parts: Parts, namespace: str, name: str) -> Pod | None:
    """The newest version of a pod that the watch has shown."""
    found: Pod | None = parts.informers.informer(PODS).store.get(f"{namespace}/{name}")
    return found


def serving_now(parts: Parts) -> Serving:
    """The configuration in force, with its plugins."""
    return Serving(parts.assembly.config, WHERE, parts.assembly.registry)


def running_about(parts: Parts, pod: Pod, as_of: float, *, leads: bool, of_group: bool = False) -> RunningScheduler:
    """The service as far as a question about this pod looks, or about its group.

    A pod by itself is decided by the cache, which has the nodes and pods. A list of all of them would count a
    reference to each, and so copy every page that one of them is on: 1,500 pages at 5,000 nodes, a few us each.
    """
    is_by_itself = not of_group and waiting_group_of(pod, serving_now(parts)) is None
    return running_scheduler(parts, as_of, leads=leads, without=_MANY if is_by_itself else ())


def running_scheduler(
    parts: Parts, as_of: float, *, leads: bool, in_order: bool = False, without: Collection[str] = ()
) -> RunningScheduler:
    """The service as of a moment; `without` as for `live_objects`."""
    assembly = parts.assembly
    return RunningScheduler(
        objects=live_objects(parts, in_order=in_order, without=without),
        cache=assembly.cache,
        profiles=assembly.profiles,
        served=serving_now(parts),
        groups=tuple(assembly.cache.pod_groups.groups()),
        ports=assembly.ports,
        in_service=lambda pod: in_service(parts, pod, as_of, leads=leads),
        missing_groups=parts.missing_groups(),
        awaited_topologies=assembly.cache.topology_levels.awaited(),
    )


def in_service(parts: Parts, pod: Pod, at: float, *, leads: bool) -> InService:
    """What the service knows of a pod at a moment (wall-clock seconds)."""
    uid, assembly = pod.metadata.uid, parts.assembly
    assumed_on = assembly.cache.node_of(uid) if assembly.cache.is_assumed(uid) else ""
    held = assembly.waiting.get(uid)
    if held is not None and held.verdict is None:
        now = parts.clock.monotonic() - (parts.clock.time() - at)
        left = {plugin: max(deadline - now, 0.0) for plugin, deadline in sorted(held.deadlines.items())}
        return InService(at, PERMIT, leads, since=at - (now - held.since), assumed_on=held.node_name, permit=left)
    found = assembly.queue.find(pod.key)
    if found is not None:
        return _waiting(parts, found[0], found[1], at, leads=leads)
    in_line = next((queued for _, queued in assembly.scheduler.lines.in_line() if queued.pod.uid == uid), None)
    if in_line is not None:
        return _waiting(parts, EXTENDER_LINE, in_line, at, leads=leads)
    place = UNDER_WAY if assumed_on or assembly.queue.is_in_flight(uid) else NOWHERE
    return InService(at, place, leads, assumed_on=assumed_on)


def _waiting(parts: Parts, place: str, queued: QueuedPodInfo, at: float, *, leads: bool) -> InService:
    rejected_by = queued.unschedulable_plugins | queued.pending_plugins
    profile = queued.pod.pod.spec.scheduler_name
    # A member moves and is tried with its group, and so does it back off.
    waits = parts.assembly.queue.waiting_group(queued.key) or queued
    return InService(
        at,
        place,
        leads,
        attempts=waits.attempts,
        since=waits.timestamp or None,
        first_attempt=waits.initial_attempt_timestamp,
        backoff_until=waits.backoff_expiration if place == "backoff" else None,
        rejected_by=tuple(sorted(rejected_by)),
        awaits=parts.assembly.queue.awaited_events(profile, rejected_by) if place == _PARKED else (),
        gated_by=queued.gating_plugin,
        last_error=queued.last_error,
    )
