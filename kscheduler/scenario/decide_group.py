"""Decide about a pod group in a cluster from a file: PreEnqueue of each member, then the group's cycle, as the service.

The members are tried in the order of the file, as if they had arrived in that order. A group below a composite one is
answered with its whole tree, for that is what the service tries.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.quantity import QuantityError
from kscheduler.assembly import group_apis
from kscheduler.config.extenders import extender_name, is_queried_about
from kscheduler.framework.cluster.pod_groups import CycleOfGroup, GroupDefinition, GroupKey
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Status
from kscheduler.scenario.decide import cluster_cache, profiles_at, scenario_ports
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.group_facts import group_facts, none_waits, why_gated_group
from kscheduler.scenario.scenario import GroupScenario
from kscheduler.scenario.unreadable import unreadable_quantity
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.cycle.visiting_ties import TieBreakingSampler
from kscheduler.scheduling.groups.composite_cycle import place_group, tree_inputs
from kscheduler.scheduling.groups.group_checks import check_group
from kscheduler.scheduling.groups.group_cycle import GroupInputs, GroupResult, MemberResult, TriedPlacement
from kscheduler.scheduling.groups.group_preemption import member_verdict, run_group_post_filter
from kscheduler.scheduling.groups.member_extender_results import MemberExtenderResults
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from kscheduler.state.queue.queued_group import member_order

# As if no extender were configured.
NO_RESULTS: Final = MemberExtenderResults({})


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """The outcome of a scenario about a group."""

    scenario: GroupScenario
    error: str = ""
    """An internal error instead of a decision."""
    pre_enqueue: Mapping[str, Status] | None = None
    """By name of the member, if any may not enter the queue: then the group is not tried."""
    status: Status | None = None
    """How the group's cycle has ended."""
    reports_composite: bool = False
    """The status becomes the condition of a composite group, which has one."""
    members: tuple[MemberResult, ...] = ()
    """By member what becomes of it; a success has a node in its record."""
    placements: tuple[TriedPlacement, ...] = ()
    """The placements that it was tried in; none where groups are not tried in placements."""
    groups: tuple[tuple[GroupDefinition, Status], ...] = ()
    """Of a tree: its groups of pods, each with how it has ended there; empty for a group without a parent."""
    preemption: Preemption | None = None
    """Whom it would evict."""
    lacks: str = ""
    """Why no member can be tried: a group that is missing, a circle, a tree that is too deep, members that are missing;
    or that none waits.
    """
    definition: GroupDefinition | None = None
    """What the group asks for that was asked about; `None`: it is not known."""
    on_nodes: Mapping[str, str] = field(default_factory=dict)
    """By name of its members that have a node, the node."""
    foreign: tuple[Pod, ...] = ()
    """Pods that name the group and are for schedulers that are not served here: they count once they have a node."""
    ended: tuple[Pod, ...] = ()
    """Pods that name the group and have succeeded or failed."""
    notes: tuple[str, ...] = field(default=())
    inputs: GroupInputs | None = field(default=None, repr=False)
    """What it was judged on, for further trials; none of a group that is not known or cannot be tried."""


def decide_group(scenario: GroupScenario, answers: MemberExtenderResults | None = None) -> GroupDecision:
    """Judge the group. Raises `ScenarioError` where an object or the configuration cannot be used.

    `answers` of HTTP extenders: if they have a question afterwards, there is no decision yet. Without them it is as if
    no extender were configured, and a note says so.
    """
    apis = group_apis(scenario.config)
    if not apis:
        raise ScenarioError(f"{scenario.where}: podGroup: pod groups are off: set the feature gate GenericWorkload")
    served = [profile.scheduler_name for profile in scenario.config.configuration.profiles]
    cache = cluster_cache(
        scenario.objects,
        None,
        scenario.config.gates,
        scenario.where,
        apis,
        served,
        scenario.missing,
        scenario.awaited,
    )
    configuration = scenario.config.configuration
    cache.topology_levels.configure(configuration.topology_levels)
    cache.topology_levels.follow(configuration.topology_apis)
    for kind in cache.topology_levels.kinds:
        for named in getattr(scenario.objects, kind.plural):
            cache.topology_levels.put(named)
    for known in scenario.definitions:
        cache.pod_groups.put(known)
    ports = scenario_ports(scenario.objects)
    profiles = profiles_at(scenario.where, cache, scenario.config, scenario.plugins, ports)
    members = _members(scenario, cache, profiles)
    group = group_facts(scenario, cache, served)
    if not members and (group.on_nodes or group.ended or group.definition is not None):
        return GroupDecision(scenario, lacks=none_waits(group), **group.known)
    if not members:
        raise ScenarioError(f"{scenario.where}: podGroup: no pod without a node is in group {scenario.group}")
    gates = {pod.name: profiles[pod.pod.spec.scheduler_name].run_pre_enqueue(pod) for pod in members}
    key = cache.pod_groups.key_of(members[0].pod)
    root = cache.pod_groups.root_of(key) if key is not None else None
    definition = cache.pod_groups.definition(root) if root is not None else None
    if any(not status.is_success for status in gates.values()):
        inputs = None if definition is None else _inputs(definition, members, cache, profiles, NO_RESULTS)[0]
        lacks = why_gated_group(group, cache.pod_groups, key) if key is not None else ""
        return GroupDecision(scenario, pre_enqueue=gates, inputs=inputs, lacks=lacks, **group.known)
    if definition is None:
        return GroupDecision(scenario, error=f"the group {scenario.group} is not among objects.podgroups")
    decision = _tried(scenario, cache, profiles, definition, members, NO_RESULTS if answers is None else answers)
    decision = replace(decision, **group.known)
    return decision if answers is not None else replace(decision, notes=_not_queried(members, profiles))


def _not_queried(members: Sequence[PodInfo], profiles: Profiles) -> tuple[str, ...]:
    """A note for each extender that has a say about members."""
    concerned = {
        extender_name(extender): None
        for pod in members
        for extender in profiles[pod.pod.spec.scheduler_name].extenders
        if is_queried_about(extender, pod.pod)
    }
    text = "has a say about members and was not called: --ask-extenders calls it"
    return tuple(f"extender {name} {text}" for name in concerned)


def _tried(
    scenario: GroupScenario,
    cache: Cache,
    profiles: Profiles,
    definition: GroupDefinition,
    members: list[PodInfo],
    answers: MemberExtenderResults,
) -> GroupDecision:
    status = check_group(cache.pod_groups, definition, members, profiles)
    behaviours = scenario.config.gates.behaviours
    reports_composite = definition.key.is_composite and behaviours.composites_have_conditions
    if not status.is_success:
        table = cache.pod_groups
        leaves = [table.definition(key) for key in table.leaves(definition.key)] if reports_composite else []
        return GroupDecision(
            scenario,
            status=status,
            reports_composite=reports_composite,
            members=tuple(MemberResult(pod, status) for pod in members),
            groups=tuple((leaf, status) for leaf in leaves if leaf is not None),
        )
    inputs, by_plugins = _inputs(definition, members, cache, profiles, answers)
    result: GroupResult = place_group(inputs)
    run_group_post_filter(by_plugins, result, place_group)
    verdicts = tuple(
        member_verdict(part, member, inputs.behaviours) for part in result.parts for member in part.members
    )
    is_tree = definition.key.is_composite
    groups = [(part.group, part.status) for part in result.parts if is_tree and part.group is not None]
    return GroupDecision(
        scenario,
        status=result.status,
        reports_composite=reports_composite,
        members=verdicts,
        preemption=result.preemption,
        inputs=inputs,
        placements=tuple(result.placements),
        groups=tuple(groups),
    )


def _inputs(
    definition: GroupDefinition,
    members: list[PodInfo],
    cache: Cache,
    profiles: Profiles,
    answers: MemberExtenderResults,
) -> tuple[GroupInputs, GroupInputs]:
    """The same inputs twice: judged by class, as the service does it, and by all plugins, for preemption."""
    profile = profiles[members[0].pod.spec.scheduler_name]
    alone, sampler = replace(profile, post_filter=()), TieBreakingSampler()
    # Thousands of members are alike.
    engine = ClassEngine(alone, cache)

    def judge(pod: PodInfo, rows: Rows | None, trial: CycleOfGroup, *, by_class: bool = False) -> SchedulingRecord:
        kept = engine if by_class else None
        record = schedule(
            alone, pod, cache, sampler=sampler, engine=kept, answers=answers.of(pod), within=rows, group=trial
        )
        answers.check(record)
        return record

    by_class = tree_inputs(
        GroupInputs(definition, members, profile, cache, partial(judge, by_class=True)), cache.pod_groups
    )
    return by_class, by_class.judged_by(judge)


def _members(scenario: GroupScenario, cache: Cache, profiles: Profiles) -> list[PodInfo]:
    """The members without a node, in the order in which they are tried; all pods without one are known as members."""
    waiting: list[QueuedPodInfo] = []
    tree = _tree_of(scenario, cache)
    for index, pod in enumerate(scenario.objects.pods):
        if pod.spec.node_name or pod.is_terminal or pod.spec.scheduler_name not in profiles:
            continue
        info = PodInfo(pod)
        try:
            _ = info.requests, info.nonzero_requests, info.accounted
            cache.nominator.add(info)
        except QuantityError as problem:
            text = unreadable_quantity(pod) or problem
            raise ScenarioError(f"{scenario.where}: objects.pods[{index}].{text} ({pod.key})") from None
        cache.pod_groups.add_member(info)
        key = cache.pod_groups.key_of(pod)
        if key is not None and (key.text == scenario.group or key in tree):
            waiting.append(QueuedPodInfo(info, timestamp=float(index)))
    return [member.pod for member in sorted(waiting, key=member_order)]


def _tree_of(scenario: GroupScenario, cache: Cache) -> Collection[GroupKey]:
    """The groups of pods in the tree of the group that is asked about; empty if it has no parent, or is in no tree."""
    groups, wanted = cache.pod_groups, scenario.group
    for definition in groups.groups():
        root = groups.root_of(definition.key) if definition.key.text == wanted else None
        if root is not None and root.is_composite:
            return groups.leaves(root)
    return ()
