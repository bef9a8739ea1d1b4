"""Extenders, as far as they matter while nobody calls them: which pods they are asked about, and what is said of them.

An extender that manages resources is asked only about pods that request or limit one of them; one that manages none is
asked about all. A managed resource may be `ignoredByScheduler`: the extender alone keeps account of it, and
NodeResourcesFit leaves it out in every profile, in place of what the profile ignores itself (as upstream).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.config.errors import Problem
from kscheduler.config.plugin_args import NodeResourcesFitArgs
from kscheduler.config.types import Extender, KubeSchedulerConfiguration, KubeSchedulerProfile, PluginConfig

LONGEST_NAME: Final = 200
"""Characters of an address in a message."""
REDACTED: Final = "REDACTED"


def extender_name(extender: Extender) -> str:
    """Its address as a message may show it: without user name, password, query and fragment."""
    return _address(extender.url_prefix)[:LONGEST_NAME] or "without urlPrefix"


def without_secrets(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The same for `/configz`, which asks nobody who he is: no credentials in addresses, and no private keys."""
    return replace(configuration, extenders=tuple(map(_without_secrets, configuration.extenders)))


def _without_secrets(extender: Extender) -> Extender:
    tls = extender.tls_config
    if tls is not None and tls.key_data:
        tls = replace(tls, key_data=REDACTED)
    return replace(extender, url_prefix=_address(extender.url_prefix), tls_config=tls)


def _address(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    # Everything up to the last @ goes, also where a password holds a slash or a question mark.
    shown = (rest if separator else scheme).rpartition("@")[2]
    for end in "?#":
        shown = shown.partition(end)[0]
    return f"{scheme}://{shown}" if separator else shown


def is_asked_about(extender: Extender, pod: Pod) -> bool:
    """Whether the extender takes an interest in the pod. As upstream, only containers are looked at: what the pod asks
    for as a whole (`spec.resources`) does not count.
    """
    if not extender.managed_resources:
        return True
    managed = {resource.name for resource in extender.managed_resources}
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any(managed & one.resources.requests.keys() or managed & one.resources.limits.keys() for one in containers)


def deciding(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Those without which no decision is right: whoever only gives points may fail, and so may ignorable ones."""
    return tuple(
        one for one in extenders if not one.ignorable and (one.filter_verb or one.bind_verb or one.preempt_verb)
    )


def with_ignored_resources(
    configuration: KubeSchedulerConfiguration,
) -> tuple[KubeSchedulerConfiguration, list[Problem]]:
    """With the resources that are `ignoredByScheduler` left out by NodeResourcesFit; and what stands against that."""
    ignored = tuple(_ignored(configuration.extenders))
    if not ignored:
        return configuration, []
    profiles = tuple(_ignoring(profile, ignored) for profile in configuration.profiles)
    missing = "can't find NodeResourcesFitArgs in plugin config: an extender has resources that are ignoredByScheduler"
    problems = [
        Problem(f"profiles[{index}].pluginConfig", missing)
        for index, profile in enumerate(profiles)
        if not any(isinstance(one.args, NodeResourcesFitArgs) for one in profile.plugin_config)
    ]
    return replace(configuration, profiles=profiles), problems


def _ignored(extenders: Iterable[Extender]) -> Iterator[str]:
    for extender in extenders:
        yield from (resource.name for resource in extender.managed_resources if resource.ignored_by_scheduler)


def _ignoring(profile: KubeSchedulerProfile, ignored: tuple[str, ...]) -> KubeSchedulerProfile:
    def entry(one: PluginConfig) -> PluginConfig:
        args = one.args
        if not isinstance(args, NodeResourcesFitArgs):
            return one
        return replace(one, args=replace(args, ignored_resources=ignored))

    return replace(profile, plugin_config=tuple(map(entry, profile.plugin_config)))
