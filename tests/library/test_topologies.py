"""A gang that asks for a level of the topology is placed where `explain` says, wherever the levels come from."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from kscheduler import Cluster
from kscheduler.cli import main
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.library.manifests import Tree, node_tree, pod_tree
from tests.service.running import put

BLOCK, RACK = "example.com/block", "example.com/rack"
# Node a alone has room for both members, and is the only one of its rack.
RACKS: Final = {"a": "r0", "b": "r1", "c": "r1"}
GANG: Final[Tree] = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "gang", "namespace": "default"},
    "spec": {"minMember": 2, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
}


def kueues(version: str) -> Tree:
    levels = {"levels": [{"nodeLabel": BLOCK}, {"nodeLabel": RACK}]}
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "Topology", "metadata": {"name": "t"}, "spec": levels}


def hyper_node(name: str, *members: str) -> Tree:
    selected = [{"type": "Node", "selector": {"exactMatch": {"name": each}}} for each in members]
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
    return {**head, "spec": {"tier": 1, "members": selected}}


# What names the levels: in the configuration, and as objects.
SOURCES: Final[dict[str, tuple[Tree, list[Tree]]]] = {
    "topologyLevels": ({"topologyLevels": [[BLOCK, RACK]]}, []),
    "kueue": ({"topologyAPIs": ["kueue"]}, [kueues("v1beta2")]),
    "kueue-v1beta1": ({"topologyAPIs": ["kueue-v1beta1"]}, [kueues("v1beta1")]),
    "volcano": ({"topologyAPIs": ["volcano"]}, [hyper_node("r0", "a"), hyper_node("r1", "b", "c")]),
    "unread": ({}, [kueues("v1beta2"), hyper_node("r1", "b", "c")]),
}
WHERE: Final = {source: ["b", "c"] for source in SOURCES} | {"unread": []}
sources = pytest.mark.parametrize("source", SOURCES)


def configuration(source: str) -> Tree:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profiles = [{"schedulerName": "kscheduler"}]
    return {**head, "podGroupAPIs": ["volcano"], "profiles": profiles, **SOURCES[source][0]}


def nodes() -> list[Tree]:
    trees = [node_tree(name, cpu="1") for name in RACKS]
    for tree in trees:
        tree["metadata"]["labels"] |= {BLOCK: "b0", RACK: RACKS[tree["metadata"]["name"]]}
    return trees


def members(on: str = "") -> list[Tree]:
    pods = [pod_tree(f"m-{number}", on=on[number : number + 1]) for number in range(2)]
    for pod in pods:
        pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "gang"}
    return pods


def cluster(source: str, *pods: Tree) -> Cluster:
    others = [GANG, *SOURCES[source][1]]
    return Cluster.of(nodes(), pods, others, configuration=configuration(source))


def nodes_in(explained: Any) -> list[str]:
    outcome = explained["podGroupOutcome"] or {"pods": {}}
    return sorted(member["node"] for member in outcome["pods"].values() if "node" in member)


@sources
def test_schedule_places_a_gang_where_explain_says(source: str) -> None:
    waiting = cluster(source, *members())
    assert nodes_in(waiting.explain("m-0").to_dict()) == WHERE[source]
    assert sorted(str(pod.node) for pod in waiting.schedule().placed) == WHERE[source]


@sources
def test_levels_that_come_with_the_gang_count(source: str) -> None:
    empty = Cluster.of(nodes(), configuration=configuration(source))
    placed = empty.schedule([*SOURCES[source][1], GANG, *members()]).placed
    assert sorted(str(pod.node) for pod in placed) == WHERE[source]


@sources
def test_the_commands_agree(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump, config = tmp_path / "dump.json", tmp_path / "config.json"
    items = [*nodes(), GANG, *SOURCES[source][1], *members()]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    config.write_text(json.dumps(configuration(source)), encoding="utf-8")

    def printed(*command: str) -> Any:
        main([*command, "--from", str(dump), "--config", str(config), "-o", "json"])
        return json.loads(capsys.readouterr().out)

    assert sorted(pod["node"] for pod in printed("simulate")["placed"]) == WHERE[source]
    assert nodes_in(printed("explain", "default/m-0")) == WHERE[source]


@sources
def test_compact_keeps_a_gang_within_its_level(source: str) -> None:
    (profile,) = cluster(source, *members(on="bc")).compact(trials=2).profiles
    assert profile.fewest == (2 if WHERE[source] else None)


def live(server: EmbeddedAPIServer, folder: Path) -> Cluster:
    """The cluster of a server that knows neither groups nor topologies of Volcano, with a gang's members."""
    for kind, trees in (("nodes", nodes()), ("pods", members())):
        for tree in trees:
            put(server, kind, tree)
    here = {"name": "here", "cluster": {"server": server.url}}
    context = {"name": "here", "context": {"cluster": "here", "user": "me"}}
    users = [{"name": "me", "user": {}}]
    head = {"apiVersion": "v1", "kind": "Config", "current-context": "here"}
    path = folder / "kubeconfig"
    path.write_text(json.dumps({**head, "clusters": [here], "users": users, "contexts": [context]}), encoding="utf-8")
    return Cluster.from_kubeconfig(path, configuration=configuration("volcano"))


async def test_kinds_that_the_server_does_not_have_are_waited_for_alike(tmp_path: Path) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        without_group = await asyncio.to_thread(live, server, tmp_path)  # the server is on this thread's loop
    kind = "podgroups.scheduling.volcano.sh"
    lacks = f"waits for PodGroup default/gang ({kind}), a kind that the API server does not serve"
    without_levels = without_group.add(GANG)
    awaited = "waits for hypernodes.topology.volcano.sh of topologyAPIs: the API server does not serve v1alpha1"
    for gang, why in ((without_group, lacks), (without_levels, awaited)):
        assert why in " ".join(str(gang.explain("m-0")).split())
        assert [each.pod for each in gang.schedule().pending] == ["default/m-0", "default/m-1"]
    assert [awaited in each.reason for each in without_levels.schedule().pending] == [True, True]
    whole = without_levels.add(*SOURCES["volcano"][1])
    assert nodes_in(whole.explain("m-0").to_dict()) == ["b", "c"]
    assert sorted(str(pod.node) for pod in whole.schedule().placed) == ["b", "c"]
    assert sorted(str(pod.node) for pod in without_levels.schedule(SOURCES["volcano"][1]).placed) == ["b", "c"]
