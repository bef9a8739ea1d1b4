"""Plugins of other projects that configurations name: where they come from, and what to do about them.

Go plugins are compiled into a scheduler; no other program can load them, so only their names arrive here.
"""

from difflib import get_close_matches
from typing import Final

from kscheduler.upstream.extension_points import IN_TREE_PLUGINS

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
    "a plugin from outside is registered by a program that calls kscheduler.app.run with a registry of its own "
    '(README, "A policy of your own"); plugins written in Go cannot be loaded'
)

_ALIKE: Final = 0.8
"""How similar (0 to 1) a name must be to an in-tree plugin's to be taken for a misspelling."""


def advice(name: str) -> str:
    """What to do about a plugin that is not registered."""
    if name in SCHEDULER_PLUGINS:
        return f"it is a plugin of kubernetes-sigs/scheduler-plugins, not of kube-scheduler: {_WHAT_TO_DO}"
    meant = get_close_matches(name, IN_TREE_PLUGINS, n=1, cutoff=_ALIKE)
    if meant:
        return f"did you mean {meant[0]}?"
    return f"kube-scheduler has no plugin of this name either: {_WHAT_TO_DO}"
