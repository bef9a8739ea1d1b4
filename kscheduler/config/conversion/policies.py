"""Policy files (`--policy-config-file`, `--policy-configmap`: Kubernetes up to 1.22) to a profile and extenders.

A policy lists all predicates and all priorities that hold; a list that is left out stands for the defaults of its time.
So a plugin that the lists do not lead to is disabled, where it filters or where it scores, except for those that were
mandatory. Plugins that are newer than policies stay as they are by default.
"""

from typing import Any, Final

from kscheduler.api.releases import VERSION
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.config.conversion.located import Fields, Notes, objects_in, texts_in
from kscheduler.config.conversion.profiles import (
    STRATEGIES,
    ProfileDraft,
    new_profile,
    require_labels,
    set_strategy,
    weigh_hard_affinity,
)
from kscheduler.config.durations import Duration
from kscheduler.config.in_tree_plugins import IN_TREE_POINTS
from kscheduler.config.other_projects import OTHER_PLUGINS
from kscheduler.config.types import API_VERSION, KIND, Extender, ExtenderTLSConfig

_GENERAL: Final = ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity")
_PREDICATES: Final[dict[str, tuple[str, ...]]] = {
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "EvenPodsSpread": ("PodTopologySpread",),
    "EvenPodsSpreadPred": ("PodTopologySpread",),
    "GeneralPredicates": _GENERAL,
    "HostName": ("NodeName",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "MatchNodeSelector": ("NodeAffinity",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeNodeConflict": ("VolumeBinding",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    # Conditions of nodes are taints since 1.12:
    "CheckNodeCondition": ("TaintToleration",),
    "CheckNodeDiskPressure": ("TaintToleration",),
    "CheckNodeMemoryPressure": ("TaintToleration",),
    "CheckNodePIDPressure": ("TaintToleration",),
    "PodToleratesNodeNoExecuteTaints": ("TaintToleration",),
}
# To the plugins of 1.22, of which some have become settings since.
_PRIORITIES: Final[dict[str, str]] = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "LeastRequestedPriority": "NodeResourcesLeastAllocated",
    "MostRequestedPriority": "NodeResourcesMostAllocated",
    "NodeAffinityPriority": "NodeAffinity",
    "NodePreferAvoidPodsPriority": "NodePreferAvoidPods",
    "RequestedToCapacityRatioPriority": "RequestedToCapacityRatio",
    "ResourceLimitsPriority": "NodeResourceLimits",
    "SelectorSpreadPriority": "SelectorSpread",
    "ServiceSpreadingPriority": "SelectorSpread",
    "TaintTolerationPriority": "TaintToleration",
}
_MANDATORY: Final = frozenset(("NodeUnschedulable", "TaintToleration"))
_KNOWN: Final = frozenset(plugin for plugins in _PREDICATES.values() for plugin in plugins)
_SCORES: Final = frozenset(
    (
        "ImageLocality",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
        "TaintToleration",
    )
)
# Of a policy without priorities.
_DEFAULT_WEIGHTS: Final = {**dict.fromkeys(_SCORES, 1), "PodTopologySpread": 2}
_TOP: Final = frozenset(
    ("apiVersion", "kind", "predicates", "priorities", "extenders", "hardPodAffinitySymmetricWeight")
)
_WITHOUT_MEANING: Final = {
    "alwaysCheckAllPredicates": "not converted: each node is judged up to its first reason, as by kube-scheduler"
}
_BY_PLAIN_NAME: Final = {name.lower(): name for name in Extender.__struct_encode_fields__}
_TLS_BY_PLAIN_NAME: Final = {name.lower(): name for name in ExtenderTLSConfig.__struct_encode_fields__}


def of_policy(tree: Fields, where: str, notes: Notes) -> dict[str, Any]:
    """A configuration with a profile `default-scheduler` that decides as the policy, as far as that goes."""
    del where
    draft = new_profile(DEFAULT_SCHEDULER_NAME, tree.line)
    filters = _filters(tree, draft, notes)
    weights = _weights(tree, draft, notes)
    _disable_others(draft, filters, weights)
    unlisted = sorted(_KNOWN - filters)
    if unlisted:
        reason = f"these rules are disabled, because the policy does not list them: {', '.join(unlisted)}"
        notes.add(tree.line_of("predicates"), "predicates", reason)
    for name, weight in weights.items():
        draft.enable("multiPoint" if name not in draft.names("multiPoint", "disabled") else "score", name, weight)
    if tree.get("hardPodAffinitySymmetricWeight"):  # 0 was as none
        weigh_hard_affinity(draft, tree, notes)
    for name in tree:
        if name not in _TOP:
            notes.add(tree.lines[name], name, _WITHOUT_MEANING.get(name, "not converted: a policy has no such field"))
    result: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [draft.tree()]}
    extenders = [_extender(each, notes) for each in objects_in(tree, "extenders", notes)]
    return {**result, "extenders": extenders} if extenders else result


def _filters(tree: Fields, draft: ProfileDraft, notes: Notes) -> set[str]:
    """The plugins that filter."""
    if tree.get("predicates") is None:
        return set(_KNOWN)
    filters = set(_MANDATORY)
    for each in objects_in(tree, "predicates", notes):
        name, argument = str(each.get("name")), each.get("argument")
        labels = argument.get("labelsPresence") if isinstance(argument, Fields) else None
        if isinstance(labels, Fields):
            keys = texts_in(labels.get("labels"))
            require_labels(draft, *((keys, ()) if labels.get("presence") else ((), keys)))
        elif isinstance(argument, Fields) and argument.get("serviceAffinity") is not None:
            notes.add(each.line_of("name"), name, f"not converted: {OTHER_PLUGINS['ServiceAffinity'].here}")
        elif name in _PREDICATES:
            filters.update(_PREDICATES[name])
        else:
            notes.add(each.line_of("name"), name, "not converted: no predicate of this name is known")
    if "addedAffinity" in str(draft.plugin_config):
        filters.add("NodeAffinity")  # which holds what the profile adds
    return filters


def _weights(tree: Fields, draft: ProfileDraft, notes: Notes) -> dict[str, int]:
    """The plugins that score, with their weights."""
    if tree.get("priorities") is None:
        return dict(_DEFAULT_WEIGHTS)
    weights: dict[str, int] = {}
    spread: tuple[Fields, int] | None = None
    strategy = ""
    for each in objects_in(tree, "priorities", notes):
        name, weight = str(each.get("name")), each.get("weight") or 1
        given = each.get("argument")
        argument = given if isinstance(given, Fields) else Fields()
        ratio = argument.get("requestedToCapacityRatioArguments")
        plugin = "RequestedToCapacityRatio" if isinstance(ratio, Fields) else _PRIORITIES.get(name, "")
        if plugin in STRATEGIES and not strategy:
            strategy = STRATEGIES[plugin]
            set_strategy(draft, strategy, ratio if isinstance(ratio, Fields) else {})
            weights["NodeResourcesFit"] = weight
        elif plugin in STRATEGIES:
            reason = f"not converted: NodeResourcesFit has one strategy only ({strategy})"
            notes.add(each.line_of("name"), name, reason)
        elif plugin in _SCORES:
            weights[plugin] = weight
        elif plugin == "SelectorSpread":
            spread = (each, weight)
        elif name != "EqualPriority":  # the same points for all nodes
            notes.add(each.line_of("name"), name, f"not converted: {_why_not(plugin, argument)}")
    if spread is not None and "PodTopologySpread" not in weights:
        each, weights["PodTopologySpread"] = spread
        reason = "not converted as it is: PodTopologySpread takes its place, with its constraints for all pods"
        notes.add(each.line_of("name"), str(each.get("name")), reason)
    return weights


def _why_not(plugin: str, argument: Fields) -> str:
    if "labelPreference" in argument:
        return "NodeAffinity's argument addedAffinity may prefer labels, with weights of their own"
    if "serviceAntiAffinity" in argument:
        return "PodTopologySpread is the nearest: its argument defaultConstraints spreads by a node's label"
    return OTHER_PLUGINS[plugin].here if plugin in OTHER_PLUGINS else "no priority of this name is known"


def _disable_others(draft: ProfileDraft, filters: set[str], weights: dict[str, int]) -> None:
    for name in sorted(_KNOWN | _SCORES):
        filters_too = name in filters or name not in _KNOWN
        scores_too = name in weights or name not in _SCORES
        if not (filters_too and name in _KNOWN) and not (scores_too and name in _SCORES):
            draft.disable("multiPoint", name)
        elif not scores_too:
            draft.disable("score", name)
        elif not filters_too:
            for point in ("preFilter", "filter"):
                if point in IN_TREE_POINTS[VERSION][name]:
                    draft.disable(point, name)


# --- extenders --------------------------------------------------------------------------------------------------------


def _extender(each: Fields, notes: Notes) -> dict[str, Any]:
    """Go took names in any case, and the timeout was a number of nanoseconds."""
    extender = _renamed(each, _BY_PLAIN_NAME, notes)
    timeout = extender.get("httpTimeout")
    if isinstance(timeout, int) and not isinstance(timeout, bool):
        extender["httpTimeout"] = str(Duration(timeout))
    tls = extender.get("tlsConfig")
    if isinstance(tls, Fields):
        extender["tlsConfig"] = _renamed(tls, _TLS_BY_PLAIN_NAME, notes)
    return extender


def _renamed(each: Fields, by_plain_name: dict[str, str], notes: Notes) -> Fields:
    renamed = Fields(each.line)
    for name, value in each.items():
        known = by_plain_name.get(name.lower())
        if known is None:
            notes.add(each.lines[name], f"extenders: {name}", "not converted: an extender has no such field")
        elif value is not None:
            renamed[known], renamed.lines[known] = value, each.lines[name]
    return renamed
