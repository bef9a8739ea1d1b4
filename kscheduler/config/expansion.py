"""From a profile's plugin sets to the plugins that run at each extension point, in order and with weights.

The order at a point is: first the plugins named both at the point and in MultiPoint (in the order of the point), then
the other plugins of MultiPoint that implement the point, then the other plugins named at the point. Only the registry
knows what a plugin implements, so the caller passes `implements`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Final

import msgspec

from kscheduler.api.releases import Behaviours
from kscheduler.api.well_known import MAX_NODE_SCORE
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.in_tree_plugins import IN_TREE_PLUGINS
from kscheduler.config.other_projects import advice
from kscheduler.config.types import PluginEntry, Plugins, PluginSet

# `implements(plugin name, point)`, where the point is a key of `POINTS`. A plugin without any point does not exist.
Implements = Callable[[str, str], bool]

# Extension points as files spell them, with the field of `Plugins`; problems are reported in this order.
POINTS: Mapping[str, str] = {
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "reserve": "reserve",
    "preScore": "pre_score",
    "score": "score",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
    "permit": "permit",
    "preEnqueue": "pre_enqueue",
    "queueSort": "queue_sort",
    "placementGenerate": "placement_generate",
    "placementScore": "placement_score",
    "placementFeasible": "placement_feasible",
    "podGroupPostFilter": "pod_group_post_filter",
}

POD_GROUP_POST_FILTER, PLACEMENT_FEASIBLE = "podGroupPostFilter", "placementFeasible"
# Points that not all of the followed versions have.
POINTS_OF_VERSIONS: Final[Mapping[str, Callable[[Behaviours], bool]]] = {
    POD_GROUP_POST_FILTER: attrgetter("has_pod_group_post_filter"),
    PLACEMENT_FEASIBLE: attrgetter("has_placement_feasible"),
}

SCORED_POINTS = ("score", "placementScore")
MAX_TOTAL_SCORE = 2**63 - 1
_MULTI_POINT: Final = "plugins.multiPoint"
_QUOTED: Final = re.compile(r'[Pp]lugin "([^"]*)" ')


def points_of(behaviours: Behaviours) -> list[str]:
    """The extension points that configurations of this version may name."""
    return [point for point in POINTS if point not in POINTS_OF_VERSIONS or POINTS_OF_VERSIONS[point](behaviours)]


class EnabledPlugin(msgspec.Struct, frozen=True):
    """A plugin at an extension point. The weight is 1 at points that do not score."""

    name: str
    weight: int = 1


# Plugins in running order, by every key of `POINTS`.
Expanded = dict[str, tuple[EnabledPlugin, ...]]


def expand(
    plugins: Plugins,
    implements: Implements,
    scheduler_name: str = "",
    known: Iterable[str] = IN_TREE_PLUGINS,
    may_merge_placements: bool = False,
) -> Expanded:
    """The plugins of every point. `plugins` must already be merged with the defaults (`defaults.merge_plugins`).
    `known`: the plugins that there are, for advice. `may_merge_placements`: several plugins may generate placements.

    Raises `ConfigError` with every problem: names that do not exist, points that a plugin does not extend, plugins
    enabled twice, not exactly one queue sort plugin, no bind plugin, weights that overflow.
    """
    problems = entry_problems(plugins, implements, known)
    expanded: Expanded = {}
    for point, field in POINTS.items():
        names = _ordered(point, getattr(plugins, field), plugins.multi_point, implements, problems)
        expanded[point] = _weighed(point, names, getattr(plugins, field), plugins.multi_point)
    if not problems:
        problems += _cardinality_problems(expanded, scheduler_name, may_merge_placements)
        for point in SCORED_POINTS:
            specific, general = getattr(plugins, POINTS[point]), plugins.multi_point
            entries = (
                (f"plugins.{field}.enabled[{index}].weight", plugin)
                for field, enabled in ((point, specific.enabled), ("multiPoint", general.enabled))
                for index, plugin in enumerate(enabled)
                if implements(plugin.name, point)
            )
            problems += _overflow(point, entries)
    if problems:
        raise ConfigError(problems, f"profile {scheduler_name}" if scheduler_name else "")
    return expanded


def entry_problems(plugins: Plugins, implements: Implements, known: Iterable[str] = IN_TREE_PLUGINS) -> list[Problem]:
    """Mistakes in single entries: names that do not exist, points that a plugin does not extend, names given twice."""
    names = frozenset(known)
    specific = _specific_problems(plugins, implements, names)
    return [*specific, *_missing_multi_point(plugins, implements, names)]


def with_entry(problem: Problem, given: Plugins) -> Problem:
    """A problem of MultiPoint with the entry of the file that names the plugin: merged with the defaults, MultiPoint
    has other indices than the file, so `expand` says none. `given`: the sets as in the file.
    """
    name = _QUOTED.search(problem.message)
    if problem.path != _MULTI_POINT or name is None:
        return problem
    numbers = (number for number, entry in enumerate(given.multi_point.enabled) if entry.name == name[1])
    number = next(numbers, None)
    return problem if number is None else replace(problem, path=f"{_MULTI_POINT}.enabled[{number}]")


def plugins_needed(plugins: Plugins) -> tuple[str, ...]:
    """Every plugin that is enabled at any point, once, MultiPoint first: the plugins that have to be built."""
    sets = (plugins.multi_point, *(getattr(plugins, field) for field in POINTS.values()))
    return tuple(dict.fromkeys(plugin.name for plugin_set in sets for plugin in plugin_set.enabled))


def queue_sort_problems(expanded: Mapping[str, Expanded]) -> tuple[Problem, ...]:
    """Profiles (by scheduler name) whose queue sort plugin differs from the first profile's: they share one queue."""
    problems = []
    first = ""
    for profile, points in expanded.items():
        name = points["queueSort"][0].name
        first = first or name
        if name != first:
            problems.append(
                Problem("", f'different queue sort plugins for profile "{profile}": "{name}", first: "{first}"')
            )
    return tuple(problems)


def _type_name(point: str) -> str:
    """The plugin type as kube-scheduler's messages name it: `FilterPlugin`."""
    return f"{point[0].upper()}{point[1:]}Plugin"


def _exists(name: str, implements: Implements) -> bool:
    return any(implements(name, point) for point in POINTS)


def _specific_problems(plugins: Plugins, implements: Implements, known: Iterable[str]) -> Iterator[Problem]:
    """Mistakes in the plugins named at single points, which have no defaults: the indices are those of the file."""
    for point, field in POINTS.items():
        seen: set[str] = set()
        for index, plugin in enumerate(getattr(plugins, field).enabled):
            path = f"plugins.{point}.enabled[{index}]"
            if not _exists(plugin.name, implements):
                yield _does_not_exist(path, point, plugin.name, known)
            elif not implements(plugin.name, point):
                yield Problem(path, f'plugin "{plugin.name}" does not extend {_type_name(point)} plugin')
            elif plugin.name in seen:
                yield _registered_twice(path, plugin.name, point)
            seen.add(plugin.name)


def _missing_multi_point(plugins: Plugins, implements: Implements, known: Iterable[str]) -> Iterator[Problem]:
    """MultiPoint entries that do not exist. kube-scheduler reports them at the first point that it expands."""
    expanded = (point for point, field in POINTS.items() if PluginEntry("*") not in getattr(plugins, field).disabled)
    first = next(expanded, None)
    for name in dict.fromkeys(plugin.name for plugin in plugins.multi_point.enabled):
        if first and not _exists(name, implements):
            yield _does_not_exist(_MULTI_POINT, first, name, known)


def _does_not_exist(path: str, point: str, name: str, known: Iterable[str]) -> Problem:
    return Problem(path, f'{_type_name(point)} "{name}" does not exist: {advice(name, known)}')


def _registered_twice(path: str, name: str, point: str) -> Problem:
    return Problem(path, f'plugin "{name}" already registered as "{_type_name(point)}"')


def _ordered(
    point: str, specific: PluginSet, multi_point: PluginSet, implements: Implements, problems: list[Problem]
) -> list[str]:
    named = list(dict.fromkeys(plugin.name for plugin in specific.enabled))
    disabled = {plugin.name for plugin in specific.disabled}
    if "*" in disabled:
        return named
    overriding: set[str] = set()
    general: dict[str, None] = {}
    for plugin in multi_point.enabled:
        if not implements(plugin.name, point) or plugin.name in disabled:
            continue
        if plugin.name in named:
            overriding.add(plugin.name)
        elif plugin.name in general:
            problems.append(_registered_twice(_MULTI_POINT, plugin.name, point))
        else:
            general[plugin.name] = None
    first = [name for name in named if name in overriding]
    return [*first, *general, *(name for name in named if name not in overriding)]


def _weighed(point: str, names: list[str], specific: PluginSet, multi_point: PluginSet) -> tuple[EnabledPlugin, ...]:
    if point not in SCORED_POINTS:
        return tuple(EnabledPlugin(name) for name in names)
    # The first entry that names a plugin decides, and the point's own entries come before MultiPoint's.
    weights: dict[str, int] = {}
    entries: tuple[PluginEntry, ...] = (*specific.enabled, *multi_point.enabled)
    for plugin in entries:
        weights.setdefault(plugin.name, plugin.weight or 1)
    return tuple(EnabledPlugin(name, weights[name]) for name in names)


def _cardinality_problems(expanded: Expanded, scheduler_name: str, may_merge_placements: bool) -> Iterator[Problem]:
    profile = f'profile with scheduler name "{scheduler_name}"'
    sorters = len(expanded["queueSort"])
    if sorters != 1:
        yield Problem("plugins.queueSort", f"only one queue sort plugin required for {profile}, but got {sorters}")
    if not expanded["bind"]:
        yield Problem("plugins.bind", f"at least one bind plugin is needed for {profile}")
    if len(expanded["placementGenerate"]) > 1 and not may_merge_placements:
        message = f"at most one placement generate plugin is allowed for {profile}"
        yield Problem("plugins.placementGenerate", message)


def _overflow(point: str, entries: Iterable[tuple[str, PluginEntry]]) -> Iterator[Problem]:
    """Whether the weights overflow, added as kube-scheduler does. `entries`: each with the path of its weight.

    Plugins that are disabled at the point count, too, and a negative total counts as an overflow as soon as another
    plugin follows (kube-scheduler's subtraction overflows).
    """
    weights: dict[str, int] = {}
    total = 0
    below_zero = ""
    for path, plugin in entries:
        if plugin.name in weights:
            continue
        points = weights[plugin.name] = (plugin.weight or 1) * MAX_NODE_SCORE
        if total < 0 or points > MAX_TOTAL_SCORE - total:
            message = "total score of Score plugins could overflow"
            if total < 0:
                yield Problem(below_zero, f"{message}: the weight is less than 0")
            else:
                yield Problem(f"plugins.{point}", message)
            return
        if points < 0:
            below_zero = below_zero or path
        total += points
