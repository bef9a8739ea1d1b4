"""The pods that wait, by reason: for programs, from the queue as it is.

Read in slices, so the answer of a busy scheduler is not of one moment. The message is the one that the pod's condition
has at the API server, or what keeps it or its group out of the queue, of which no condition tells; who turned the pod
down is what the queue knows.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from kscheduler.aio.slices import Slicer
from kscheduler.api.core import Pod
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.truth.truth import PodsStored
from kscheduler.state.queue.group_queue import INCOMPLETE
from kscheduler.state.queue.scheduling_queue import GATED, SchedulingQueue

API_VERSION: Final = "pending.kscheduler.io/v1"
KIND: Final = "PendingInQueue"
MOST_REASONS: Final = 200
MOST_PODS: Final = 100
"""Pods of a reason that are named, the oldest."""
_SLICE_SECONDS: Final = 0.002
_UNDER_WAY: Final = "underWay"
"""In the place of a queue's name: it is being decided or bound, or waits for extenders or Permit."""

Tree = dict[str, Any]
_Reason = tuple[str, str, tuple[str, ...], str]
"""Queue, profile, plugins, message."""


class PendingPods:
    """The pods of the served profiles that have no node."""

    def __init__(self, queue: SchedulingQueue, pods: PodsStored, serves: Callable[[str], bool]) -> None:
        """`serves`: whether a scheduler name is a profile of this service."""
        self._queue, self._pods, self._serves = queue, pods, serves

    async def tree(self, namespace: str = "") -> Tree:
        """All of them, or those of a namespace, counted; always with the same keys."""
        return await self._tree(self._pods.keys(), namespace)

    async def tree_of(self, keys: Iterable[str]) -> Tree:
        """Those with these keys, as `tree` counts them: whoever knows the keys need not look at each bound pod."""
        return await self._tree(keys, "")

    async def _tree(self, keys: Iterable[str], namespace: str) -> Tree:
        found: dict[_Reason, list[tuple[str, str]]] = {}
        shown: dict[str, tuple[Pod, QueuedPodInfo | None]] = {}
        slicer = Slicer(_SLICE_SECONDS)
        for key in keys:
            pod = self._pods.get(key)
            if pod is not None and self._waits(pod) and namespace in ("", pod.metadata.namespace):
                queued = self._queue.find(key)
                shown[key] = pod, queued[1] if queued is not None else None
                found.setdefault(self._reason_of(pod, queued), []).append((pod.metadata.creation_timestamp or "~", key))
            if slicer.used_up():
                await slicer.turn()
        reasons = sorted(found, key=lambda reason: (-len(found[reason]), reason))
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "count": len(shown),
            "byPlugin": _counted((plugin, len(pods)) for reason, pods in found.items() for plugin in reason[2]),
            "byProfile": _counted((reason[1], len(pods)) for reason, pods in found.items()),
            "byNamespace": _counted((pod.metadata.namespace, 1) for pod, _ in shown.values()),
            "reasons": [_tree(reason, found[reason], shown) for reason in reasons[:MOST_REASONS]],
            "reasonsLeftOff": max(len(reasons) - MOST_REASONS, 0),
        }

    def _waits(self, pod: Pod) -> bool:
        return not pod.spec.node_name and not pod.is_terminal and self._serves(pod.spec.scheduler_name)

    def _reason_of(self, pod: Pod, found: tuple[str, QueuedPodInfo] | None) -> _Reason:
        place, profile, plugins, message = _reason_of(pod, found)
        if place == INCOMPLETE:  # no condition says it, or an old one says something else
            return place, profile, (), self._queue.why_incomplete(pod) or message
        if place == GATED and found is not None:  # it was not attempted, so no condition says what it waits for
            return place, profile, plugins, self._queue.why_gated(found[1]) or message
        return place, profile, plugins, message


def _reason_of(pod: Pod, found: tuple[str, QueuedPodInfo] | None) -> _Reason:
    condition = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    message = condition.message if condition is not None and condition.status == "False" else ""
    if found is None:
        return _UNDER_WAY, pod.spec.scheduler_name, (), message
    place, queued = found
    gate = {queued.gating_plugin} if queued.gating_plugin else set()
    plugins = gate | set(queued.unschedulable_plugins) | set(queued.pending_plugins)
    return place, pod.spec.scheduler_name, tuple(sorted(plugins)), message


def _tree(reason: _Reason, pods: list[tuple[str, str]], shown: dict[str, tuple[Pod, QueuedPodInfo | None]]) -> Tree:
    queue, profile, plugins, message = reason
    oldest = heapq.nsmallest(MOST_PODS, pods)
    return {
        "queue": queue,
        "profile": profile,
        "plugins": list(plugins),
        "message": message,
        "count": len(pods),
        "since": oldest[0][0] if oldest[0][0] != "~" else None,
        "pods": [_pod(*shown[key]) for _, key in oldest],
    }


def _pod(pod: Pod, queued: QueuedPodInfo | None) -> Tree:
    return {
        "namespace": pod.metadata.namespace,
        "name": pod.metadata.name,
        "priority": pod.spec.priority or 0,
        "attempts": queued.attempts if queued is not None else None,
        "creationTimestamp": pod.metadata.creation_timestamp,
        "nominatedNodeName": pod.status.nominated_node_name or None,
    }


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name, number in pairs:
        counts[name] += number
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
