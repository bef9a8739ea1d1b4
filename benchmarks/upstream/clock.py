"""When each pod of a workload was first seen, tried, bound and gone: the same watch on all pods for every scheduler."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    resource_version: str


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Condition(msgspec.Struct):
    type: str


class _Status(msgspec.Struct):
    conditions: tuple[_Condition, ...] = ()


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status


class _Event(msgspec.Struct):
    type: str
    object: _Pod


_DECODE = msgspec.json.Decoder(_Event).decode


@dataclass(eq=False, slots=True)
class Wait:
    """For pods, until each is bound (or gone), or has been tried."""

    remaining: set[str]
    is_for_attempts: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def notice(self, key: str, *, is_attempt: bool) -> None:
        if key in self.remaining and (self.is_for_attempts or not is_attempt):
            self.remaining.discard(key)
            if not self.remaining:
                self.changed.set()


@dataclass(slots=True)
class PodClock:
    """By `namespace/name`, in seconds of the monotonic clock: at the arrival of the bytes that show it."""

    added: dict[str, float] = field(default_factory=dict)
    tried: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    on_bound: Callable[[str], None] | None = None
    """Called with the key of each pod that gets a node."""
    _waits: list[Wait] = field(default_factory=list)

    def see(self, line: bytes, now: float) -> str:
        """Notes what this line of the watch, which came at `now`, shows for the first time. Returns its version.

        Raises msgspec.ValidationError for a line that is no pod, as the API server's last words are.
        """
        event = _DECODE(line)
        pod = event.object
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self.added.setdefault(key, now)
        if pod.spec.node_name and key not in self.bound:
            self.bound[key] = now
            self._notice(key, is_attempt=False)
            if self.on_bound is not None:
                self.on_bound(key)
        if event.type == "DELETED":
            self.gone.setdefault(key, now)
            self._notice(key, is_attempt=False)
        elif key not in self.tried and any(one.type == "PodScheduled" for one in pod.status.conditions):
            self.tried[key] = now
            self._notice(key, is_attempt=True)
        return pod.metadata.resource_version

    def _notice(self, key: str, *, is_attempt: bool) -> None:
        for wait in self._waits:
            wait.notice(key, is_attempt=is_attempt)

    def last_bind(self) -> float | None:
        """The newest bind; None if there is none."""
        return next(reversed(self.bound.values()), None)

    def wait_for(self, keys: Iterable[str], *, is_for_attempts: bool = False) -> Wait:
        """The wait for those of these pods that are not bound, or tried, yet; it is told until it is ended."""
        remaining = {key for key in keys if key not in self.bound and key not in self.gone}
        if is_for_attempts:
            remaining -= self.tried.keys()
        wait = Wait(remaining, is_for_attempts)
        if not remaining:
            wait.changed.set()
        self._waits.append(wait)
        return wait

    def end(self, wait: Wait) -> None:
        self._waits.remove(wait)
