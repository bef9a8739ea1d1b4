"""Compares a store with the API server, to find events that the watch has lost.

The problem: a watch may lose an event (API servers have had such bugs) without any sign of it, and a client that only
watches stays wrong until it restarts. The idea: every five minutes list the metadata, consistently and page by page,
and compare versions once the watch has reached the version of the list.

    note the keys with events on the watch   from before the list on; these objects are changing and are not compared
    list metadata                            at version L
    wait until the watch has reached L       at most 150 s; a watch that does not get there is logged, not compared
    wait 30 s, compare again                 still different and still without an event: an event was lost
    count, log both sides, list the kind again

So a lost event is found within the period with its jitter, a list, a minute until the next bookmark, and the half
minute: eight minutes (`FOUND_SECONDS`). Kinds are audited side by side, and a period begins with an audit, not
with its end. A list of metadata is 2 KB a pod for the API server to write and 3 us for us to read, which is why it is
not made each minute.

Only what the watch must have shown is judged. If the kind was listed again meanwhile (the watch had lost its place),
then the watch has shown nothing of what came and went before that list, and the store is what the list said: there is
nothing to judge, and nothing to repair.

Limits: a consistent LIST is taken as correct, so wrong lists of a server go unnoticed. Versions are compared as numbers
if both are numbers (allowed since Kubernetes 1.35), otherwise only for equality.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kscheduler.aio import Clock, Slicer, finishes_within
from kscheduler.api.codec import UndecodableError
from kscheduler.client.errors import APIError, ClientError, CredentialsError, NetworkError
from kscheduler.client.rest import APIClient
from kscheduler.informers.informer import Informer
from kscheduler.informers.progress import PAGE_SIZE
from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)

METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
AUDIT_SECONDS: Final = 300.0
# Replicas that were started together should not list at the same time.
_JITTER: Final = 0.2
# Bookmarks come about once a minute and carry the version that the watch has reached.
REACH_SECONDS: Final = 150.0
LOOK_SECONDS: Final = 5.0
GRACE_SECONDS: Final = 30.0
# Within this time, and that of a list, a lost event is found; docs/operations.md says so in minutes.
FOUND_SECONDS: Final = AUDIT_SECONDS * (1.0 + _JITTER) + 65.0 + LOOK_SECONDS + GRACE_SECONDS
MAX_LINES: Final = 20


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Item(msgspec.Struct, gc=False):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Item] | None
    """Without it the answer is no list, and not an empty cluster."""


_decoder = msgspec.json.Decoder(_Page)


class Identity(msgspec.Struct, frozen=True):
    """An object's UID and version; empty if there is no object."""

    uid: str = ""
    resource_version: str = ""


class Difference(msgspec.Struct, frozen=True):
    """An object that the API server and the store have in different versions."""

    key: str
    server: Identity
    store: Identity

    @property
    def kind(self) -> str:
        """The kind of difference, a label of `kscheduler_store_drift_objects_total`."""
        if not self.store.uid:
            return "missing"
        return "stale" if self.server.uid else "redundant"


@dataclass(slots=True)
class Listing:
    """The state of the comparison while pages arrive."""

    seen: set[str] = field(default_factory=set)
    """Keys on the pages so far."""
    version: str = ""
    differences: dict[str, Difference] = field(default_factory=dict)


class AuditStatistics(msgspec.Struct, frozen=True):
    """Counts since the start."""

    resource: str
    audits: Mapping[str, int]
    """By outcome: `equal`, `different`, `behind` (the watch did not reach the list), `listed anew` (meanwhile, so that
    there was nothing to judge), `failed`, `not synced`."""
    drift: Mapping[str, int]
    """Objects by kind of difference."""


def _is_outage(error: Exception) -> bool:
    """Whether all requests fail for this reason, which `client.reachability` logs."""
    refused = isinstance(error, APIError) and error.is_unauthorized
    return refused or isinstance(error, NetworkError | CredentialsError)


class StoreAudit:
    """Audits one informer."""

    def __init__(
        self,
        client: APIClient,
        informer: Informer[Any],
        relist: Callable[[], None],
        clock: Clock,
    ) -> None:
        """`relist` makes the informer list again, consistently."""
        self._client = client
        self._informer = informer
        self._relist = relist
        self._clock = clock
        self._audits: Counter[str] = Counter()
        self._drift: Counter[str] = Counter()

    def statistics(self) -> AuditStatistics:
        return AuditStatistics(self._informer.kind.resource, dict(self._audits), dict(self._drift))

    async def audit(self) -> list[Difference]:
        """Audit once; returns the differences found, for which a relist has been requested."""
        informer = self._informer
        if not informer.has_synced or informer.resting:
            self._audits["not synced"] += 1
            return []
        with informer.noting_touched() as touched:
            outcome, differences = await self._compared(touched)
        self._audits[outcome] += 1
        if differences:
            self._report(differences)
            self._relist()
        return differences

    async def _compared(self, touched: set[str]) -> tuple[str, list[Difference]]:
        lists_before = self._informer.lists
        try:
            listing = await self._list(touched)
        except (ClientError, UndecodableError, msgspec.DecodeError, UnicodeDecodeError) as error:
            # An outage is logged once for all requests, and a later audit is as good.
            write = _log.debug if _is_outage(error) else _log.warning
            write("store_audit_failed", resource=self._informer.kind.resource, err=str(error))
            return "failed", []
        has_reached = await self._has_reached(listing.version)
        if self._informer.lists != lists_before:
            return "listed anew", []
        if not has_reached:
            # Of a watch that is down the problem says more, and is logged.
            write = _log.debug if self._informer.problem else _log.warning
            write(
                "store_audit_watch_is_behind",
                resource=self._informer.kind.resource,
                listed=listing.version,
                watched=self._informer.resource_version,
                seconds=REACH_SECONDS,
            )
            return "behind", []
        if not self._still_there(listing.differences, touched):
            return "equal", []
        await self._clock.sleep(GRACE_SECONDS)
        if self._informer.lists != lists_before:
            return "listed anew", []
        left = self._still_there(listing.differences, touched)
        return ("different" if left else "equal"), left

    # --- the list -----------------------------------------------------------------------------------------------------

    async def _list(self, touched: set[str]) -> Listing:
        listing = Listing()
        async for page in self._pages():
            listing.version = listing.version or page.metadata.resource_version
            for item in page.items or ():
                self._compare(listing, item.metadata)
        slicer, stored_keys = Slicer(), self._informer.store.keys()
        for key in stored_keys:
            if key not in listing.seen and key not in touched:
                listing.differences[key] = Difference(key, Identity(), self._stored(key))
            if slicer.used_up():
                await slicer.turn()
        return listing

    async def _pages(self) -> AsyncIterator[_Page]:
        kind = self._informer.kind
        params = {"limit": str(PAGE_SIZE), **({"fieldSelector": kind.field_selector} if kind.field_selector else {})}
        token, tokens = "", set[str]()
        while True:
            page_params = {**params, "continue": token} if token else params
            body = await self._client.get(kind.path, page_params, retries=0, accept=METADATA_ONLY)
            page = _decoder.decode(body)
            yield page
            token = page.metadata.continue_token
            if not token:
                return
            if token in tokens:
                raise UndecodableError(f"GET {kind.path}: the list does not end")
            tokens.add(token)

    def _compare(self, listing: Listing, metadata: _Metadata) -> None:
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        listing.seen.add(key)
        if not (metadata.name and metadata.uid and metadata.resource_version):
            return  # garbled on its way here: it says nothing about the watch
        stored = self._informer.store.get(key)
        if stored is not None:
            meta = stored.metadata
            if meta.resource_version == metadata.resource_version and meta.uid == metadata.uid:
                return
        server = Identity(metadata.uid, metadata.resource_version)
        listing.differences[key] = Difference(key, server, self._stored(key))

    def _stored(self, key: str) -> Identity:
        stored = self._informer.store.get(key)
        return Identity() if stored is None else Identity(stored.metadata.uid, stored.metadata.resource_version)

    # --- the verdict --------------------------------------------------------------------------------------------------

    async def _has_reached(self, version: str) -> bool:
        return await finishes_within(self._until_reached(version), REACH_SECONDS, self._clock)

    async def _until_reached(self, version: str) -> None:
        while not reaches(self._informer.resource_version, version):
            await self._clock.sleep(LOOK_SECONDS)

    def _still_there(self, differences: Mapping[str, Difference], touched: set[str]) -> list[Difference]:
        """The differences that remain, except for unreadable objects and those with an event since the list."""
        return [
            difference
            for key, difference in differences.items()
            if key not in touched and not self._informer.is_unreadable(key) and self._stored(key) == difference.store
        ]

    def _report(self, differences: list[Difference]) -> None:
        resource = self._informer.kind.resource
        for difference in differences:
            self._drift[difference.kind] += 1
        for difference in differences[:MAX_LINES]:
            _log.error(
                "store_drift",
                resource=resource,
                object=difference.key,
                what=difference.kind,
                server_uid=difference.server.uid,
                server_version=difference.server.resource_version,
                store_uid=difference.store.uid,
                store_version=difference.store.resource_version,
            )
        _log.error("store_drift_lists_anew", resource=resource, differences=len(differences))


def reaches(seen: str, wanted: str) -> bool:
    """Whether a watch at version `seen` has seen everything up to `wanted`."""
    if seen.isdecimal() and wanted.isdecimal():
        return int(seen) >= int(wanted)
    return seen == wanted


class StoreAudits:
    """Audits several informers, side by side, periodically and on request."""

    def __init__(
        self,
        audits: tuple[StoreAudit, ...],
        clock: Clock,
        *,
        period_seconds: float = AUDIT_SECONDS,
        rng: random.Random | None = None,
    ) -> None:
        """A period of 0 means audits on request only."""
        self._audits = audits
        self._clock = clock
        self._period = period_seconds
        self._rng = rng or random.Random()  # noqa: S311  # spreads load, protects nothing
        self._requested = asyncio.Event()

    def statistics(self) -> tuple[AuditStatistics, ...]:
        """A snapshot of each audit."""
        return tuple(audit.statistics() for audit in self._audits)

    def ask(self) -> None:
        """Request an audit now; during an audit, another one after it."""
        self._requested.set()

    async def run(self) -> None:
        """Audit until cancelled."""
        began = self._clock.monotonic()
        while True:
            if self._period > 0:
                seconds = self._period * (1.0 + _JITTER * (2.0 * self._rng.random() - 1.0))
                left = max(0.0, began + seconds - self._clock.monotonic())
                await finishes_within(self._requested.wait(), left, self._clock)
            else:
                await self._requested.wait()
            self._requested.clear()
            began = self._clock.monotonic()
            async with asyncio.TaskGroup() as group:
                for audit in self._audits:
                    group.create_task(audit.audit())
