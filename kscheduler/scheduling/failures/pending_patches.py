"""Status patches that are not sent yet, and which one comes next. Pure: time is an argument, patches are results.

    put         at most one pending patch per pod: the newest condition and nominated node; a part that the newer
                patch
                does not set is inherited from the older one
    put_class   one condition per class of parked pods; its members are looked up when the class's turn comes

A patch is *news* if other programs act on it (a nomination, a first condition, another reason: autoscalers read
these) and is sent at `NEWS_PER_SECOND`. A patch that only changes a text is sent at `TEXTS_PER_SECOND`, because one
event may change the text of a hundred thousand pods, and no program waits for it. A patch that the pod shows already
costs no request. At most one patch of a pod is in flight, because two could overtake each other: a newer one waits
behind it. A patch whose namespace has no turn (`set_aside`) keeps no other waiting; it has had its share of the rate.

Patches and class conditions have serial numbers, so that a class's condition never replaces a newer one of a single
pod. Memory: a patch per judged pod, a condition per class, and the keys of the one class whose turn it is.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.bounded import RecentlyUsed
from kscheduler.scheduling.failures.patch_rate import PatchRate

NEWS_PER_SECOND: Final = 500.0
NEWS_AT_ONCE: Final = 1000
TEXTS_PER_SECOND: Final = 50.0
# kube-scheduler's own limits for all its requests are 50 a second and 100 at once.
TEXTS_AT_ONCE: Final = 100
# Members of a class that are checked in one call, in under a millisecond.
LOOKS: Final = 200
# Pods whose last serial number is kept while classes are pending.
REMEMBERED: Final = 10_000


@dataclass(slots=True)
class PodPatch:
    """A patch of one pod's status. `None`: that part is not changed."""

    key: str
    uid: str
    condition: Condition | None
    nominated_node_name: str | None = None
    serial: int = 0
    tries: int = 0
    is_withdrawn: bool = False

    def inherit(self, older: "PodPatch") -> None:
        """Take over the parts that the older patch sets and this one does not."""
        if self.condition is None:
            self.condition = older.condition
        if self.nominated_node_name is None:
            self.nominated_node_name = older.nominated_node_name


class _ClassCondition(msgspec.Struct, frozen=True):
    members: Collection[str]
    condition: Condition
    serial: int


@dataclass(slots=True)
class _Round:
    """The class whose turn it is."""

    name: Hashable
    word: _ClassCondition
    keys: Iterator[str]
    held: str = ""
    """The key of the next member, if the rate holds it back."""
    rate: PatchRate | None = None
    """The rate that holds it back."""


@dataclass(slots=True)
class _Lane:
    rate: PatchRate
    words: OrderedDict[str, PodPatch] = field(default_factory=OrderedDict)


class PendingPatches:
    """Pending patches, by pod and by class. `now` is always monotonic seconds."""

    def __init__(self, shown: Callable[[str], Pod | None], now: float) -> None:
        """`shown`: by key, the newest known version of a pod."""
        self._shown = shown
        self._news = _Lane(PatchRate(NEWS_PER_SECOND, NEWS_AT_ONCE, now))
        self._texts = _Lane(PatchRate(TEXTS_PER_SECOND, TEXTS_AT_ONCE, now))
        self.in_flight: dict[str, PodPatch] = {}
        """Those that are in flight, by UID. For reading."""
        self._behind: dict[str, PodPatch] = {}
        """Newer patches of pods whose patch is in flight."""
        self._aside: dict[Hashable, dict[str, PodPatch]] = {}
        """By namespace, those that wait for a turn of it, in the order in which they came."""
        self._namespaces: dict[str, Hashable] = {}
        """Of the pods in `_aside`."""
        self._later: dict[str, PodPatch] = {}
        self._due: list[tuple[float, int, str]] = []
        self._classes: OrderedDict[Hashable, _ClassCondition] = OrderedDict()
        self._round: _Round | None = None
        self._is_turn_of_class = False
        self._serial = 0
        self._last_serial: RecentlyUsed[str, int] = RecentlyUsed(REMEMBERED)
        self.unchanged = 0
        """Patches that needed no request."""

    def __len__(self) -> int:
        """Pods with a pending patch of their own."""
        lanes = len(self._news.words) + len(self._texts.words)
        return lanes + len(self._later) + len(self._behind) + len(self._namespaces)

    @property
    def sending(self) -> int:
        """How many patches are in flight."""
        return len(self.in_flight)

    @property
    def classes(self) -> int:
        """How many classes have members that are not patched yet."""
        return len(self._classes) + (self._round is not None)

    @property
    def has_news(self) -> bool:
        """Whether news is pending, or anything is in flight."""
        return bool(self._news.words or self.in_flight or self._namespaces)

    # --- adding patches -----------------------------------------------------------------------------------------------

    def put(self, patch: PodPatch) -> None:
        """Add a patch of a pod; it replaces an unsent one."""
        self._serial += 1
        patch.serial = self._serial
        if self.classes:
            self._last_serial[patch.uid] = patch.serial
        self._put(patch)

    def put_class(self, name: Hashable, members: Collection[str], condition: Condition) -> None:
        """Add a class's condition; it replaces an older one, also for the rest of a turn that has begun. O(1)."""
        self._serial += 1
        word = self._classes[name] = _ClassCondition(members, condition, self._serial)
        if self._round is not None and self._round.name == name:
            self._round.word = word

    def withdraw(self, uid: str) -> None:
        """Drop an unsent patch of this pod, and do not repeat one that is in flight if it fails."""
        # Nearly every pod that is bound has no patch: nothing is called for it.
        if uid in self._news.words or uid in self._texts.words or uid in self._later or uid in self._namespaces:
            self._waiting(uid)
        elif uid in self._behind:
            del self._behind[uid]
        if uid in self.in_flight:
            self.in_flight[uid].is_withdrawn = True

    # --- taking patches -----------------------------------------------------------------------------------------------

    def take(self, now: float) -> PodPatch | None:
        """The next patch to send; it is in flight until `sent` or `put_back`. `None`: wait as long as `delay` says.

        News comes first; texts of single pods and of classes take turns.
        """
        self._bring_back(now)
        patch = self._next_of(self._news, now) or self._next_of_either(now)
        if patch is not None:
            self.in_flight[patch.uid] = patch
        return patch

    def delay(self, now: float) -> float | None:
        """After `take` returned `None`: seconds until the next try; `None` if only a new or ended patch can help."""
        delays = [lane.rate.delay(now) for lane in (self._news, self._texts) if lane.words]
        if self._round is not None:
            delays.append(self._round.rate.delay(now) if self._round.held and self._round.rate else 0.0)
        elif self._classes:
            delays.append(0.0)
        if self._due:
            delays.append(max(0.0, self._due[0][0] - now))
        return min(delays, default=None)

    def begin(self, patch: PodPatch) -> None:
        """A patch that was never pending is in flight; no other of this pod may be."""
        older = self._waiting(patch.uid)
        self.in_flight[patch.uid] = patch
        if older is not None:
            self._behind[patch.uid] = older

    def sent(self, patch: PodPatch) -> None:
        """The patch is no longer in flight, and is not repeated."""
        self.in_flight.pop(patch.uid, None)
        newer = self._behind.pop(patch.uid, None)
        if newer is not None:
            self._put(newer)

    def set_aside(self, patch: PodPatch, namespace: Hashable) -> None:
        """A patch that was taken is not sent yet: its namespace has no turn."""
        self.in_flight.pop(patch.uid, None)
        self._aside.setdefault(namespace, {})[patch.uid] = patch
        self._namespaces[patch.uid] = namespace

    @property
    def set_aside_for(self) -> Collection[Hashable]:
        """The namespaces for which patches were set aside. A copy."""
        return list(self._aside)

    def count_aside(self, namespace: Hashable) -> int:
        """How many patches were set aside for this namespace."""
        return len(self._aside.get(namespace, ()))

    def first_aside(self, namespace: Hashable) -> PodPatch | None:
        """The first patch that was set aside for this namespace and still has an effect."""
        while patches := self._aside.get(namespace):
            patch = next(iter(patches.values()))
            if self._has_effect(patch):
                return patch
            self._leave_aside(patch.uid)
            self.unchanged += 1
        return None

    def take_aside(self, patch: PodPatch) -> None:
        """It is in flight until `sent` or `put_back`."""
        self._leave_aside(patch.uid)
        self.in_flight[patch.uid] = patch

    def rejoin(self, namespace: Hashable) -> None:
        """What was set aside for this namespace waits as the others do."""
        while patches := self._aside.get(namespace):
            self._put(self._leave_aside(next(iter(patches))))

    def _leave_aside(self, uid: str) -> PodPatch:
        namespace = self._namespaces.pop(uid)
        patch = self._aside[namespace].pop(uid)
        if not self._aside[namespace]:
            del self._aside[namespace]
        return patch

    def put_back(self, patch: PodPatch, not_before: float) -> None:
        """The request failed: try again at that time, unless a newer patch replaces it by then."""
        self.in_flight.pop(patch.uid, None)
        newer = self._waiting(patch.uid)
        if patch.is_withdrawn:
            if newer is not None:
                self._put(newer)
            return
        if newer is not None:
            newer.inherit(patch)
            self._lane_of(newer).words[patch.uid] = newer
        else:
            self._later[patch.uid] = patch
            heapq.heappush(self._due, (not_before, patch.serial, patch.uid))

    def slow_down(self, now: float) -> None:
        """The API server is overloaded."""
        self._news.rate.slow_down(now)
        self._texts.rate.slow_down(now)

    # --- within: pods -------------------------------------------------------------------------------------------------

    def _put(self, patch: PodPatch) -> None:
        older = self._waiting(patch.uid)
        if older is not None:
            patch.inherit(older)
        # A patch in flight changes what the pod shows, so check the effect of this one only when that has ended.
        if patch.uid in self.in_flight:
            self._behind[patch.uid] = patch
        elif self._has_effect(patch):
            self._lane_of(patch).words[patch.uid] = patch
        else:
            self.unchanged += 1

    def _waiting(self, uid: str) -> PodPatch | None:
        """Remove the pending patch of this pod and return it."""
        if uid in self._namespaces:
            return self._leave_aside(uid)
        words = self._news.words.pop(uid, None) or self._texts.words.pop(uid, None)
        return words or self._later.pop(uid, None) or (self._behind.pop(uid, None) if self._behind else None)

    def _bring_back(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            _, serial, uid = heapq.heappop(self._due)
            patch = self._later.get(uid)
            if patch is not None and patch.serial == serial:
                self._put(self._later.pop(uid))

    def _next_of_either(self, now: float) -> PodPatch | None:
        class_patch = self._next_of_class(now) if self._is_turn_of_class else None
        patch = class_patch or self._next_of(self._texts, now)
        if patch is None and not self._is_turn_of_class:
            patch = class_patch = self._next_of_class(now)
        if patch is not None:
            self._is_turn_of_class = class_patch is None
        return patch

    def _next_of(self, lane: _Lane, now: float) -> PodPatch | None:
        while lane.words:
            if lane.rate.delay(now) > 0:
                return None
            _, patch = lane.words.popitem(last=False)
            if self._has_effect(patch):
                lane.rate.take(now)
                return patch
            self.unchanged += 1
        return None

    # --- within: classes ----------------------------------------------------------------------------------------------

    def _next_of_class(self, now: float) -> PodPatch | None:
        """The next member to patch, if it is found within `LOOKS` members and the rate allows it now."""
        # A member whose rate does not allow it yet is held in `turn.held` and comes first in the next call.
        turn = self._round = self._round or self._first_round()
        if turn is None:
            self._last_serial.clear()
            return None
        for _ in range(LOOKS):
            key, turn.held = turn.held or next(turn.keys, ""), ""
            if not key:
                self._round = None
                return None
            patch = self._patch_for(key, turn.word)
            if patch is None:
                continue
            turn.rate = self._lane_of(patch).rate
            if turn.rate.delay(now) > 0:
                turn.held = key
                return None
            turn.rate.take(now)
            return patch
        return None

    def _first_round(self) -> _Round | None:
        if not self._classes:
            return None
        name, word = self._classes.popitem(last=False)
        return _Round(name, word, iter(list(word.members)))

    def _patch_for(self, key: str, word: _ClassCondition) -> PodPatch | None:
        """The patch of one member for its class's condition; `None` if there is nothing to send."""
        # A member that already has a patch of its own, pending or in flight, gets the class's condition with that.
        pod = self._shown(key) if key in word.members else None
        if pod is None or pod.spec.node_name:
            return None
        uid = pod.metadata.uid
        if self._last_serial.get(uid, 0) > word.serial:
            return None
        patch = PodPatch(key, uid, word.condition, serial=word.serial)
        if self._has_own_word(uid):
            self._put(patch)
            return None
        if _shows(pod, patch):
            self.unchanged += 1
            return None
        return patch

    def _has_own_word(self, uid: str) -> bool:
        lanes = self._news.words, self._texts.words
        waiting = uid in self.in_flight or uid in self._later or uid in self._namespaces
        return waiting or any(uid in words for words in lanes)

    # --- within: what a patch would change ----------------------------------------------------------------------------

    def _has_effect(self, patch: PodPatch) -> bool:
        pod = self._shown(patch.key)
        return pod is not None and pod.metadata.uid == patch.uid and not pod.spec.node_name and not _shows(pod, patch)

    def _lane_of(self, patch: PodPatch) -> _Lane:
        pod = self._shown(patch.key)
        return self._news if pod is None or _is_news(pod, patch) else self._texts


def _shows(pod: Pod, patch: PodPatch) -> bool:
    """Whether the pod's status already equals the patch (apart from the times of the condition)."""
    if patch.nominated_node_name not in (None, pod.status.nominated_node_name):
        return False
    if patch.condition is None:
        return True
    shown = _condition_of(pod, patch.condition.type)
    return shown is not None and _words(shown) == _words(patch.condition)


def _is_news(pod: Pod, patch: PodPatch) -> bool:
    """Whether other programs act on the patch: any change except another text."""
    if patch.nominated_node_name not in (None, pod.status.nominated_node_name):
        return True
    if patch.condition is None:
        return False
    shown = _condition_of(pod, patch.condition.type)
    return shown is None or (shown.status, shown.reason) != (patch.condition.status, patch.condition.reason)


def _condition_of(pod: Pod, kind: str) -> Condition | None:
    return next((condition for condition in pod.status.conditions if condition.type == kind), None)


def _words(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message
