"""A profile without one of its plugins, to see what else would be in the way."""

from dataclasses import replace

from kscheduler.scheduling.profile import Profile


def without_plugin(profile: Profile, name: str) -> Profile:
    """The profile without the plugin where it may turn a pod or a node down."""
    return replace(
        profile,
        pre_enqueue=tuple(plugin for plugin in profile.pre_enqueue if plugin.name != name),
        pre_filter=tuple(plugin for plugin in profile.pre_filter if plugin.name != name),
        filter=tuple(plugin for plugin in profile.filter if plugin.name != name),
    )
