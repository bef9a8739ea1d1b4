"""Reads an object again that could not be decoded, until it can be or is gone.

The problem: what a proxy, a broken link or a bug garbles once is not sent again, as a watch shows changes only: a pod
whose one event could not be read would wait until somebody changes it. The idea: ask for that object alone.

    unreadable --1 s--> read it --decodes--> taken into the store, as if the watch had brought it
        ^                  '--not there--> gone from the store
        '-- 2, 4, ... 64 s, then each 5 min, while it cannot be decoded or the request fails

It is asked for by a list of its name with the kind's own field selector: that needs no right but `list`, is consistent
(so at least as new as the event was; the informer ignores what the watch brings later that is older), and says of a pod
that has ended meanwhile what the watch says: it is not there.

An object without a readable name, or of another kind, cannot be asked for. Some object of the kind is then not in the
store, or not as it is, so the kind is listed again: after 10 s, and while such objects remain after 20, 40, ... 640 s;
within five minutes of such a list the next one waits 45 s. Requests: ten a second of one kind at most, side by side.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from kscheduler.aio import Clock
from kscheduler.api.codec import UndecodableError
from kscheduler.client.errors import ClientError
from kscheduler.client.lists import ListDecoder
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import Undecodable
from kscheduler.informers.informer import UNNAMED, Informer
from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)

FIRST_SECONDS: Final = 1.0
# Between two reads of one object; the sixth comes after a minute.
LONGEST_SECONDS: Final = 300.0
FIRST_RELIST_SECONDS: Final = 10.0
SOON_AGAIN_SECONDS: Final = 45.0
LONGEST_RELIST_SECONDS: Final = 640.0
RELISTED_LATELY_SECONDS: Final = 300.0
LOOK_SECONDS: Final = 1.0
# Objects that are read per look.
MAX_AT_A_TIME: Final = 10
ANSWER_SECONDS: Final = 10.0
RELIST_REASON: Final = "unreadable"
# What the API server accepts as a name of any kind that is watched. Anything else gets into no request.
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]*[A-Za-z0-9])?")


@dataclass(slots=True)
class _Due:
    """When an unreadable object is read next, in monotonic seconds."""

    at: float
    pause_seconds: float


class Rereads:
    """When each unreadable object is due. Objects that cannot be asked for are one, `UNNAMED`: its read is a list."""

    def __init__(self) -> None:
        self._due: dict[str, _Due] = {}
        self._relisted_at = float("-inf")

    def due(self, keys: Iterable[str], now: float) -> list[str]:
        """The keys to read now: `UNNAMED`, then those that have waited longest. `keys`: all that are unreadable."""
        unreadable = set(keys)
        for over in self._due.keys() - unreadable:
            del self._due[over]
        for key in unreadable - self._due.keys():
            first = self._first(key, now)
            self._due[key] = _Due(now + first, first)
        found = [key for key, due in self._due.items() if due.at <= now]
        return sorted(found, key=lambda key: (key != UNNAMED, self._due[key].at))

    def _first(self, key: str, now: float) -> float:
        if key != UNNAMED:
            return FIRST_SECONDS
        return SOON_AGAIN_SECONDS if now - self._relisted_at < RELISTED_LATELY_SECONDS else FIRST_RELIST_SECONDS

    def tried(self, key: str, now: float) -> None:
        """It has been read, and may be unreadable still."""
        due, longest = self._due[key], LONGEST_SECONDS
        if key == UNNAMED:
            self._relisted_at, longest = now, LONGEST_RELIST_SECONDS
        due.pause_seconds = min(2 * due.pause_seconds, longest)
        due.at = now + due.pause_seconds


class Rereader:
    """Reads the unreadable objects of one informer again."""

    def __init__(self, client: APIClient, informer: Informer[Any], relist: Callable[[str], None], clock: Clock) -> None:
        """`relist` makes the informer list again, for a reason."""
        self._client = client
        self._informer = informer
        self._relist = relist
        self._clock = clock
        self._rereads = Rereads()
        self._lists: ListDecoder[Any] = ListDecoder(informer.kind, is_watched=True)

    async def run(self) -> None:
        """Read until cancelled; without unreadable objects it waits for the first."""
        while True:
            await self._informer.until_unreadable()
            await self.look()
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Read those that are due, together: where the server does not answer for one, others need not wait for it."""
        unreadable = {bad.key if self._can_be_queried_for(bad) else UNNAMED for bad in self._informer.unreadable()}
        due = self._rereads.due(unreadable, self._clock.monotonic())[:MAX_AT_A_TIME]
        async with asyncio.TaskGroup() as group:
            for key in due:
                bad = self._informer.unreadable_under(key)
                if key == UNNAMED:
                    self._relist(RELIST_REASON)
                elif bad is not None:
                    group.create_task(self._read(bad), name=f"read {self._informer.kind.resource} {key}")
        for key in due:
            self._rereads.tried(key, self._clock.monotonic())

    async def _read(self, bad: Undecodable) -> None:
        informer = self._informer
        try:
            page = self._lists.decode(await self._ask(bad))
        except (ClientError, UndecodableError) as error:
            _log.debug("reading_anew_failed", resource=informer.kind.resource, object=bad.key, err=str(error))
            return
        found = next((obj for obj in page.items if obj.metadata.name == bad.name), None)
        if found is None and (page.items or page.undecodable):
            return  # it is there, and still unreadable
        if informer.reread(bad, found):
            outcome = "gone" if found is None else "read"
            _log.info("object_readable_again", resource=informer.kind.resource, object=bad.key, outcome=outcome)

    async def _ask(self, bad: Undecodable) -> bytes:
        kind = self._informer.kind
        selectors = [f"metadata.name={bad.name}"]
        if bad.namespace and not kind.namespaced and kind.may_have_namespaces:
            selectors.append(f"metadata.namespace={bad.namespace}")
        if kind.field_selector:
            selectors.append(kind.field_selector)
        params = {"fieldSelector": ",".join(selectors)}
        path = kind.object_path("", bad.namespace).rstrip("/")
        return await self._client.get(path, params, retries=0, timeout_seconds=ANSWER_SECONDS)

    def _can_be_queried_for(self, bad: Undecodable) -> bool:
        names = (bad.name, *([bad.namespace] if bad.namespace else []))
        if not all(_NAME.fullmatch(name) for name in names):
            return False
        return bool(bad.namespace) or not self._informer.kind.namespaced
