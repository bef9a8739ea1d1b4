"""What the in-tree plugins' arguments must satisfy; those of the policies are in `policies`."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from kscheduler.api.core import NodeSelectorRequirement, NodeSelectorTerm, TopologySpreadConstraint
from kscheduler.api.selectors import parse_int64
from kscheduler.config import plugin_args as args_kinds
from kscheduler.config.defaults import binding_conditions_enabled
from kscheduler.config.durations import seconds
from kscheduler.config.errors import Problem, duplicate, forbidden, invalid, required, unsupported
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.plugin_args import Settings, UtilizationShapePoint
from kscheduler.config.validation import policies
from kscheduler.config.validation.names import label_value_faults, qualified_name_faults

MAX_SHAPE_SCORE = 10
SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
STRATEGIES = (args_kinds.LEAST_ALLOCATED, args_kinds.MOST_ALLOCATED, args_kinds.REQUESTED_TO_CAPACITY_RATIO)

_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")

Problems = Iterator[Problem]


def args_problems(path: str, args: Settings, gates: FeatureGates) -> Problems:
    """The problems of a plugin's arguments, which must be complete (after `defaults.default_args`)."""
    return _VALIDATORS[type(args)](path, args, gates)


def _default_preemption(path: str, args: args_kinds.DefaultPreemptionArgs, _gates: FeatureGates) -> Problems:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    if not 0 <= percentage <= 100:
        yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == absolute == 0:
        yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
        yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")


def _inter_pod_affinity(path: str, args: args_kinds.InterPodAffinityArgs, _gates: FeatureGates) -> Problems:
    if not 0 <= args.hard_pod_affinity_weight <= 100:
        yield invalid(f"{path}.hardPodAffinityWeight", args.hard_pod_affinity_weight, "not in valid range [0, 100]")


def _node_resources_fit(path: str, args: args_kinds.NodeResourcesFitArgs, _gates: FeatureGates) -> Problems:
    for index, resource in enumerate(args.ignored_resources):
        yield from _label_name(f"{path}.ignoredResources[{index}]", resource)
    for index, group in enumerate(args.ignored_resource_groups):
        where = f"{path}.ignoredResourceGroups[{index}]"
        if "/" in group:
            yield invalid(where, group, "resource group name can't contain '/'")
        yield from _label_name(where, group)
    if args.scoring_strategy is None:
        yield required(f"{path}.scoringStrategy", "ScoringStrategy field is required")
    else:
        yield from _scoring_strategy(f"{path}.scoringStrategy", args.scoring_strategy)


def _scoring_strategy(path: str, strategy: args_kinds.ScoringStrategy) -> Problems:
    if strategy.type not in STRATEGIES:
        yield unsupported(f"{path}.type", strategy.type, STRATEGIES)
    for index, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"{path}.resources[{index}].weight", resource.weight, detail)
    ratio, where = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
    if strategy.type != args_kinds.REQUESTED_TO_CAPACITY_RATIO:
        if ratio is not None:
            yield forbidden(where, "must be nil when type is not RequestedToCapacityRatio")
    elif ratio is None:
        yield required(where, "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from _shape(f"{where}.shape", ratio.shape)


def _shape(path: str, shape: tuple[UtilizationShapePoint, ...]) -> Problems:
    if not shape:
        yield required(path, "at least one point must be specified")
    pairs = pairwise(shape)
    first_fall = next(
        (index for index, (left, right) in enumerate(pairs, 1) if left.utilization >= right.utilization), None
    )
    if first_fall is not None:
        detail = "values must be sorted in increasing order"
        yield invalid(f"{path}[{first_fall}].utilization", shape[first_fall].utilization, detail)
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"{path}[{index}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield invalid(f"{path}[{index}].score", point.score, f"not in valid range [0, {MAX_SHAPE_SCORE}]")


def _balanced_allocation(
    path: str, args: args_kinds.NodeResourcesBalancedAllocationArgs, _gates: FeatureGates
) -> Problems:
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        if resource.name in seen:
            yield duplicate(f"{path}.resources[{index}].name", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(f"{path}.resources[{index}].weight", resource.weight, "must be 1")


def _pod_topology_spread(path: str, args: args_kinds.PodTopologySpreadArgs, _gates: FeatureGates) -> Problems:
    where, supported = f"{path}.defaultingType", (args_kinds.SYSTEM_DEFAULTING, args_kinds.LIST_DEFAULTING)
    if args.defaulting_type not in supported:
        yield unsupported(where, args.defaulting_type, supported)
    elif args.defaulting_type == args_kinds.SYSTEM_DEFAULTING and args.default_constraints:
        yield invalid(where, args.defaulting_type, "when .defaultConstraints are not empty")
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        constraint_path = f"{path}.defaultConstraints[{index}]"
        yield from _spread_constraint(constraint_path, constraint)
        identity = (constraint.topology_key, constraint.when_unsatisfiable)
        if identity in seen:
            yield duplicate(constraint_path, f"{{{identity[0]}, {identity[1]}}}")
        seen.add(identity)


def _spread_constraint(path: str, constraint: TopologySpreadConstraint) -> Problems:
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if constraint.topology_key:
        yield from _label_name(f"{path}.topologyKey", constraint.topology_key)
    else:
        yield required(f"{path}.topologyKey", "can not be empty")
    action, where = constraint.when_unsatisfiable, f"{path}.whenUnsatisfiable"
    if not action:
        yield required(where, "can not be empty")
    elif action not in SPREAD_ACTIONS:
        yield unsupported(where, action, SPREAD_ACTIONS)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", detail)


def _volume_binding(path: str, args: args_kinds.VolumeBindingArgs, gates: FeatureGates) -> Problems:
    if args.bind_timeout_seconds < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, detail)
    if gates.enabled("StorageCapacityScoring"):
        yield from _shape(f"{path}.shape", args.shape or ())
    elif args.shape is not None:
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        yield invalid(f"{path}.shape", args.shape, detail)


def _dynamic_resources(path: str, args: args_kinds.DynamicResourcesArgs, gates: FeatureGates) -> Problems:
    where, timeout = f"{path}.filterTimeout", args.filter_timeout
    if timeout is not None and not gates.enabled("DRASchedulerFilterTimeout"):
        yield forbidden(where, "DRASchedulingFilterTimeout feature gate is disabled")
    elif timeout is not None and timeout < 0:
        yield invalid(where, timeout, "must be zero or positive")
    where, timeout = f"{path}.bindingTimeout", args.binding_timeout
    if timeout is not None and not binding_conditions_enabled(gates):
        detail = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
        yield forbidden(where, detail)
    elif timeout is not None and timeout < seconds(1):
        yield invalid(where, timeout, "must be at least 1 second")


def _node_affinity(path: str, args: args_kinds.NodeAffinityArgs, _gates: FeatureGates) -> Problems:
    affinity = args.added_affinity
    if affinity is None:
        return
    required_path = f"{path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    selector = affinity.required_during_scheduling_ignored_during_execution
    for index, term in enumerate(selector.node_selector_terms if selector else ()):
        yield from _selector_term(f"{required_path}[{index}]", term)
    preferred_path = f"{path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        # kube-scheduler never reads a term without weight, so its mistakes do not matter.
        if preferred.weight:
            yield from _selector_term(f"{preferred_path}[{index}]", preferred.preference)


def _selector_term(path: str, term: NodeSelectorTerm) -> Problems:
    for index, requirement in enumerate(term.match_expressions):
        yield from _label_requirement(f"{path}.matchExpressions[{index}]", requirement)
    for index, requirement in enumerate(term.match_fields):
        where = f"{path}.matchFields[{index}]"
        if requirement.operator not in _FIELD_OPERATORS:
            yield unsupported(f"{where}.operator", requirement.operator, _FIELD_OPERATORS)
        elif len(requirement.values) != 1:
            yield invalid(f"{where}.values", requirement.values, "must have one element")


def _label_requirement(path: str, requirement: NodeSelectorRequirement) -> Problems:
    if requirement.operator not in _SELECTOR_OPERATORS:
        yield unsupported(f"{path}.operator", requirement.operator, _SELECTOR_OPERATORS)
        return
    faults = qualified_name_faults(requirement.key)
    if faults:
        yield invalid(f"{path}.key", requirement.key, "; ".join(faults))
    yield from _requirement_values(f"{path}.values", requirement)
    for index, value in enumerate(requirement.values):
        faults = label_value_faults(value)
        if faults:
            yield invalid(f"{path}.values[{index}][{requirement.key}]", value, "; ".join(faults))


def _requirement_values(path: str, requirement: NodeSelectorRequirement) -> Problems:
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn" if not values:
            yield invalid(path, None, "for 'in', 'notin' operators, values set can't be empty")
        case "Exists" | "DoesNotExist" if values:
            yield invalid(path, values, "values set must be empty for exists and does not exist")
        case "Gt" | "Lt":
            if len(values) != 1:
                yield invalid(path, values, "for 'Gt', 'Lt' operators, exactly one value is required")
            for index, value in enumerate(values):
                if parse_int64(value) is None:
                    detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                    yield invalid(f"{path}[{index}]", value, detail)


def _label_name(path: str, name: str) -> Problems:
    yield from (invalid(path, name, fault) for fault in qualified_name_faults(name))


_VALIDATORS: dict[type[Settings], Callable[[str, Any, FeatureGates], Problems]] = {
    args_kinds.DefaultPreemptionArgs: _default_preemption,
    args_kinds.DynamicResourcesArgs: _dynamic_resources,
    args_kinds.InterPodAffinityArgs: _inter_pod_affinity,
    args_kinds.NodeAffinityArgs: _node_affinity,
    args_kinds.NodeResourcesBalancedAllocationArgs: _balanced_allocation,
    args_kinds.NodeResourcesFitArgs: _node_resources_fit,
    args_kinds.PodTopologySpreadArgs: _pod_topology_spread,
    args_kinds.VolumeBindingArgs: _volume_binding,
    args_kinds.BestFitArgs: policies.best_fit,
    args_kinds.DeviceSharesArgs: policies.device_shares,
    args_kinds.DominantMostAllocatedArgs: policies.dominant_most_allocated,
    args_kinds.FragmentationAwareArgs: policies.fragmentation_aware,
    args_kinds.AnnotationMatchArgs: policies.annotation_match,
    args_kinds.ExternalScoreArgs: policies.external_score,
    args_kinds.LoadAwareArgs: policies.load_aware,
    args_kinds.NodeCostArgs: policies.node_cost,
    args_kinds.RandomScoreArgs: policies.random_score,
}
