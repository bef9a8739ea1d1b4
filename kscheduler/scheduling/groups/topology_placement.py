"""What a group asks of the topology, and the placements that follow from it.

A group of pods is placed by one search (`topology_search`). A group of groups gets the domains in the order in which
they are to be tried. A request that contradicts itself, or of which nothing is known, is refused: its author must
change it. One whose levels are not known yet waits for them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kscheduler.api.meta import ObjectMeta
from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.framework.cluster.preemption import GroupPlacement
from kscheduler.framework.cluster.topology_request import KeyMeanings, TopologyRequest, request_in_annotations
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.status import Code, Fault, Status, error, unschedulable
from kscheduler.scheduling.groups.group_cycle import GroupInputs, GroupResult, TopologyFindings, try_members
from kscheduler.scheduling.groups.member_ranks import in_rank_order
from kscheduler.scheduling.groups.topology_search import TopologySearch, with_missing_members
from kscheduler.state.topology_levels import LevelsAwaited


def requested_topology(inputs: GroupInputs) -> TopologyRequest | None:
    """What the group's object asks for in its annotations, or else its members, or else a field of the object.

    `None`: nothing. Worked out once in an attempt.
    """
    key, own = inputs.group.key, inputs.group.topology
    findings = inputs.findings = inputs.findings or TopologyFindings()
    if key not in findings.asked:
        findings.asked[key] = topology_of(own, [pod.pod.metadata for pod in inputs.members])
    return findings.asked[key]


def topology_of(own: TopologyRequest | None, members: Iterable[ObjectMeta]) -> TopologyRequest | None:
    """What a group asks for whose object asks for `own`: annotations, also the members', precede a field of it."""
    of_members = _asked_by_members(members) if own is None or own.yields_to_annotations else None
    return of_members or own


def _asked_by_members(members: Iterable[ObjectMeta]) -> TopologyRequest | None:
    request, asking, meanings = None, "", KeyMeanings()
    for member in members:
        own = request_in_annotations(member.annotations, meanings)
        if own is None or own == request:
            continue
        if own.problem:
            return TopologyRequest(problem=f"member {member.name}: {own.problem}")
        if request is not None:
            return TopologyRequest(problem=f"members {asking} and {member.name} ask for different topologies")
        request, asking = own, member.name
    return request


def place_by_topology(inputs: GroupInputs, request: TopologyRequest, within: Rows | None = None) -> GroupResult:
    """Find nodes for the members in the domains that the request asks for; the cache is as before when this returns.

    `within`: rows that the group may not leave. The result has all members.
    """
    key = inputs.group.key
    if request.problem:
        return _refused(inputs, f"{key.typed}: {request.problem}")
    rows = inputs.cache.nodes.rows() if within is None else within
    levels = inputs.cache.topology_levels.find(request, inputs.cache.nodes, rows)
    if isinstance(levels, LevelsAwaited):
        return with_missing_members(inputs, _waiting(key, levels))
    if isinstance(levels, str):
        if request.is_soft:
            return with_missing_members(inputs, try_members(inputs, within))
        return _refused(inputs, f"{key.typed} asks for a topology, and {levels}")
    ordered, has_ranks = in_rank_order(inputs.members)
    search = TopologySearch(replace(inputs, members=ordered), request, levels, rows, has_ranks=has_ranks)
    if search.problem:
        return _refused(inputs, f"{key.typed} {search.problem}")
    return search.run()


def domains_for_tree(
    inputs: GroupInputs, request: TopologyRequest, parent: GroupPlacement
) -> Sequence[GroupPlacement] | GroupResult:
    """The placements of a group of groups in the order in which they are to be tried: the first that fits is the best.

    One domain of the level that is asked for, the tightest that holds all members first, then wider ones; what a soft
    request cannot have is the parent at the end. Or the result of a group that has none.
    """
    key = inputs.group.key
    if request.problem:
        return GroupResult(error(f"{key.typed}: {request.problem}", fault=Fault.POD_GROUP), has_no_placements=True)
    if request.slice_level or request.spare_nodes or request.is_unconstrained:
        text = f"{key.typed} asks for what only a group of pods can have: slices, spare nodes, or no constraint"
        return GroupResult(error(text, fault=Fault.POD_GROUP), has_no_placements=True)
    levels = inputs.cache.topology_levels.find(request, inputs.cache.nodes, parent.rows)
    if isinstance(levels, LevelsAwaited):
        return _waiting(key, levels)
    if isinstance(levels, str):
        problem = f"{key.typed} asks for a topology, and {levels}"
        refused = GroupResult(error(problem, fault=Fault.POD_GROUP), has_no_placements=True)
        return [parent] if request.is_soft else refused
    search = TopologySearch(inputs, request, levels, parent.rows, has_ranks=False)
    if search.problem:
        return GroupResult(error(f"{key.typed} {search.problem}", fault=Fault.POD_GROUP), has_no_placements=True)
    found = search.single_domains()
    if request.is_soft:
        return [*found, parent]
    return found or GroupResult(unschedulable(search.shortage()), has_no_placements=True)


def _refused(inputs: GroupInputs, text: str) -> GroupResult:
    """The group contradicts itself: its author must change it."""
    return with_missing_members(inputs, GroupResult(error(text, fault=Fault.POD_GROUP), has_no_placements=True))


def _waiting(key: GroupKey, awaited: LevelsAwaited) -> GroupResult:
    """No room would help the group: it is tried again when what it waits for has come, or after its backoff."""
    status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"{key.typed} waits for {awaited.text}",))
    return GroupResult(status, has_no_placements=True)
