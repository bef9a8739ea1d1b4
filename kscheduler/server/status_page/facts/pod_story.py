"""One pod: where it stands now, what it asks for, and what happened to it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec

from kscheduler.api.core import Pod, Toleration
from kscheduler.api.quantity import QuantityError
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.reasons.wording import amount_text
from kscheduler.scheduling.pod_log.recent_attempts import BindingAttempt, FailedAttempt, RecentPreemption
from kscheduler.server.status_page.facts.devices import ClaimOfPod, claims_of
from kscheduler.server.status_page.facts.in_words import age_text, seconds_of
from kscheduler.server.status_page.facts.not_served import near_name
from kscheduler.server.status_page.sources import PageSources
from kscheduler.state.queue.group_queue import INCOMPLETE
from kscheduler.state.queue.scheduling_queue import GATED

if TYPE_CHECKING:
    from kscheduler.explain.awaited_events import AwaitedChange

# Entries that are shown; equal attempts in a row are one.
MAX_ATTEMPTS: Final = 50
_IN_QUEUE: Final = {
    "active": "is ready: it is tried next",
    "backoff": "is tried again when its pause is over",
    "unschedulable": "was rejected, and waits for an event that may help",
    "gated": "is gated",
    INCOMPLETE: "waits for its pod group, which is not complete",
    "pending": "came while its pod group was being tried",
}


class PodWhere(msgspec.Struct, frozen=True):
    """Where a pod stands now."""

    state: str
    """A word: Bound, Ended, Deleting, Permit, Binding, Deciding, or the queue's place."""
    text: str
    tone: str
    """good, bad, busy or quiet: its colour."""
    node_name: str = ""
    why: str = ""
    """What keeps it out of the queue, in the words of the plugin that does."""
    plugins: tuple[str, ...] = ()
    """Who rejected it or makes it wait."""
    awaited: "tuple[AwaitedChange, ...]" = ()
    """What in the cluster lets it be tried again."""
    attempts: int = 0
    since: float | None = None
    """Wall-clock seconds: of its place in the queue, or of its waiting."""
    until: float | None = None

    @property
    def has_not_been_tried(self) -> bool:
        """Whether it waits for its first attempt."""
        return self.state in _IN_QUEUE and not self.attempts


class EqualAttempts(msgspec.Struct, frozen=True):
    """Attempts in a row that ended alike."""

    last: BindingAttempt | FailedAttempt
    count: int = 1
    first_at: float = 0.0
    """Wall-clock seconds of the earliest."""

    @property
    def rejected(self) -> list[tuple[str, int]]:
        """By plugin how many nodes it rejected; empty: it found one."""
        return [] if isinstance(self.last, BindingAttempt) else rejected_nodes(self.last)


class PodStory(msgspec.Struct, frozen=True):
    """All that is known without deciding again."""

    pod: Pod
    where: PodWhere
    nominated: str
    requests: tuple[tuple[str, str], ...]
    tolerations: tuple[str, ...]
    claims: tuple[str, ...]
    """To volumes, as far as it names them."""
    device_claims: tuple[ClaimOfPod, ...]
    created: float | None
    condition: tuple[str, str, float | None] | None
    """Reason, message and time of its condition PodScheduled, where it is False."""
    attempts: Sequence[EqualAttempts]
    """The newest first."""
    more_attempts: int
    """Attempts that are kept and not shown."""
    preemptions: Sequence[RecentPreemption]
    group: str
    """Its pod group, if it has one and groups are followed."""


def pod_story(sources: PageSources, pod: Pod) -> PodStory:
    """The story of a pod that the watch has shown."""
    uid = pod.metadata.uid
    attempts = folded(sources.recent.attempts_of(uid))
    group = sources.queue.group_of(pod)
    nomination = sources.cache.nominator.nomination(uid)
    return PodStory(
        pod=pod,
        where=_where(sources, pod),
        nominated=nomination[0] if nomination is not None else pod.status.nominated_node_name,
        requests=_requests(pod),
        tolerations=tuple(map(toleration_text, pod.spec.tolerations)),
        claims=tuple(_claims(pod)),
        device_claims=tuple(claims_of(pod, sources.cache.devices.claims)),
        created=seconds_of(pod.metadata.creation_timestamp),
        condition=_condition(pod),
        attempts=attempts[:MAX_ATTEMPTS],
        more_attempts=sum(each.count for each in attempts[MAX_ATTEMPTS:]),
        preemptions=sources.recent.preemptions_of(uid),
        group=group.text if group is not None else "",
    )


def rejected_nodes(attempt: FailedAttempt) -> list[tuple[str, int]]:
    """By plugin how many nodes it rejected, that of most first. It may have been asked in two rounds."""
    counts: Counter[str] = Counter()
    for plugin, nodes in attempt.rejected:
        counts[plugin] += nodes
    return counts.most_common()


def folded(attempts: Iterable[BindingAttempt | FailedAttempt]) -> list[EqualAttempts]:
    """Attempts, the newest first, with those in a row that ended alike as one."""
    runs = ((group[0], len(group), group[-1].at) for _, found in groupby(attempts, _end_of) if (group := list(found)))
    return [EqualAttempts(*run) for run in runs]


def _end_of(entry: BindingAttempt | FailedAttempt) -> object:
    if isinstance(entry, BindingAttempt):
        return entry.at, entry.number
    return entry.message, entry.is_error, entry.rejected, entry.nominated_node_name, entry.extender


def _where(sources: PageSources, pod: Pod) -> PodWhere:
    uid, node = pod.metadata.uid, pod.spec.node_name
    if pod.is_terminal:
        return PodWhere("Ended", f"has ended ({pod.status.phase})", "quiet", node)
    if node and pod.metadata.deletion_timestamp:
        return PodWhere("Deleting", "is being deleted; it still counts on its node", "quiet", node)
    if node:
        return PodWhere("Bound", f"is on its node, phase {pod.status.phase or 'unknown'}", "good", node)
    held = sources.at_permit.get(uid)
    if held is not None and held.verdict is None:
        return PodWhere(
            "Permit",
            f"has a node and waits at Permit for {', '.join(sorted(held.pending_plugins))}",
            "busy",
            held.node_name,
            plugins=tuple(sorted(held.pending_plugins)),
        )
    assumed = sources.cache.node_of(uid)
    if assumed:
        waits = sources.prebind_waits(pod)
        text = "has a node and waits before it is bound" if waits else "has a node and is being bound"
        return PodWhere("Binding", text, "busy", assumed, why=waits)
    found = sources.queue.find(pod.key)
    if found is not None:
        return _in_queue(sources, *found)
    if sources.queue.is_in_flight(uid):
        return PodWhere("Deciding", "is being decided about, or waits for extenders or a preemption", "busy")
    if pod.spec.scheduler_name not in sources.standing().profiles:
        return _elsewhere(pod.spec.scheduler_name, sources.standing().profiles)
    return PodWhere("Unknown", "is not in the queue: it came a moment ago, or is being deleted", "quiet")


def _elsewhere(name: str, profiles: tuple[str, ...]) -> PodWhere:
    near = near_name(name, profiles)
    hint = f"; do you mean {near}?" if near else ""
    return PodWhere("Elsewhere", f"is for scheduler {name}, which is not served here{hint}", "quiet")


def _in_queue(sources: PageSources, place: str, queued: QueuedPodInfo) -> PodWhere:
    by = queued.unschedulable_plugins | queued.pending_plugins | {queued.gating_plugin} - {""}
    awaited: tuple[AwaitedChange, ...] = ()
    if place in ("unschedulable", GATED) and by:
        from kscheduler.explain.awaited_events import awaited_changes  # not at the start: as `printable`

        labels = sources.awaited_events(queued.pod.pod.spec.scheduler_name, by)
        awaited = tuple(awaited_changes(labels))
    now = sources.clock.time()
    waits = sources.queue.waiting_group(queued.key) or queued  # a member backs off with its group
    until = waits.backoff_expiration if place == "backoff" and waits.backoff_expiration > now else None
    text = _IN_QUEUE.get(place, "waits")
    if until is not None:
        text = f"is tried again in {age_text(until - now)}"
    if place == INCOMPLETE:
        text = sources.queue.why_incomplete(queued.pod.pod) or text
    elif queued.gating_plugin:
        text = f"is gated by {queued.gating_plugin}"
    elif place == GATED:
        text = "is gated"  # with its group: `why` begins with that
    return PodWhere(
        state=place,
        text=text,
        tone="busy" if place in ("active", "backoff") else "bad",
        why=sources.queue.why_gated(queued) if place == GATED else "",
        plugins=tuple(sorted(by - {queued.gating_plugin})),
        awaited=awaited,
        attempts=queued.attempts,
        since=queued.timestamp or None,
        until=until,
    )


def toleration_text(toleration: Toleration) -> str:
    """`key=value:effect`, as taints are written; what is left out is any."""
    if not toleration.key:
        taints = "all taints"
    elif toleration.operator in ("", "Equal"):
        taints = f"{toleration.key}={toleration.value}" if toleration.value else toleration.key
    else:
        operator = "" if toleration.operator == "Exists" else f" {toleration.operator} {toleration.value}"
        taints = toleration.key + (operator or "=any value")
    effect = f":{toleration.effect}" if toleration.effect else ""
    seconds = f" for {toleration.toleration_seconds} s" if toleration.toleration_seconds is not None else ""
    return f"{taints}{effect}{seconds}"


def _requests(pod: Pod) -> tuple[tuple[str, str], ...]:
    try:
        return tuple((name, amount_text(name, amount)) for name, amount in PodInfo(pod).requests.items() if amount)
    except QuantityError as problem:
        return (("unreadable", str(problem)),)


def _claims(pod: Pod) -> Iterator[str]:
    """As the pod names them: a claim that is made for it has no name before."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"PersistentVolumeClaim {volume.persistent_volume_claim.claim_name}"
        elif volume.ephemeral is not None:
            yield f"PersistentVolumeClaim {pod.metadata.name}-{volume.name}"


def _condition(pod: Pod) -> tuple[str, str, float | None] | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message, seconds_of(condition.last_transition_time)
    return None
