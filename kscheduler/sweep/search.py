"""Searches the weights with the lowest loss by successive halving, and estimates the confidence in the winner.

Many candidates run with few seeds; the best of each `keep` run with more, until the last few run with all (Jamieson and
Talwalkar, AISTATS 2016). The rows are those of any sweep: runs that are done are not repeated.

The winner among many candidates is partly lucky (selection bias). So the finalists and the policy with its own weights
run once more with as many unseen seeds, and only these rows say how good the winner is. Bootstrap: they are resampled a
thousand times, with replacement, within each workload. The confidence is the share of resamples in which the winner is
still the best finalist. A recording has no seeds: it is a single sample, which cannot be resampled.

    loss of a row, lower is better        packing   GPUs not allocated, of a trace; otherwise nodes with pods
                                          waiting   mean seconds in the queue; an hour for a pod that waits at the end
                                          skew      most pods in a zone less fewest
                                          price     of the nodes with pods

To make workloads comparable, a loss is divided by the mean loss of all candidates in the same workload and seed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from random import Random
from statistics import fmean
from typing import Final

import msgspec

from kscheduler.config.errors import config_error
from kscheduler.sweep.policies import check
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import PlayedPolicy, RunSpec, code_version
from kscheduler.sweep.summary import workload_of
from kscheduler.sweep.sweep_file import Sweep, is_compatible, seeds_of, with_weights
from kscheduler.sweep.sweep_settings import SearchSettings

_RESAMPLES: Final = 1000
_UNPLACED_WAIT_SECONDS: Final = 3600.0

# What the loss of a row is, by goal.
LOSSES: Final[Mapping[str, str]] = {
    "packing": "of a trace the GPUs that are not allocated at the end, in %; otherwise nodes with pods",
    "waiting": "mean seconds in the queue, of all pods; a pod that waits at the end counts as an hour",
    "skew": "most pods in a zone less fewest",
    "price": "sum of the prices of nodes with pods",
}

# Executes the runs that are not done, and returns the rows of all.
ExecuteRuns = Callable[[Sequence[RunSpec]], Sequence[SweepRow]]
# A workload and a seed.
Block = tuple[str, int]


class SearchRound(msgspec.Struct, frozen=True):
    """A round of the halving."""

    seeds: int
    candidates: int
    kept: tuple[str, ...]
    """Names, the best first."""


class Finalist(msgspec.Struct, frozen=True):
    """A candidate of the last round, or the policy with its own weights, over the unseen seeds."""

    policy: str
    loss: float
    """Relative to the mean of all finalists, which is 1; lower is better."""
    is_base: bool


class SearchResult(msgspec.Struct, frozen=True):
    """The result of a search."""

    goal: str
    policy: str
    winner: str
    weights: Mapping[str, int]
    confidence: float | None
    """The share of resamples in which the winner is the best finalist; `None`: there is nothing to resample."""
    improvement: float
    """How much lower the winner's loss is than with the policy's own weights, relative to it: 0.1 is a tenth."""
    improvement_low: float | None
    improvement_high: float | None
    """The 95 % confidence interval of the improvement."""
    samples: int
    """How many pairs of workload and unseen seed there are."""
    rounds: tuple[SearchRound, ...]
    finalists: tuple[Finalist, ...]
    failed: tuple[str, ...] = ()
    """Candidates that were dropped because a run failed, each with the error."""


def search(sweep: Sweep, settings: SearchSettings, execute: ExecuteRuns) -> SearchResult:
    """Raises `ConfigError`, and what `execute` raises."""
    return _Search(sweep, settings, execute).result()


class _Search:
    def __init__(self, sweep: Sweep, settings: SearchSettings, execute: ExecuteRuns) -> None:
        self._sweep, self._settings, self._execute = sweep, settings, execute
        self._base = sweep.bases[settings.policy]
        if self._base.kind != "profile":
            raise config_error("search.policy", f"{self._base.name} has no weights to be chosen")
        self._workloads = [each for each in sweep.workloads if is_compatible(self._base, each)]
        self._weights = {with_weights(self._base, each).name: each for each in _combinations(settings)}
        check(with_weights(self._base, next(iter(self._weights.values()))), "search.weights")
        self._failed: dict[str, str] = {}

    def result(self) -> SearchResult:
        names, rounds = list(self._weights), list[SearchRound]()
        for seeds in _rounds(len(names), self._settings.keep, len(self._sweep.seeds)):
            ranked = self._ranked(names, self._sweep.seeds[:seeds])
            is_last = seeds == len(self._sweep.seeds) and len(names) <= self._settings.keep
            kept = ranked if is_last else ranked[: math.ceil(len(names) / self._settings.keep)]
            rounds.append(SearchRound(seeds, len(names), tuple(kept)))
            names = kept
        return self._evaluated(names, tuple(rounds))

    def _ranked(self, names: Sequence[str], seeds: tuple[int, ...]) -> list[str]:
        losses = self._losses([with_weights(self._base, self._weights[name]) for name in names], seeds)
        means = {name: fmean(of_blocks.values()) for name, of_blocks in losses.items()}
        if not means:
            raise config_error("search", f"each candidate failed: {next(iter(self._failed.values()))}")
        return sorted(means, key=lambda name: (means[name], names.index(name)))

    def _losses(self, policies: Sequence[PlayedPolicy], seeds: tuple[int, ...]) -> dict[str, dict[Block, float]]:
        """By candidate and block, relative to the mean of all candidates in the block; without those that failed."""
        version = code_version()
        specs = [
            RunSpec(policy, workload, seed, version)
            for workload in self._workloads
            for policy in policies
            for seed in seeds_of(workload, seeds)
        ]
        found: dict[str, dict[Block, float]] = {policy.name: {} for policy in policies}
        for row in self._execute(specs):
            if row.error:
                self._failed.setdefault(row.policy, row.error)
                found.pop(row.policy, None)
            elif row.policy in found:
                found[row.policy][workload_of(row), row.seed] = loss(row, self._settings.goal)
        blocks = next(iter(found.values()), {})
        means = {block: fmean(of_blocks[block] for of_blocks in found.values()) for block in blocks}
        return {
            name: {block: each / means[block] if means[block] else 1.0 for block, each in of_blocks.items()}
            for name, of_blocks in found.items()
        }

    def _evaluated(self, names: Sequence[str], rounds: tuple[SearchRound, ...]) -> SearchResult:
        first = max(self._sweep.seeds) + 1
        unseen = tuple(range(first, first + len(self._sweep.seeds)))
        finalists = [with_weights(self._base, self._weights[name]) for name in names]
        losses = self._losses([*finalists, self._base], unseen)
        names = [name for name in names if name in losses]
        if not names or self._base.name not in losses:
            raise config_error("search", f"a finalist failed: {next(iter(self._failed.values()))}")
        winner, base = names[0], self._base.name
        confidence, improvements = self._bootstrap(winner, names, losses)
        improvements.sort()
        return SearchResult(
            goal=self._settings.goal,
            policy=base,
            winner=winner,
            weights=self._weights[winner],
            confidence=confidence,
            improvement=_improvement(losses, winner, base, list(losses[winner])),
            improvement_low=improvements[int(0.025 * len(improvements))] if improvements else None,
            improvement_high=improvements[int(0.975 * len(improvements)) - 1] if improvements else None,
            samples=len(losses[winner]),
            rounds=rounds,
            finalists=tuple(
                Finalist(name, fmean(losses[name].values()), is_base=name == base) for name in (*names, base)
            ),
            failed=tuple(f"{name}: {error}" for name, error in self._failed.items()),
        )

    def _bootstrap(
        self, winner: str, names: Sequence[str], losses: Mapping[str, Mapping[Block, float]]
    ) -> tuple[float | None, list[float]]:
        by_workload: dict[str, list[Block]] = {}
        for block in losses[winner]:
            by_workload.setdefault(block[0], []).append(block)
        if all(len(blocks) == 1 for blocks in by_workload.values()):
            return None, []
        rng, wins, improvements = Random(self._settings.seed), 0.0, list[float]()  # noqa: S311  nothing is secret
        for _ in range(_RESAMPLES):
            resample = [block for blocks in by_workload.values() for block in rng.choices(blocks, k=len(blocks))]
            means = {name: fmean(losses[name][block] for block in resample) for name in names}
            best = [name for name in names if means[name] == min(means.values())]
            wins += (winner in best) / len(best)  # a tie counts in equal parts
            improvements.append(_improvement(losses, winner, self._base.name, resample))
        return wins / _RESAMPLES, improvements


def _improvement(losses: Mapping[str, Mapping[Block, float]], winner: str, base: str, blocks: Sequence[Block]) -> float:
    before, after = (fmean(losses[name][block] for block in blocks) for name in (base, winner))
    return 1 - after / before if before else 0.0


def _combinations(settings: SearchSettings) -> list[dict[str, int]]:
    found = [dict(zip(settings.weights, chosen, strict=True)) for chosen in product(*settings.weights.values())]
    if settings.candidates and settings.candidates < len(found):
        return Random(settings.seed).sample(found, settings.candidates)  # noqa: S311  nothing is secret
    return found


def _rounds(candidates: int, keep: int, seeds: int) -> list[int]:
    """The number of seeds of each round: 1, 3, 9 for 27 candidates of which a third stays, and 9 seeds."""
    count = 1
    while candidates > keep:
        candidates = math.ceil(candidates / keep)
        count += 1
    return [max(1, seeds // keep ** (count - 1 - index)) if index < count - 1 else seeds for index in range(count)]


def loss(row: SweepRow, goal: str) -> float:
    """Lower is better. Raises `ConfigError` if the workload has no such figure."""
    match goal:
        case "packing":
            if row.gpu_allocated_130 is not None or row.gpu_fragmented is not None:
                return 100 - (row.gpu_allocated or 0.0)
            found = row.nodes_used
        case "waiting":
            pods, waiting = row.pods or 1, row.waiting or 0
            mean = row.queue_seconds_mean or 0.0
            return ((row.placed or 0) * mean + waiting * _UNPLACED_WAIT_SECONDS) / pods
        case "skew":
            found = row.zone_skew
        case _:
            found = row.price
    if found is None:
        raise config_error("search.goal", f"{row.workload} has no {goal}: no node has it")
    return found
