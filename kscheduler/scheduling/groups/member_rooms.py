"""How many more members of a group each node takes: the engine's filters say where, the columns how many.

Members that are alike are judged once, as they would be without a nomination, and without the rules that the placement
of other members may satisfy (affinity to pods, an even spread). How many go to a node where one passes is said by the
filters themselves, as far as columns and the members' own fields tell (`MemberLimiter`): free amounts, host ports,
anti-affinity among them. So the number is never too low; it may be too high, as room that members take from each other
is not known: the trial of the group tells. Limits: a user's filter counts as it answers before any member is placed; of
members with claims of their own from one template one is judged, also where another's claim has its devices already.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kscheduler.api.core import TopologySpreadConstraint
from kscheduler.api.well_known import HOSTNAME
from kscheduler.config.extenders import EXTENDER
from kscheduler.framework.cluster.pod_groups import CycleOfGroup
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.pod_weight import weight_of
from kscheduler.framework.pods.spread_constraint import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY
from kscheduler.framework.rules.member_limits import MemberLimiter
from kscheduler.scheduling.groups.group_cycle import GroupInputs, do_not_wait_for_each_other
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache

# So many kinds of members are judged; with more, every node counts as one that all filters pass.
MAX_SHAPES: Final = 8
# A node may allow any number of pods; the rooms of all nodes are added.
_MOST: Final = 1 << 32
# Of all different specs of members. That is a gang of 5,000, all different; a request or a port takes up to 2 us.
_MOST_ENTRIES: Final = 250_000
_HARMLESS: Final = TopologySpreadConstraint(max_skew=1, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY)


def rooms_for_members(inputs: GroupInputs, rows: Rows) -> NDArray[np.int64]:
    """How many members each of the rows takes at most, an int64 per row.

    Nominations of members are not as before: `do_not_wait_for_each_other`.
    """
    do_not_wait_for_each_other(inputs.cache.nominator, inputs.members)
    rooms = np.full(len(rows), _MOST, dtype=np.int64)
    if not _are_quickly_read(inputs.members):
        return rooms
    for limiter in _limiters(inputs.profile):
        most = limiter.most_members(inputs.members, inputs.cache.nodes, rows)
        if most is not None:
            rooms = np.minimum(rooms, most)
    rooms = np.where(_passing(inputs, rows), rooms, 0)
    # Not cut to the number of members: of two domains that hold the group the one with less room is the tighter.
    return np.maximum(rooms, 0)


def _are_quickly_read(members: Iterable[PodInfo]) -> bool:
    """Whether the members may be looked at here, where nothing counts the time; their trial has its own."""
    seen, entries = set[int](), 0
    for pod in members:
        if pod.is_costly:
            return False
        # Informers share equal specs, and what follows from them is worked out once.
        if id(pod.pod.spec) not in seen:
            seen.add(id(pod.pod.spec))
            entries += weight_of(pod.pod)
    return entries <= _MOST_ENTRIES


def _limiters(profile: Profile) -> Iterator[MemberLimiter]:
    """The filters that know from columns how many members a node takes."""
    filters = [plugin for plugin in profile.filter if profile.traits[plugin.name].is_in_tree]
    yield from (plugin for plugin in filters if isinstance(plugin, MemberLimiter))


def _passing(inputs: GroupInputs, rows: Rows) -> NDArray[np.bool_]:
    """Which of the rows pass the filters of some member."""
    nodes: NodeTable = inputs.cache.nodes
    passing = np.zeros(nodes.capacity, dtype=np.bool_)
    within = None if len(rows) == len(nodes) else rows
    shapes, differing = _shapes(inputs)
    if len(shapes) > MAX_SHAPES:
        return np.ones(len(rows), dtype=np.bool_)
    for pod in shapes:
        alone = _on_its_own(pod)
        if _has_hard_defaults(inputs.profile, alone):
            alone = _without_default_constraints(alone)
        record = inputs.judge(alone, within, CycleOfGroup())
        if record.status.is_success and record.num_evaluated_nodes < record.num_all_nodes:
            return np.ones(len(rows), dtype=np.bool_)  # a sampled search knows some of the nodes only
        passing[record.feasible] = True
        if differing:
            if not _is_judged_in_full(record, differing):
                return np.ones(len(rows), dtype=np.bool_)
            for rejection in record.diagnosis.rejections:
                if rejection.plugin in differing:
                    passing[rejection.rows] = True
    return passing[rows]


def _shapes(inputs: GroupInputs) -> tuple[Sequence[PodInfo], frozenset[str]]:
    """One of each kind of members, one more than are judged at most, and the plugins that may judge others differently.

    Members of a kind have equal specs, and equal labels as far as a filter reads them. A user's filter and an extender
    may read any label and annotation: where these make too many kinds, as an index does, what they say of one member is
    no answer for others.
    """
    profile = inputs.profile
    filters = {plugin.name for plugin in profile.pre_filter} | {plugin.name for plugin in profile.filter}
    users = frozenset(name for name in filters if not profile.traits[name].is_in_tree)
    users |= {EXTENDER} if profile.extenders else frozenset()
    if users:
        shapes = _one_of_each(inputs.members, lambda pod: (pod.labels, pod.annotations))
        if len(shapes) <= MAX_SHAPES:
            return shapes, frozenset()
    return _one_of_each(inputs.members, _labels_of_terms(inputs.cache)), users


def _one_of_each(members: Iterable[PodInfo], read: Callable[[PodInfo], object]) -> list[PodInfo]:
    """One of the members with equal specs for which `read` returns the same; one more than are judged, at most."""
    shapes: list[tuple[PodInfo, object]] = []
    for pod in members:
        spec, own = pod.pod.spec, read(pod)
        # Informers share equal specs, so that most comparisons end at once.
        if not any((spec is each.pod.spec or spec == each.pod.spec) and own == others for each, others in shapes):
            shapes.append((pod, own))
            if len(shapes) > MAX_SHAPES:
                break
    return [pod for pod, _ in shapes]


def _labels_of_terms(cache: Cache) -> Callable[[PodInfo], object]:
    """From a pod to those of its labels that anti-affinity of other pods may read: they run, or are nominated."""
    counters, nominator = cache.counters, cache.nominator
    nominations = [nominator.nomination(uid) for uid in nominator.nominated()]
    terms = [term for each in nominations if each for term in each[1].affinity_terms.required_anti_affinity]
    expected = frozenset[str]().union(*[term.match.label_keys for term in terms])

    def read(pod: PodInfo) -> object:
        labels = pod.labels
        return {key: labels[key] for key in counters.labels_of_terms(labels) | (expected & labels.keys())}

    return read


def _is_judged_in_full(record: SchedulingRecord, differing: frozenset[str]) -> bool:
    """Whether the record has the rejections of all rows, and these plugins rejected no more than some of them."""
    diagnosis = record.diagnosis
    if differing & {*diagnosis.narrowed_by, *record.narrowed_by, diagnosis.pre_filter.plugin}:
        return False
    known = len(record.feasible) + sum(len(each.rows) for each in diagnosis.rejections)
    return known >= record.num_all_nodes or not diagnosis.pre_filter.is_success


def _on_its_own(pod: PodInfo) -> PodInfo:
    """The pod without what keeps it from nodes that it may pass once other members are placed."""
    spec, status = pod.pod.spec, pod.pod.status
    if status.nominated_node_name:  # else this node alone would be judged
        status = replace(status, nominated_node_name="")
    if spec.affinity is not None and spec.affinity.pod_affinity is not None:
        spec = replace(spec, affinity=replace(spec.affinity, pod_affinity=None))
    if any(each.when_unsatisfiable == DO_NOT_SCHEDULE for each in spec.topology_spread_constraints):
        # Not without constraints: a pod that has none gets those of the configuration.
        softer = [replace(each, when_unsatisfiable=SCHEDULE_ANYWAY) for each in spec.topology_spread_constraints]
        spec = replace(spec, topology_spread_constraints=tuple(softer))
    if spec is pod.pod.spec and status is pod.pod.status:
        return pod
    return PodInfo(replace(pod.pod, spec=spec, status=status))


def _has_hard_defaults(profile: Profile, pod: PodInfo) -> bool:
    """Whether constraints of the configuration may reject nodes for the pod."""
    telling: Iterable[Any] = (each for each in profile.instances if profile.traits[each.name].says_if_defaults_reject)
    return any(plugin.rejects_by_defaults(pod) for plugin in telling)


def _without_default_constraints(pod: PodInfo) -> PodInfo:
    """The pod with a constraint of its own that rejects no node and counts no pods."""
    spec = replace(pod.pod.spec, topology_spread_constraints=(_HARMLESS,))
    return PodInfo(replace(pod.pod, spec=spec))
