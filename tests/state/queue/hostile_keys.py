"""Sort keys as no plugin should give them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo


class Raises:
    """Compares with nobody."""

    def __lt__(self, other: object) -> bool:
        raise ZeroDivisionError("no order here")


class TiresOut:
    """Compares with itself when it is made, and never again."""

    def __init__(self) -> None:
        self._left = 1

    def __lt__(self, other: object) -> bool:
        self._left -= 1
        if self._left < 0:
            raise LookupError("compared too often")
        return False


class IsAlwaysFirst:
    """Before everything, itself included."""

    def __lt__(self, other: object) -> bool:
        return True


class SaysAnArray:
    """Its comparison has no truth."""

    def __lt__(self, other: object) -> Any:
        return np.array([True, False])


def _dies(queued: QueuedPodInfo) -> Any:
    raise ValueError(f"could not convert {queued.key}")


async def _later(queued: QueuedPodInfo) -> int:
    return 1


MOODS: dict[str, Callable[[QueuedPodInfo], Any]] = {
    "raises": _dies,
    "none": lambda _: None,
    "number": lambda queued: len(queued.key) * 7 % 3,
    "text": lambda queued: queued.key,
    "tuple": lambda queued: (-queued.pod.priority, queued.timestamp),
    "not a number": lambda _: float("nan"),
    "not a number inside": lambda _: (1, [float("nan")]),
    "compares with nobody": lambda _: Raises(),
    "tires out": lambda _: TiresOut(),
    "always first": lambda _: IsAlwaysFirst(),
    "an array": lambda _: SaysAnArray(),
    "a coroutine": _later,
    "a dict": lambda _: {},
}


class HostileSort:
    """A QueueSort plugin whose mood a test chooses."""

    name = "Hostile"

    def __init__(self, mood: str = "number") -> None:
        self.mood = mood

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return MOODS[self.mood](queued)


class Complaints:
    """Writes down what it hears. Implements `PluginListener`."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str, str, str, str]] = []
        """Plugin, extension point, pod, what it failed with, what becomes of the pod."""
        self.slow_calls: list[tuple[str, str, str, float, int]] = []

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        text = f"{type(failure).__name__}: {failure}"
        self.failures.append((plugin, point, pod.key if pod is not None else "", text, then))

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        self.slow_calls.append((plugin, point, pod.key if pod is not None else "", seconds, nodes))
