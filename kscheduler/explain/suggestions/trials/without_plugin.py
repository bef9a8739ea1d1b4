"""A profile without some of its plugins, to see what else would be in the way."""

from collections.abc import Collection
from dataclasses import replace

from kscheduler.scheduling.profile import Profile


def without_plugins(profile: Profile, names: Collection[str]) -> Profile:
    """The profile without the plugins where they may reject a pod or a node."""
    return replace(
        profile,
        pre_enqueue=tuple(plugin for plugin in profile.pre_enqueue if plugin.name not in names),
        pre_filter=tuple(plugin for plugin in profile.pre_filter if plugin.name not in names),
        filter=tuple(plugin for plugin in profile.filter if plugin.name not in names),
    )
