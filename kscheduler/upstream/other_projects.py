"""Plugins of other projects that configurations name: where they come from, and what to do about them.

Go plugins are compiled into a scheduler; no other program can load them, so only their names arrive here.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from kscheduler.upstream.extension_points import IN_TREE_PLUGINS, IN_TREE_POINTS

SCHEDULER_PLUGINS: Final = frozenset(
    (
        "CapacityScheduling",
        "Coscheduling",
        "CrossNodePreemption",
        "LoadVariationRiskBalancing",
        "LowRiskOverCommitment",
        "NetworkOverhead",
        "NodeResourceTopologyMatch",
        "NodeResourcesAllocatable",
        "NodeResourcesFitPlus",
        "Peaks",
        "PodState",
        "PreemptionToleration",
        "QOSSort",
        "ScarceResourceAvoidance",
        "SySched",
        "TargetLoadPacking",
        "TopologicalSort",
    )
)
"""The plugins of kubernetes-sigs/scheduler-plugins."""

_WHAT_TO_DO: Final = (
    "a plugin of your own is loaded by pluginSources in the configuration or by --plugin "
    '(README, "A policy of your own"); plugins written in Go cannot be loaded'
)

_ALIKE: Final = 0.8
"""How similar (0 to 1) a name must be to a plugin's to be taken for a misspelling."""


def near_plugin(name: str, known: Iterable[str] = IN_TREE_PLUGINS) -> str:
    """The plugin of these that is probably meant, or empty. Capitals do not matter: `nodeName` is NodeName."""
    by_plain = {each.lower(): each for each in sorted(known)}
    found = get_close_matches(name.lower(), by_plain, n=1, cutoff=_ALIKE)
    return by_plain[found[0]] if found else ""


def advice(name: str, known: Iterable[str] = IN_TREE_PLUGINS) -> str:
    """What to do about a plugin that is not registered; `known` are."""
    if name in SCHEDULER_PLUGINS:
        return f"it is a plugin of kubernetes-sigs/scheduler-plugins, not of kube-scheduler: {_WHAT_TO_DO}"
    having = [version for version, plugins in IN_TREE_POINTS.items() if name in plugins]
    if having:
        return f"Kubernetes {', '.join(having)} has it: see --emulated-version"
    meant = near_plugin(name, known)
    if meant:
        return f"did you mean {meant}?"
    return f"kube-scheduler has no plugin of this name either: {_WHAT_TO_DO}"
