"""How many cases are judged by the columns and by the specification, and which file judges how many.

A case is one pod and one cluster (of at most 20 nodes) in one state, made by Hypothesis: the columns and the
specification say of every node what they make of it, and must agree. After a change to the cluster the same pod makes
another case, because columns and counters were kept, not made again. What is no case: a pod that the rule skips
(no claim, no constraint), and properties that need no specification (equal signatures, arithmetic).

The table gives the examples that each test of a file draws. What came of them is counted, printed at the end of the
run, and must reach the goal whenever every file of the table ran (`tally.py`).
"""

import os
from collections import Counter
from dataclasses import dataclass

from hypothesis import settings

from tests.effort import IS_LONG, example_count

GOAL = 100_000 if IS_LONG else example_count(1_000)
# Tests, and worlds in each, of a hundred decisions that the cycle makes with the class engine and without it.
ENGINE_PARTS, ENGINE_WORLDS = (100, 100) if IS_LONG else (10, example_count(4))

# Tests, and histories in all of them together.
DECISION_PARTS, HISTORIES = (100, 5_000) if IS_LONG else (10, max(10, example_count(20)))
# Whole decisions, each compared with the specification's; they are counted apart from the cases.
DECISIONS_GOAL = 200 * HISTORIES
# Of the histories, which are the same in each run: another one shows other histories.
FIRST_SEED = int(os.environ.get("KSCHEDULER_FIRST_SEED", "0"))


@dataclass(frozen=True)
class Share:
    """Examples of each test in a file, in CI and with KSCHEDULER_FUZZ=1; elsewhere in proportion."""

    default: int
    long: int


SHARES = {
    "columns": Share(20, 4_000),
    "spread": Share(80, 8_000),
    "pod_affinity": Share(150, 12_000),
    "volumes": Share(200, 10_000),
    "nominated": Share(50, 3_000),
    "preemption": Share(100, 6_000),
    "suggestions": Share(100, 14_000),
}
judged_cases: Counter[str] = Counter()
# By part.
judged_decisions: Counter[int] = Counter()


def examples(file: str) -> settings:
    """Hypothesis' settings for the tests of a file."""
    share = SHARES[file]
    return settings(max_examples=share.long if IS_LONG else example_count(share.default), deadline=None)


def judged(file: str, cases: int = 1) -> None:
    """Count a pod that columns and specification agree about."""
    judged_cases[file] += cases


def summary() -> str:
    """What was counted, in words."""
    shares = ", ".join(f"{name} {count:,}" for name, count in sorted(judged_cases.items()))
    reported = (
        [f"{judged_cases.total():,} cases judged by columns and specification ({shares})"] if judged_cases else []
    )
    if judged_decisions:
        reported.append(f"{judged_decisions.total():,} decisions of scheduler and specification compared")
    return "\n".join(reported)


def shortage() -> str:
    """Which goal was missed though all that leads to it ran; empty where none was."""
    if judged_cases.keys() >= SHARES.keys() and judged_cases.total() < GOAL:
        return f"The goal is {GOAL:,} cases: the shares in tests/specification/cases.py are too small."
    if judged_decisions.total() * DECISION_PARTS < DECISIONS_GOAL * len(judged_decisions):
        return f"The goal is {DECISIONS_GOAL:,} decisions: there are too few histories in tests/specification/cases.py."
    return ""
