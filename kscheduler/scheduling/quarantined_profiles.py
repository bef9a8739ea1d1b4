"""A profile whose plugin is quarantined: another value, in which the plugin is called nowhere.

    Fail       no cycle: each attempt ends with an Error that names the plugin
    Ignore     every extension point without the plugin
    Fallback   every extension point without any plugin that is not in-tree

Once the circuit is half-open, the whole profile is in force again. A profile cannot do without an order and a binder.
Where the plugin was the QueueSort, PrioritySort takes its place (the queue is one: for all profiles); where it was the
only Bind plugin, DefaultBinder does. An attempt under way keeps the profile that it began with.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from kscheduler.api.meta import rfc3339
from kscheduler.bounded import RecentlyUsed
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.reports import Reporter
from kscheduler.scheduling.supervision.circuit_breaker import CircuitState
from kscheduler.scheduling.supervision.holds import STRIKES
from kscheduler.scheduling.supervision.supervisor import OnFailure, Quarantine
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import Throttle

P = TypeVar("P")

# Least time between two trials of a plugin that are logged.
TRIAL_LINES_SECONDS: Final = 60.0
_MAX_INCIDENTS: Final = 256

_log = get_logger(__name__)


def with_quarantines(profile: Profile, quarantines: Collection[Quarantine]) -> Profile:
    """The profile with these quarantines, open and half-open, and no others; the same object if it has just these."""
    opened = [each for each in quarantines if each.state is CircuitState.OPEN]
    tried = [each for each in quarantines if each.state is CircuitState.HALF_OPEN and each.on_failure is OnFailure.FAIL]
    on_trial = tuple(each.plugin for each in tried)
    if [each.plugin for each in profile.quarantines] == [each.plugin for each in opened]:
        return profile if profile.on_trial == on_trial else replace(profile, on_trial=on_trial)
    whole = replace(profile if profile.whole is None else profile.whole, on_trial=on_trial)
    for quarantine in opened:
        whole = quarantined(whole, quarantine)
    return whole


def quarantined(profile: Profile, quarantine: Quarantine) -> Profile:
    """The profile without the plugin, or without all plugins that are not in-tree."""
    gone = _gone(profile, quarantine)
    substitutes: list[Plugin] = []
    queue_sort, bind = profile.queue_sort, _without(profile.bind, gone)
    if queue_sort.name in gone and profile.default_sort is not None:
        queue_sort = profile.default_sort
        substitutes.append(profile.default_sort)  # type: ignore[arg-type]  # each is a Plugin with that method
    if not bind and profile.default_bind is not None:
        bind = (profile.default_bind,)
        substitutes.append(profile.default_bind)  # type: ignore[arg-type]
    is_failing = quarantine.on_failure is OnFailure.FAIL
    return replace(
        profile,
        queue_sort=queue_sort,
        pre_enqueue=_without(profile.pre_enqueue, gone),
        pre_filter=_without(profile.pre_filter, gone),
        filter=_without(profile.filter, gone),
        post_filter=_without(profile.post_filter, gone),
        pre_score=_without(profile.pre_score, gone),
        score=tuple(weighted for weighted in profile.score if weighted.plugin.name not in gone),
        reserve=_without(profile.reserve, gone),
        permit=_without(profile.permit, gone),
        pre_bind=_without(profile.pre_bind, gone),
        bind=bind,
        post_bind=_without(profile.post_bind, gone),
        placement_feasible=_without(profile.placement_feasible, gone),
        instances=(*_without(profile.instances, gone), *substitutes),
        quarantines=(*profile.quarantines, quarantine),
        failing=profile.failing or (quarantine if is_failing else None),
        whole=profile if profile.whole is None else profile.whole,
    )


@dataclass(slots=True)
class _Trials:
    """What was logged about the trials of one quarantined plugin."""

    lines: Throttle = field(default_factory=lambda: Throttle(TRIAL_LINES_SECONDS))
    is_logged: bool = False
    """Whether the trial under way was; then its outcome is."""


class QuarantineAnnouncements:
    """Says that a plugin's circuit has changed: in the log, and in an Event of the pod whose call has decided that.

    From the first opening until the circuit is closed it is one incident, however often a trial fails meanwhile: one
    Event says that it has begun, one that a trial has failed, one that it is over. Pods of ever new namespaces may
    cause a trial a second, so of trials there is a line a minute.
    """

    def __init__(self, reporter: Reporter, now: Callable[[], float]) -> None:
        """`now`: monotonic seconds."""
        self._reporter = reporter
        self._now = now
        self._trials: RecentlyUsed[tuple[str, str], _Trials] = RecentlyUsed(_MAX_INCIDENTS)
        """By profile and plugin, until it answers again."""

    def announce(self, quarantine: Quarantine, pod: PodInfo | None) -> None:
        """`pod`: for whom the call was made that has decided; `None`: no call has, or it was for no pod."""
        named = {"plugin": quarantine.plugin, "profile": quarantine.profile}
        key = "" if pod is None else pod.key
        incident = (quarantine.profile, quarantine.plugin)
        since = {"quarantined_since": rfc3339(quarantine.since), "failed_trials": quarantine.failed_trials}
        if quarantine.state is CircuitState.CLOSED:
            self._trials.pop(incident, None)
            _log.info("plugin_answers_again", **named, pod=key, **since)
            if pod is not None:
                self._reporter.plugin_answers_again(pod.pod, quarantine.over)
        elif quarantine.state is CircuitState.HALF_OPEN:
            trials = self._trials.use(incident)
            if trials is None:
                trials = self._trials[incident] = _Trials()
            trials.is_logged = trials.lines.admits(self._now())
            if trials.is_logged:
                why = (
                    "a pod came for which it has not failed" if quarantine.brought_forward_by else "the backoff is over"
                )
                _log.info("plugin_tried_again", **named, pod=quarantine.brought_forward_by, because=why, **since)
        elif quarantine.failed_trials == 0:
            self._trials.pop(incident, None)
            _log.error(
                "plugin_quarantined",
                **named,
                pod=key,
                on_failure=quarantine.on_failure.value,
                strikes=STRIKES,
                extension_point=quarantine.extension_point,
                err=quarantine.cause,
                then=quarantine.consequence,
                tried_again_by=rfc3339(quarantine.tried_again_at),
            )
            if pod is not None:
                self._reporter.plugin_quarantined(pod.pod, quarantine.message)
        else:
            self._trial_failed(quarantine, pod, named, since)

    def _trial_failed(
        self, quarantine: Quarantine, pod: PodInfo | None, named: dict[str, str], since: dict[str, Any]
    ) -> None:
        trials = self._trials.get((quarantine.profile, quarantine.plugin))
        if trials is None or trials.is_logged:
            _log.warning(
                "plugin_trial_failed",
                **named,
                pod="" if pod is None else pod.key,
                extension_point=quarantine.extension_point,
                err=quarantine.last_failure,
                **since,
                tried_again_by=rfc3339(quarantine.tried_again_at),
            )
        if quarantine.failed_trials == 1 and pod is not None:
            self._reporter.plugin_failed_again(pod.pod, quarantine.failed_again)


def _gone(profile: Profile, quarantine: Quarantine) -> Collection[str]:
    """Names of the plugins that leave the profile."""
    if quarantine.on_failure is OnFailure.FALLBACK and profile.supervisor is not None:
        return profile.supervisor.limits.keys()
    return (quarantine.plugin,)


def _without(plugins: Sequence[P], gone: Collection[str]) -> tuple[P, ...]:
    return tuple(plugin for plugin in plugins if plugin.name not in gone)  # type: ignore[attr-defined]
