"""A scheduler that runs freely over what happened: what it decides takes effect at once."""

from typing import Final

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.topologies import TOPOLOGY_KINDS, KueueTopology
from kscheduler.assembly.configured import Configured
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import LoadedConfig, default_configuration, from_tree, load_bytes
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.recorder.alternatives.comparing import PolicyComparison
from kscheduler.recorder.alternatives.free_run import ExternalChange, FreeRun
from kscheduler.recorder.alternatives.run_measurements import RunMeasurements
from kscheduler.recorder.report.other_policy import comparison_answer, comparison_text
from kscheduler.recorder.step_clock import MICROS
from tests.builders import make_node, make_pod
from tests.scheduling.groups.world import member, pod_group

GPU: Final = "nvidia.com/gpu"
PACKED: Final = b"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: kscheduler
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: BestFit}]}}
"""
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


@pytest.mark.parametrize(("length", "expected"), [(40, [1] * 11 + [0] * 10), (2000, [0])], ids=["short", "long"])
def test_a_short_recording_is_sampled_from_its_beginning_on(length: int, expected: list[int]) -> None:
    """A pod runs for half of 40 seconds; without a length between samples of a minute there is only the last one."""
    run = FreeRun(Configured(default_configuration("kscheduler")), [NODES, PODS], frozenset(), length * MICROS)
    pod = make_pod("p", requests=HALF)
    run.apply_external(ExternalChange(100 * MICROS, NODES, None, make_node("node")))
    run.apply_external(ExternalChange(100 * MICROS, PODS, None, pod))
    run.apply_external(ExternalChange(121 * MICROS, PODS, pod, None))
    run.apply_external(ExternalChange(140 * MICROS, None))
    assert [sample.in_use for sample in run.end().samples] == expected


@pytest.mark.parametrize("followed", ["kueue", "kueue-v1beta1"])
def test_a_topology_counts_in_whichever_version_the_configuration_follows(followed: str) -> None:
    """A recording names the resource without a version."""
    settings = {"topologyAPIs": [followed], "profiles": [{"schedulerName": "kscheduler"}]}
    config = from_tree({"apiVersion": API_VERSION, "kind": KIND, **settings}, "test")
    run = FreeRun(Configured(config), [NODES, PODS, TOPOLOGY_KINDS["kueue"]], frozenset())
    spec = {"levels": [{"nodeLabel": "topology.kubernetes.io/zone"}]}
    topology = convert({"metadata": {"name": "t", "uid": "t"}, "spec": spec}, KueueTopology)
    levels, nodes = run.assembly.cache.topology_levels, run.assembly.cache.nodes
    run.apply_external(ExternalChange(1 * MICROS, TOPOLOGY_KINDS["kueue"], None, topology))
    assert [each.source for each in levels.lists(nodes)] == ["Topology t"]
    run.apply_external(ExternalChange(2 * MICROS, TOPOLOGY_KINDS["kueue"], topology, None))
    assert [each.source for each in levels.lists(nodes)] == []


HOUR: Final = 3600


def gpus_under(config: LoadedConfig) -> RunMeasurements:
    """Three nodes with four GPUs: a pod with all of a node's comes, and four with none, which end after three hours."""
    run = FreeRun(Configured(config), [NODES, PODS], frozenset())
    for number in range(3):
        node = make_node(f"n{number}", cpu="16", **{GPU: "4"})
        run.apply_external(ExternalChange(1 * MICROS, NODES, None, node))
    train = make_pod("train", requests={"cpu": "10", GPU: "4"})
    web = [make_pod(f"web-{number}", requests={"cpu": "4"}) for number in range(4)]
    for pod in (train, *web):
        run.apply_external(ExternalChange(2 * MICROS, PODS, None, pod))
    run.apply_external(ExternalChange((HOUR + 9) * MICROS, None))
    for pod in web:
        run.apply_external(ExternalChange(3 * HOUR * MICROS, PODS, pod, None))
    return run.end()


@pytest.fixture(scope="module")
def both() -> tuple[RunMeasurements, RunMeasurements]:
    """Spread, the pods without GPUs take the CPU of both of the other nodes; packed, that of one."""
    return gpus_under(default_configuration("kscheduler")), gpus_under(load_bytes(PACKED, "other"))


def test_what_is_of_no_use_is_measured_each_hour_and_at_the_end(both: tuple[RunMeasurements, RunMeasurements]) -> None:
    hours = [
        [(each.free, each.unusable) for found in run.fragments for each in found if each.resource == GPU]
        for run in both
    ]
    assert hours == [[(8, 8), (8, 8), (8, 0)], [(8, 4), (8, 4), (8, 0)]]
    assert [round(run.mean_unusable()[GPU], 3) for run in both] == [0.444, 0.222]


def test_the_table_says_which_policy_leaves_less_of_no_use(both: tuple[RunMeasurements, RunMeasurements]) -> None:
    answer = comparison_answer(PolicyComparison(*both, 0, 1), "here")
    assert answer.recorded.unusable[GPU] > answer.other.unusable[GPU]
    lines = [" ".join(line.split()) for line in comparison_text(answer).splitlines()]
    for words in ("of all, free but not for a typical pod", "of all, free but not for any of them"):
        assert lines[lines.index(words) + 1] == "nvidia.com/gpu 44.4% 22.2%"
    assert lines[lines.index("of all, free at the end") + 1] == "nvidia.com/gpu 66.7% 66.7%"


LICENCE: Final = "a.b/licence"


def with_ignored(*resources: str) -> LoadedConfig:
    args = {"name": "NodeResourcesFit", "args": {"ignoredResources": list(resources)}}
    profiles = [{"schedulerName": "kscheduler", "pluginConfig": [args]}]
    return from_tree({"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}, "test")


def run_with(config: LoadedConfig, *objects: tuple[Kind, KubeObject]) -> RunMeasurements:
    run = FreeRun(Configured(config), [NODES, PODS], frozenset())
    for second, (kind, new) in enumerate(objects, start=1):
        run.apply_external(ExternalChange(second * MICROS, kind, None, new))
    return run.end()


@pytest.mark.parametrize(
    ("ignored", "lacking"), [((), {"other": 4000}), ((LICENCE,), {})], ids=["looked at", "ignored"]
)
def test_a_resource_that_the_profile_ignores_makes_nothing_unusable(
    ignored: tuple[str, ...], lacking: dict[str, int]
) -> None:
    node = make_node("n", cpu="4")
    pod = make_pod("p", requests={"cpu": "0", LICENCE: "1"})
    waits = make_pod("waits", requests={"cpu": "4", LICENCE: "1"}, schedulingGates=[{"name": "a.b/gate"}])
    measured = run_with(with_ignored(*ignored), (NODES, node), (PODS, pod), (PODS, waits))
    assert [each.lacking for each in measured.fragments[-1] if each.resource == "cpu"] == [lacking]


def test_nodes_whose_pods_request_more_than_an_int64_holds_are_not_used_below_zero() -> None:
    objects: list[tuple[Kind, KubeObject]] = []
    for name in ("a", "b"):
        objects.append((NODES, make_node(f"n-{name}", memory="8E")))
        objects.append((PODS, make_pod(f"p-{name}", node=f"n-{name}", uid=f"p-{name}", requests={"memory": "6E"})))
    assert run_with(default_configuration("kscheduler"), *objects).samples[-1].use["memory"] == 0.75
