"""Packing policies place pods as their definitions say, task by task; devices are never sold twice."""

import asyncio
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml

from kscheduler.api.core import Node, Pod
from kscheduler.assembly.configuration_checks import profile_problems
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.cli import main
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import from_tree
from kscheduler.config.plugin_args import ARGS_KINDS, SharedDevices
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.packing import PACKING, fragmentation_aware
from kscheduler.plugins.packing.device_columns import MAX_DEVICES, DeviceColumns
from kscheduler.sweep.trace.playing import TaskPlacement, TracePlayer, curve
from kscheduler.sweep.trace.profiles import FGD, OWN, trace_policy
from kscheduler.sweep.trace.run_drawing import typical_shapes
from kscheduler.sweep.trace.trace_objects import Run, TraceTask, as_typical_pods
from kscheduler.testing import Cluster, assert_goes_to, assert_rejected, make_node, make_pod
from tests.builders import node_tree
from tests.plugins.packing.naive import play, random_run

GPU, SHARE, INDEX = "nvidia.com/gpu", "example.com/gpu-milli", "example.com/gpu-index"


def gpu_node(name: str, devices: int = 4, cpu: str = "4") -> Node:
    return make_node(name, cpu=cpu, **{GPU: str(devices), SHARE: str(1000 * devices)})  # type: ignore[arg-type]


def share(name: str, milli: int, **fields: Any) -> Pod:
    return make_pod(name, requests={SHARE: str(milli)}, **fields)


# --- a run of the trace -----------------------------------------------------------------------------------------------


def placements_of(run: Run, policy: str) -> list[TaskPlacement]:
    return asyncio.run(TracePlayer(run, trace_policy(policy, typical_shapes(run.tasks), run.seed)).placements())


@pytest.mark.parametrize("policy", ["DotProd", "GpuPacking", "BestFit", FGD, OWN])
def test_each_policy_places_tasks_as_its_definition_says(policy: str) -> None:
    differing = []
    for seed in range(3):
        run = random_run(seed)
        typical = as_typical_pods(typical_shapes(run.tasks))
        types = [(shape_of(entry), entry["count"]) for entry in typical]
        placements = placements_of(run, policy)
        expected = play(run, policy, types)
        named = [(f"{place.node.partition('-')[2]}" or None, place.devices) for place in placements]
        wanted = [(node, ",".join(map(str, devices))) for node, devices in expected]
        differing += [
            (seed, task.name) for task, *pair in zip(run.tasks, named, wanted, strict=True) if pair[0] != pair[1]
        ]
        assert any(node is None for node, _ in expected), "a run that never fills the nodes shows little"
        assert max(value for _, value in curve(run, placements)) <= 100
    assert differing == []


def test_on_many_nodes_devices_are_compared_one_by_one_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [random_run(seed) for seed in range(2)]
    at_once = [placements_of(run, OWN) for run in runs]
    monkeypatch.setattr(fragmentation_aware, "_LARGEST_CUBE", 0)
    assert [placements_of(run, OWN) for run in runs] == at_once


def shape_of(typical: dict[str, Any]) -> TraceTask:
    requests = typical["requests"]
    gpus, milli = int(requests.get(GPU, 0)), 1000 * (GPU in requests)
    if SHARE in requests:
        gpus, milli = 1, int(requests[SHARE])
    models = ""
    if "nodeAffinity" in typical:
        (term,) = typical["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        models = "|".join(term["matchExpressions"][0]["values"])
    return TraceTask("", int(requests["cpu"].removesuffix("m")), 0, gpus, milli, models)


def test_random_goes_to_any_node_and_device_with_room() -> None:
    run = random_run(5)
    placements = placements_of(run, "Random")
    free = {f"{rank:04}-{machine.name}": [1000] * machine.gpus for rank, machine in enumerate(run.nodes)}
    for task, placement in zip(run.tasks, placements, strict=True):
        for device in filter(None, placement.devices.split(",")):
            free[placement.node][int(device)] -= task.milli
    assert min(left for devices in free.values() for left in devices) >= 0
    assert len({placement.node for placement in placements}) > len(run.nodes) // 2


# --- devices ----------------------------------------------------------------------------------------------------------


def test_a_share_is_not_put_on_two_devices_that_have_a_part_of_it_each() -> None:
    on = [share(f"p{device}", 700, node="a", annotations={INDEX: str(device)}) for device in range(4)]
    cluster = Cluster(gpu_node("a"), *on).enable("DeviceShares")
    assert_goes_to(cluster, share("small", 300), "a")
    assert_rejected(
        cluster, share("large", 500), "a", by="DeviceShares", reason="node(s) had too little left on each device"
    )


def test_more_than_a_device_and_both_resources_fit_nowhere() -> None:
    cluster = Cluster(gpu_node("a")).enable("DeviceShares")
    both = make_pod("both", requests={GPU: "1", SHARE: "500"})
    for pod in (share("large", 1500), both):
        assert_rejected(cluster, pod, "a", by="DeviceShares", reason="node(s) had too few devices")


def test_the_device_is_written_with_the_binding_and_known_after_a_restart() -> None:
    asyncio.run(bind_two_shares())


async def bind_two_shares() -> None:
    first, second = share("first", 600), share("second", 300)
    async with Cluster(gpu_node("a")).enable("DeviceShares").running() as running:
        await running.add(first)
        await running.add(second)
        bound = [running.pod_of(pod) for pod in (first, second)]
    assert [pod.metadata.annotations for pod in bound] == [{INDEX: "0"}, {INDEX: "0"}]
    after = Cluster(gpu_node("a", 1), *bound).enable("DeviceShares")
    assert_goes_to(after, share("fits", 100), "a")
    assert_goes_to(after, share("does-not", 101))


def test_pods_of_several_profiles_and_of_one_turn_see_each_others_devices() -> None:
    asyncio.run(bind_many_at_once())


async def bind_many_at_once() -> None:
    pods = [share(f"p{number}", 500) for number in range(8)]
    async with Cluster(gpu_node("a")).enable("DeviceShares").running() as running:
        await running.add(*pods)
        devices = sorted(running.pod_of(pod).metadata.annotations[INDEX] for pod in pods)
    assert devices == ["0", "0", "1", "1", "2", "2", "3", "3"]


def test_columns_are_those_of_a_look_at_each_node_after_any_history() -> None:
    chance = Random(7)
    table, view = NodeTable(), ViewOf()
    view.nodes = table
    columns = DeviceColumns(SharedDevices(), view)
    infos = [NodeInfo(gpu_node(f"n{number}", number)) for number in range(6)]
    rows = [table.add(info) for info in infos]
    for step in range(400):
        number = chance.randrange(len(infos))
        info, row = infos[number], rows[number]
        if info.pods and chance.random() < 0.4:
            gone = chance.choice(list(info.pods.values()))
            info.remove_pod(gone)
            table.remove_pod(row, gone)
        else:
            annotations = {INDEX: chance.choice(("0", "1", "5", "0,1", "x", "-1", "", "1,1"))}
            requests = chance.choice(({SHARE: "300"}, {GPU: "1"}, {GPU: "2"}, {"cpu": "1"}))
            added = PodInfo(make_pod(f"p{step}", requests=requests, annotations=annotations, node=info.name))
            info.add_pod(added)
            table.add_pod(row, added)
        asked = np.array(sorted(chance.sample(rows, 3)), dtype=np.intp)
        found = columns.free(table, asked)
        for place, row in enumerate(asked.tolist()):
            expected = columns.free_of(table.info(row))
            assert found[place].tolist()[: len(expected)] == expected
            assert set(found[place].tolist()[len(expected) :]) <= {-1}
            assert all(0 <= left <= 1000 for left in expected)
    fork = table.with_pods({rows[3]: [PodInfo(make_pod("more", requests={GPU: "3"}))]})
    only = np.array([rows[3]], dtype=np.intp)
    assert columns.free(fork, only).sum() == sum(columns.free_of(fork.info(rows[3])))
    assert columns.free(table, only)[0].tolist()[:3] == columns.free_of(table.info(rows[3]))


class ViewOf:
    """A view whose nodes a test gives."""

    nodes: NodeTable


def test_a_node_with_more_devices_than_are_counted_takes_no_more_columns() -> None:
    info = NodeInfo(gpu_node("a", 10**9))
    assert len(DeviceColumns(SharedDevices(), ViewOf()).free_of(info)) == MAX_DEVICES


# --- scores -----------------------------------------------------------------------------------------------------------


def test_the_dominant_share_counts_and_not_the_mean() -> None:
    full_memory = make_pod("m", requests={"memory": "7Gi"}, node="a")
    half = make_pod("h", requests={"cpu": "2", "memory": "4Gi"}, node="b")
    cluster = Cluster(make_node("a"), make_node("b"), full_memory, half).enable("DominantMostAllocated")
    assert cluster.points(make_pod("p", requests={"cpu": "400m"}), "DominantMostAllocated") == {"a": 87, "b": 60}


def test_best_fit_counts_a_core_the_same_on_small_and_big_nodes() -> None:
    nodes = make_node("small", cpu="8"), make_node("big", cpu="64"), make_pod("p", requests={"cpu": "58"}, node="big")
    args = {"resources": [{"name": "cpu", "largest": "64"}]}
    cluster = Cluster(*nodes).enable("BestFit", args=args)
    assert cluster.points(make_pod("q", requests={"cpu": "2"}), "BestFit") == {"small": 90, "big": 93}


def test_a_pod_keeps_off_the_cpu_that_idle_devices_need() -> None:
    typical = [{"requests": {"cpu": "10", GPU: "1"}}]
    with_gpus = gpu_node("gpus", cpu="40")
    cluster = Cluster(with_gpus, make_node("plain", cpu="40"))
    cluster.enable("FragmentationAware", args={"typicalPods": typical})
    points = cluster.points(make_pod("p", requests={"cpu": "10"}), "FragmentationAware")
    assert points["plain"] == 50
    assert points["gpus"] < 50


def test_without_devices_and_without_a_mix_all_nodes_have_the_same_points() -> None:
    cluster = Cluster(make_node("a"), make_node("b", cpu="40")).enable("FragmentationAware")
    assert set(cluster.points(make_pod("p", requests={"cpu": "1"}), "FragmentationAware").values()) == {50}


def test_the_mix_is_learned_from_the_pods_that_run_and_wait() -> None:
    asyncio.run(learn())


async def learn() -> None:
    running_pods = [make_pod(f"r{number}", requests={GPU: "1"}, node="full") for number in range(4)]
    nodes = gpu_node("half", 1), gpu_node("new", 1), gpu_node("full")
    on = share("on", 500, node="half", annotations={INDEX: "0"})
    cluster = Cluster(*nodes, *running_pods, on).enable("DeviceShares").enable("FragmentationAware", weight=100)
    async with cluster.running() as running:
        pod = share("p", 500)
        await running.advance(300)
        await running.add(pod)
        assert running.node_of(pod) == "half"  # two halves on one device leave the other one whole


# --- the configuration ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "args", "path"),
    [
        ("BestFit", {"resources": []}, "resources"),
        ("BestFit", {"resources": [{"name": "cpu"}]}, "resources[0].largest"),
        ("BestFit", {"resources": [{"name": "cpu", "largest": "-1"}]}, "resources[0].largest"),
        ("BestFit", {"resources": [{"name": "cpu", "largest": "many"}]}, "resources[0].largest"),
        ("BestFit", {"resources": [{"name": "cpu", "largest": "1"}] * 2}, "resources[1].name"),
        ("DominantMostAllocated", {"resources": ["cpu", "cpu"]}, "resources[1]"),
        ("DeviceShares", {"devices": {"resource": "no/name/at all"}}, "devices.resource"),
        ("DeviceShares", {"devices": {"shareResource": GPU}}, "devices.shareResource"),
        ("FragmentationAware", {"strandedWeight": -1}, "strandedWeight"),
        ("FragmentationAware", {"learningInterval": "1ms"}, "learningInterval"),
        ("BestFit", {"resources": [{"name": "memry", "largest": "1"}]}, "resources[0].name"),
        ("DominantMostAllocated", {"resources": ["gpu"]}, "resources[0]"),
        ("FragmentationAware", {"devices": {"resource": "memory"}}, "devices.resource"),
        ("FragmentationAware", {"typicalPods": [{}]}, "typicalPods[0].requests"),
        ("FragmentationAware", {"typicalPods": [{"requests": {"cpuu": "1"}}]}, "typicalPods[0].requests[cpuu]"),
        ("FragmentationAware", {"typicalPods": [{"requests": {"cpu": "1"}, "count": 0}]}, "typicalPods[0].count"),
        ("FragmentationAware", {"typicalPods": [{"requests": {"cpu": "x"}}]}, "typicalPods[0].requests[cpu]"),
        ("FragmentationAware", {"typicalPods": [{}] * 257}, "typicalPods"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_told_with_its_field(plugin: str, args: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load({"schedulerName": "a", "pluginConfig": [{"name": plugin, "args": args}]})
    assert f"profiles[0].pluginConfig[0].args.{path}" in {problem.path for problem in refused.value.problems}


def test_a_tie_rule_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        load({"schedulerName": "a", "tieRule": "Coin"})
    assert [problem.path for problem in refused.value.problems] == ["profiles[0].tieRule"]


def load(profile: dict[str, Any]) -> Any:
    tree = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    return from_tree(tree, "test")


PAGE = (Path(__file__).parents[3] / "docs" / "packing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_each_configuration_of_the_page_can_be_used(text: str) -> None:
    configured = ConfigurationReader().read_bytes(text.encode(), "page")
    assert profile_problems(configured.config, configured.registry) == ()


def test_the_page_names_each_argument() -> None:
    for plugin in PACKING:
        for field in msgspec.structs.fields(ARGS_KINDS[plugin.name]):
            assert f"| {plugin.name} | `{field.encode_name}` |" in PAGE


def test_the_page_has_a_profile_for_each_plugin() -> None:
    for plugin in PACKING:
        assert f"| [{plugin.name}](#" in PAGE
        assert any(f"name: {plugin.name}" in text for text in BLOCKS)


NAMES = ("a", "b", "c")


def named_node(name: str) -> dict[str, Any]:
    """With the label by which pods of a Deployment are spread."""
    return {"apiVersion": "v1", "kind": "Node"} | node_tree(name, cpu="4", labels={"kubernetes.io/hostname": name})


@pytest.mark.parametrize("name", ["best-fit", "fragmentation-aware", "dominant-most-allocated"])
def test_each_ready_profile_fills_a_node_with_the_pods_of_a_deployment(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "policies", name]) == 0
    config, cluster, new = (tmp_path / each for each in ("config.yaml", "cluster.yaml", "new.yaml"))
    config.write_text(capsys.readouterr().out, encoding="utf-8")
    cluster.write_text(yaml.safe_dump_all(named_node(each) for each in NAMES), encoding="utf-8")
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": name, "containers": [container]}}
    spec = {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    new.write_text(yaml.safe_dump(deployment), encoding="utf-8")
    assert main(["simulate", "--from", str(cluster), "--config", str(config), "-f", str(new), "-o", "json"]) == 0
    placed = json.loads(capsys.readouterr().out)["placed"]
    assert [each["node"] for each in placed] == ["a", "a", "a", "a", "b"]
