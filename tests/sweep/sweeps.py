"""Small sweeps for tests."""

import json
from collections.abc import Generator, Sequence
from pathlib import Path

from kscheduler.sweep.engines.engine import Report
from kscheduler.sweep.policies import default_profile
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import (
    GeneratedNodes,
    GeneratedPods,
    GeneratedWorkload,
    PlayedPolicy,
    RunSpec,
    SyntheticWorkload,
    TraceWorkload,
    Workload,
    code_version,
)
from kscheduler.sweep.running import run, trace_digest

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

NODE_FILE = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,16384,2,T4\nn1,8000,16384,2,P100\n"
TASK_FILE = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "t0,1000,1024,1,1000,\nt1,1000,1024,1,500,T4\nt2,1000,1024,1,500,\nt3,500,512,0,0,\n"
)


def spec(policy: PlayedPolicy = DEFAULT, workload: Workload = TINY, seed: int = 1) -> RunSpec:
    return RunSpec(policy, workload, seed, code_version())


class InProcessEngine:
    """Executes at most `limit` runs in this process. Implements `SweepEngine`."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.executed: list[str] = []
        self._limit = limit

    def rows(self, specs: Sequence[RunSpec], report: Report) -> Generator[SweepRow, None, None]:
        del report
        for each in specs:
            if len(self.executed) == self._limit:
                raise KeyboardInterrupt
            self.executed.append(each.key)
            yield run(each)


def reported() -> tuple[list[str], Report]:
    lines: list[str] = []
    return lines, lines.append


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def trace(folder: Path, workload: str = "default") -> TraceWorkload:
    """A trace of two nodes and four tasks, as the user's files."""
    (folder / "openb_node_list_gpu_node.csv").write_text(NODE_FILE)
    (folder / f"openb_pod_list_{workload}.csv").write_text(TASK_FILE)
    return TraceWorkload("t", str(folder), workload, 1.3, trace_digest(folder, workload))
