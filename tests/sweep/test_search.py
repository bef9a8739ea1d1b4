"""Successive halving finds the weights that are best, and says how confident it is."""

from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RecordedWorkload, RunSpec, Workload
from kscheduler.sweep.running import empty_row
from kscheduler.sweep.search import LOSSES, loss, search
from kscheduler.sweep.search_text import search_lines
from kscheduler.sweep.sweep_file import Sweep
from kscheduler.sweep.sweep_settings import GOALS, SearchSettings
from tests.sweep.sweeps import DEFAULT, GPU, SHOP, TINY, spec

WEIGHTS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
SETTINGS = SearchSettings("default", "packing", {"NodeResourcesFit": WEIGHTS}, keep=3)
SEEDS = tuple(range(10, 19))


def weight_of(spec: RunSpec) -> int:
    """1 for the base policy."""
    return int(spec.policy.name.partition("=")[2].rstrip("]") or 1)


class FormulaRuns:
    """Rows by a formula: the further a weight is from 7 the worse, plus noise by seed."""

    def __init__(self, noise: float = 0.0) -> None:
        self.seen: list[RunSpec] = []
        self._noise = noise

    def __call__(self, specs: Sequence[RunSpec]) -> list[SweepRow]:
        self.seen += specs
        return [self._row(each) for each in specs]

    def _row(self, each: RunSpec) -> SweepRow:
        weight = weight_of(each)
        noisy = self._noise * Random(f"{weight} {each.seed}").random()
        nodes = 100 + abs(weight - 7) + noisy
        return msgspec.structs.replace(empty_row(each), nodes_used=nodes, pods=1, placed=1)


def sweep_of(workloads: Sequence[Workload] = (SHOP,), seeds: tuple[int, ...] = SEEDS) -> Sweep:
    return Sweep(tuple(workloads), (DEFAULT,), seeds, {"default": DEFAULT}, SETTINGS)


def test_the_best_weight_is_found_with_fewer_runs_than_the_grid_has() -> None:
    runs = FormulaRuns()
    found = search(sweep_of(), SETTINGS, runs)
    assert found.weights == {"NodeResourcesFit": 7}
    assert [(each.candidates, each.seeds) for each in found.rounds] == [(9, 3), (3, 9)]
    assert found.confidence == 1.0
    assert found.improvement == pytest.approx(6 / 106)
    assert found.improvement_low is not None
    assert found.improvement_low > 0
    of_search = [each for each in runs.seen if each.seed in SEEDS]
    assert len(of_search) < len(WEIGHTS) * len(SEEDS)


def test_finalists_and_the_base_policy_are_evaluated_with_unseen_seeds() -> None:
    runs = FormulaRuns()
    found = search(sweep_of(), SETTINGS, runs)
    unseen = {each.policy.name for each in runs.seen if each.seed not in SEEDS}
    assert unseen == {each.policy for each in found.finalists}
    assert [each.policy for each in found.finalists if each.is_base] == ["default"]
    assert {each.seed for each in runs.seen if each.seed not in SEEDS} == set(range(19, 28))


def test_where_chance_decides_confidence_is_low() -> None:
    found = search(sweep_of(), SETTINGS, FormulaRuns(noise=200.0))
    assert found.confidence is not None
    assert found.confidence < 0.9
    text = "\n".join(search_lines(found))
    assert "that may be chance" in text
    assert f"best of the 3 finalists in {found.confidence:.0%}" in text


def test_equal_candidates_share_the_confidence() -> None:
    class Equal(FormulaRuns):
        def _row(self, each: RunSpec) -> SweepRow:
            return msgspec.structs.replace(empty_row(each), nodes_used=5.0)

    found = search(sweep_of(), SETTINGS, Equal())
    assert found.confidence == pytest.approx(1 / 3)
    assert found.improvement == 0


@pytest.mark.parametrize(
    ("improvement", "low", "high", "expected"),
    [
        (
            -0.009,
            -0.027,
            0.0,
            "0.9% more loss than with the weights as they are (95 % of the draws: 0.0% to 2.7%; that may be chance)",
        ),
        (0.2, 0.1, 0.3, "20.0% less loss than with the weights as they are (95 % of the draws: 10.0% to 30.0%)"),
        (0.0, None, None, "as much loss as with the weights as they are"),
        (0.0, 0.0, 0.0, "as much loss as with the weights as they are"),
    ],
    ids=["worse", "better", "equal", "equal in each draw"],
)
def test_figure_and_interval_have_one_sign(
    improvement: float, low: float | None, high: float | None, expected: str
) -> None:
    found = search(sweep_of(), SETTINGS, FormulaRuns())
    lines = search_lines(
        msgspec.structs.replace(found, improvement=improvement, improvement_low=low, improvement_high=high)
    )
    advice = "" if improvement > 0 else ": keep the weights as they are"
    assert f"  {expected}{advice}" in list(lines)


def test_each_goal_says_what_its_loss_is() -> None:
    assert tuple(LOSSES) == GOALS


def test_the_same_search_finds_the_same() -> None:
    assert search(sweep_of(), SETTINGS, FormulaRuns(1.0)) == search(sweep_of(), SETTINGS, FormulaRuns(1.0))


def test_recordings_alone_give_no_confidence() -> None:
    found = search(sweep_of([RecordedWorkload("week", "/nowhere", "1", GPU)]), SETTINGS, FormulaRuns())
    assert (found.confidence, found.improvement_low, found.samples) == (None, None, 1)
    assert found.weights == {"NodeResourcesFit": 7}
    assert "confidence unknown" in "\n".join(search_lines(found))


def test_a_candidate_that_fails_is_dropped_and_reported() -> None:
    class Failing(FormulaRuns):
        def _row(self, each: RunSpec) -> SweepRow:
            return empty_row(each, "broken") if weight_of(each) == 7 else super()._row(each)

    found = search(sweep_of(), SETTINGS, Failing())
    assert found.weights in ({"NodeResourcesFit": 6}, {"NodeResourcesFit": 8})
    assert found.failed == ("default[NodeResourcesFit=7]: broken",)


def test_candidates_are_drawn_where_there_are_many() -> None:
    found = search(sweep_of(), msgspec.structs.replace(SETTINGS, candidates=4), FormulaRuns())
    assert found.rounds[0].candidates == 4


def test_workloads_count_alike_whatever_their_size() -> None:
    """Ten times as many nodes are no reason to follow the larger workload."""

    class Opposed(FormulaRuns):
        def _row(self, each: RunSpec) -> SweepRow:
            weight = weight_of(each)
            nodes = 10 + weight if each.workload.name == "shop" else 1000.0 + (9 - weight)
            return msgspec.structs.replace(empty_row(each), nodes_used=nodes)

    large = msgspec.structs.replace(SHOP, name="large")
    assert search(sweep_of([SHOP, large]), SETTINGS, Opposed()).weights == {"NodeResourcesFit": 1}


@pytest.mark.parametrize(
    ("goal", "values", "expected"),
    [
        ("packing", {"gpu_allocated": 90.0, "gpu_fragmented": 1.0}, 10.0),
        ("packing", {"nodes_used": 3.0, "gpu_allocated": 90.0}, 3.0),
        ("waiting", {"pods": 4, "placed": 3, "waiting": 1, "queue_seconds_mean": 8.0}, (3 * 8 + 3600) / 4),
        ("skew", {"zone_skew": 2.0}, 2.0),
        ("price", {"price": 1.5}, 1.5),
    ],
)
def test_the_loss_of_a_goal(goal: str, values: dict[str, float], expected: float) -> None:
    assert loss(msgspec.structs.replace(empty_row(spec()), **values), goal) == expected


def test_a_goal_without_figures_in_the_workload_is_refused() -> None:
    with pytest.raises(ConfigError, match="tiny has no price"):
        loss(empty_row(spec(workload=TINY)), "price")
