"""What exactly is wrong with a node: the taint, the label, the amount, the pod, the constraint."""

from typing import Any

import pytest

from kscheduler.explain.pod_text import decision_text
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import parse_scenario
from tests.explain.as_json import decision_tree
from tests.explain.scenarios import Tree, node_tree, pod_tree, scenario_line

ZONE = "topology.kubernetes.io/zone"


def labelled(name: str, **fields: Any) -> Tree:
    labels = fields.pop("labels", {})
    node = node_tree(name, **fields)
    node["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
    return node


def in_zone(name: str, zone: str) -> Tree:
    return labelled(name, labels={ZONE: zone})


def labelled_pod(name: str, labels: dict[str, str], **spec: Any) -> Tree:
    pod = pod_tree(name, **spec)
    pod["metadata"]["labels"] = labels
    return pod


def details(plugin: str, pod: Tree, nodes: list[Tree], pods: list[Tree] = []) -> list[Tree]:  # noqa: B006  read only
    decision = decide(parse_scenario(scenario_line(pod, nodes=nodes, pods=pods), "test"))
    assert decision_text(decision)
    (found,) = [one for one in decision_tree(decision)["rejections"] if one["plugin"] == plugin]
    reported: list[Tree] = found["details"]
    return reported


def test_untolerated_taints_by_group_of_nodes() -> None:
    gpu = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    old = {"key": "old", "effect": "NoExecute"}
    nodes = [node_tree("a", taints=[gpu]), node_tree("b", taints=[gpu]), node_tree("c", taints=[gpu, old])]
    one, two = details("TaintToleration", pod_tree(), nodes)
    assert (one["text"], one["nodes"]) == ("gpu=yes:NoSchedule is not tolerated", ["a", "b"])
    assert (two["text"], two["nodes"]) == ("gpu=yes:NoSchedule, old:NoExecute are not tolerated", ["c"])
    assert two["facts"]["taints"][1] == {"key": "old", "value": "", "effect": "NoExecute"}


def test_a_taint_that_is_tolerated_is_not_named() -> None:
    gpu = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    old = {"key": "old", "effect": "NoExecute"}
    pod = pod_tree(tolerations=[{"key": "gpu", "operator": "Exists"}])
    (one,) = details("TaintToleration", pod, [node_tree("a", taints=[gpu, old])])
    assert one["text"] == "old:NoExecute is not tolerated"


def test_how_much_is_short_on_the_nodes_that_come_closest() -> None:
    nodes = [node_tree("small", cpu="2"), node_tree("tight", cpu="4"), node_tree("tighter", cpu="4")]
    pods = [pod_tree("one", cpu="1500m", nodeName="tight"), pod_tree("two", cpu="2", nodeName="tighter")]
    (cpu,) = details("NodeResourcesFit", pod_tree(cpu="3"), nodes, pods)
    assert cpu["text"] == (
        "cpu: asks for 3; tight has 2500m free of 4 (500m short); tighter has 2 free of 4 (1 short); "
        "small has 2 free of 2 (1 short)"
    )
    assert cpu["facts"] | {"closest": None} == {
        "resource": "cpu",
        "requested": 3000,
        "unit": "thousandths",
        "closest": None,
    }
    assert [one["couldIfEmpty"] for one in cpu["facts"]["closest"]] == [True, True, False]


def test_a_resource_that_no_node_has() -> None:
    pod = pod_tree()
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "2"
    (gpu,) = details("NodeResourcesFit", pod, [node_tree("a")])
    assert gpu["text"] == "example.com/gpu: asks for 2, and none of these nodes has any"


def test_too_many_pods() -> None:
    node = node_tree("a")
    node["status"]["allocatable"]["pods"] = "1"
    (one,) = details("NodeResourcesFit", pod_tree(), [node], [pod_tree("other", nodeName="a")])
    assert (one["kind"], one["text"]) == ("tooManyPods", "pods: a has 1 of 1")


def test_which_label_fails_and_what_nodes_have_there() -> None:
    nodes = [labelled("a", labels={"disk": "hdd"}), labelled("b", labels={"disk": "hdd"}), labelled("c")]
    (one,) = details("NodeAffinity", pod_tree(nodeSelector={"disk": "ssd"}), nodes)
    assert one["text"] == "nodeSelector: disk=ssd (2 nodes have hdd, 1 no such label)"
    assert one["facts"]["terms"][0]["failing"][0]["found"] == [
        {"value": "hdd", "nodes": 2},
        {"value": None, "nodes": 1},
    ]


@pytest.mark.parametrize(("values", "end"), [
    (4, "1 node has v-0, 1 v-1, 1 v-2, 1 v-3)"),
    (5, "1 node has v-0, 1 v-1, 1 v-2, 2 other values)"),
])  # fmt: skip
def test_a_last_value_is_reported_where_counting_it_would_be_as_long(values: int, end: str) -> None:
    nodes = [labelled(f"n-{number}", labels={"disk": f"v-{number}"}) for number in range(values)]
    (one,) = details("NodeAffinity", pod_tree(nodeSelector={"disk": "ssd"}), nodes)
    assert one["text"].endswith(end)


def test_each_term_of_a_required_affinity_says_what_fails() -> None:
    terms = [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]},
        {
            "matchExpressions": [
                {"key": "cores", "operator": "Gt", "values": ["8"]},
                {"key": "disk", "operator": "Exists"},
            ]
        },
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    (one,) = details("NodeAffinity", pod_tree(affinity=affinity), [labelled("a", labels={"disk": "hdd", "cores": "4"})])
    assert one["text"] == (
        "required node affinity: none of 2 terms holds: disk in (nvme, ssd) (1 node has hdd); cores>8 (1 node has 4)"
    )


def test_which_port_is_taken_and_by_subject() -> None:
    def serving(name: str, **spec: Any) -> Tree:
        pod = pod_tree(name, **spec)
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
        return pod

    (one,) = details("NodePorts", serving("web"), [node_tree("a")], [serving("other", nodeName="a")])
    assert one["text"] == "host port 8080/TCP is taken by default/other"
    assert one["facts"]["heldBy"][0]["pod"] == "default/other"


def test_the_skew_that_one_more_pod_would_make() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    web = {"app": "web"}
    nodes = [in_zone("a", "east"), in_zone("b", "west"), labelled("c")]
    pods = [labelled_pod(f"web-{number}", web, nodeName="a") for number in range(2)]
    pod = labelled_pod("web", web, topologySpreadConstraints=[constraint])
    missing, uneven = details("PodTopologySpread", pod, nodes, pods)
    assert (missing["kind"], missing["nodes"]) == ("missingTopologyLabel", ["c"])
    assert uneven["text"] == (
        f"{ZONE} east has 2 pods with app=web, the emptiest domain has 0: skew 3 where maxSkew is 1"
    )
    facts = uneven["facts"]
    assert (facts["skew"], facts["maxSkew"], facts["matchingPods"], facts["minimum"]) == (3, 1, 2, 0)


def pod_affinity(kind: str, **labels: str) -> Tree:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": labels}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_where_the_pods_are_that_affinity_wants() -> None:
    nodes = [in_zone("a", "east"), in_zone("b", "west")]
    db = labelled_pod("db-0", {"app": "db"}, nodeName="b")
    (one,) = details("InterPodAffinity", pod_tree(affinity=pod_affinity("podAffinity", app="db")), nodes, [db])
    assert one["text"] == f"affinity wants a pod with app=db in the same {ZONE}; 1 pod matches, in {ZONE} west"
    assert one["nodes"] == ["a"]


def test_whose_pod_anti_affinity_avoids() -> None:
    nodes = [in_zone("a", "east"), in_zone("a2", "east"), in_zone("b", "west")]
    db = labelled_pod("db-0", {"app": "db"}, nodeName="a")
    (one,) = details("InterPodAffinity", pod_tree(affinity=pod_affinity("podAntiAffinity", app="db")), nodes, [db])
    assert one["text"] == f"anti-affinity to app=db: default/db-0 in {ZONE} east"
    assert one["nodes"] == ["a", "a2"]
    assert one["facts"]["domains"] == [{"domain": "east", "pods": ["default/db-0"], "count": 1}]


def test_whose_anti_affinity_keeps_the_pod_away() -> None:
    lonely = pod_tree("lonely", nodeName="a", affinity=pod_affinity("podAntiAffinity", app="web"))
    (one,) = details("InterPodAffinity", labelled_pod("web", {"app": "web"}), [in_zone("a", "east")], [lonely])
    assert one["text"] == f"default/lonely in {ZONE} east has anti-affinity to app=web, which means this pod"


@pytest.mark.parametrize("width", [60, 100, 120])
def test_text_stays_within_the_width(width: int) -> None:
    from kscheduler.explain.pod_text import Style

    nodes = [in_zone(f"a-node-with-a-long-name-{number}", "east") for number in range(9)]
    pods = [labelled_pod(f"db-{number}", {"app": "db"}, nodeName="a-node-with-a-long-name-0") for number in range(4)]
    pod = pod_tree(affinity=pod_affinity("podAntiAffinity", app="db"))
    decision = decide(parse_scenario(scenario_line(pod, nodes=nodes, pods=pods), "test"))
    text = decision_text(decision, Style(width=width))
    assert max(map(len, text.splitlines())) <= width
    assert "anti-affinity to app=db" in text


def test_a_plugin_whose_details_fail_costs_nothing_but_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from kscheduler.plugins.node_resources_fit import NodeResourcesFit

    def broken(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(NodeResourcesFit, "details", broken)
    (one,) = details("NodeResourcesFit", pod_tree(cpu="9"), [node_tree("a")])
    assert one["kind"] == "detailsFailed"
    assert one["text"] == "plugin NodeResourcesFit could not say more: ZeroDivisionError: by zero"


def test_a_tie_names_the_equals_and_the_rule() -> None:
    nodes = [node_tree(name) for name in "abcd"]
    decision = decide(parse_scenario(scenario_line(nodes=nodes), "test"))
    tie = decision_tree(decision)["tieBreak"]
    assert (tie["nodes"], tie["rule"]) == (["a", "b", "c", "d"], "highest mix of pod UID and node name")
    assert tie["winner"] == decision_tree(decision)["node"]
    words = " ".join(decision_text(decision).split())
    assert f"4 nodes have the most points (452): a, b, c, and 1 more; {tie['winner']} has the highest mix" in words


def test_names_that_contradict_each_other_are_reported_of_the_pod_and_of_no_node() -> None:
    def named(name: str) -> Tree:
        return {"key": "metadata.name", "operator": "In", "values": [name]}

    terms = {"nodeSelectorTerms": [{"matchFields": [named("a"), named("b")]}]}
    pod = pod_tree(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    decision = decide(parse_scenario(scenario_line(pod, nodes=[node_tree("a"), node_tree("b")]), "test"))
    text = "the required terms name no node that all of a term's lists share"
    (detail,) = decision_tree(decision)["preFilterDetails"]
    assert (detail["kind"], detail["text"], detail["nodes"]) == ("conflictingNodeNames", text, [])
    assert text in " ".join(decision_text(decision).split())
