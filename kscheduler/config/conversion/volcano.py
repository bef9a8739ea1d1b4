"""Volcano's `volcano-scheduler.conf` (actions, and tiers of plugins) to a profile `volcano`.

Volcano's scheduler is another program, with queues that nothing here has. What is said about the choice of a node has a
meaning here: the weights of `nodeorder`, the packing of `binpack`, the switches of `predicates`; gangs are followed by
`podGroupAPIs`; preemption is on if the action is named. The names of arguments are those of the plugins' sources
(`pkg/scheduler/plugins`).
"""

from collections.abc import Iterator
from typing import Any, Final

from kscheduler.api.releases import VERSION
from kscheduler.config.conversion.located import Fields, Notes, objects_in
from kscheduler.config.conversion.profiles import ProfileDraft, new_profile, set_strategy
from kscheduler.config.in_tree_plugins import IN_TREE_POINTS
from kscheduler.config.other_projects import OTHER_PLUGINS
from kscheduler.config.plugin_args import MOST_ALLOCATED
from kscheduler.config.types import API_VERSION, KIND

SCHEDULER_NAME: Final = "volcano"
# Plugins whose arguments are read.
_READ: Final = ("binpack", "nodeorder", "predicates")
# Actions and plugins whose purpose is met here.
_DONE: Final = frozenset((*_READ, "allocate", "backfill", "conformance", "gang", "pdb", "preempt", "priority"))
# Arguments of nodeorder, with the plugin here and the weight without the argument.
_NODE_ORDER: Final = {
    "balancedresource.weight": ("NodeResourcesBalancedAllocation", 1),
    "imagelocality.weight": ("ImageLocality", 1),
    "nodeaffinity.weight": ("NodeAffinity", 2),
    "podaffinity.weight": ("InterPodAffinity", 2),
    "podtopologyspread.weight": ("PodTopologySpread", 2),
    "tainttoleration.weight": ("TaintToleration", 3),
}
_LEAST, _MOST = "leastrequested.weight", "mostrequested.weight"
_PREDICATES: Final = {
    "predicate.NodeAffinityEnable": "NodeAffinity",
    "predicate.NodePortsEnable": "NodePorts",
    "predicate.NodeVolumeLimitsEnable": "NodeVolumeLimits",
    "predicate.PodAffinityEnable": "InterPodAffinity",
    "predicate.PodTopologySpreadEnable": "PodTopologySpread",
    "predicate.TaintTolerationEnable": "TaintToleration",
    "predicate.VolumeBindingEnable": "VolumeBinding",
    "predicate.VolumeZoneEnable": "VolumeZone",
    "predicate.DynamicResourceAllocationEnable": "DynamicResources",
}
_BINPACK_RESOURCES: Final = "binpack.resources"
_TRUE: Final = frozenset(("1", "t", "true"))


def of_volcano(tree: Fields, where: str, notes: Notes) -> dict[str, Any]:
    """A configuration with a profile `volcano`, and a Lease of this name: kube-scheduler goes on beside it."""
    del where
    draft = new_profile(SCHEDULER_NAME, tree.line)
    actions = [name for name in str(tree.get("actions") or "").replace(",", " ").split() if name]
    plugins = dict(_plugins(tree, notes))
    _note_names(dict.fromkeys(actions, tree.line_of("actions")), notes)
    _note_names({name: plugin.line_of("name") for name, plugin in plugins.items()}, notes)
    _note_fields(plugins, notes)
    if "preempt" not in actions:
        draft.disable("multiPoint", "DefaultPreemption")
    _order_nodes(_arguments(plugins, "nodeorder"), draft, notes)
    _pack(plugins, draft, notes)
    _switch_predicates(_arguments(plugins, "predicates"), draft, notes)
    if "usage" in plugins:
        draft.enable("score", "LoadAware")
    for field in tree:
        if field not in ("actions", "tiers"):
            notes.add(tree.lines[field], field, "not converted: it is about Volcano's own program")
    result: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    if "gang" in plugins:
        result["podGroupAPIs"] = ["volcano"]
    result["leaderElection"] = {"resourceName": SCHEDULER_NAME}
    result["profiles"] = [draft.tree()]
    return result


def _note_names(lines: dict[str, int], notes: Notes) -> None:
    """Actions or plugins, by the lines that name them."""
    for name, line in lines.items():
        other = OTHER_PLUGINS.get(name)
        here = other.here if other else "nothing of this name is known"
        if name == "usage":
            notes.add(line, name, f"not converted as it is: LoadAware takes its place; {here}")
        elif name not in _DONE:
            notes.add(line, name, f"not converted: {here}")


def _note_fields(plugins: dict[str, Fields], notes: Notes) -> None:
    """Parts of a plugin that are switched off, and arguments that nobody reads here."""
    for name, plugin in plugins.items():
        for field, value in plugin.items():
            if field.startswith("enable") and value is False:
                reason = "not converted: a plugin of Volcano has parts that can be switched off, ours have not"
                notes.add(plugin.lines[field], f"{name}, {field}", reason)
        if name not in _READ:
            for argument, (_, line) in _arguments(plugins, name).items():
                notes.add(line, f"{name}, {argument}", "not converted: there is no such argument here")


def _plugins(tree: Fields, notes: Notes) -> Iterator[tuple[str, Fields]]:
    for tier in objects_in(tree, "tiers", notes):
        for plugin in objects_in(tier, "plugins", notes):
            yield str(plugin.get("name")), plugin


def _arguments(plugins: dict[str, Fields], name: str) -> dict[str, tuple[Any, int]]:
    """The plugin's arguments with their lines."""
    given = plugins.get(name, Fields()).get("arguments")
    return {key: (value, given.lines[key]) for key, value in given.items()} if isinstance(given, Fields) else {}


def _order_nodes(given: dict[str, tuple[Any, int]], draft: ProfileDraft, notes: Notes) -> None:
    for argument, (value, line) in given.items():
        if argument not in _NODE_ORDER and argument not in (_LEAST, _MOST):
            notes.add(line, f"nodeorder, {argument}", "not converted: no argument of this name is known")
        elif _number(value) is None:
            notes.add(line, f"nodeorder, {argument}", f"not converted: {value!r} is no whole number")
    for argument, (plugin, default) in _NODE_ORDER.items():
        weight = _number(given.get(argument, (default, 0))[0])
        if weight == 0:
            draft.disable("score", plugin)
        elif weight is not None and argument in given:
            draft.enable("multiPoint", plugin, weight)
    least, most = (_number(given.get(name, (default, 0))[0]) or 0 for name, default in ((_LEAST, 1), (_MOST, 0)))
    if most and not least:
        set_strategy(draft, MOST_ALLOCATED, {})
    elif most:
        reason = "not converted: NodeResourcesFit has one strategy only (LeastAllocated)"
        notes.add(given[_MOST][1], f"nodeorder, {_MOST}", reason)
    if not (least or most):
        draft.disable("score", "NodeResourcesFit")
    elif _LEAST in given or most:
        draft.enable("multiPoint", "NodeResourcesFit", least or most)


def _pack(plugins: dict[str, Fields], draft: ProfileDraft, notes: Notes) -> None:
    """`binpack` is NodeResourcesFit's MostAllocated, with the resources and weights of its arguments."""
    if "binpack" not in plugins:
        return
    given = {key.strip(): value for key, value in _arguments(plugins, "binpack").items()}
    names = [name.strip() for name in str(given.get(_BINPACK_RESOURCES, ("", 0))[0]).split(",") if name.strip()]
    weights = {"cpu": given.get("binpack.cpu", (1, 0)), "memory": given.get("binpack.memory", (1, 0))}
    weights |= {name: given.get(f"{_BINPACK_RESOURCES}.{name}", (1, 0)) for name in names}
    resources = []
    for name, (value, line) in weights.items():
        weight = _number(value)
        if weight is None or weight > 100:
            notes.add(line, f"binpack, {name}", f"not converted: {value!r} is no weight up to 100")
        elif weight:
            resources.append({"name": name, "weight": weight})
    used = {"binpack.weight", "binpack.cpu", "binpack.memory", _BINPACK_RESOURCES}
    used |= {f"{_BINPACK_RESOURCES}.{name}" for name in names}
    for argument, (_, line) in given.items():
        if argument not in used:
            notes.add(line, f"binpack, {argument}", "not converted: no argument of this name is known")
    weight = _number(given.get("binpack.weight", (1, 0))[0])
    if not weight or not resources:
        return  # it gives no points
    if "nodeorder" in plugins and _number(_arguments(plugins, "nodeorder").get(_LEAST, (1, 0))[0]):
        reason = "not converted: NodeResourcesFit has one strategy only (MostAllocated, of binpack)"
        notes.add(plugins["nodeorder"].line_of("name"), f"nodeorder, {_LEAST}", reason)
    set_strategy(draft, MOST_ALLOCATED, {"resources": resources})
    draft.forget("score", "disabled", ("NodeResourcesFit",))
    draft.enable("multiPoint", "NodeResourcesFit", weight)


def _switch_predicates(given: dict[str, tuple[Any, int]], draft: ProfileDraft, notes: Notes) -> None:
    for argument, (value, line) in given.items():
        plugin = _PREDICATES.get(argument)
        if plugin is None:
            reason = (
                "not converted: answers are kept by class of pods without it" if "cache" in argument.lower() else ""
            )
            notes.add(line, f"predicates, {argument}", reason or "not converted: nothing here does this")
        elif str(value).lower() not in _TRUE:
            for point in ("preFilter", "filter"):
                if point in IN_TREE_POINTS[VERSION][plugin]:
                    draft.disable(point, plugin)


def _number(value: Any) -> int | None:
    """A whole number, which Volcano also takes as text."""
    try:
        number = int(str(value))
    except ValueError:
        return None
    return number if number >= 0 else None
