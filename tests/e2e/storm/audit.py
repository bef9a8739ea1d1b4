"""Whether a storm of preemptions was as gentle as it could be, by brute force over what the watch saw.

    bound       every preemptor has a node
    one set     no preemptor has taken victims on two nodes, as long as the scheduler lives: the next one cannot know
                what the one before had not written yet when it was killed
    needed      without any one of its victims a preemptor would not have fitted on that node, and no other choice of
                pods there breaks fewer budgets, or takes fewer pods
    budgets     a pod under a budget that allows nothing was taken only where no node offered a choice without
    outcome     node by node, the pods taken are as few as the pods that came in their place allow

A decision is not visible, only the writes that follow it. So *needed* asks for any history that explains the victims:
any order of the preemptions on a node, and any of the pods that were nominated or bound there about that time as rivals
for the room (a nomination may be written after the victims of the next decision), and it takes the victims of a
scheduler that was killed then for a part of those it meant. What no reading explains is reported. *outcome* needs no
order at all, and leaves no such latitude.

Everything is computed from sights; nothing of kscheduler is imported.
"""

from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, permutations

from tests.e2e.audit import Amounts, total
from tests.e2e.storm.history import Sight, Subject

# So long after the first write of a preemption the nomination of a rival that was decided before may be written.
LATE_SECONDS = 2.0
# Guarded pods, pods.
Cost = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """A node."""

    name: str
    allocatable: Amounts
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Preemption:
    """A preemptor and the victims that one life of the scheduler took for it on one node, from all writes about them.

    The scheduler after a kill may find no nomination, give the room to another pod, and decide again: that is a
    decision of its own.
    """

    preemptor: Subject
    node: str
    victims: tuple[Subject, ...]
    began: float
    """When the first write about a victim was seen."""


@dataclass(frozen=True)
class Storm:
    """All that is known."""

    places: Mapping[str, Place]
    sights: Sequence[Sight]
    takers: Mapping[str, str]
    """UID of a victim to UID of the preemptor that its Event names."""
    high: int
    """The priority from which a pod is a preemptor."""
    deaths: Sequence[float] = ()
    """When the scheduler was killed, monotonic seconds, ascending."""

    @cached_property
    def subjects(self) -> dict[str, Subject]:
        """By UID."""
        return {sight.uid: sight.subject for sight in self.sights}

    @cached_property
    def last(self) -> dict[str, Sight]:
        """The newest sight of each pod."""
        return {sight.uid: sight for sight in self.sights}

    @cached_property
    def preemptors(self) -> list[Subject]:
        """In the order in which they came."""
        return [one for one in self.subjects.values() if one.priority >= self.high]

    @cached_property
    def residents(self) -> Mapping[str, Collection[Subject]]:
        """The pods of low priority that ever were on a node, by its name."""
        found: dict[str, dict[str, Subject]] = {name: {} for name in self.places}
        for sight in self.sights:
            if sight.node and sight.subject.priority < self.high:
                found[sight.node][sight.uid] = sight.subject
        return {name: here.values() for name, here in found.items()}

    @cached_property
    def taken(self) -> dict[str, Sight]:
        """Victims that were deleted: the first sight that shows them as such. A mere condition takes nothing yet."""
        last = self.last
        first: dict[str, Sight] = {}
        for sight in self.sights:
            if sight.subject.priority < self.high and (sight.is_chosen or sight.is_terminating):
                first.setdefault(sight.uid, sight)
        return {uid: sight for uid, sight in first.items() if last[uid].is_gone or last[uid].is_terminating}

    @cached_property
    def preemptions(self) -> list[Preemption]:
        """Victims grouped by who took them, where, and in which life of the scheduler. Those whose taker no Event names
        are left to *outcome*.
        """
        groups: dict[tuple[str, str, int], list[Sight]] = {}
        for uid, sight in self.taken.items():
            if uid in self.takers:
                groups.setdefault((self.takers[uid], sight.node, self.life_at(sight.at)), []).append(sight)
        subjects = self.subjects
        return [
            Preemption(subjects[taker], node, tuple(s.subject for s in victims), min(s.at for s in victims))
            for (taker, node, _), victims in groups.items()
        ]

    def life_at(self, at: float) -> int:
        """How many schedulers had been killed by then."""
        return bisect(self.deaths, at)


def audit(storm: Storm) -> list[str]:
    """A line per fault."""
    preemptions = storm.preemptions
    return [
        *not_bound(storm),
        *two_sets(storm, preemptions),
        *needless(storm, preemptions),
        *broken_budgets(storm, preemptions),
        *wasteful(storm),
    ]


def not_bound(storm: Storm) -> list[str]:
    last = storm.last
    return [f"{one.name} was never bound" for one in storm.preemptors if not last[one.uid].node]


def two_sets(storm: Storm, preemptions: Collection[Preemption]) -> list[str]:
    nodes: dict[tuple[str, int], list[str]] = {}
    for one in preemptions:
        nodes.setdefault((one.preemptor.name, storm.life_at(one.began)), []).append(one.node)
    return [f"{name} has victims on {sorted(where)}" for (name, _), where in nodes.items() if len(where) > 1]


def needless(storm: Storm, preemptions: Sequence[Preemption]) -> list[str]:
    by_node: dict[str, list[Preemption]] = {}
    for one in preemptions:
        by_node.setdefault(one.node, []).append(one)
    return [reported(node, ones) for node, ones in by_node.items() if not is_explained(storm, storm.places[node], ones)]


def reported(node: str, preemptions: Collection[Preemption]) -> str:
    sets = "; ".join(
        f"{one.preemptor.name} took {[v.name for v in one.victims]} at {one.began:.3f}" for one in preemptions
    )
    return f"on {node} no order of decisions explains the victims: {sets}"


def is_explained(storm: Storm, place: Place, preemptions: Sequence[Preemption]) -> bool:
    """Whether in some order each set of victims was the cheapest at its time."""
    residents = frozenset(storm.residents[place.name])
    # A victim without a known taker may have gone before or after; both are tried.
    gone = [storm.subjects[uid] for uid, s in storm.taken.items() if s.node == place.name and uid not in storm.takers]
    return any(
        all_cheapest(storm, place, order, residents - set(before))
        for order in permutations(preemptions)
        for before in subsets(gone)
    )


def all_cheapest(storm: Storm, place: Place, order: Sequence[Preemption], present: frozenset[Subject]) -> bool:
    for one in order:
        sets = meant(storm, one, present)
        companies = list(subsets(rivals_of(storm, one)))
        if not any(
            is_cheapest(place, present, victims, [*them, one.preemptor]) for them in companies for victims in sets
        ):
            return False
        present -= set(one.victims)
    return True


def meant(storm: Storm, preemption: Preemption, present: frozenset[Subject]) -> list[tuple[Subject, ...]]:
    """The victims; of a scheduler that was killed then, any that may have been meant to follow as well."""
    taken = preemption.victims
    if not any(0 <= death - preemption.began <= LATE_SECONDS for death in storm.deaths):
        return [taken]
    return [(*taken, *more) for more in subsets(list(present - set(taken)))]


def rivals_of(storm: Storm, preemption: Preemption) -> list[Subject]:
    """Preemptors that may have counted on the node when the decision fell: nominated or bound there, about then."""
    until = preemption.began + LATE_SECONDS
    found = {
        sight.uid: sight.subject
        for sight in storm.sights
        if preemption.node in (sight.node, sight.nominated) and sight.at <= until
    }
    found |= {
        other.preemptor.uid: other.preemptor
        for other in storm.preemptions
        if other.node == preemption.node and other.began <= until
    }
    return [one for one in found.values() if one.priority >= storm.high and one.uid != preemption.preemptor.uid]


def is_cheapest(
    place: Place, present: frozenset[Subject], victims: Collection[Subject], comers: Collection[Subject]
) -> bool:
    if not set(victims) <= present or not fits(place, [*(present - set(victims)), *comers]):
        return False
    return cost(victims) == cheapest(place, present, comers)


def cheapest(place: Place, present: Collection[Subject], comers: Collection[Subject]) -> Cost | None:
    """The least that must go so that all who come fit in; `None` if even an empty node is too small."""
    every = (
        cost(victims) for victims in subsets(list(present)) if fits(place, [*(set(present) - set(victims)), *comers])
    )
    return min(every, default=None)


def cost(victims: Collection[Subject]) -> Cost:
    return sum(1 for one in victims if one.guarded), len(victims)


def fits(place: Place, pods: Collection[Subject]) -> bool:
    used = total(pod.requests for pod in pods)
    return all(amount <= place.allocatable.get(resource, 0) for resource, amount in used.items())


def subsets(items: Sequence[Subject]) -> Iterator[tuple[Subject, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def broken_budgets(storm: Storm, preemptions: Collection[Preemption]) -> list[str]:
    lines = []
    for one in preemptions:
        guarded = [victim.name for victim in one.victims if victim.guarded]
        other = next(gentle_choices(storm, one), None) if guarded else None
        if other is not None:
            lines.append(f"{one.preemptor.name} took {guarded} on {one.node} although {other} needed no guarded pod")
    return lines


def gentle_choices(storm: Storm, preemption: Preemption) -> Iterator[str]:
    """Nodes on which, when the first victim was written about, the preemptor could do without guarded pods."""
    pod_columns = occupants_at(storm, preemption)
    for place in storm.places.values():
        if selects(preemption.preemptor, place) and place.name != preemption.node:
            here = pod_columns.get(place.name, [])
            present = [one for one in here if one.priority < storm.high]
            settled = [one for one in here if one.priority >= storm.high]
            least = cheapest(place, present, [*settled, preemption.preemptor])
            if least is not None and least[0] == 0:
                yield place.name


def selects(subject: Subject, place: Place) -> bool:
    return all(place.labels.get(key) == value for key, value in subject.selector.items())


def occupants_at(storm: Storm, preemption: Preemption) -> dict[str, list[Subject]]:
    """By node, the pods of low priority that nobody had chosen yet, and the preemptors that counted on it; to be on the
    safe side, those too that came to count on it shortly after.
    """
    newest: dict[str, Sight] = {}
    for sight in storm.sights:
        if sight.at > preemption.began + LATE_SECONDS:
            break
        if sight.at <= preemption.began or sight.subject.priority >= storm.high:
            newest[sight.uid] = sight
    found: dict[str, list[Subject]] = {}
    for sight in newest.values():
        if sight.uid != preemption.preemptor.uid and not (sight.is_chosen or sight.is_terminating or sight.is_gone):
            found.setdefault(sight.node or sight.nominated, []).append(sight.subject)
    return found


def wasteful(storm: Storm) -> list[str]:
    """Nodes that lost more pods, or more guarded ones, than those that came in their place needed."""
    lost_by, came_to = dict[str, list[Subject]](), dict[str, list[Subject]]()
    for sight in storm.taken.values():
        lost_by.setdefault(sight.node, []).append(sight.subject)
    for one in storm.preemptors:
        came_to.setdefault(storm.last[one.uid].node, []).append(one)
    lines = []
    for place in storm.places.values():
        lost, came = lost_by.get(place.name, []), came_to.get(place.name, [])
        least = cheapest(place, storm.residents[place.name], came)
        if cost(lost) != least:
            lines.append(
                f"{place.name} lost {sorted(v.name for v in lost)} to {[c.name for c in came]}: least is {least}"
            )
    return lines
