"""Small sweeps for tests."""

import json
from collections.abc import Generator, Sequence
from pathlib import Path

from kscheduler.sweep.engines.engine import Tell
from kscheduler.sweep.policies import default_profile
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import (
    GeneratedNodes,
    GeneratedPods,
    GeneratedWorkload,
    PlayedPolicy,
    RunSpec,
    SyntheticWorkload,
    Workload,
    code_version,
)
from kscheduler.sweep.running import run

GPU = "nvidia.com/gpu"
DEFAULT = PlayedPolicy("default", "profile", json.dumps(default_profile()))
TINY = SyntheticWorkload("tiny", 0.004, 1.3)
SHOP = GeneratedWorkload(
    "shop",
    (GeneratedNodes(3, {"cpu": "4", "memory": "16Gi", GPU: "2"}, {}, ("a", "b"), "1.5"),),
    (GeneratedPods(2, {"cpu": "500m"}), GeneratedPods(1, {"cpu": "1", GPU: "1"})),
    count=40,
    arrival_seconds=2.0,
    life_seconds=30.0,
    gpu=GPU,
)


def spec(policy: PlayedPolicy = DEFAULT, workload: Workload = TINY, seed: int = 1) -> RunSpec:
    return RunSpec(policy, workload, seed, code_version())


class HereEngine:
    """Makes the runs in this process, at most so many. Implements `SweepEngine`."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.made: list[str] = []
        self._most = most

    def rows(self, specs: Sequence[RunSpec], tell: Tell) -> Generator[SweepRow, None, None]:
        del tell
        for each in specs:
            if len(self.made) == self._most:
                raise KeyboardInterrupt
            self.made.append(each.key)
            yield run(each)


def told() -> tuple[list[str], Tell]:
    lines: list[str] = []
    return lines, lines.append


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
