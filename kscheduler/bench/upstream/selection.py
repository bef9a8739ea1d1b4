"""Which workloads of a file are played, and what is said of the others: none is left out silently."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from kscheduler.bench.scenario import BenchmarkScenario
from kscheduler.bench.template import TemplateError
from kscheduler.bench.upstream.translation import TranslatedWorkload, read_workloads

NODES_AT_MOST: Final = 5000


@dataclass(frozen=True, slots=True)
class WorkloadSelection:
    """Workloads that were asked for."""

    workloads: tuple[TranslatedWorkload, ...]
    nodes_at_most: int

    @property
    def scenarios(self) -> list[BenchmarkScenario]:
        """Those that are played."""
        found = ((workload, workload.scenario) for workload in self.workloads)
        return [scenario for workload, scenario in found if scenario is not None and not self._is_too_large(workload)]

    def left_out(self) -> Iterator[tuple[str, str]]:
        """The names of the others, with the reasons."""
        for workload in self.workloads:
            if workload.problem:
                yield workload.name, workload.problem
            elif self._is_too_large(workload):
                yield workload.name, f"{workload.nodes:,} nodes are more than --nodes-at-most {self.nodes_at_most}"

    def listed(self) -> Iterator[str]:
        """A line for each, below a header."""
        reasons = dict(self.left_out())
        width = max(len("workload"), *(len(workload.name) for workload in self.workloads))
        yield f"{'workload':<{width}}{'nodes':>9}{'pods':>9}{'threshold':>11}  can be played"
        for workload in self.workloads:
            scenario = workload.scenario
            pods = f"{scenario.pods:,}" if scenario is not None else "-"
            threshold = f"{scenario.goal:,}" if scenario is not None and scenario.goal else ""
            says = f"no: {_without_place(reasons[workload.name], workload)}" if workload.name in reasons else "yes"
            yield f"{workload.name:<{width}}{workload.nodes:>9,}{pods:>9}{threshold:>11}  {says}"

    def _is_too_large(self, workload: TranslatedWorkload) -> bool:
        return workload.nodes > self.nodes_at_most


def selected(path: Path, names: Sequence[str], nodes_at_most: int = NODES_AT_MOST) -> WorkloadSelection:
    """The workloads with these names, or of test cases with these names; all if there are no names.

    Raises `TemplateError` for a file that is none, for a name that is not in it, and for a workload that is asked for
    by its name and cannot be played.
    """
    workloads = {workload.name: workload for workload in read_workloads(path)}
    chosen: dict[str, TranslatedWorkload] = {}
    for name in names or workloads:
        found = {key: workload for key, workload in workloads.items() if name in (key, key.partition("/")[0])}
        if not found:
            near = get_close_matches(name, workloads, n=1, cutoff=0.0)
            raise TemplateError(f"{path} has no workload {name!r}; did you mean {near[0]}? --list prints them all")
        if name in names and name in found and found[name].problem:
            raise TemplateError(found[name].problem)
        chosen |= found
    return WorkloadSelection(tuple(chosen.values()), nodes_at_most)


def _without_place(reason: str, workload: TranslatedWorkload) -> str:
    """The reason as it stands in the workload's own line: without the file and the name."""
    _, separator, rest = reason.partition(f"{workload.name}: ")
    return rest if separator else reason
