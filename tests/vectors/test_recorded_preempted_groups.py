"""Single pods that preempt members of pod groups, as kube-scheduler 1.37.1 decides: kscheduler must decide the same.

Each line of `1.37/preempted_groups.jsonl.gz` (gate GenericWorkload) is a random cluster with groups, some of them with
the disruption mode all, and a pod. They were given to the real scheduler, on client-go's fake API server, twice each.
`expect.outcomes` lists what came out: the node where the pod was bound, or the nomination, the pods that were deleted,
and the message. Pods that fit on several nodes with equal points are left out.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.config.feature_gates import FeatureGates
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import Scenario, read_source

FILE = Path(__file__).parent / "1.37" / "preempted_groups.jsonl.gz"
Tree = dict[str, Any]


def recorded() -> Iterator[tuple[Scenario, list[Tree]]]:
    """The scenarios with what is expected."""
    with gzip.open(FILE) as file:
        expected = [json.loads(line)["expect"]["outcomes"] for line in file]
    for scenario, outcomes in zip(read_source(str(FILE), FeatureGates(version="1.37")), expected, strict=True):
        assert isinstance(scenario, Scenario)
        yield scenario, outcomes


LINES = tuple(recorded())


@pytest.mark.parametrize(("scenario", "outcomes"), LINES, ids=[scenario.id for scenario, _ in LINES])
def test_a_pod_preempts_units_as_recorded(scenario: Scenario, outcomes: list[Tree]) -> None:
    record = decide(scenario).record
    assert record is not None
    victims = record.preemption.victims if record.preemption is not None else ()
    outcome = {
        "node": record.node_name,
        "nominatedNode": record.nominated_node_name or "",
        "victims": sorted(victim.name for victim in victims),
        "message": record.message,
    }
    assert outcome in outcomes


def test_whole_groups_are_among_the_victims_also_on_other_nodes() -> None:
    elsewhere = 0
    for scenario, outcomes in LINES:
        node_of = {pod.metadata.name: pod.spec.node_name for pod in scenario.objects.pods}
        nodes = {node_of[name] for name in outcomes[0]["victims"]}
        elsewhere += bool(nodes - {outcomes[0]["nominatedNode"]})
    assert elsewhere > 10
