"""What is still to be said about pods, and what comes next. Pure: time comes in, patches come out.

    put         one word per pod at most: the newest condition and nominated node, each inherited from the older word
                where the newer one is silent about it
    put_class   one word per class of parked pods: who is in it is looked up when its turn comes

A word is *news* where others act on it (a nomination, a first condition, another reason: autoscalers read these) and
goes at `NEWS_PER_SECOND`. One that only changes a text goes at `TEXTS_PER_SECOND`, because one event may change the
text of a hundred thousand pods, and nobody waits for that. A word that the pod shows already costs no request. One
patch of a pod is under way at a time, else two could overtake each other.

Each word has a serial number, so that a class's word never replaces a newer one about a single pod. Memory: a word per
judged pod, one per class, and the keys of the one class whose turn it is.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.bounded.recently_used import RecentlyUsed
from kscheduler.scheduling.failures.patch_rate import PatchRate

NEWS_PER_SECOND: Final = 500.0
NEWS_AT_ONCE: Final = 1000
TEXTS_PER_SECOND: Final = 50.0
TEXTS_AT_ONCE: Final = 100
"""kube-scheduler's own limits for all its requests are 50 a second and 100 at once."""
LOOKS: Final = 200
"""Members of a class that are looked at in one go, in under a millisecond."""
REMEMBERED: Final = 10_000
"""Pods whose last word's number is kept while classes wait to be told."""


@dataclass(slots=True)
class PodPatch:
    """A word about one pod. `None`: nothing is said about that part."""

    key: str
    uid: str
    condition: Condition | None
    nominated_node_name: str | None = None
    serial: int = 0
    tries: int = 0
    is_withdrawn: bool = False

    def inherit(self, older: "PodPatch") -> None:
        """What the older word says and this one does not."""
        if self.condition is None:
            self.condition = older.condition
        if self.nominated_node_name is None:
            self.nominated_node_name = older.nominated_node_name


@dataclass(frozen=True, slots=True)
class _ClassWord:
    members: Collection[str]
    condition: Condition
    serial: int


@dataclass(slots=True)
class _Round:
    """The class whose turn it is."""

    name: Hashable
    word: _ClassWord
    keys: Iterator[str]
    held: str = ""
    """The next one, which waits for its time."""
    rate: PatchRate | None = None
    """What it waits for."""


@dataclass(slots=True)
class _Lane:
    rate: PatchRate
    words: OrderedDict[str, PodPatch] = field(default_factory=OrderedDict)


class PendingPatches:
    """The words that wait, by pod and by class. `now` is monotonic seconds throughout."""

    def __init__(self, shown: Callable[[str], Pod | None], now: float) -> None:
        """`shown`: the newest version of a pod that is known, by its key."""
        self._shown = shown
        self._news = _Lane(PatchRate(NEWS_PER_SECOND, NEWS_AT_ONCE, now))
        self._texts = _Lane(PatchRate(TEXTS_PER_SECOND, TEXTS_AT_ONCE, now))
        self._sending: dict[str, PodPatch] = {}
        self._later: dict[str, PodPatch] = {}
        self._due: list[tuple[float, int, str]] = []
        self._classes: OrderedDict[Hashable, _ClassWord] = OrderedDict()
        self._round: _Round | None = None
        self._is_turn_of_class = False
        self._serial = 0
        self._last_serial: RecentlyUsed[str, int] = RecentlyUsed(REMEMBERED)
        self.unchanged = 0
        """Words that needed no request."""

    def __len__(self) -> int:
        """Pods with a word of their own."""
        return len(self._news.words) + len(self._texts.words) + len(self._later)

    @property
    def sending(self) -> int:
        """Patches under way."""
        return len(self._sending)

    def is_sending(self, uid: str) -> bool:
        """Whether a patch of this pod is under way."""
        return uid in self._sending

    @property
    def classes(self) -> int:
        """Classes that are not told to the end."""
        return len(self._classes) + (self._round is not None)

    @property
    def has_news(self) -> bool:
        """Whether something waits that others act on, or anything is under way."""
        return bool(self._news.words or self._sending)

    # --- what is to be said -------------------------------------------------------------------------------------------

    def put(self, patch: PodPatch) -> None:
        """A new word about a pod; it replaces what is not sent yet."""
        self._serial += 1
        patch.serial = self._serial
        if self.classes:
            self._last_serial[patch.uid] = patch.serial
        self._put(patch)

    def put_class(self, name: Hashable, members: Collection[str], condition: Condition) -> None:
        """A new word about a class; it replaces an older one, for the rest of its turn if that has begun. O(1)."""
        self._serial += 1
        word = self._classes[name] = _ClassWord(members, condition, self._serial)
        if self._round is not None and self._round.name == name:
            self._round.word = word

    def withdraw(self, uid: str) -> None:
        """Leave unsaid what is not sent yet about this pod, and what is under way if it fails."""
        self._waiting(uid)
        if uid in self._sending:
            self._sending[uid].is_withdrawn = True

    # --- what comes next ----------------------------------------------------------------------------------------------

    def take(self, now: float) -> PodPatch | None:
        """The next patch to send, which is under way from here on until it is handed back; `None`: see `delay`.

        News first; the texts of single pods and of classes take turns.
        """
        self._bring_back(now)
        patch = self._next_of(self._news, now) or self._next_of_either(now)
        if patch is not None:
            self._sending[patch.uid] = patch
        return patch

    def delay(self, now: float) -> float | None:
        """After `take` gave nothing: seconds until it may give something; `None` until something is put or sent."""
        delays = [lane.rate.delay(now) for lane in (self._news, self._texts) if self._first_of(lane) is not None]
        if self._round is not None:
            delays.append(self._round.rate.delay(now) if self._round.held and self._round.rate else 0.0)
        elif self._classes:
            delays.append(0.0)
        if self._due:
            delays.append(max(0.0, self._due[0][0] - now))
        return min(delays, default=None)

    def begin(self, patch: PodPatch) -> None:
        """A patch that did not wait is under way; none of this pod may be."""
        self._sending[patch.uid] = patch

    def sent(self, patch: PodPatch) -> None:
        """It is no longer under way, and need not be tried again."""
        self._sending.pop(patch.uid, None)

    def put_back(self, patch: PodPatch, not_before: float) -> None:
        """It did not work: try again at that time, unless something newer has been said by then."""
        self._sending.pop(patch.uid, None)
        if patch.is_withdrawn:
            return
        newer = self._waiting(patch.uid)
        if newer is not None:
            newer.inherit(patch)
            self._lane_of(newer).words[patch.uid] = newer
        else:
            self._later[patch.uid] = patch
            heapq.heappush(self._due, (not_before, patch.serial, patch.uid))

    def slow_down(self, now: float) -> None:
        """The API server has had too much."""
        self._news.rate.slow_down(now)
        self._texts.rate.slow_down(now)

    # --- within: pods -------------------------------------------------------------------------------------------------

    def _put(self, patch: PodPatch) -> None:
        older = self._waiting(patch.uid)
        if older is not None:
            patch.inherit(older)
        # What is under way changes what the pod shows: then this word is judged when it is taken.
        if patch.uid in self._sending or self._has_effect(patch):
            self._lane_of(patch).words[patch.uid] = patch
        else:
            self.unchanged += 1

    def _waiting(self, uid: str) -> PodPatch | None:
        """Take out what waits about this pod."""
        words = self._news.words.pop(uid, None) or self._texts.words.pop(uid, None)
        return words or self._later.pop(uid, None)

    def _bring_back(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            _, serial, uid = heapq.heappop(self._due)
            patch = self._later.get(uid)
            if patch is not None and patch.serial == serial:
                self._put(self._later.pop(uid))

    def _next_of_either(self, now: float) -> PodPatch | None:
        of_class = self._next_of_class(now) if self._is_turn_of_class else None
        patch = of_class or self._next_of(self._texts, now)
        if patch is None and not self._is_turn_of_class:
            patch = of_class = self._next_of_class(now)
        if patch is not None:
            self._is_turn_of_class = of_class is None
        return patch

    def _next_of(self, lane: _Lane, now: float) -> PodPatch | None:
        while (uid := self._first_of(lane)) is not None:
            if lane.rate.delay(now) > 0:
                return None
            patch = lane.words.pop(uid)
            if self._has_effect(patch):
                lane.rate.take(now)
                return patch
            self.unchanged += 1
        return None

    def _first_of(self, lane: _Lane) -> str | None:
        return next((uid for uid in lane.words if uid not in self._sending), None)

    # --- within: classes ----------------------------------------------------------------------------------------------

    def _next_of_class(self, now: float) -> PodPatch | None:
        """The next member that is to be told, if it is among the next few and its time has come."""
        turn = self._round = self._round or self._first_round()
        if turn is None:
            self._last_serial.clear()
            return None
        for _ in range(LOOKS):
            key, turn.held = turn.held or next(turn.keys, ""), ""
            if not key:
                self._round = None
                return None
            patch = self._word_to(key, turn.word)
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

    def _word_to(self, key: str, word: _ClassWord) -> PodPatch | None:
        """What the class's word means for one member; `None` where there is nothing to send."""
        pod = self._shown(key) if key in word.members else None
        if pod is None or pod.spec.node_name:
            return None
        uid = pod.metadata.uid
        if self._last_serial.get(uid, 0) > word.serial:
            return None
        patch = PodPatch(key, uid, word.condition, serial=word.serial)
        if self._is_spoken_of(uid):
            self._put(patch)
            return None
        if _shows(pod, patch):
            self.unchanged += 1
            return None
        return patch

    def _is_spoken_of(self, uid: str) -> bool:
        lanes = self._news.words, self._texts.words
        return uid in self._sending or uid in self._later or any(uid in words for words in lanes)

    # --- within: what a word would change -----------------------------------------------------------------------------

    def _has_effect(self, patch: PodPatch) -> bool:
        pod = self._shown(patch.key)
        return pod is not None and pod.metadata.uid == patch.uid and not pod.spec.node_name and not _shows(pod, patch)

    def _lane_of(self, patch: PodPatch) -> _Lane:
        pod = self._shown(patch.key)
        return self._news if pod is None or _is_news(pod, patch) else self._texts


def _shows(pod: Pod, patch: PodPatch) -> bool:
    """Whether the pod says all of this already (the condition's times apart)."""
    if patch.nominated_node_name not in (None, pod.status.nominated_node_name):
        return False
    if patch.condition is None:
        return True
    shown = _condition_of(pod, patch.condition.type)
    return shown is not None and _words(shown) == _words(patch.condition)


def _is_news(pod: Pod, patch: PodPatch) -> bool:
    """Whether others act on it: everything but another text."""
    if patch.nominated_node_name not in (None, pod.status.nominated_node_name):
        return True
    if patch.condition is None:
        return False
    shown = _condition_of(pod, patch.condition.type)
    return shown is None or (shown.status, shown.reason) != (patch.condition.status, patch.condition.reason)


def _condition_of(pod: Pod, kind: str) -> Condition | None:
    return next((one for one in pod.status.conditions if one.type == kind), None)


def _words(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message
