"""A scheduler that runs freely over what happened: what it decides takes effect at once."""

from typing import Final

from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.assembly.configured import Configured
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.recorder.alternatives.free_run import ExternalChange, FreeRun
from kscheduler.recorder.step_clock import MICROS
from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import member, pod_group

# Two fit on a node.
HALF: Final = {"cpu": "2"}


def test_a_gang_s_victims_are_gone_at_once_although_no_single_pod_is_decided_after_it() -> None:
    config = default_configuration("kscheduler", parse_feature_gates("GenericWorkload=true", version="1.37"))
    run = FreeRun(Configured(config), [NODES, PODS, POD_GROUPS], frozenset())
    come: list[tuple[int, Kind, KubeObject]] = [
        (1, NODES, make_node("node")),
        *((1, PODS, make_pod(f"low-{number}", requests=HALF)) for number in range(2)),
        (2, POD_GROUPS, pod_group("g", 2, priority=9)),
        *((2, PODS, member(f"g-{number}", "g", priority=9, requests=HALF)) for number in range(2)),
    ]
    for second, kind, new in come:
        run.apply_external(ExternalChange(second * MICROS, kind, None, new))
    for second in range(3, 10):
        run.apply_external(ExternalChange(second * MICROS, None))
    measured = run.end()
    assert sorted(victim for victim, _ in measured.evicted) == ["default/low-0", "default/low-1"]
    assert sorted(placement.pod for placement in measured.placed.values()) == ["default/g-0", "default/g-1"]
    assert measured.pending == {}
