"""Plugins that configurations name and that are not kube-scheduler's of today: whose they are, and what there is here.

Go plugins are compiled into a scheduler; no other program can load them, so only their names arrive here. For each
known name the table says what does the same or the nearest thing here, with its page, or that nothing does. The names
are those that each project registers: `cmd/scheduler` of scheduler-plugins, `cmd/koord-scheduler` of Koordinator,
`pkg/scheduler/plugins` and `pkg/scheduler/actions` of Volcano, and kube-scheduler's own registry of earlier releases.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

import msgspec

from kscheduler.api.releases import had_by
from kscheduler.config.in_tree_plugins import IN_TREE_PLUGINS, IN_TREE_POINTS


class OtherPlugin(msgspec.Struct, frozen=True):
    """A plugin that cannot be loaded here."""

    owner: str
    """Whose plugin it is, as a phrase behind "it is a plugin of"."""
    here: str
    """What there is here instead, with its page, or that there is nothing."""


_GANGS: Final = "podGroupAPIs: [scheduler-plugins] places its groups all or nothing, no plugin is needed"
_STRATEGY: Final = "NodeResourcesFit's argument scoringStrategy does it: type"
_LOAD: Final = "LoadAware is the nearest: it prefers the nodes that really use least (docs/policies.md#load-aware)"
_NOTHING: Final = "nothing here does this"
_QUEUES: Final = f"{_NOTHING}; queues and quotas of teams are Kueue's, whose gated pods are scheduled here"
_NUMA: Final = f"{_NOTHING} for CPU and memory; of devices, a claim's matchAttribute can ask for one NUMA node"
_LIMITS: Final = "NodeVolumeLimits, a default plugin, counts these volumes by their CSI driver"
_SPREAD: Final = "PodTopologySpread, a default plugin, spreads the pods of a service"
_PREEMPTION: Final = "DefaultPreemption, a default plugin, preempts for pods, and for groups as a whole"
_EXISTING: Final = "the default plugins do it"

_SCHEDULER_PLUGINS: Final[Mapping[str, str]] = {
    "CapacityScheduling": _QUEUES,
    "Coscheduling": f"{_GANGS} (docs/pod-groups.md)",
    "CrossNodePreemption": f"{_NOTHING} for single pods; a pod group preempts on several nodes (docs/pod-groups.md)",
    "LoadVariationRiskBalancing": _LOAD,
    "LowRiskOverCommitment": f"{_NOTHING} by limits; {_LOAD}",
    "NetworkOverhead": f"{_NOTHING} by latency; affinity between pods and a group's topology (docs/pod-groups.md) keep "
    "them near each other",
    "NodeMetadata": "NodeAffinity and ExternalScore (docs/policies.md#external) are the nearest",
    "NodeResourceTopologyMatch": _NUMA,
    "NodeResourcesAllocatable": "NodeResourcesFit's argument scoringStrategy is the nearest: by what is in use, not by "
    "a node's size",
    "NodeResourcesFitPlus": "NodeResourcesFit's argument scoringStrategy is the nearest: one type for all resources",
    "NodeResourcesLeastAllocatable": "NodeResourcesFit's argument scoringStrategy is the nearest",
    "NodeResourcesMostAllocatable": "NodeResourcesFit's argument scoringStrategy is the nearest",
    "Peaks": "ExternalScore is the nearest: points from a server of yours (docs/policies.md#external)",
    "PodState": f"{_NOTHING}; victims that terminate free their room for the pod that is nominated",
    "PreemptionToleration": f"{_NOTHING}; a PriorityClass with preemptionPolicy Never preempts no pod",
    "QOSSort": "the queue is in the order of PrioritySort: give the pods priority classes",
    "ScarceResourceAvoidance": f"{_NOTHING} by itself; taint the nodes with the scarce resource",
    "SySched": _NOTHING,
    "TargetLoadPacking": f"{_LOAD}; it does not pack up to a target",
    "TopologicalSort": "the queue is in the order of PrioritySort: give the pods priority classes",
}
_KOORDINATOR: Final[Mapping[str, str]] = {
    "BatchResourceFit": "NodeResourcesFit, a default plugin, counts extended resources",
    "CompatibleDefaultPreemption": _PREEMPTION,
    "DefaultPreBind": "nothing of the kind is needed",
    "DeviceShare": "DynamicResources, a default plugin, places claims for devices; nothing shares one by annotation",
    "ElasticQuota": _QUEUES,
    "LoadAwareScheduling": _LOAD,
    "NodeNUMAResource": _NUMA,
    "Reservation": f"{_NOTHING}; a pod of low priority that is preempted holds room",
}
_VOLCANO: Final[Mapping[str, str]] = {
    "allocate": "all pods are placed this way, no action is named",
    "backfill": "a pod that fits is placed though an earlier one waits, no action is named",
    "binpack": f"{_STRATEGY} MostAllocated",
    "capacity": _QUEUES,
    "capacity-card": _QUEUES,
    "cdp": _NOTHING,
    "conformance": "critical pods are kept by their priority, as by kube-scheduler",
    "deviceshare": _KOORDINATOR["DeviceShare"],
    "drf": _QUEUES,
    "elect": _NOTHING,
    "enqueue": f"{_NOTHING}; pods wait in one queue, by priority",
    "extender": "HTTP extenders speak kube-scheduler's protocol (docs/extenders.md), which is another one",
    "gang": "podGroupAPIs: [volcano] places its groups all or nothing, no plugin is needed (docs/pod-groups.md)",
    "network-topology-aware": "a pod group's topology is the nearest (docs/pod-groups.md)",
    "nodegroup": "NodeAffinity is the nearest: its argument addedAffinity holds for all pods of a profile",
    "nodeorder": f"{_EXISTING}; their weights are at the profile's point score",
    "numaaware": _NUMA,
    "overcommit": f"{_NOTHING}; pods wait in one queue, by priority",
    "pdb": "preemption respects disruption budgets as far as it can, as kube-scheduler's",
    "predicates": _EXISTING,
    "preempt": _PREEMPTION,
    "priority": "PrioritySort, a default plugin, orders the queue by priority",
    "proportion": _QUEUES,
    "reclaim": _QUEUES,
    "rescheduling": f"{_NOTHING}; the descheduler evicts pods that should be elsewhere",
    "reserve": _NOTHING,
    "resource-strategy-fit": f"{_STRATEGY} LeastAllocated or MostAllocated",
    "resourcequota": "the API server holds ResourceQuotas",
    "shuffle": f"{_NOTHING}; the descheduler evicts pods that should be elsewhere",
    "sla": f"{_NOTHING}; give the pods priority classes",
    "task-topology": "affinity between pods is the nearest",
    "tdm": f"{_NOTHING}; a taint keeps pods away from nodes",
    "usage": _LOAD,
}
_YUNIKORN: Final[Mapping[str, str]] = {
    "YuniKornPlugin": f"queues: {_QUEUES}; gangs: docs/pod-groups.md; node sorting: NodeResourcesFit's scoringStrategy"
}
# With the last release of Kubernetes that knew the plugin.
_EARLIER: Final[Mapping[str, tuple[str, str]]] = {
    "AzureDiskLimits": ("1.34", _LIMITS),
    "CinderLimits": ("1.29", _LIMITS),
    "DefaultPodTopologySpread": ("1.19", _SPREAD),
    "EBSLimits": ("1.34", _LIMITS),
    "GCEPDLimits": ("1.34", _LIMITS),
    "NodeLabel": ("1.22", "NodeAffinity's argument addedAffinity asks for labels (operators Exists and DoesNotExist)"),
    "NodePreferAvoidPods": ("1.24", "a taint with the effect PreferNoSchedule keeps pods away from a node"),
    "NodeResourceLimits": ("1.22", "nothing scores by limits here, or in kube-scheduler of today"),
    "NodeResourcesLeastAllocated": ("1.22", f"{_STRATEGY} LeastAllocated, the default"),
    "NodeResourcesMostAllocated": ("1.22", f"{_STRATEGY} MostAllocated"),
    "RequestedToCapacityRatio": ("1.22", f"{_STRATEGY} RequestedToCapacityRatio, with the shape"),
    "SelectorSpread": ("1.25", _SPREAD),
    "ServiceAffinity": ("1.22", "affinity between pods and PodTopologySpread are the nearest"),
    "VolumeRestriction": ("1.17", "VolumeRestrictions, a default plugin, does it"),
}

# The plugins of kubernetes-sigs/scheduler-plugins.
SCHEDULER_PLUGINS: Final = frozenset(_SCHEDULER_PLUGINS)
# All of them by name, as it is registered.
OTHER_PLUGINS: Final[Mapping[str, OtherPlugin]] = {
    **{name: OtherPlugin("Volcano", here) for name, here in _VOLCANO.items()},
    **{name: OtherPlugin("Apache YuniKorn", here) for name, here in _YUNIKORN.items()},
    **{name: OtherPlugin("Koordinator", here) for name, here in _KOORDINATOR.items()},
    **{name: OtherPlugin("kubernetes-sigs/scheduler-plugins", here) for name, here in _SCHEDULER_PLUGINS.items()},
    **{name: OtherPlugin(f"kube-scheduler up to {until}", here) for name, (until, here) in _EARLIER.items()},
}

_WHAT_TO_DO: Final = (
    "a plugin of your own is loaded by pluginSources in the configuration or by --plugin "
    '(README, "A policy of your own"); plugins written in Go cannot be loaded'
)

# How similar (0 to 1) a name must be to a plugin's to be taken for a misspelling.
_ALIKE: Final = 0.8


def near_plugin(name: str, known: Iterable[str] = IN_TREE_PLUGINS) -> str:
    """The plugin of these that is probably meant, or empty. Capitals do not matter: `nodeName` is NodeName."""
    by_plain = {each.lower(): each for each in sorted(known)}
    found = get_close_matches(name.lower(), by_plain, n=1, cutoff=_ALIKE)
    return by_plain[found[0]] if found else ""


def of_others(name: str) -> str:
    """Whose plugin it is and what there is here instead; empty for a name that no other project has."""
    other = OTHER_PLUGINS.get(name)
    return f"it is a plugin of {other.owner}, not of kube-scheduler: {other.here}" if other else ""


def advice(name: str, known: Iterable[str] = IN_TREE_PLUGINS) -> str:
    """What to do about a plugin that is not registered; `known` are."""
    other = of_others(name)
    if other:
        return other
    having = [version for version, plugins in IN_TREE_POINTS.items() if name in plugins]
    if having:
        return had_by(having)
    meant = near_plugin(name, known)
    if meant:
        return f"did you mean {meant}?"
    return f"kube-scheduler has no plugin of this name either: {_WHAT_TO_DO}"
