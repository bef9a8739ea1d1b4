"""The lists of kscheduler that a release's are compared with, of one of the versions that it follows."""

import json
from pathlib import Path
from typing import Final

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.feature_gates import gates_of, parse_feature_gates
from kscheduler.config.in_tree_plugins import IN_TREE_POINTS
from kscheduler.config.loader import default_configuration, to_tree
from kscheduler.scheduling.observations import Observations
from kscheduler.telemetry.series import Counter, Histograms
from tests.cli.test_upstream_flags import KUBE_SCHEDULER_FLAGS
from tests.controlplane.follow.comparison import flat
from tests.controlplane.follow.sources import described
from tests.controlplane.follow.upstream import event_lines, gate_text, is_compared
from tests.telemetry.metrics.test_upstream_series import OURS, SERIES, is_listed

EVENTS: Final = Path(__file__).parents[2] / "scheduling"
SUBSYSTEM: Final = "scheduler_"
CLAIMS: Final = "dynamic_resource_allocation_"


def column_for(version: str) -> str:
    """The followed version that a release is compared with: its own, or else the newest."""
    return version if version in BEHAVIOURS else next(reversed(BEHAVIOURS))


def gates(version: str) -> dict[str, str]:
    return {
        name: gate_text(gate.stage.value, default=gate.default, locked=gate.locked, needs=tuple(sorted(gate.needs)))
        for name, gate in gates_of(version).items()
    }


def points(version: str) -> dict[str, str]:
    return {name: ", ".join(sorted(found)) for name, found in IN_TREE_POINTS[version].items()}


def events(version: str) -> dict[str, str]:
    """As recorded: of the version, or of the newest before it of which events were recorded."""
    recorded = (EVENTS / f"upstream_events_{each.replace('.', '_')}.json" for each in BEHAVIOURS if each <= version)
    return event_lines(json.loads([path for path in recorded if path.exists()][-1].read_text()))


def flags() -> dict[str, str]:
    return dict.fromkeys(KUBE_SCHEDULER_FLAGS, "")


def metrics(version: str) -> dict[str, str]:
    """Series of pkg/scheduler/metrics: with their labels where they are counted here, else by name."""
    observations = Observations()
    observations.follow(BEHAVIOURS[version], follows_groups=True)
    known = dict.fromkeys(SERIES[version], "")
    metrics: list[Counter | Histograms] = [*observations.counters, *observations.histograms]
    for metric in metrics:
        name = metric.series.name.removeprefix(SUBSYSTEM).removeprefix(CLAIMS)
        if name in known:
            known[name] = described("counter" if isinstance(metric, Counter) else "histogram", [*metric.series.labels])
    return known


def is_served_or_reported(name: str) -> bool:
    """Whether a series of kube-scheduler's page is served, or docs/operations.md says that it is not."""
    return name in OURS or f"{name}_total" in OURS or is_listed(name)


def configuration(version: str, gates: str = "") -> dict[str, str]:
    loaded = default_configuration("default-scheduler", parse_feature_gates(gates, version=version))
    tree = to_tree(loaded.configuration)
    tree["leaderElection"] |= {"leaderElect": False, "resourceName": "kube-scheduler"}
    return {path: value for path, value in flat(tree).items() if is_compared(path, value)}
