"""Lives through a history, and compares every decision with the specification's.

python -m tests.specification.decisions.histories SEED NUMBER     live through it again, and cut it down
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.framework.nodes import node_table
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.record import SchedulingRecord
from tests.specification.decisions.changes import change
from tests.specification.decisions.naive_decisions import NaiveDecision, Scene, decide
from tests.specification.decisions.naive_preemption import NaivePreemption, preempt
from tests.specification.decisions.objects import Chance
from tests.specification.decisions.profiles import POLICIES
from tests.specification.decisions.worlds import LEFT, DecisionWorld
from tests.specification.preemption_rules import priority
from tests.specification.rules import host_ports
from tests.specification.volumes import binding_rules as volume_binding_rules
from tests.specification.volumes.rules import needs_claim
from tests.specification.volumes.state import Undertaking

# In each history.
DECISIONS = 200
# Rows at first, so that tables grow.
_SMALL_TABLE = 4
_MAX_PENDING = 8


class Disagreement(AssertionError):  # noqa: N818  it is no error of the test's
    """The scheduler and the specification decide differently."""


@dataclass(frozen=True)
class Failure:
    """Where a history went wrong."""

    number: int
    reported: str


@contextmanager
def small_tables() -> Iterator[None]:
    """Tables begin with few rows meanwhile."""
    before, node_table._FIRST_CAPACITY = node_table._FIRST_CAPACITY, _SMALL_TABLE
    try:
        yield
    finally:
        node_table._FIRST_CAPACITY = before


def live_through(seed: int, decisions: int = DECISIONS, without: Collection[int] = ()) -> Failure | None:
    """Live through a history but for some of its steps: an even number is a change, an odd one a decision.

    Returns where it went wrong, if it did.
    """
    with small_tables():
        world = DecisionWorld(seed)
    for number in range(2 * decisions):
        if number in without:
            continue
        draw = world.chance(number + 1)
        try:
            if number % 2:
                take_decision(world, draw, number)
            else:
                change(world, draw, number)
        except Exception as problem:  # noqa: BLE001  whatever it is, the history that led to it is what matters
            return Failure(number, f"{type(problem).__name__}: {problem}")
    return None


# --- one decision -----------------------------------------------------------------------------------------------------


def take_decision(world: DecisionWorld, draw: Chance, number: int) -> None:
    """Decide in both ways, compare, and let the world go on from there."""
    pod = world.next_pod(draw, number)
    name = pod.spec.scheduler_name
    engine = world.engines[name]
    scene = Scene(pod, world.naive, POLICIES[name])
    expected = decide(scene)
    record = schedule(world.profiles[name], PodInfo(pod), world.cache, engine=engine)
    compare(record, expected, all_of_it=engine is None or engine._reports_all)
    if record.node_name:
        _place(world, draw, record)
    elif world.naive.nodes:
        _wait(world, draw, record, _compared_preemption(world, scene, expected, record))


def compare(record: SchedulingRecord, expected: NaiveDecision, *, all_of_it: bool) -> None:
    """Raises `Disagreement`."""
    _same("error", record.status.message if record.status.code is Code.ERROR else "", "")
    _same("feasible nodes", sorted(record.feasible_names()), sorted(expected.feasible))
    _same("node", record.node_name, expected.node_name)
    totals = dict(zip(record.feasible_names(), record.totals.tolist(), strict=False))
    if all_of_it or totals:  # a class may know who is best, and not say by how much
        _same("points", totals, expected.totals)
    if expected.problem:
        _same("problem", record.diagnosis.pre_filter.reasons, (expected.problem,))
    elif record.diagnosis.pre_filter.is_success and (all_of_it or not record.feasible_names()):
        _same("verdicts", _verdicts(record), _expected_verdicts(record, expected))
    if all_of_it and totals:
        names = record.feasible_names()
        reported = {one.plugin: dict(zip(names, one.points.tolist(), strict=True)) for one in record.scores}
        _same("points by plugin", _without_zeros(reported), _without_zeros(expected.points))


def _same(what: str, reported: Any, expected: Any) -> None:
    if reported != expected:
        raise Disagreement(f"{what}: {reported} instead of {expected}")


def _verdicts(record: SchedulingRecord) -> dict[str, object]:
    """Of the nodes that were rejected, leaving out those outside the names that the search was narrowed to."""
    return {
        name: (status.plugin, (status.code is Code.UNSCHEDULABLE, frozenset(status.reasons)))
        for name, status in record.diagnosis.by_node()
        if record.node_names is None or name in record.node_names
    }


def _expected_verdicts(record: SchedulingRecord, expected: NaiveDecision) -> dict[str, object]:
    inside = {name: reported for name, reported in expected.verdicts.items() if reported[1] is not None}
    return {
        name: reported for name, reported in inside.items() if record.node_names is None or name in record.node_names
    }


def _without_zeros(points: Any) -> dict[str, dict[str, int]]:
    return {plugin: dict(its) for plugin, its in points.items() if any(its.values())}


# --- what comes of it -------------------------------------------------------------------------------------------------


def _place(world: DecisionWorld, draw: Chance, record: SchedulingRecord) -> None:
    """Its volumes are set aside, and it counts on the node; now and then the binding fails at once."""
    pod, both = record.pod, world.both
    if any(needs_claim(volume) for volume in pod.pod.spec.volumes):
        choice = volume_binding_rules.choice(pod.pod, world.naive.nodes[record.node_name], world.naive.storage)
        if not choice.set_aside().isdisjoint(world.naive.storage.assumed):
            return  # somebody else's claim, too
        shown = both.expected(choice, record.node_name)
        plugin = next(each for each in world.profiles[record.profile].reserve if each.name == "VolumeBinding")
        assumed = {key: shown[key] for key in choice.set_aside()}
        both.keep(Undertaking(plugin, record.state, pod, record.node_name, assumed))  # type: ignore[arg-type]
        _same("volumes set aside", both.seen(), shown)
    world.assume(pod, record.node_name)
    if draw.chance(0.04):
        world.forget(pod.uid)
    elif draw.chance(0.6):
        world.put_pod(world.naive.pods[pod.uid])


def _compared_preemption(
    world: DecisionWorld, scene: Scene, expected: NaiveDecision, record: SchedulingRecord
) -> NaivePreemption | None:
    """What the specification finds; `None` where it is not asked.

    Host ports that somebody nominated wants, too, are left out, and pods that PreFilter rejects.
    """
    pod = scene.pod
    wants_ports = host_ports(pod) and any(host_ports(one) for one, _ in world.naive.nominated.values())
    if wants_ports or not record.diagnosis.pre_filter.is_success or not scene.policy.preempts:
        return None
    decided = world.naive.nominated.get(pod.metadata.uid, (pod, ""))[1]
    found = preempt(scene, expected.verdicts, decided or pod.status.nominated_node_name)
    search = record.state.find(PreemptionSearch)
    reported = {one.node_name: [one.uid for one in one.victims] for one in search.candidates()} if search else {}
    _same("victims", reported, {name: [one.metadata.uid for one in its.victims] for name, its in found.found.items()})
    _same("preempted node", search.chosen.node_name if search else "", found.chosen)
    _same("nominated node", record.nominated_node_name or "", found.chosen)
    message = f"no new claims to deallocate, preemption: {found.message}" if found.message else ""
    _same("preemption", record.post_filter_message, message)
    return found


def _wait(world: DecisionWorld, draw: Chance, record: SchedulingRecord, found: NaivePreemption | None) -> None:
    """The pod waits, perhaps for victims to go."""
    pod = record.pod.pod
    if found is not None and found.chosen:
        for other, name in list(world.naive.nominated.values()):
            if name == found.chosen and priority(other) < priority(pod):
                world.nominate(other, "")
        for victim in found.found[found.chosen].victims:
            _evict(world, draw, victim)
    if record.nominated_node_name is not None:
        pod = replace(pod, status=replace(pod.status, nominated_node_name=record.nominated_node_name))
        world.nominate(pod, record.nominated_node_name)
    world.pending[pod.metadata.uid] = pod
    if len(world.pending) > _MAX_PENDING:
        gone = world.pending.pop(next(iter(world.pending)))
        world.nominate(gone, "")


def _evict(world: DecisionWorld, draw: Chance, victim: Pod) -> None:
    """It is gone, or on its way out."""
    if draw.chance(0.3):
        world.remove_pod(victim.metadata.uid)
        return
    reason = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    world.change_pod(victim.metadata.uid, {"metadata": {"deletionTimestamp": LEFT}, "status": {"conditions": [reason]}})


# --- cutting down -----------------------------------------------------------------------------------------------------


def cut_down(seed: int, number: int) -> tuple[Sequence[int], Failure | None]:
    """The steps without which the history goes wrong at the same step still, as many as can be left out."""
    last, without = number // 2 + 1, frozenset[int]()
    stretch = max(1, number // 2)
    while stretch:
        for start in range(0, number, stretch):
            more = without | frozenset(range(start, min(start + stretch, number)))
            failure = live_through(seed, last, more) if more != without else None
            if failure is not None and failure.number == number:
                without = more
        stretch //= 2
    left = [step for step in range(number + 1) if step not in without]
    return left, live_through(seed, last, without)


def main(seed: int, number: int) -> None:
    """Print the steps that matter."""
    left, failure = cut_down(seed, number)
    print(f"seed {seed}: steps {left}\n{failure.reported if failure else 'it does not go wrong any more'}")  # noqa: T201


if __name__ == "__main__":
    import sys

    main(int(sys.argv[1]), int(sys.argv[2]))
