"""Units of victims: what preemption evicts together or not at all.

    a pod in no group                     itself
    a member of a group                   itself, by the group's priority
    a member of a `disruptionMode: all`   the group's members on all nodes

In a tree the priority is that of the highest group, and the highest group with `disruptionMode: all` goes as a whole.
More important is the higher priority, then a composite group that goes as a whole, then whatever else has to do with a
group, then more pods, then the earlier start.
Only Kubernetes' own groups matter: those of other projects are no units.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from kscheduler.api.groups import POD_GROUPS
from kscheduler.framework.cluster.pod_groups import GroupKey, PodGroupView
from kscheduler.framework.nodes.occupants import started_at
from kscheduler.framework.pods.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class VictimUnit:
    """Pods that go together."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_group: bool
    """It is a group, or a single member of one."""
    is_composite: bool = False
    """It is a composite group."""
    started: float = field(init=False)
    """The earliest start, in seconds since 1970; infinity if the kubelet has reported none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "started", min(map(started_at, self.pods)))

    @property
    def rank(self) -> tuple[int, int, int, float]:
        """Sorts units, the most important first."""
        return -self.priority, -(self.is_group + self.is_composite), -len(self.pods), self.started


def group_of(groups: PodGroupView, pod: PodInfo) -> GroupKey | None:
    """The Kubernetes group that the pod names."""
    key = groups.key_of(pod.pod)
    return None if key is None or key.api != POD_GROUPS.group else key


def worth(groups: PodGroupView, pod: PodInfo) -> int:
    """The priority by which the pod may be preempted: that of the highest known group above it, or its own."""
    if not groups.is_followed:
        return pod.priority
    key = group_of(groups, pod)
    known = [] if key is None else [*groups.ancestry(key)]
    priority = known[-1].priority if known else None
    return pod.priority if priority is None else priority


def units_of(groups: PodGroupView, pods: Iterable[PodInfo]) -> list[VictimUnit]:
    """The units that the pods belong to, each once, in the order of their first pods."""
    units: list[VictimUnit] = []
    taken: set[GroupKey] = set()
    for pod in pods:
        key = group_of(groups, pod)
        whole = None if key is None else _taken_whole(groups, key)
        if whole is None:
            units.append(VictimUnit((pod,), worth(groups, pod), key is not None))
        elif whole not in taken:
            taken.add(whole)
            together: Collection[PodInfo] = groups.scheduled(whole) or (pod,)
            unit = VictimUnit(tuple(together), worth(groups, pod), is_group=True, is_composite=whole.is_composite)
            units.append(unit)
    return units


def _taken_whole(groups: PodGroupView, key: GroupKey) -> GroupKey | None:
    """The highest group that goes as a whole."""
    return next((group.key for group in reversed([*groups.ancestry(key)]) if group.is_taken_whole), None)


def count_groups(groups: PodGroupView, victims: Sequence[PodInfo]) -> int:
    """How many of the victims' units are groups, or single members of one."""
    return sum(unit.is_group for unit in units_of(groups, victims)) if groups.is_followed else 0


def most_important_first(units: Iterable[VictimUnit]) -> list[VictimUnit]:
    """The units by their rank; equal ones keep their order."""
    return sorted(units, key=lambda unit: unit.rank)


def pods_of(units: Sequence[VictimUnit]) -> tuple[PodInfo, ...]:
    """The pods of all units, in order."""
    return tuple(pod for unit in units for pod in unit.pods)
