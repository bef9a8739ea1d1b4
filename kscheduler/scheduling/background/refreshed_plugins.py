"""Plugins' own data, fetched in the background: a task per plugin in force that has a `refresh`.

The problem: a policy that asks another server while it judges a node holds every pod for as long as that server takes.
The idea: the plugin says how to fetch and how often (`framework.plugin.RefreshPlugin`); the waiting, the deadline, the
log and the metrics are here, equal for all. A source that is away is an outage and no fault of the plugin: it is told
once, again each minute, and when it is over. What holds the event loop for longer than the time budget is a strike.

Limits: each profile has its own instance of a plugin, so two profiles with one policy fetch twice. A plugin that was
replaced by a reload begins without data; until its first refresh it decides as it does where it has none.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kscheduler.aio.clock import Clock, finishes_within
from kscheduler.aio.tasks import is_own_cancellation
from kscheduler.framework.plugin import REFRESH_SECONDS, RefreshError, RefreshPlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.profile import Profile, with_whole
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.lifecycle_calls import call_refresh, is_of_source
from kscheduler.scheduling.runtime.points import REFRESH
from kscheduler.scheduling.supervision.alarm import TimeBudgetError
from kscheduler.scheduling.supervision.supervised import unsupervised
from kscheduler.scheduling.supervision.supervisor import Quarantine, cause_of
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import Throttle
from kscheduler.telemetry.series import LabelValues, MetricSeries

_log = get_logger(__name__)

# How long the first decision waits for plugins that fetch data of their own.
FIRST_DATA_SECONDS: Final = 5.0
# How long after a line about an outage the next one follows.
QUIET_SECONDS: Final = 60.0
# How long after a line about an outage one with another cause may follow.
NEWS_SECONDS: Final = 5.0
# How long the service waits, at its end, for refreshes that were cancelled.
END_SECONDS: Final = 5.0
_JITTER: Final = 0.1

REFRESHES: Final = MetricSeries(
    "kscheduler_plugin_refreshes_total",
    "Refreshes of plugins' own data, by result: success or failure.",
    ("plugin", "profile", "result"),
)
DATA_AGE: Final = MetricSeries(
    "kscheduler_plugin_data_age_seconds",
    "Seconds since a plugin's own data were last fetched; +Inf before the first time.",
    ("plugin", "profile"),
)


@dataclass(slots=True, eq=False)
class _Refreshed:
    """A plugin in force, and how its refreshes went."""

    plugin: RefreshPlugin
    """As the profile calls it: within its time budget, if it is not in-tree."""
    profile: Profile
    fetched: float | None = None
    """Monotonic seconds of the last success."""
    failing_since: float | None = None
    cause: str = ""
    """Of the last failure; empty after a success."""
    tried: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after the first refresh, whatever came of it."""
    logged_cause: str = ""
    logged_at: float = float("-inf")
    """Monotonic seconds of the last line about an outage."""
    lines: Throttle = field(default_factory=lambda: Throttle(QUIET_SECONDS))
    task: asyncio.Task[None] | None = None

    @property
    def labels(self) -> LabelValues:
        return self.plugin.name, self.profile.name


def _no_notification() -> None:
    """Without anybody who waits for the end of a plugin."""


class RefreshedPlugins:
    """Keeps plugins' own data fresh. Owns the tasks."""

    def __init__(
        self,
        in_force: Callable[[], Iterable[Profile]],
        clock: Clock,
        rng: random.Random | None = None,
        on_end: Callable[[], None] = _no_notification,
    ) -> None:
        """`in_force`: the profiles that decide now. `on_end` is called when the last refresh of a plugin that is in
        force no more has ended.
        """
        self._in_force = in_force
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311  # spreads load, protects nothing
        self._refreshed: dict[int, _Refreshed] = {}
        """By identity of the plugin."""
        self._ending: set[_Refreshed] = set()
        self._results: Counter[LabelValues] = Counter()
        self._is_running = False
        self._on_end = on_end

    async def run(self) -> None:
        """Until cancelled: keep the plugins in force fresh."""
        self._is_running = True
        try:
            self.look()
            await asyncio.get_running_loop().create_future()
        finally:
            self._is_running = False
            await self._end_all()

    def look(self) -> None:
        """Begin with plugins that are in force now, and end with those that no longer are: after each `apply`."""
        if not self._is_running:
            return
        found = _refreshed_by(self._in_force())
        for number in [number for number in self._refreshed if number not in found]:
            self._cancel(self._refreshed.pop(number))
        for number, refreshed in found.items():
            known = self._refreshed.setdefault(number, refreshed)
            if known is refreshed:
                known.task = asyncio.create_task(self._keep_fresh(known), name=f"refresh {known.plugin.name}")
            else:  # the same plugin in another profile object, for example after a quarantine of another plugin
                known.profile, known.plugin = refreshed.profile, refreshed.plugin

    async def wait_for_first(self, seconds: float) -> list[str]:
        """Wait until each plugin has tried once; returns those that have no data yet, as `Plugin of profile`."""

        async def all_tried() -> None:
            for refreshed in list(self._refreshed.values()):
                await refreshed.tried.wait()

        await finishes_within(all_tried(), seconds, self._clock)
        missing = (each for each in self._refreshed.values() if each.fetched is None)
        return sorted(f"{each.plugin.name} of {each.profile.name}" for each in missing)

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` per plugin whose last refresh failed."""
        for each in self._refreshed.values():
            if each.cause:
                age = "none yet" if each.fetched is None else f"{self._clock.monotonic() - each.fetched:.0f} s old"
                yield f'data of plugin "{each.plugin.name}" of profile "{each.profile.name}": {age}: {each.cause}'

    def results(self) -> dict[LabelValues, float]:
        """How many refreshes there were, by plugin, profile and result."""
        return {labels: float(count) for labels, count in self._results.items()}

    def ages(self) -> dict[LabelValues, float]:
        """Seconds since the last success, by plugin and profile."""
        now = self._clock.monotonic()
        return {
            each.labels: float("inf") if each.fetched is None else now - each.fetched
            for each in self._refreshed.values()
        }

    def profiles_in_use(self) -> Iterable[Profile]:
        """The profiles whose plugins are in force no more and still refresh: they must not be closed yet."""
        return [ending.profile for ending in self._ending]

    def _cancel(self, gone: _Refreshed) -> None:
        task = gone.task
        if task is None or task.done():
            return
        self._ending.add(gone)
        task.add_done_callback(lambda _: self._ended(gone))
        task.cancel()

    def _ended(self, gone: _Refreshed) -> None:
        self._ending.discard(gone)
        self._on_end()

    async def _end_all(self) -> None:
        """A plugin that ignores its cancellation does not keep the service from ending."""
        ended = [self._refreshed.popitem()[1] for _ in range(len(self._refreshed))]
        for each in ended:
            self._cancel(each)
        tasks = [each.task for each in ended if each.task is not None]
        if tasks:
            await finishes_within(_all_done(tasks), END_SECONDS, self._clock)

    async def _keep_fresh(self, refreshed: _Refreshed) -> None:
        interval = unsupervised(refreshed.plugin).refresh_interval  # as it was when the contract was checked
        while True:
            await self._refresh(refreshed)
            refreshed.tried.set()
            await self._clock.sleep(interval * (1.0 + self._rng.uniform(-_JITTER, _JITTER)))

    async def _refresh(self, refreshed: _Refreshed) -> None:
        cause = ""
        failure: BaseException | None = None
        calling = call_refresh(refreshed.plugin, _InterruptionsOnly(refreshed.profile.listener))
        work = asyncio.create_task(calling, name=f"refresh of {refreshed.plugin.name}")
        try:
            if not await finishes_within(_all_done([work]), PLUGIN_TIME.at_most(REFRESH_SECONDS), self._clock):
                # told before its end, because it may ignore that it is cancelled
                self._count(refreshed, f"it took longer than {REFRESH_SECONDS:.0f} s", None)
                return
            work.result()
        except PluginFailure as failed:
            failure = failed.__cause__
            cause = _cause(failed)
        except asyncio.CancelledError as failed:
            if is_own_cancellation(failed):
                raise
            cause = "its task was cancelled"  # by the plugin: another refresh follows
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
            if not work.cancelled():
                work.exception()  # what it answers to its cancellation is of no interest, and must not be reported
        self._count(refreshed, cause, failure)

    def _count(self, refreshed: _Refreshed, cause: str, failure: BaseException | None) -> None:
        self._results[(*refreshed.labels, "failure" if cause else "success")] += 1
        now = self._clock.monotonic()
        if cause:
            self._note_failure(refreshed, cause, failure, now)
            if failure is not None:
                failure.__traceback__ = None  # one that is raised again and again would grow without end
        else:
            self._note_success(refreshed, now)

    def _note_failure(self, refreshed: _Refreshed, cause: str, failure: BaseException | None, now: float) -> None:
        refreshed.cause = cause
        refreshed.failing_since = now if refreshed.failing_since is None else refreshed.failing_since
        is_news = cause != refreshed.logged_cause and now - refreshed.logged_at >= NEWS_SECONDS
        is_due = refreshed.lines.admits(now)
        if not (is_due or is_news):
            return
        refreshed.logged_cause, refreshed.logged_at = cause, now
        times = refreshed.lines.take_left_out() - (not is_due)
        age = None if refreshed.fetched is None else round(now - refreshed.fetched, 1)
        _log.warning(
            "plugin_not_refreshed",
            plugin=refreshed.plugin.name,
            profile=refreshed.profile.name,
            err=cause,
            data_age_seconds=age,
            **({"times_since": times} if times else {}),
            **({} if failure is None or is_of_source(failure) else {"exc_info": failure}),
        )

    def _note_success(self, refreshed: _Refreshed, now: float) -> None:
        if refreshed.failing_since is not None:
            failed_seconds = round(now - refreshed.failing_since, 1)
            _log.info(
                "plugin_refreshed",
                plugin=refreshed.plugin.name,
                profile=refreshed.profile.name,
                failed_seconds=failed_seconds,
            )
            refreshed.lines = Throttle(QUIET_SECONDS)
        refreshed.fetched, refreshed.failing_since, refreshed.cause = now, None, ""


async def _all_done(tasks: Iterable[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


class _InterruptionsOnly:
    """Passes on what holds the event loop: that a source is away, or sends nonsense, is not the plugin's fault."""

    def __init__(self, listener: PluginListener) -> None:
        self._listener = listener

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        """Pass on calls that were interrupted at the time budget."""
        if isinstance(failure, TimeBudgetError):
            self._listener.failed(plugin, point, pod, failure, then)

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        self._listener.slow(plugin, point, pod, seconds, nodes)


def _refreshed_by(profiles: Iterable[Profile]) -> dict[int, _Refreshed]:
    found = list(profiles)
    plugins: Iterable[tuple[Any, Profile]] = (
        (plugin, profile) for profile in with_whole(found) for plugin in profile.instances
    )
    # one that is quarantined for something else goes on, so that it has data when it is tried again
    stopped = {(each.profile, each.plugin) for profile in found for each in profile.quarantines if _is_stopped(each)}
    return {
        id(unsupervised(plugin)): _Refreshed(plugin, profile)
        for plugin, profile in plugins
        if profile.traits[plugin.name].is_refreshed and (profile.name, plugin.name) not in stopped
    }


def _is_stopped(quarantine: Quarantine) -> bool:
    return quarantine.extension_point == REFRESH.label


def _cause(failed: PluginFailure) -> str:
    """One line. A plugin that raises a `RefreshError` has said it in words for people."""
    failure = failed.__cause__ or failed
    return cause_of(failure).removeprefix("RefreshError: ") if isinstance(failure, RefreshError) else cause_of(failure)
