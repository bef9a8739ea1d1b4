"""A policy: one profile that places all pods, whatever scheduler they name."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.assembly.configuration_checks import profile_problems
from kscheduler.assembly.configured import ConfigurationReader, Configured
from kscheduler.config.errors import ConfigError, config_error
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.config.reading.yaml_tree import parse_yaml
from kscheduler.config.types import API_VERSION, KIND, OWN_SCHEDULER_NAME
from kscheduler.sweep.plugin_sources import Tree, restored
from kscheduler.sweep.run_spec import PlayedPolicy

# Settings that define which pods are a group.
_GROUP_SETTINGS: Final = ("podGroupAPIs", "topologyLevels", "topologyAPIs")
# Of `podGroupAPIs`: it needs no feature gate, in none of the versions.
_GANG_API: Final = "scheduler-plugins"
_LEARNING_PLUGIN: Final = "FragmentationAware"
_OTHER_FOLDER: Final = (
    "it must be in the folder of the configuration, or below it: `plugins` of the policy takes any file"
)
_DEVICE_PLUGIN: Final = "DeviceShares"


def default_profile() -> Tree:
    """kube-scheduler's default plugins."""
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": OWN_SCHEDULER_NAME}]}


def one_profile(data: bytes, where: str, name: str) -> Tree:
    """The configuration with the profile of this name alone; empty: its only one. Raises `ConfigError`."""
    tree = parse_yaml(data, where)
    profiles = tree.get("profiles") if isinstance(tree, dict) else None
    if not isinstance(profiles, list) or not all(isinstance(each, dict) for each in profiles):
        raise config_error("profiles", "a list of profiles is needed", where)
    if tree.get("extenders"):
        raise config_error("extenders", "a run asks no extenders: it must give the same result again", where)
    names = [str(each.get("schedulerName", DEFAULT_SCHEDULER_NAME)) for each in profiles]
    if not name and len(profiles) > 1:
        raise config_error("profiles", f"`profile` must say which of {', '.join(names)} places the pods", where)
    if name and name not in names:
        near = get_close_matches(name, names, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise config_error("profiles", f"there is no profile {name} among {', '.join(names)}{meant}", where)
    return {**tree, "profiles": [profiles[names.index(name) if name else 0]]}


def weighted(tree: Tree, weights: Mapping[str, int]) -> Tree:
    """The configuration with other weights of score plugins; 0 leaves a plugin's points out."""
    tree = deepcopy(tree)
    plugins = tree["profiles"][0].setdefault("plugins", {})
    score = plugins.setdefault("score", {})
    enabled = [each for each in score.get("enabled") or [] if each.get("name") not in weights]
    enabled += [{"name": name, "weight": weight} for name, weight in weights.items() if weight]
    disabled = [each for each in score.get("disabled") or [] if each.get("name") not in weights]
    if not any(each.get("name") == "*" for each in disabled):
        disabled += [{"name": name} for name, weight in weights.items() if not weight]
    plugins["score"] = {**score, "enabled": enabled, "disabled": disabled}
    return tree


def check(policy: PlayedPolicy, where: str, plugin_directory: str = "") -> None:
    """Raises `ConfigError` for a policy that cannot be built. `plugin_directory`: as for `configured`."""
    found = configured(policy, where=where, plugin_directory=plugin_directory)
    problems = profile_problems(found.config, found.registry)
    if problems:
        raise ConfigError(problems, where)


def configured(
    policy: PlayedPolicy,
    names: Sequence[str] = (OWN_SCHEDULER_NAME,),
    gates: FeatureGates = DEFAULT_GATES,
    *,
    typical_pods: Sequence[Tree] = (),
    has_shared_devices: bool = False,
    has_gangs: bool = False,
    beside: Tree | None = None,
    where: str = "",
    plugin_directory: str = "",
) -> Configured:
    """The policy as a profile for each of the names. Raises `ConfigError`.

    `beside`: a configuration whose settings about groups and their topology apply if the policy has none.
    `typical_pods`: for a plugin that otherwise learns the mix over time. `has_shared_devices`: pods ask
    for parts of devices, so that DeviceShares must count them. `has_gangs`: pods are members of groups of
    scheduler-plugins, whatever groups the policy has. `plugin_directory`: where files of `pluginSources` may lie;
    empty: nowhere.
    """
    tree = json.loads(policy.configuration)
    tree = {**{key: value for key, value in (beside or {}).items() if key in _GROUP_SETTINGS}, **tree}
    if has_gangs:
        tree["podGroupAPIs"] = list(dict.fromkeys((*(tree.get("podGroupAPIs") or ()), _GANG_API)))
    profile = tree["profiles"][0]
    if typical_pods:
        profile = _with_typical_pods(profile, typical_pods)
    if has_shared_devices and f'"{_DEVICE_PLUGIN}"' not in json.dumps(profile.get("plugins", {})):
        profile = _with_devices(profile)
    tree["profiles"] = [{**profile, "schedulerName": name} for name in names]
    with tempfile.TemporaryDirectory() as folder:
        paths = tuple(restored(policy.plugins, Path(folder)))
        directories = (plugin_directory,) if plugin_directory else ()
        reader = ConfigurationReader(
            gates, paths, directories, enables_plugins=policy.enables_plugins, advice=_OTHER_FOLDER
        )
        return reader.read_bytes(json.dumps(tree).encode(), where or f"policy {policy.name}")


def _with_typical_pods(profile: Tree, typical_pods: Sequence[Tree]) -> Tree:
    """The profile with this mix in the arguments of FragmentationAware, if it is enabled without one."""
    if f'"{_LEARNING_PLUGIN}"' not in json.dumps(profile.get("plugins", {})):
        return profile
    settings = [each for each in profile.get("pluginConfig") or [] if each.get("name") == _LEARNING_PLUGIN]
    args = (settings[0].get("args") or {}) if settings else {}
    if args.get("typicalPods"):
        return profile
    others = [each for each in profile.get("pluginConfig") or [] if each.get("name") != _LEARNING_PLUGIN]
    return {
        **profile,
        "pluginConfig": [*others, {"name": _LEARNING_PLUGIN, "args": {**args, "typicalPods": list(typical_pods)}}],
    }


def _with_devices(profile: Tree) -> Tree:
    plugins = profile.get("plugins") or {}
    multi_point = plugins.get("multiPoint") or {}
    enabled = [*(multi_point.get("enabled") or []), {"name": _DEVICE_PLUGIN}]
    return {**profile, "plugins": {**plugins, "multiPoint": {**multi_point, "enabled": enabled}}}
