"""A profile that is being written, and what becomes of plugins of earlier versions and of other projects in it.

Plugins that kube-scheduler has today, and ours, keep their places. Of the others some mean a setting here: the three
old plugins about resources are strategies of NodeResourcesFit, NodeLabel is an affinity that a profile adds,
Coscheduling is `podGroupAPIs`, the load-aware ones are LoadAware. The rest is noted, and taken out of the profile;
where such a plugin stood in for a default plugin that every profile needs, that one is put back.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kscheduler.config.conversion.located import Fields, Notes, objects_in, plain, texts_in
from kscheduler.config.errors import shown
from kscheduler.config.in_tree_plugins import IN_TREE_PLUGINS
from kscheduler.config.other_projects import OTHER_PLUGINS
from kscheduler.config.plugin_args import (
    ARGS_KINDS,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    SYSTEM_DEFAULTING,
)
from kscheduler.config.types import API_VERSION, Plugins

STRATEGIES: Final = {
    "NodeResourcesLeastAllocated": LEAST_ALLOCATED,
    "NodeResourcesMostAllocated": MOST_ALLOCATED,
    "RequestedToCapacityRatio": REQUESTED_TO_CAPACITY_RATIO,
}
_LOAD: Final = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "LoadAwareScheduling")
# Plugins that become a setting, and are not noted unless they could not.
_SILENT: Final = frozenset(("Coscheduling", "NodeLabel", *STRATEGIES))
_OURS: Final = frozenset(("RoundRobin", *ARGS_KINDS))
_POINTS: Final = frozenset(Plugins.__struct_encode_fields__)
# Extension points that no profile can do without, with their default plugin.
_NEEDED: Final = (("queueSort", "PrioritySort"), ("bind", "DefaultBinder"))


class ProfileDraft:
    """A profile of the result."""

    def __init__(self, fields: Fields) -> None:
        """`fields`: of the profile, besides its plugins and their arguments."""
        self.fields = fields
        self.points: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self.plugin_config: list[dict[str, Any]] = []

    def names(self, point: str, verb: str) -> list[str]:
        """The plugins that are `enabled` or `disabled` at a point."""
        return [_name(entry) for entry in self.points.get(point, {}).get(verb, [])]

    def add(self, point: str, verb: str, entry: dict[str, Any]) -> None:
        """Add an entry; one of the same name is replaced."""
        entries = self.points.setdefault(point, {}).setdefault(verb, [])
        entries[:] = [each for each in entries if _name(each) != _name(entry)]
        entries.append(entry)

    def enable(self, point: str, name: str, weight: Any = None) -> None:
        """Enable a plugin at a point, and no longer disable it there."""
        self.add(point, "enabled", {"name": name} if weight in (None, 0) else {"name": name, "weight": weight})
        self.forget(point, "disabled", (name,))

    def disable(self, point: str, name: str) -> None:
        """Disable a plugin at a point."""
        self.add(point, "disabled", {"name": name})

    def forget(self, point: str, verb: str, names: Iterable[str]) -> None:
        """Take entries away."""
        entries = self.points.get(point, {}).get(verb, [])
        entries[:] = [each for each in entries if _name(each) not in names]

    def args(self, plugin: str) -> dict[str, Any]:
        """The plugin's arguments, to be filled in."""
        for entry in self.plugin_config:
            if _name(entry) == plugin:
                if not isinstance(entry.get("args"), dict):
                    entry["args"] = {}
                args: dict[str, Any] = entry["args"]
                return args
        self.plugin_config.append({"name": plugin, "args": {}})
        return self.args(plugin)

    def is_disabled(self, point: str, name: str) -> bool:
        """Whether a default plugin is disabled at the point, or everywhere."""
        return any({name, "*"} & set(self.names(each, "disabled")) for each in (point, "multiPoint"))

    def runs(self, point: str, name: str) -> bool:
        """Whether a default plugin is called at the point: arguments of one that is not would mean nothing."""
        disabled_here = bool({name, "*"} & set(self.names(point, "disabled")))
        by_multi_point = not self.is_disabled(point, name) or name in self.names("multiPoint", "enabled")
        return name in self.names(point, "enabled") or (by_multi_point and not disabled_here)

    def restore_needed(self) -> None:
        """Put the default plugin back where a point that needs a plugin has none left."""
        for point, default in _NEEDED:
            general = default in self.names("multiPoint", "enabled")
            if self.names(point, "enabled") or (not self.is_disabled(point, default)):
                continue
            if general and not {"*", default} & set(self.names(point, "disabled")):
                continue
            self.forget(point, "disabled", (default, "*"))
            self.forget("multiPoint", "disabled", (default,))
            if self.is_disabled(point, default):  # everything is, by `*`
                self.enable(point, default)

    def tree(self) -> Fields:
        """The profile as a file has it, without empty lists."""
        plugins = {point: {verb: each for verb, each in sets.items() if each} for point, sets in self.points.items()}
        plugins = {point: sets for point, sets in plugins.items() if sets}
        tree = self.fields.without(())
        if plugins:
            tree["plugins"] = plugins
        if self.plugin_config:
            tree["pluginConfig"] = self.plugin_config
        return tree


def require_labels(draft: ProfileDraft, present: Iterable[str], absent: Iterable[str]) -> None:
    """Nodes must have, or must not have, these labels: an affinity that the profile adds to every pod's own."""
    wanted = [{"key": key, "operator": "Exists"} for key in present]
    wanted += [{"key": key, "operator": "DoesNotExist"} for key in absent]
    if not wanted:
        return
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    args = draft.args("NodeAffinity")
    affinity = args["addedAffinity"] = _object(args.get("addedAffinity"))
    terms = _object(affinity.get(required)).get("nodeSelectorTerms")
    given = [each for each in terms if isinstance(each, dict)] if isinstance(terms, list) else []
    # One of the terms must hold, so each needs the labels.
    affinity[required] = {
        "nodeSelectorTerms": [
            {**each, "matchExpressions": [*(each.get("matchExpressions") or []), *wanted]} for each in given or [{}]
        ]
    }


def set_strategy(draft: ProfileDraft, kind: str, args: dict[str, Any]) -> None:
    """NodeResourcesFit scores by a strategy, with `resources` and `shape` of these arguments."""
    strategy: dict[str, Any] = {"type": kind}
    if args.get("resources"):
        strategy["resources"] = plain(args["resources"])
    if kind == REQUESTED_TO_CAPACITY_RATIO:
        strategy["requestedToCapacityRatio"] = {"shape": plain(args.get("shape") or [])}
    draft.args("NodeResourcesFit")["scoringStrategy"] = strategy


def weigh_hard_affinity(draft: ProfileDraft, tree: Fields, notes: Notes) -> None:
    """`hardPodAffinitySymmetricWeight` of a policy or of v1alpha1: an argument of InterPodAffinity's score."""
    name = "hardPodAffinitySymmetricWeight"
    if tree.get(name) is None:
        return
    if draft.runs("score", "InterPodAffinity"):
        draft.args("InterPodAffinity").setdefault("hardPodAffinityWeight", tree[name])
    elif tree[name]:
        reason = "not converted: it weighs what InterPodAffinity scores, and the file has it score nothing"
        notes.add(tree.lines[name], name, reason)


def new_profile(scheduler_name: str, line: int) -> ProfileDraft:
    """A profile for a file that has none; `line` is where the file begins."""
    fields = Fields(line)
    fields["schedulerName"] = scheduler_name
    return ProfileDraft(fields)


class PluginsOfProfile:
    """Reads the plugins of one profile of a file into a draft."""

    def __init__(self, draft: ProfileDraft, version: str, notes: Notes, *, has_sources: bool) -> None:
        """`version`: `v1beta2`. `has_sources`: the file loads plugins itself, so names may be those of its author."""
        self.draft = draft
        self.apis: set[str] = set()
        """What `podGroupAPIs` must have."""
        self._version = version
        self._notes = notes
        self._has_sources = has_sources
        self._enabled: dict[str, tuple[str, Fields]] = {}
        """Plugins that are not kept, with the point and the entry that counts: at `score` or everywhere."""
        self._disabled: set[str] = set()
        self._args: dict[str, Any] = {}

    def read(self, profile: Fields) -> None:
        """Fill the draft."""
        for point, sets in self._sets(profile):
            renamed = self._point(point)
            if renamed not in _POINTS:
                self.draft.points[point] = sets  # its own check names it
                continue
            for entry in objects_in(sets, "enabled", self._notes):
                self._read_enabled(renamed, entry)
            for entry in objects_in(sets, "disabled", self._notes):
                name = _name(entry)
                if name == "*" or self._is_kept(name):
                    self.draft.add(renamed, "disabled", entry)
                else:  # what is not there is disabled
                    self._disabled.add(name)
        for entry in objects_in(profile, "pluginConfig", self._notes):
            self._read_args(entry)
        self._replace_strategies()
        self._replace_labels()
        self._replace_load()
        self._replace_spread()
        self._replace_gangs()
        for name, (_, entry) in self._enabled.items():
            if name not in _SILENT:
                self._notes.add(entry.line_of("name"), name, f"not converted: {_here(name)}")
        self.draft.restore_needed()

    def _sets(self, profile: Fields) -> Iterator[tuple[str, Fields]]:
        plugins = profile.get("plugins")
        if plugins is None:
            return
        if not isinstance(plugins, Fields):
            self._notes.add(profile.line_of("plugins"), "plugins", "not converted: it is no object")
            return
        for point, sets in plugins.items():
            if isinstance(sets, Fields):
                yield point, sets
            elif sets is not None:
                self._notes.add(plugins.line_of(point), f"plugins.{point}", "not converted: it is no object")

    def _point(self, point: str) -> str:
        if point == "postFilter" and self._version == "v1alpha1":
            return "preScore"  # its name until 1.18
        return "reserve" if point == "unreserve" else point

    def _is_kept(self, name: str) -> bool:
        if name in IN_TREE_PLUGINS or name in _OURS:
            return True
        return self._has_sources and name not in OTHER_PLUGINS

    def _read_enabled(self, point: str, entry: Fields) -> None:
        name = _name(entry)
        if self._is_kept(name):
            self.draft.add(point, "enabled", entry)
        elif name not in self._enabled or point in ("score", "multiPoint"):
            self._enabled[name] = (point, entry)

    def _read_args(self, entry: Fields) -> None:
        name, args = _name(entry), entry.get("args")
        if not self._is_kept(name):
            self._args[name] = args
            if name not in _SILENT:
                self._notes.add(entry.line_of("name"), f"arguments of {name}", f"not converted: {_here(name)}")
            return
        if isinstance(args, dict):
            if args.get("apiVersion") not in (None, API_VERSION):
                args.pop("apiVersion")
                args.pop("kind", None)
            is_beta1 = self._version in ("v1alpha1", "v1alpha2", "v1beta1")
            if name == "PodTopologySpread" and is_beta1 and args.get("defaultConstraints"):
                args.setdefault("defaultingType", "List")
            elif name == "PodTopologySpread" and args.get("defaultingType") in (None, SYSTEM_DEFAULTING):
                self._note_ignored_constraints(args)
        self.draft.plugin_config.append(entry)

    def _note_ignored_constraints(self, args: dict[str, Any]) -> None:
        """Constraints without `defaultingType: List` are refused in every version from v1beta2 on."""
        if args.get("defaultConstraints"):
            args["defaultingType"] = "List"
            line = args.line_of("defaultConstraints") if isinstance(args, Fields) else 0
            reason = "defaultingType: List was missing beside defaultConstraints, and is written"
            self._notes.add(line, "PodTopologySpread", reason)

    def _replace_strategies(self) -> None:
        named = [name for name in self._enabled if name in STRATEGIES]
        was_default = self._version in ("v1alpha1", "v1alpha2", "v1beta1")
        least = "NodeResourcesLeastAllocated"
        if named:
            point, entry = self._enabled[named[0]]
            set_strategy(self.draft, STRATEGIES[named[0]], _object(self._args.get(named[0])))
            self.draft.enable(point if point == "multiPoint" else "score", "NodeResourcesFit", entry.get("weight") or 1)
            stays = was_default and not {least, "*"} & {*self._disabled, *self.draft.names("score", "disabled")}
            if stays and least not in named:
                reason = "not converted: it was a default, and NodeResourcesFit has one strategy only"
                self._notes.add(entry.line_of("name"), least, f"{reason} ({STRATEGIES[named[0]]})")
        elif was_default and least in self._disabled:
            self.draft.disable("score", "NodeResourcesFit")
        elif was_default and _object(self._args.get(least)).get("resources"):
            set_strategy(self.draft, LEAST_ALLOCATED, self._args[least])
        for name in named[1:]:
            reason = f"not converted: NodeResourcesFit has one strategy only ({STRATEGIES[named[0]]})"
            self._notes.add(self._enabled[name][1].line_of("name"), name, reason)

    def _replace_labels(self) -> None:
        args = self._args.get("NodeLabel")
        if "NodeLabel" not in self._enabled or not isinstance(args, Fields):
            return
        require_labels(self.draft, texts_in(args.get("presentLabels")), texts_in(args.get("absentLabels")))
        for field in ("presentLabelsPreference", "absentLabelsPreference"):
            if args.get(field):
                reason = (
                    "not converted: NodeAffinity's argument addedAffinity may prefer labels, with weights of their own"
                )
                self._notes.add(args.lines[field], f"NodeLabel, {field}", reason)

    def _replace_load(self) -> None:
        named = [name for name in _LOAD if name in self._enabled]
        if named:
            weight = self._enabled[named[0]][1].get("weight")
            self.draft.enable("score", "LoadAware", weight)
        for name in named:
            _, entry = self._enabled.pop(name)
            kept = "LoadAware takes its place" if name == named[0] else "LoadAware stands in the profile once"
            self._notes.add(entry.line_of("name"), name, f"not converted as it is: {kept}; {_here(name)}")

    def _replace_spread(self) -> None:
        """SelectorSpread where the other scores are disabled: what has taken its place has to be named."""
        for name in ("SelectorSpread", "DefaultPodTopologySpread"):
            if name in self._enabled and self.draft.is_disabled("score", "PodTopologySpread"):
                _, entry = self._enabled.pop(name)
                if "PodTopologySpread" not in self.draft.names("score", "enabled"):
                    self.draft.enable("score", "PodTopologySpread", entry.get("weight"))
                reason = "not converted as it is: PodTopologySpread takes its place, with its constraints for all pods"
                self._notes.add(entry.line_of("name"), name, reason)

    def _replace_gangs(self) -> None:
        if "Coscheduling" not in self._enabled:
            return
        _, entry = self._enabled["Coscheduling"]
        self.apis.add("scheduler-plugins")
        if "*" in self.draft.names("multiPoint", "disabled"):
            self.draft.enable("multiPoint", "GangScheduling")
        args = self._args.get("Coscheduling")
        if isinstance(args, Fields):
            for field in args:
                if field not in ("apiVersion", "kind"):
                    reason = "not converted: a gang is placed in one attempt, in which no member waits for another"
                    self._notes.add(args.lines[field], f"Coscheduling, {field}", reason)
        others = {*self._enabled, *self._args}
        if any(OTHER_PLUGINS[name].owner == "Koordinator" for name in others if name in OTHER_PLUGINS):
            reason = "converted to podGroupAPIs: gangs by Koordinator's annotations and labels are not followed"
            self._notes.add(entry.line_of("name"), "Coscheduling", reason)


def _name(entry: dict[str, Any]) -> str:
    """The name of an entry, as text: what is none is no plugin's, and is noted as such."""
    name = entry.get("name")
    return name if isinstance(name, str) else "" if name is None else shown(name)


def _here(name: str) -> str:
    other = OTHER_PLUGINS.get(name)
    return other.here if other else "no plugin of this name is known; plugins written in Go cannot be loaded"


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
