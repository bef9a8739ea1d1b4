"""Waits until a store holds everything that was written before now.

The problem: anyone who becomes leader has a store that a watch fills, and a watch may be behind: by milliseconds
mostly, by a minute if its connection is dead and nobody has noticed. Deciding on it would give away room that the old
leader has given away just before. The idea: a consistent LIST of one object tells the version L at which the API server
is now; whatever the store has seen at L or later contains all that was written before the LIST.

    list one object                        the version L, in a few milliseconds
    wait for the watch to reach L, 0.5 s   where pods come and go, the next event is there at once
    list the kind again                    where nothing happens, no event will come (bookmarks: one a minute); a small
                                           store is listed sooner, as that is cheap

Limits: versions are compared as numbers (allowed since Kubernetes 1.35); a server whose versions are none is listed.
"""

from typing import Final

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.api.kinds import Kind
from kscheduler.client.errors import ClientError
from kscheduler.client.rest import APIClient
from kscheduler.informers.audit import METADATA_ONLY
from kscheduler.informers.factory import InformerFactory
from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)

# How long an event is waited for before the kind is listed.
EVENT_WAIT_SECONDS: Final = 0.5
SMALL_STORE: Final = 2_000
# The same for a store of fewer objects than that.
SMALL_STORE_WAIT_SECONDS: Final = 0.05
# A list of 100,000 pods takes some ten seconds; after this another one is asked for.
LIST_SECONDS: Final = 30.0
# Timeout of the request for the version, and the pause before another try is half a second.
ASK_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.01
REASON: Final = "new leader"


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Answer(msgspec.Struct):
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


_decode = msgspec.json.Decoder(_Answer).decode


class CatchUp:
    """Waits for the store of one kind."""

    def __init__(self, client: APIClient, informers: InformerFactory, kind: Kind, clock: Clock) -> None:
        self._client = client
        self._informers = informers
        self._informer = informers.informer(kind)
        self._kind = kind
        self._clock = clock

    async def run(self) -> None:
        """Return when the store holds all that was written before the call; waits as long as that takes."""
        began = self._clock.monotonic()
        version = await self._version_now()
        how = "watch"
        wait_seconds = SMALL_STORE_WAIT_SECONDS if len(self._informer.store) < SMALL_STORE else EVENT_WAIT_SECONDS
        if not await self._is_reached(version, wait_seconds):
            how = "list"
            while not await self._is_listed(version):
                _log.warning("waiting_to_catch_up", resource=self._kind.resource, problem=self._informer.problem)
        seconds = round(self._clock.monotonic() - began, 3)
        _log.info("caught_up", resource=self._kind.resource, how=how, seconds=seconds)

    async def _version_now(self) -> str:
        while True:
            try:
                body = await self._client.get(
                    self._kind.path, {"limit": "1"}, retries=0, timeout_seconds=ASK_SECONDS, accept=METADATA_ONLY
                )
                return _decode(body).metadata.resource_version
            except (ClientError, msgspec.DecodeError) as failure:
                _log.warning("waiting_to_catch_up", resource=self._kind.resource, problem=str(failure))
            await self._clock.sleep(EVENT_WAIT_SECONDS)

    async def _is_reached(self, version: str, event_wait_seconds: float) -> bool:
        until = self._clock.monotonic() + event_wait_seconds
        while not _contains(self._informer.resource_version, version):
            if self._clock.monotonic() >= until:
                return False
            await self._clock.sleep(_LOOK_SECONDS)
        return True

    async def _is_listed(self, version: str) -> bool:
        """List the kind; returns whether a list or an event has shown the version in time.

        A list that was under way before may be older than the version, so it is asked for until the version is there.
        Versions that are no numbers cannot be compared: then the second list that ends has begun late enough.
        """
        until = self._clock.monotonic() + LIST_SECONDS
        first = seen = self._informer.lists
        self._informers.relist(self._kind, REASON)  # nothing happens while one is under way
        while not _contains(self._informer.resource_version, version):
            if self._informer.lists != seen:
                seen = self._informer.lists
                if not version.isdecimal() and seen > first + 1:
                    break
                self._informers.relist(self._kind, REASON)
            if self._clock.monotonic() >= until:
                return False
            await self._clock.sleep(_LOOK_SECONDS)
        return True


def _contains(seen: str, version: str) -> bool:
    """Whether what was seen includes that version; false if that cannot be told."""
    return seen.isdecimal() and version.isdecimal() and int(seen) >= int(version)
