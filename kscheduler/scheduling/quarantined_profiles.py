"""A profile whose plugin is quarantined: another value, in which the plugin is called nowhere.

    Fail       no cycle: each attempt ends with an Error that names the plugin
    Ignore     every extension point without the plugin
    Fallback   every extension point without any plugin that is not in-tree

A profile cannot do without an order and a binder. Where the plugin was the QueueSort, PrioritySort takes its place (the
queue is one: for all profiles); where it was the only Bind plugin, DefaultBinder does. An attempt under way keeps the
profile that it began with.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from kscheduler.framework.plugin import Plugin
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.supervision.supervisor import OnFailure, Quarantine

P = TypeVar("P")


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
        instances=(*_without(profile.instances, gone), *substitutes),
        quarantines=(*profile.quarantines, quarantine),
        failing=profile.failing or (quarantine if is_failing else None),
    )


def _gone(profile: Profile, quarantine: Quarantine) -> Collection[str]:
    """Names of the plugins that leave the profile."""
    if quarantine.on_failure is OnFailure.FALLBACK and profile.supervisor is not None:
        return profile.supervisor.limits.keys()
    return (quarantine.plugin,)


def _without(plugins: Sequence[P], gone: Collection[str]) -> tuple[P, ...]:
    return tuple(plugin for plugin in plugins if plugin.name not in gone)  # type: ignore[attr-defined]
