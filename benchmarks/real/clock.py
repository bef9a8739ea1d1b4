"""The clock of the benchmarks on a real API server: a watch on the pods that notes when each was first seen bound.

It is the benchmark's alone and the same for every scheduler. Times are seconds of the monotonic clock, at the arrival
of the bytes that show the fact.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil

import msgspec


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Metadata(msgspec.Struct):
    name: str
    resource_version: str = msgspec.field(name="resourceVersion")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Event(msgspec.Struct):
    object: _Pod


_DECODER = msgspec.json.Decoder(_Event)


@dataclass
class Clock:
    """When each pod was sent, seen first, and seen with a node."""

    sent: dict[str, float] = field(default_factory=dict)
    added: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, line: bytes, now: float) -> str:
        """Notes what this line of the watch, which came at `now`, shows for the first time. Returns its version.

        Raises msgspec.ValidationError for a line that is no pod, as the API server's last words are.
        """
        pod = _DECODER.decode(line).object
        self.added.setdefault(pod.metadata.name, now)
        if pod.spec.node_name:
            self.bound.setdefault(pod.metadata.name, now)
            self.changed.set()
        return pod.metadata.resource_version

    def last_bind(self) -> float | None:
        """The newest bind; None if there is none."""
        return next(reversed(self.bound.values()), None)

    def latencies(self, pods: Iterable[str]) -> list[float]:
        """Milliseconds from the sending of the request that creates a pod to its bind, of those bound; sorted."""
        return sorted((self.bound[pod] - self.sent[pod]) * 1_000 for pod in pods if pod in self.bound)

    async def wait_for_binds(self, count: int, seconds: float) -> None:
        """Returns when so many pods are bound; raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while len(self.bound) < count:
                self.changed.clear()
                await self.changed.wait()


def binds_per_second(bound: Iterable[float]) -> float:
    """Binds after the first one, over the seconds since the first one. Zero if there are less than two."""
    times = sorted(bound)
    if len(times) < 2 or times[-1] == times[0]:
        return 0.0
    return (len(times) - 1) / (times[-1] - times[0])


def percentile(ordered: Sequence[float], per_cent: float) -> float:
    """The smallest value that so many per cent do not exceed. Raises IndexError if there is none."""
    return ordered[max(0, ceil(len(ordered) * per_cent / 100) - 1)]
