"""With the class engine and without it, the cycle says the same of every pod, whatever happens in between.

Here plugins fail, overshoot and see a share of the nodes only; what decisions must be like is told in
`test_decisions_equal_specification`.
"""

import pytest

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.scheduling.classes.class_engine import BUDGET_BYTES, ClassEngine
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.timing import UNTIMED, NoStopwatch
from tests.specification import cases
from tests.specification.engine.worlds import World

# In each world.
DECISIONS = 100


@pytest.mark.parametrize("part", range(cases.ENGINE_PARTS))
def test_decisions_with_the_engine_equal_those_without_it(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.framework.nodes.node_table._FIRST_CAPACITY", 4)
    for seed in range(part * cases.ENGINE_WORLDS, (part + 1) * cases.ENGINE_WORLDS):
        live_through(seed)


@pytest.mark.parametrize("part", range(cases.ENGINE_PARTS))
def test_runs_of_equal_pods_are_decided_as_each_alone(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pods come in runs and the engine keeps no more than it must, most cycles repeat the one before."""
    monkeypatch.setattr("kscheduler.framework.nodes.node_table._FIRST_CAPACITY", 4)
    worlds = 3 * cases.ENGINE_WORLDS
    repeats = sum(
        live_through(4 * number + 3, comes_in_runs=True) for number in range(part * worlds, (part + 1) * worlds)
    )
    assert repeats >= 2 * worlds, "cycles that repeat the one before are among them"


@pytest.mark.parametrize("part", range(cases.ENGINE_PARTS))
def test_pods_with_device_claims_are_decided_as_each_alone(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.framework.nodes.node_table._FIRST_CAPACITY", 4)
    for seed in range(part * cases.ENGINE_WORLDS, (part + 1) * cases.ENGINE_WORLDS):
        live_through(seed, has_devices=True)


class CountsRepeats(NoStopwatch):
    """Measures nothing, and counts the cycles that repeated the one before."""

    def __init__(self) -> None:
        self.repeats = 0

    def repeated(self) -> None:
        self.repeats += 1


def live_through(seed: int, *, comes_in_runs: bool = False, has_devices: bool = False) -> int:
    """Decide, with changes in between, and compare each decision. Returns how many repeated the one before."""
    stopwatch = CountsRepeats()
    world = World(seed, comes_in_runs=comes_in_runs, has_devices=has_devices)
    reports_all, budget = seed % 4 < 2, 4_000 if seed % 5 == 0 else BUDGET_BYTES
    engine = ClassEngine(world.profile, world.cache, reports_all=reports_all, budget_bytes=budget)
    samplers = NodeSampler(), NodeSampler()
    for number in range(DECISIONS):
        world.change()
        pod = world.next_pod()
        with_engine = schedule(world.profile, pod, world.cache, stopwatch, sampler=samplers[0], engine=engine)
        alone = PodInfo(pod.pod)  # it takes over nothing that was worked out of another pod
        without = schedule(world.profile, alone, world.cache, sampler=samplers[1])
        if world.keeps_all and number % 10 == 0 and len(world.cache.nodes) and "metadata.name" not in str(pod.pod.spec):
            assert engine.known(pod, UNTIMED) is not None, (
                "columns are kept for every pod that is not narrowed to names"
            )
        assert reported(with_engine, all_of_it=reports_all) == reported(without, all_of_it=reports_all), (seed, number)
        assert not len(with_engine.totals) or with_engine.totals.tolist() == without.totals.tolist()
        assert engine.bytes <= budget or len(engine) == 1
        if without.node_name:
            world.place(pod, without.node_name)
    return stopwatch.repeats


def reported(record: SchedulingRecord, *, all_of_it: bool) -> dict[str, object]:
    """A record as plain values; who rejected whom and each plugin's points only if that is asked for."""
    diagnosis = record.diagnosis
    is_whole = all_of_it or not len(record.feasible)
    return {
        "status": record.status,
        "evaluated": record.num_evaluated_nodes,
        "best": record.best_score,
        "skipped": sorted(record.skipped),
        "node": record.node_name,
        "message": record.message,
        "feasible": record.feasible.tolist(),
        "totals": record.totals.tolist() if all_of_it else None,
        "narrowed": (record.node_names, record.narrowed_by, diagnosis.narrowed_by),
        "pre_filter": diagnosis.pre_filter,
        "post_filter": (record.post_filter, record.nominated_node_name),
        "plugins": diagnosis.plugins if is_whole else None,
        "rejections": [_rejection(one, record) for one in diagnosis.rejections] if is_whole else None,
        "scores": [(one.plugin, one.weight, one.points.tolist()) for one in record.scores] if all_of_it else None,
    }


def _rejection(one: Rejection, record: SchedulingRecord) -> tuple[object, ...]:
    """Codes are a plugin's own, and may be numbered otherwise in another cycle: what they mean is compared."""
    statuses = {code: one.status_of(code) for code in set(one.codes.tolist())}
    return one.plugin, [(record.diagnosis.names[row], statuses[code]) for row, code in _pairs(one)]


def _pairs(one: Rejection) -> list[tuple[int, int]]:
    return list(zip(one.rows.tolist(), one.codes.tolist(), strict=True))
