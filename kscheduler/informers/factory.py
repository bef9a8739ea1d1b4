"""One informer per kind and one task per informer.

Not every API server has every API. The informer of a resource that does not exist is logged once and rests; discovery
is asked again after 30 s, a minute, ... every five minutes, and the informer starts when the resource appears. A
resting informer counts as synced, with no objects.

Objects of a kind that was there are not given up because of one answer: a proxy, an aggregated API or a fault says 404
as well, and without its classes, claims or budgets the scheduler would decide wrongly. So the store is emptied when the
API server has said for `SURE_SECONDS` that it has no such resource.
"""

import asyncio
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from kscheduler.aio import REAL_CLOCK, Clock, finishes_within
from kscheduler.aio.tasks import WakeupEvent, until_cancelled
from kscheduler.api.kinds import KINDS, Kind
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.rest import APIClient
from kscheduler.informers.informer import Informer, InformerStatistics
from kscheduler.informers.reflector import AbsentError, Reflector
from kscheduler.informers.rereading import Rereader
from kscheduler.informers.transform import Transform
from kscheduler.informers.unreadable import HoldsRoom, rule_for
from kscheduler.informers.view_age import OLD_VIEW_SECONDS
from kscheduler.telemetry.logs import get_logger

log = get_logger(__name__)

# How often discovery is asked for a resource that does not exist, at last.
DISCOVERY_SECONDS = 300.0
FIRST_DISCOVERY_SECONDS = 30.0
# For how long a resource that had objects must be absent before they are given up.
SURE_SECONDS = 30.0
_DOUBT_SECONDS = 5.0
OLDER_STORE = "older store"
# What the kinds find of one restore of the API server's store.
_ONE_RESTORE_SECONDS = 60.0


class _Resource(msgspec.Struct):
    name: str


class _ResourceList(msgspec.Struct):
    """An answer without a list of resources is none: `{}` does not mean that a resource is absent."""

    resources: list[_Resource]


_discovery = msgspec.json.Decoder(_ResourceList)


class KnownState(msgspec.Struct, frozen=True):
    """What an informer knows: enough to go on watching from there, without a list."""

    objects: Sequence[Any]
    resource_version: str
    is_absent: bool = False
    """The API server does not serve the resource: discovery is asked again, beside everything else."""
    current_at: float | None = None
    """When that was last known to be current, in monotonic seconds."""


class InformerFactory:
    """Owns the informers of a process."""

    def __init__(
        self,
        client: APIClient,
        kinds: Iterable[Kind] = tuple(KINDS.values()),
        *,
        clock: Clock = REAL_CLOCK,
        rng: random.Random | None = None,
        transforms: Mapping[str, Transform] | None = None,
        list_consistency: Literal["consistent", "cache"] = "consistent",
        watch_list: bool = True,
        may_be_absent: Collection[Kind] = (),
        views: Mapping[str, KnownState] | None = None,
        holds_room: HoldsRoom | None = None,
    ) -> None:
        """`may_be_absent`: kinds that are of no concern where the API server does not serve them. `views`: where to
        begin, by resource; from the `views` of another factory.

        `transforms` (by plural) replace the defaults; `list_consistency` applies to the very first list only.
        `holds_room`: whether the pod of this UID is being bound, so that it must not vanish if it becomes unreadable.
        """
        self._client = client
        self._views = dict(views or {})
        self._may_be_absent = frozenset(kind.resource for kind in may_be_absent)
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311  # spreads load, protects nothing
        self._consistent = list_consistency == "consistent"
        self._watch_list = watch_list
        self._informers: dict[str, Informer[Any]] = {}
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._older_at: float | None = None
        """When the API server's store was last found to be older than what was seen before."""
        self._absent: dict[str, WakeupEvent] = {}
        """By resource, who waits until the API server serves it."""
        for kind in kinds:
            transform = (transforms or {}).get(kind.plural)
            retain = rule_for(kind.resource, holds_room) if holds_room is not None else None
            self._informers[kind.resource] = Informer(kind, transform=transform, retain=retain, clock=clock)

    def informer(self, kind: Kind) -> Informer[Any]:
        """The informer of a kind. Raises `KeyError` for a kind that the factory was not given."""
        return self._informers[kind.resource]

    __getitem__ = informer

    def relist(self, kind: Kind, reason: str) -> None:
        """List a kind again, consistently, because its store differs from the API server."""
        reflector = self._reflectors.get(kind.resource)
        if reflector is not None:
            reflector.relist(reason)

    def look_for_absent(self) -> None:
        """Ask for each resource that the API server did not have, at once: it may be another server by now."""
        for wakeup in self._absent.values():
            wakeup.notify()

    async def run(self) -> None:
        """Keep all informers up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers.values():
                reflector = self._reflectors[informer.kind.resource] = self._reflector(informer)
                rereader = Rereader(self._client, informer, reflector.relist, self._clock)
                name = f"informer {informer.kind.resource}"
                group.create_task(until_cancelled(name, self._keep(informer, reflector)), name=name)
                name = f"unreadable {informer.kind.resource}"
                group.create_task(until_cancelled(name, rereader.run()), name=name)

    def _reflector(self, informer: Informer[Any]) -> Reflector[Any]:
        return Reflector(
            self._client,
            informer,
            clock=self._clock,
            rng=self._rng,
            consistent=self._consistent,
            watch_list=self._watch_list,
            on_older_store=self._store_is_older,
        )

    def _store_is_older(self, found: Kind, before: str, now: str) -> None:
        """List all other kinds again; once for what each of them may report meanwhile."""
        at = self._clock.monotonic()
        if self._older_at is not None and at - self._older_at < _ONE_RESTORE_SECONDS:
            return
        self._older_at = at
        advice = "all kinds are listed again; look whether etcd was restored from a backup, or the cluster replaced"
        log.warning("api_server_store_older", resource=found.resource, version=now, before=before, advice=advice)
        for resource, reflector in self._reflectors.items():
            if resource != found.resource:
                reflector.relist(OLDER_STORE)

    async def _keep(self, informer: Informer[Any], reflector: Reflector[Any]) -> None:
        view = self._views.pop(informer.kind.resource, None)
        if view is not None and view.is_absent:
            await self._rest(informer)
        elif view is not None:
            await informer.replace(view.objects, ())
            informer.resource_version = view.resource_version
            informer.view.resume_from(view.current_at)
            reflector.progress.resume(view.resource_version)
        elif not await self._exists(informer.kind):
            await self._rest(informer)
        del view  # the objects of long ago are not to be kept
        while True:
            try:
                await reflector.run()
            except AbsentError:
                if await self._exists(informer.kind) or (
                    len(informer.store) and not await self._stays_absent(informer)
                ):
                    continue  # a 404 of a proxy or a starting server must not empty the store
                await self._rest(informer)
                reflector.progress.start_over()

    async def _stays_absent(self, informer: Informer[Any]) -> bool:
        """Whether the API server goes on saying so."""
        informer.problem = "not found: the API server says that it has no such resource"
        until = self._clock.monotonic() + SURE_SECONDS
        while self._clock.monotonic() < until:
            await self._clock.sleep(_DOUBT_SECONDS)
            if await self._exists(informer.kind):
                return False
        return True

    async def _rest(self, informer: Informer[Any]) -> None:
        """Wait until the resource exists; the store is emptied, since its objects went with the API."""
        kind = informer.kind
        again = f"discovery is asked again, eventually every {DISCOVERY_SECONDS:.0f} s"
        report = log.info if kind.resource in self._may_be_absent else log.warning
        report("resource_absent", resource=kind.resource, version=kind.version, advice=again)
        await informer.rest()
        pause, wakeup = FIRST_DISCOVERY_SECONDS, WakeupEvent(self._clock)
        self._absent[kind.resource] = wakeup
        try:
            while True:
                began = self._clock.monotonic()
                await wakeup.wait(pause)
                is_early = self._clock.monotonic() - began < pause
                if await self._exists(kind, unless_known=False):  # an API server that is away brings no resource
                    break
                # Of API servers that are upgraded one by one another may have answered: it does not take long again.
                pause = FIRST_DISCOVERY_SECONDS if is_early else min(2 * pause, DISCOVERY_SECONDS)
        finally:
            del self._absent[kind.resource]
        log.info("resource_served", resource=kind.resource, version=kind.version)
        informer.wake()

    async def _exists(self, kind: Kind, *, unless_known: bool = True) -> bool:
        """Whether discovery knows the resource. True for the core API; `unless_known` when discovery fails."""
        if not kind.group:
            return True
        path = f"/apis/{kind.group}/{kind.version}"
        try:
            body = await self._client.get(path, retries=0)
            return any(resource.name == kind.plural for resource in _discovery.decode(body).resources)
        except APIError as error:
            is_absent = error.is_not_found and not error.is_page
            return unless_known and not is_absent
        except (ClientError, msgspec.DecodeError):
            return unless_known

    async def wait_for_sync(self, timeout_seconds: float) -> tuple[str, ...]:
        """Wait until all handlers have the first lists; returns name and problem of each kind that has not synced."""
        await finishes_within(self._all_synced(), timeout_seconds, self._clock)
        return tuple(
            f"{informer.kind.resource}: {informer.problem or 'listing'}"
            for informer in self._informers.values()
            if not informer.has_synced
        )

    async def _all_synced(self) -> None:
        for informer in self._informers.values():
            await informer.wait_until_synced()

    def views(self) -> dict[str, KnownState]:
        """What each informer knows now, of those that would go on by a watch. To be called when `run` has ended.

        Where an object could not be read, or a list was under way, only a list shows what is there. That a resource is
        absent is known, too.
        """
        found = {}
        for resource, informer in self._informers.items():
            reflector = self._reflectors.get(resource)
            version = reflector.progress.resumes_at if reflector is not None else ""
            known = informer.statistics()
            if version and known.synced and not known.resting and not known.undecodable:
                found[resource] = KnownState(informer.store.list(), version, current_at=informer.view.current_at)
            elif known.resting:
                found[resource] = KnownState((), "", is_absent=True)
        return found

    def problems(self) -> dict[str, str]:
        """What keeps informers from listing or watching now, by resource; resting informers are left out."""
        return {
            informer.kind.resource: trouble for informer in self._informers.values() if (trouble := informer.trouble)
        }

    def retries(self) -> dict[str, float]:
        """Seconds until list or watch is tried again, by resource, of those that wait for that."""
        views = {informer.kind.resource: informer.view.statistics() for informer in self._informers.values()}
        return {resource: view.retry_seconds for resource, view in views.items() if view.retry_seconds is not None}

    def old_views(self) -> str | None:
        """The kinds that decisions should not rest on any more, and why; `None`: there are none."""
        old = [
            f"{snapshot.resource} ({snapshot.down_text})"
            for snapshot in self.statistics()
            if snapshot.view.is_old and not snapshot.resting
        ]
        return f"decisions could rest on a view older than {OLD_VIEW_SECONDS:.0f} s: {', '.join(old)}" if old else None

    def statistics(self) -> tuple[InformerStatistics, ...]:
        """A snapshot of each informer."""
        return tuple(informer.statistics() for informer in self._informers.values())
