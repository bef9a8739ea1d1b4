"""The pods that wait, by reason: for programs, from the queue as it is.

Read in slices, so the answer of a busy scheduler is not of one moment. The message is the one that the pod's
condition has at the API server, or what keeps it or its group out of the queue, of which no condition tells; who
rejected the pod is what the queue knows. Of claims it is what they say now: one that was deleted wakes nobody, and a
pod that has a node may wait there for its devices.

Members of a pod group are decided about together, so those in one place are one entry, though they may have different
messages: the entry has each with its number of members, that of most of them first. Gated pods whose messages differ
only in names of their namespace are one entry, too, without these names: of a thousand replicas each waits for a
claim of its own, and all for the same reason.
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kscheduler.aio.tasks import Slicer
from kscheduler.answers.pending_in_queue import PendingInQueue, PodInQueue, ReasonInQueue
from kscheduler.api.core import Pod
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.drift.cache_comparer import PodsStored
from kscheduler.scheduling.drift.prebind_waits import ClaimsNow
from kscheduler.state.queue.group_queue import INCOMPLETE
from kscheduler.state.queue.scheduling_queue import GATED, SchedulingQueue

MAX_REASONS: Final = 200
# Pods of a reason that are named, the oldest.
MAX_PODS: Final = 100
# Of a group's members, those of most.
MAX_MESSAGES: Final = 3
_SLICE_SECONDS: Final = 0.002
# In the place of a queue's name: it is being decided or bound, or waits for extenders or Permit.
_UNDER_WAY: Final = "underWay"

_OF_CLAIMS: Final = "DynamicResources"

# The plugins that rejected a pod, and its message.
_Said = tuple[tuple[str, ...], str]


class _Reason(NamedTuple):
    """What the pods of an entry have in common."""

    queue: str
    profile: str
    cause: _Said | None
    """Of gated pods without names. `None`: members of a group, of whom each may have been told something else."""
    group: str


class PendingPods:
    """The pods of the served profiles that have no node."""

    def __init__(
        self,
        queue: SchedulingQueue,
        pods: PodsStored,
        serves: Callable[[str], bool],
        claims: ClaimsNow | None = None,
    ) -> None:
        """`serves`: whether a scheduler name is a profile of this service. `claims`: what they say now."""
        self._queue, self._pods, self._serves, self._claims = queue, pods, serves, claims

    async def all(self, namespace: str = "") -> PendingInQueue:
        """All of them, or those of a namespace, counted."""
        return await self._answer(self._pods.keys(), namespace)

    async def of(self, keys: Iterable[str]) -> PendingInQueue:
        """Those with these keys, as `all` counts them: with the keys known, no bound pod is looked at."""
        return await self._answer(keys, "")

    async def _answer(self, keys: Iterable[str], namespace: str) -> PendingInQueue:
        others: Counter[str] = Counter()  # by scheduler that is no profile here; nobody may run these
        found: dict[_Reason, list[tuple[str, str]]] = {}
        cause: dict[_Reason, Counter[_Said]] = {}
        shown: dict[str, tuple[Pod, QueuedPodInfo | None]] = {}
        slicer = Slicer(_SLICE_SECONDS)
        for key in keys:
            pod = self._pods.get(key)
            if pod is not None and _has_no_node(pod) and namespace in ("", pod.metadata.namespace):
                if self._serves(pod.spec.scheduler_name):
                    queued = self._queue.find(key)
                    shown[key] = pod, queued[1] if queued is not None else None
                    reason, own = self._reason_of(pod, queued)
                    found.setdefault(reason, []).append((pod.metadata.creation_timestamp or "~", key))
                    cause.setdefault(reason, Counter())[own] += 1
                else:
                    others[pod.spec.scheduler_name] += 1
            if slicer.used_up():
                await slicer.turn()
        reasons = sorted(found, key=lambda reason: (-len(found[reason]), reason.queue, _words(cause[reason])))
        return PendingInQueue(
            count=len(shown),
            by_plugin=_counted(
                (plugin, number) for counts in cause.values() for own, number in counts.items() for plugin in own[0]
            ),
            by_profile=_counted((reason.profile, len(pods)) for reason, pods in found.items()),
            by_namespace=_counted((pod.metadata.namespace, 1) for pod, _ in shown.values()),
            reasons=tuple(_answer_of(reason, cause[reason], found[reason], shown) for reason in reasons[:MAX_REASONS]),
            reasons_left_off=max(len(reasons) - MAX_REASONS, 0),
            not_served=_counted(others.items()),
        )

    def _reason_of(self, pod: Pod, found: tuple[str, QueuedPodInfo] | None) -> tuple[_Reason, _Said]:
        """The entry that the pod belongs to, and what it has been told itself."""
        group = self._queue.group_of(pod)
        queue, cause = _UNDER_WAY if found is None else found[0], _said_of(pod, found)
        if queue == INCOMPLETE:  # no condition says it, or an old one says something else
            cause = (), self._queue.why_incomplete(pod) or cause[1]
        elif queue == GATED and found is not None:  # it was not attempted, so no condition says what it waits for
            cause = cause[0], self._queue.why_gated(found[1]) or cause[1]
        elif self._claims is not None:  # the condition is of the last attempt
            if found is None:
                cause = cause[0], self._claims.waits(pod) or cause[1]
            elif missing := self._claims.missing(pod):
                cause = (_OF_CLAIMS,), missing
        profile = pod.spec.scheduler_name
        if group is None:
            alike = (cause[0], _without_names(cause[1], pod.metadata.namespace)) if queue == GATED else cause
            return _Reason(queue, profile, alike, ""), cause
        return _Reason(queue, profile, None, group.text), cause


def _has_no_node(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.is_terminal


def _said_of(pod: Pod, found: tuple[str, QueuedPodInfo] | None) -> _Said:
    condition = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    message = condition.message if condition is not None and condition.status == "False" else ""
    if found is None:
        return (), message
    queued = found[1]
    gate = {queued.gating_plugin} if queued.gating_plugin else set()
    return tuple(sorted(gate | set(queued.unschedulable_plugins) | set(queued.pending_plugins))), message


def _without_names(message: str, namespace: str) -> str:
    """`could not find ResourceClaim "shop/…"` for each claim of namespace `shop`."""
    start = f"{namespace}/"
    return re.sub(rf'(?<![^\s"]){re.escape(start)}[^\s":]+', f"{start}…", message) if start in message else message


def _words(cause: Counter[_Said]) -> str:
    """The message, or those of most members of a group, with their numbers."""
    counts: Counter[str] = Counter()
    for (_, message), number in cause.items():
        counts[message] += number
    if len(counts) == 1:
        return next(iter(counts))
    # kube-scheduler 1.37 ends a group's message with ", " where no plugin says more: not before a number of members.
    ordered = sorted(((number, message) for message, number in counts.items() if message), key=_most_first)
    more = [f"and {len(ordered) - MAX_MESSAGES} more messages"] if len(ordered) > MAX_MESSAGES else []
    reported = [
        f"{message.removesuffix(', ')} ({number} {'member' if number == 1 else 'members'})"
        for number, message in ordered[:MAX_MESSAGES]
    ]
    return "; ".join((*reported, *more))


def _most_first(counted: tuple[int, str]) -> tuple[int, str]:
    return -counted[0], counted[1]


def _answer_of(
    reason: _Reason,
    cause: Counter[_Said],
    pods: list[tuple[str, str]],
    shown: dict[str, tuple[Pod, QueuedPodInfo | None]],
) -> ReasonInQueue:
    oldest = heapq.nsmallest(MAX_PODS, pods)
    return ReasonInQueue(
        queue=reason.queue,
        profile=reason.profile,
        pod_group=reason.group or None,
        plugins=tuple(sorted({plugin for plugins, _ in cause for plugin in plugins})),
        message=_words(cause) if reason.cause is None or len(cause) == 1 else reason.cause[1],
        count=len(pods),
        since=oldest[0][0] if oldest[0][0] != "~" else None,
        pods=tuple(_pod(*shown[key]) for _, key in oldest),
    )


def _pod(pod: Pod, queued: QueuedPodInfo | None) -> PodInQueue:
    return PodInQueue(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        priority=pod.spec.priority or 0,
        attempts=queued.attempts if queued is not None else None,
        creation_timestamp=pod.metadata.creation_timestamp,
        nominated_node_name=pod.status.nominated_node_name or None,
    )


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name, number in pairs:
        counts[name] += number
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
