"""Strikes: a plugin that fails three times in the life of its profile is quarantined.

A strike is a call that raised, overran its time budget or answered with what is no answer (a NaN, a wrong shape, points
out of range), at any extension point. An Error that a plugin *returns* is an answer and no strike, and neither is a
request of a coroutine that failed because a server is away. Strikes are counted per profile and plugin, and never
expire: a plugin that fails once a day is quarantined on the third day, and the log says when the others were.

The supervisor only counts and announces. A profile under another configuration has another supervisor, so a reload
begins without strikes.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from kscheduler.framework.plugin_answers import text_of, with_place
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.supervision.alarm import TimeBudgetError

STRIKES: Final = 3
DEFAULT_BUDGET_SECONDS: Final = 0.2
_LONGEST_CAUSE: Final = 300


class OnFailure(StrEnum):
    """What becomes of a profile whose plugin is quarantined; values of `onFailure`."""

    FAIL = "Fail"
    """Its pods are not scheduled: the plugin may be the rule that keeps them off the wrong nodes."""
    IGNORE = "Ignore"
    """It goes on without the plugin."""
    FALLBACK = "Fallback"
    """It goes on with its in-tree plugins only."""


_CONSEQUENCE: Final = {
    OnFailure.FAIL: "pods of the profile are not scheduled",
    OnFailure.IGNORE: "pods of the profile are scheduled without it",
    OnFailure.FALLBACK: "pods of the profile are scheduled by its in-tree plugins only",
}


@dataclass(frozen=True, slots=True)
class PluginLimits:
    """The settings of one plugin in one profile."""

    budget_seconds: float = DEFAULT_BUDGET_SECONDS
    on_failure: OnFailure = OnFailure.FAIL


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A plugin that is called no more, and why."""

    profile: str
    plugin: str
    on_failure: OnFailure
    since: float
    """Wall-clock seconds."""
    extension_point: str
    """Of the last strike."""
    cause: str
    """The last strike."""

    @property
    def consequence(self) -> str:
        """What it means for pods."""
        return _CONSEQUENCE[self.on_failure]

    @property
    def message(self) -> str:
        """What people read: in conditions, Events and `/readyz?verbose`."""
        since = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return (
            f'plugin "{self.plugin}" of profile "{self.profile}" is quarantined since {since}: it failed {STRIKES} '
            f"times, last at {self.extension_point} ({self.cause}); {self.consequence} (onFailure: {self.on_failure}). "
            "Mend the plugin: a changed plugin file or configuration lifts it in seconds; so do SIGHUP and a restart"
        )


def _notify_nobody(quarantine: Quarantine, pod: PodInfo | None) -> None:
    """Without an assembly nothing is exchanged: explain and what-if judge a pod once."""


class Supervisor:
    """Counts the strikes of one profile's plugins. Implements `PluginListener`, and passes every report on."""

    def __init__(
        self, profile: str, limits: Mapping[str, PluginLimits], listener: PluginListener, now: Callable[[], float]
    ) -> None:
        """`limits`: by plugin, of those that are not in-tree. `now`: wall-clock seconds."""
        self.profile = profile
        self.limits = limits
        self.on_quarantine: Callable[[Quarantine, PodInfo | None], None] = _notify_nobody
        """Called at a plugin's third strike, in the middle of a decision: it must only take note."""
        self._listener = listener
        self._now = now
        self._strikes: Counter[str] = Counter()
        self._is_silent = False

    def be_silent(self) -> None:
        """Count nothing and pass nothing on any more: in a copy of the process, whose decisions nobody carries out."""
        self._is_silent = True

    def strikes(self, plugin: str) -> int:
        """How often the plugin has failed."""
        return self._strikes[plugin]

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        """Pass the report on, and count a strike."""
        if self._is_silent:
            return
        self._listener.failed(plugin, point, pod, failure, then)
        limits = self.limits.get(plugin)
        if limits is None:
            return
        self._strikes[plugin] += 1
        if self._strikes[plugin] == STRIKES:
            quarantine = Quarantine(self.profile, plugin, limits.on_failure, self._now(), point, cause_of(failure))
            self.on_quarantine(quarantine, pod)

    def overran(self, plugin: str, point: str, pod: PodInfo | None, failure: TimeBudgetError) -> None:
        """A call answered after its budget."""
        self.failed(plugin, point, pod, failure)

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        """Pass the report on."""
        if self._is_silent:
            return
        self._listener.slow(plugin, point, pod, seconds, nodes)


def cause_of(failure: BaseException) -> str:
    """The failure in one line of bounded length: a plugin may put anything into its exceptions."""
    text = " ".join(f"{type(failure).__name__}: {text_of(failure)}".removesuffix(": ").split())
    return with_place(text if len(text) <= _LONGEST_CAUSE else f"{text[:_LONGEST_CAUSE]}...", failure)
