"""How full each node is, and whom it has rejected: counted by pods, by plugin, and in which order it is shown."""

from typing import Any

from kscheduler.api.codec import convert
from kscheduler.api.releases import VERSION
from kscheduler.assembly import profiles_over
from kscheduler.config.loader import default_configuration
from kscheduler.explain.cluster_answers import NodeUses
from kscheduler.explain.node_use import node_uses
from kscheduler.explain.node_use_text import uses_text
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.decide import cluster_cache
from kscheduler.scenario.scenario import ClusterObjects
from tests.builders import node_tree, pod_tree
from tests.explain.as_json import as_json

Tree = dict[str, Any]
TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}


def found(nodes: list[Tree], pods: list[Tree]) -> NodeUses:
    objects = convert({"nodes": nodes, "pods": pods}, ClusterObjects)
    cache = cluster_cache(objects, None)
    profiles = profiles_over(cache, default_configuration("kscheduler"), registry())
    return node_uses(cache, profiles, objects.pods, VERSION)


def uses(nodes: list[Tree], pods: list[Tree]) -> Tree:
    return as_json(found(nodes, pods))


def test_each_waiting_pod_counts_on_each_node_that_turned_it_away() -> None:
    nodes = [node_tree("free"), node_tree("small", cpu="1"), node_tree("tainted", spec={"taints": [TAINT]})]
    waiting = [pod_tree(f"web-{number}", requests={"cpu": "2"}) for number in range(3)]
    tree = uses(nodes, [*waiting, pod_tree("huge", requests={"cpu": "9"}), pod_tree("runs", node="small")])
    by_name = {node["name"]: (node["turnedAway"], node["letsIn"]) for node in tree["nodes"]}
    assert by_name == {
        "free": ({"NodeResourcesFit": 1}, 3),
        "small": ({"NodeResourcesFit": 4}, 0),
        "tainted": ({"TaintToleration": 4}, 0),
    }
    assert (tree["waitingPods"], tree["podsNotJudged"]) == (4, 0)


def test_pods_that_no_cycle_would_see_are_counted_apart() -> None:
    gated = pod_tree("gated", schedulingGates=[{"name": "a/b"}])
    tree = uses([node_tree()], [gated, pod_tree("other", schedulerName="somebody")])
    assert (tree["waitingPods"], tree["podsNotJudged"]) == (0, 2)


def test_a_pod_that_is_rejected_for_all_nodes_at_once_counts_on_each() -> None:
    claim = [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]
    tree = uses([node_tree("a"), node_tree("b")], [pod_tree(volumes=claim)])
    assert [node["turnedAway"] for node in tree["nodes"]] == [{"VolumeRestrictions": 1}] * 2


def test_what_is_too_full_is_named() -> None:
    pods = [pod_tree(f"on-{number}", node="node", requests={"cpu": "3"}) for number in range(2)]
    (node,) = uses([node_tree()], pods)["nodes"]
    assert node["overfilled"] == [{"resource": "cpu", "requested": 6000, "allocatable": 4000}]
    assert (node["use"], node["requested"]["pods"]) == (1.5, 2)


def test_the_table_has_the_fullest_first_or_as_queried() -> None:
    full = [pod_tree(node="b", requests={"cpu": "3"}), pod_tree("huge", requests={"cpu": "5"})]
    cordoned = node_tree("c", spec={"unschedulable": True})
    tree = found([node_tree("a", cpu="8"), node_tree("b"), cordoned], full)
    assert [line.split()[0] for line in uses_text(tree).splitlines()[2:]] == ["b", "a", "c"]
    assert [line.split()[0] for line in uses_text(tree, "name").splitlines()[2:]] == ["a", "b", "c"]
    assert [line.split()[0] for line in uses_text(tree, "rejected").splitlines()[2:]] == ["b", "c", "a"]
    head, _, row = uses_text(tree, names=["c"]).splitlines()
    assert head == "1 node; 1 waiting pod was judged"
    assert "cordoned" in row
    assert uses_text(tree, names=["nope"]).splitlines()[-1] == "there is no node nope"


def test_the_table_has_a_column_for_each_other_resource_in_use_and_cpu_in_one_unit() -> None:
    gpu = {"nvidia.com/gpu": "8"}
    plain, empty = node_tree("plain", cpu="3900m"), node_tree("empty", cpu="3900m")
    large = node_tree("large", cpu="8")
    large["status"]["allocatable"].update(gpu)
    pods = [
        pod_tree("p", node="plain", requests={"cpu": "1"}),
        pod_tree("q", node="large", requests={"cpu": "2"} | gpu),
    ]
    _, head, *rows = uses_text(found([plain, empty, large], pods)).splitlines()
    assert head.split() == ["node", "cpu", "memory", "pods", "nvidia.com/gpu", "state", "rejected"]
    assert [row.split()[0] for row in rows] == ["large", "plain", "empty"]
    assert "2/8" in rows[0]
    assert "8/8 100 %" in rows[0]
    assert (" 1/3.9  25 %" in rows[1], " 0/3.9   0 %" in rows[2]) == (True, True)


def test_a_cell_has_one_unit_and_the_strokes_of_a_column_are_below_each_other() -> None:
    pods = [
        pod_tree("p", node="a", requests={"cpu": "1500m", "memory": "512Mi"}),
        pod_tree("q", node="b", requests={"cpu": "6m", "memory": "1Mi"}),
        pod_tree("r", node="c", requests={"cpu": "12", "memory": "1536Mi"}),
    ]
    nodes = [
        node_tree("a", cpu="4", memory="8Gi"),
        node_tree("b", cpu="31800m", memory="31Gi"),
        node_tree("c", cpu="16", memory="900Mi"),
    ]
    head, *rows = uses_text(found(nodes, pods), "name").splitlines()[1:]
    assert [row.partition("110")[0].rstrip() for row in rows] == [
        "a       1.5/4     37 %    0.5Gi/8Gi       6 %  1/",
        "b     0.006/31.8   0 %  <0.01Gi/31Gi      0 %  1/",
        "c        12/16    75 %    1.5Gi/~0.88Gi 170 %  1/",
    ]
    assert head.split()[:3] == ["node", "cpu", "memory"]


# --- devices ----------------------------------------------------------------------------------------------------------

DRIVER = "gpu.example.com"


def published(node: str, *devices: Tree, slices: int = 1) -> Tree:
    pool = {"name": node, "generation": 1, "resourceSliceCount": slices}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": list(devices)}
    return {"metadata": {"name": f"{node}-slice"}, "spec": spec}


def device_class(name: str, expression: str) -> Tree:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def held(name: str, *devices: tuple[str, str]) -> Tree:
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": device} for pool, device in devices]
    status = {"allocation": {"devices": {"results": results}}}
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {}, "status": status}


LARGE = {"attributes": {"size": {"string": "large"}}}
TAINTED = {"taints": [{"key": "broken", "effect": "NoSchedule"}]}
WITH_DEVICES: Tree = {
    "nodes": [node_tree("a"), node_tree("b"), node_tree("plain")],
    "deviceclasses": [
        device_class("gpu", f'device.driver == "{DRIVER}"'),
        device_class("large", f'device.attributes["{DRIVER}"].size == "large"'),
    ],
    "resourceslices": [
        published("a", {"name": "0", **LARGE}, {"name": "1", **LARGE, **TAINTED}, {"name": "2", **LARGE}),
        published("b", {"name": "0"}, slices=2),
    ],
    "resourceclaims": [held("c", ("a", "0")), held("elsewhere", ("gone", "0"))],
}


def found_of(**kinds: Any) -> NodeUses:
    objects = convert(kinds, ClusterObjects)
    cache = cluster_cache(objects, None)
    return node_uses(cache, profiles_over(cache, default_configuration("kscheduler"), registry()), (), VERSION)


def uses_of(**kinds: Any) -> Tree:
    return as_json(found_of(**kinds))


def test_devices_are_counted_by_class_with_what_is_taken_and_tainted() -> None:
    a, b, plain = uses_of(**WITH_DEVICES)["nodes"]
    figures = {"driver": DRIVER, "devices": 3, "taken": 1, "tainted": 1, "free": 1}
    assert a["devices"] == [{"class": "gpu", **figures}, {"class": "large", **figures}]
    assert (b["devices"], b["incompletePools"]) == ([], [f"{DRIVER}/b"])
    assert [plain[key] for key in ("devices", "incompletePools", "invalidPools", "unclearClasses")] == [[]] * 4


def test_a_class_that_fails_for_a_device_is_named_and_its_devices_are_in_no_class() -> None:
    kinds = {**WITH_DEVICES, "resourceslices": [published("a", {"name": "0"})]}
    kinds["deviceclasses"] = WITH_DEVICES["deviceclasses"][1:]
    (a, *_) = uses_of(**kinds)["nodes"]
    figures = {"devices": 1, "taken": 1, "tainted": 0, "free": 0}
    assert a["devices"] == [{"class": "", "driver": DRIVER, **figures}]
    assert a["unclearClasses"] == ["large"]


def test_the_table_has_a_column_per_device_class_where_there_are_any() -> None:
    head, *rows = uses_text(found_of(**WITH_DEVICES), "name").splitlines()[1:]
    assert head.split()[:6] == ["node", "cpu", "memory", "pods", "gpu", "large"]
    assert rows[0].endswith("  1/3    1/3  devices tainted (gpu 1, large 1)   -")
    assert f"pool {DRIVER}/b incomplete" in rows[1]
    assert rows[2].split()[-4:] == ["-"] * 4
    assert "gpu" not in uses_text(found([node_tree()], []))
