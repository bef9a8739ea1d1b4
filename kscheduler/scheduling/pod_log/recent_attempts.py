"""The last attempts and preemptions, for the status page: what happened to a pod while nobody had logs on.

An entry is a tuple of values that exist already; appending one costs a fraction of a microsecond, and nothing is
looked up until somebody asks. Bound and failed attempts are kept apart: a wave of bindings does not push out why a pod
failed before it. Asking walks a ring, which takes a millisecond or two.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from kscheduler.scheduling.attempt_events import PodBound, PodNotScheduled, PreemptionBegun
from kscheduler.scheduling.observers import hears

# Entries of each ring of attempts: about 3 MB each, most of it the texts of failures.
MAX_ATTEMPTS: Final = 10_000
# Characters of a failure's text that are kept.
LONGEST_MESSAGE: Final = 2_000
MAX_PREEMPTIONS: Final = 1_000
# Victims of a preemption that are named; all are counted.
MAX_VICTIMS: Final = 20


class BindingAttempt(NamedTuple):
    """An attempt that bound a pod."""

    uid: str
    key: str
    at: float
    """Wall-clock seconds, when the API server had accepted the binding."""
    number: int
    """1: the pod's first attempt."""
    node_name: str
    feasible: int
    """Nodes that fitted; 0 if its class had the best ones ready and nobody counted."""
    all_nodes: int
    points: int | None
    """Of the chosen node; `None` if nothing was scored."""
    seconds: float
    """From the start of the cycle to the end of the bind."""


class FailedAttempt(NamedTuple):
    """An attempt that found no node, or failed."""

    uid: str
    key: str
    at: float
    number: int
    message: str
    is_error: bool
    plugins: frozenset[str]
    """Who rejected the pod."""
    pending: frozenset[str]
    """Plugins that wait for something outside the cluster."""
    rejected: tuple[tuple[str, int], ...]
    """By plugin, in the order in which they ran: how many nodes it rejected. Empty name: outside of the nodes that
    PreFilter has left."""
    nominated_node_name: str
    like: str
    """The pod of its class that went through the cycle; empty: this one did."""
    extender: str = ""
    """The HTTP extenders that have rejected nodes, or the one that failed: the message names nobody."""


class RecentPreemption(NamedTuple):
    """A preemption that has begun."""

    uid: str
    """Of the preemptor, pod or group."""
    preemptor: str
    is_group: bool
    at: float
    node_name: str
    victims: tuple[tuple[str, str], ...]
    """UID and key, most important first."""
    victim_count: int
    broken_budgets: int


class RecentAttempts:
    """Rings of what happened last; the newest is last."""

    def __init__(self, most_attempts: int | None = None, most_preemptions: int | None = None) -> None:
        attempts = MAX_ATTEMPTS if most_attempts is None else most_attempts
        preemptions = MAX_PREEMPTIONS if most_preemptions is None else most_preemptions
        self.bound: deque[BindingAttempt] = deque(maxlen=attempts)
        self.failed: deque[FailedAttempt] = deque(maxlen=attempts)
        self.preemptions: deque[RecentPreemption] = deque(maxlen=preemptions)
        self.generation = 0
        """Moves with each entry: a page that shows the rings sees whether there is news."""

    @hears(PodNotScheduled)
    def note_failed(self, event: PodNotScheduled) -> None:
        """An attempt failed, or the pod was rejected with its class."""
        queued, failure = event.queued, event.failure
        pod = queued.pod
        self.generation += 1
        self.failed.append(
            FailedAttempt(
                pod.uid,
                pod.key,
                event.now,
                queued.attempts,
                failure.message[:LONGEST_MESSAGE],
                failure.is_error,
                failure.plugins,
                failure.pending,
                failure.rejected,
                failure.nominated_node_name or "",
                failure.like if failure.like != pod.key else "",
                failure.extender,
            )
        )

    @hears(PreemptionBegun)
    def note_preemption(self, event: PreemptionBegun) -> None:
        """A preemption begins, unless all its victims terminate already."""
        preemption = event.preemption
        if not event.to_go:
            return
        self.generation += 1
        named = tuple([(victim.uid, victim.key) for victim in preemption.victims[:MAX_VICTIMS]])
        self.preemptions.append(
            RecentPreemption(
                preemption.uid,
                preemption.text,
                preemption.group is not None,
                event.now,
                preemption.node_name,
                named,
                len(preemption.victims),
                preemption.broken_budgets,
            )
        )

    @hears(PodBound)
    def note_bound(self, event: PodBound) -> None:
        """A pod was bound."""
        queued, record = event.queued, event.record
        pod = queued.pod
        self.generation += 1
        self.bound.append(
            BindingAttempt(
                pod.uid,
                pod.key,
                event.now,
                queued.attempts,
                record.node_name,
                len(record.feasible),
                record.num_all_nodes,
                record.best_score,
                event.seconds,
            )
        )

    def attempts_of(self, uid: str) -> Sequence[BindingAttempt | FailedAttempt]:
        """All kept attempts of a pod, the newest first."""
        found: list[BindingAttempt | FailedAttempt] = [entry for entry in self.bound if entry.uid == uid]
        found += [entry for entry in self.failed if entry.uid == uid]
        return sorted(found, key=lambda entry: -entry.at)

    def preemptions_of(self, uid: str) -> Sequence[RecentPreemption]:
        """The kept preemptions by a pod, and those that it was a named victim of; the newest first."""
        concerned = [
            entry for entry in self.preemptions if uid == entry.uid or any(uid == victim for victim, _ in entry.victims)
        ]
        return concerned[::-1]
