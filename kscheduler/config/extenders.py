"""What follows from the settings of extenders alone: which pods concern them, and how they are named.

An extender that manages resources is called only for pods that request or limit one of them; an extender without
managed resources is called for all pods. A managed resource may be `ignoredByScheduler`: the extender alone accounts
for it, and NodeResourcesFit ignores it in every profile, instead of what the profile itself ignores (as upstream).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.config.errors import Problem
from kscheduler.config.plugin_args import NodeResourcesFitArgs
from kscheduler.config.types import Extender, KubeSchedulerConfiguration, KubeSchedulerProfile, PluginConfig

# The plugin name in verdicts of extenders: kube-scheduler's name for all of them.
EXTENDER: Final = "Extender"
# Characters of an extender's address that a message shows.
LONGEST_NAME: Final = 200
REDACTED: Final = "REDACTED"


def extender_name(extender: Extender) -> str:
    """The extender's address as a message may show it: without user name, password, query and fragment."""
    return _address(extender.url_prefix)[:LONGEST_NAME] or "without urlPrefix"


def without_secrets(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The configuration for `/configz`, which needs no login: without credentials in addresses and private keys."""
    return replace(configuration, extenders=tuple(map(_without_secrets, configuration.extenders)))


def _without_secrets(extender: Extender) -> Extender:
    tls = extender.tls_config
    if tls is not None and tls.key_data:
        tls = replace(tls, key_data=REDACTED)
    return replace(extender, url_prefix=_address(extender.url_prefix), tls_config=tls)


def _address(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    # Remove everything up to the last @, even if a password contains a slash or a question mark.
    shown = (rest if separator else scheme).rpartition("@")[2]
    for end in "?#":
        shown = shown.partition(end)[0]
    return f"{scheme}://{shown}" if separator else shown


def is_queried_about(extender: Extender, pod: Pod) -> bool:
    """Whether the extender would be called for the pod.

    As upstream, only containers count, not the resources of the pod as a whole (`spec.resources`).
    """
    if not extender.managed_resources:
        return True
    managed = {resource.name for resource in extender.managed_resources}
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any(
        managed & container.resources.requests.keys() or managed & container.resources.limits.keys()
        for container in containers
    )


def deciding(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """The extenders that may change a decision; the others only bind, or have no verb."""
    return tuple(filter(decides, extenders))


def decides(extender: Extender) -> bool:
    """Whether the extender has a say in a decision."""
    return bool(extender.filter_verb or extender.prioritize_verb or extender.preempt_verb)


def with_ignored_resources(
    configuration: KubeSchedulerConfiguration,
) -> tuple[KubeSchedulerConfiguration, list[Problem]]:
    """The configuration with `ignoredByScheduler` resources ignored by NodeResourcesFit, and the problems."""
    ignored = tuple(_ignored(configuration.extenders))
    if not ignored:
        return configuration, []
    profiles = tuple(_ignoring(profile, ignored) for profile in configuration.profiles)
    missing = "can't find NodeResourcesFitArgs in plugin config: an extender has resources that are ignoredByScheduler"
    problems = [
        Problem(f"profiles[{index}].pluginConfig", missing)
        for index, profile in enumerate(profiles)
        if not any(isinstance(entry.args, NodeResourcesFitArgs) for entry in profile.plugin_config)
    ]
    return replace(configuration, profiles=profiles), problems


def _ignored(extenders: Iterable[Extender]) -> Iterator[str]:
    for extender in extenders:
        yield from (resource.name for resource in extender.managed_resources if resource.ignored_by_scheduler)


def _ignoring(profile: KubeSchedulerProfile, ignored: tuple[str, ...]) -> KubeSchedulerProfile:
    def with_ignored(entry: PluginConfig) -> PluginConfig:
        args = entry.args
        if not isinstance(args, NodeResourcesFitArgs):
            return entry
        return replace(entry, args=replace(args, ignored_resources=ignored))

    return replace(profile, plugin_config=tuple(map(with_ignored, profile.plugin_config)))
