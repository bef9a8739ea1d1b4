"""What a caller gives: objects in every form that people have them in, configurations, and the mistakes in them."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from kubernetes_asyncio.client import (
    V1Container,
    V1Node,
    V1NodeStatus,
    V1ObjectMeta,
    V1Pod,
    V1PodList,
    V1PodSpec,
    V1ResourceRequirements,
)

from kscheduler import Cluster, ClusterError, make_node, make_pod
from kscheduler.api.core import Node, Pod
from tests.library.manifests import DEPLOYMENT, Tree, node_tree, pod_tree

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ONLY_B = (
    "from kscheduler import plugin\n\n"
    '@plugin("OnlyB")\ndef filter(pod, node):\n    return None if node.name == "b" else "not b"\n'
)
# With it the node that has most requested gets most points.
PACKING: Tree = {
    **HEADER,
    "profiles": [
        {
            "schedulerName": "kscheduler",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "apiVersion": "kubescheduler.config.k8s.io/v1",
                        "kind": "NodeResourcesFitArgs",
                        "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
                    },
                }
            ],
        }
    ],
}


def without_kind(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in ("apiVersion", "kind")}


def client_pod(name: str) -> V1Pod:
    container = V1Container(name="main", image="app", resources=V1ResourceRequirements(requests={"cpu": "1"}))
    metadata = V1ObjectMeta(name=name, namespace="default", labels={"snake_case": "kept"})
    return V1Pod(metadata=metadata, spec=V1PodSpec(containers=[container]))


NODES: dict[str, Any] = {
    "dict": node_tree("a"),
    "without-a-kind": without_kind(node_tree("a")),
    "list": [node_tree("a")],
    "List": {"apiVersion": "v1", "kind": "List", "items": [node_tree("a")]},
    "items-alone": {"items": [without_kind(node_tree("a"))]},
    "json": json.dumps(node_tree("a")),
    "yaml": f"---\n{yaml.safe_dump(node_tree('a'))}",
    "struct": make_node("a"),
    "generator": (make_node(name) for name in "a"),
    "client": V1Node(metadata=V1ObjectMeta(name="a"), status=V1NodeStatus(allocatable={"cpu": "4", "pods": "9"})),
}
PODS: dict[str, Any] = {
    "dict": pod_tree("web"),
    "without-a-kind": without_kind(pod_tree("web")),
    "tuple": (pod_tree("web"),),
    "NodeList": {"apiVersion": "v1", "kind": "PodList", "items": [without_kind(pod_tree("web"))]},
    "yaml": yaml.safe_dump(pod_tree("web")),
    "struct": [make_pod("web", requests={"cpu": "1"})],
    "client": client_pod("web"),
    "client-list": V1PodList(items=[client_pod("web")]),
}


@pytest.mark.parametrize("given", NODES.values(), ids=NODES)
def test_nodes_are_taken_in_each_form(given: Any) -> None:
    assert [(each.node, each.allocatable["cpu"]) for each in Cluster.of(given).nodes] == [("a", 4.0)]


@pytest.mark.parametrize("given", PODS.values(), ids=PODS)
def test_pods_are_taken_in_each_form(given: Any) -> None:
    waiting = Cluster.of(make_node("a"), given)
    assert [(each.pod, each.requests["cpu"]) for each in waiting.pods] == [("default/web", 1.0)]
    assert [each.node for each in waiting.schedule().placed] == ["a"]
    assert [each.node for each in Cluster.of(make_node("a")).schedule(given).placed] == ["a"]


def test_labels_of_a_clients_object_keep_their_names() -> None:
    assert Cluster.of(pods=client_pod("web")).pods[0].labels == {"snake_case": "kept"}


def test_what_is_given_stays_as_it_is() -> None:
    given = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "app"}]}}
    before = json.dumps(given)
    Cluster.of(make_node("a"), given).schedule()
    Cluster.of(make_node("a")).schedule(given)
    Cluster.of(make_node("a")).explain(given)
    assert json.dumps(given) == before


def test_numbers_of_numpy_are_numbers() -> None:
    """Amounts that come from a data frame."""
    numbers = np.array([2, 500])
    node = make_node("a", cpu=numbers[0])
    tree = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "priority": numbers[1]}}
    cluster = Cluster.of([node], [tree, make_pod("q", requests={"cpu": numbers[0]})])
    assert [row.priority for row in cluster.pods] == [500, 0]
    assert [row.reason for row in cluster.schedule().pending] == []


def test_files_of_a_dump_and_of_new_pods(tmp_path: Path) -> None:
    dump, new = tmp_path / "dump.json", tmp_path / "new.yaml"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node_tree("a"), pod_tree("web")]}))
    new.write_text(yaml.safe_dump(DEPLOYMENT))
    cluster = Cluster.from_files(dump)
    assert [each.origin for each in cluster.schedule(new).placed] == ["pending", "new", "new", "new"]
    assert [each.origin for each in cluster.schedule(str(new)).placed] == ["pending", "new", "new", "new"]
    assert "Deployment default/web" in str(cluster.explain(str(new)))
    assert len(Cluster.of(dump, new).pods) == 1


def test_explain_takes_a_new_pod_in_each_form_of_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    for path in (folder / "pod.yaml", folder / "pod.txt"):
        path.write_text(yaml.safe_dump(pod_tree("web")), encoding="utf-8")
    (folder / "pod.txt").rename(tmp_path / "pod")
    monkeypatch.chdir(tmp_path)
    texts = [json.dumps(pod_tree("web")), yaml.safe_dump(pod_tree("web")), "new", "new/*", "new/pod.yaml", "pod"]
    assert [ONE.explain(text).to_dict()["node"] for text in texts] == ["node-one"] * len(texts)


def test_a_pod_of_the_cluster_goes_before_a_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "web").write_text(yaml.safe_dump(pod_tree("other")), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert ONE.add(pod_tree("web")).explain("web").to_dict()["id"] == "default/web"


def test_an_unreadable_object_of_a_dump_is_left_out_and_noted(tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node_tree("a"), node_tree("b", "four")]}))
    cluster = Cluster.from_files(dump)
    assert [each.node for each in cluster.nodes] == ["a"]
    assert any("node b" in note and "'four'" in note for note in cluster.notes)
    assert (
        str(cluster)
        == "cluster of 1 node: 0 pods, 0 of them pending; what could not be read or was presumed is in `notes`"
    )


@pytest.mark.parametrize("form", [lambda tree, _: tree, lambda tree, _: json.dumps(tree), lambda _, path: path])
def test_a_configuration_decides(form: Callable[[Tree, Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "configuration.yaml"
    path.write_text(yaml.safe_dump(PACKING))
    nodes, pods = [node_tree(name) for name in "abc"], [make_pod("there", node="b", requests={"cpu": "2"})]
    new = [make_pod(f"new-{number}", requests={"cpu": "500m"}) for number in range(3)]
    packed = Cluster.of(nodes, pods, configuration=form(PACKING, path))
    assert {each.node for each in packed.schedule(new).placed} == {"b"}
    spread = Cluster.of(nodes, pods)
    assert {each.node for each in spread.schedule(new).placed} == {"a", "c"}
    assert {each.node for each in spread.simulate(new, configuration=form(PACKING, path)).placed} == {"b"}


def test_a_plugin_file_and_a_policy_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "policy.py"
    path.write_text(ONLY_B)
    nodes = [node_tree(name) for name in "ab"]
    assert Cluster.of(nodes, plugins=[path]).schedule(make_pod("web")).placed[0].node == "b"
    assert Cluster.of(nodes, plugins=[str(path)], configuration=PACKING).schedule(make_pod("web")).placed[0].node == "b"
    assert Cluster.of(nodes, plugins=str(path)).schedule(make_pod("web")).placed[0].node == "b"
    round_robin = Cluster.of(nodes, plugins=["RoundRobin"]).schedule([make_pod(f"p{number}") for number in range(4)])
    assert sorted(str(each.node) for each in round_robin.placed) == ["a", "a", "b", "b"]


def test_the_rules_are_those_of_the_version_that_is_named() -> None:
    assert "kube-scheduler 1.37" in Cluster.of(make_node("a"), version="1.37").schedule().cluster.rules


ONE = Cluster.of(make_node("node-one"))


class FrameLike:
    """What tells a data frame of pandas or polars from a list: neither need be installed."""

    columns = ("name",)

    def to_dict(self) -> dict[str, list[str]]:
        return {"name": ["web"]}

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __eq__(self, other: object) -> Any:
        return self

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("the truth value of a frame is ambiguous")


def test_a_configuration_that_is_a_file_may_name_plugins_in_its_folder(tmp_path: Path) -> None:
    """The example of README.md: `pluginSources: [{file: cheap.py}]`."""
    (tmp_path / "cheap.py").write_text(ONLY_B, encoding="utf-8")
    profile = {"schedulerName": "kscheduler", "plugins": {"filter": {"enabled": [{"name": "OnlyB"}]}}}
    plain = {**HEADER, "profiles": [profile]}
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps({**plain, "pluginSources": [{"file": "cheap.py"}]}), encoding="utf-8")
    nodes, pod = [make_node("a"), make_node("b")], make_pod("web")
    for given in (path, str(path)):
        assert Cluster.of(nodes, configuration=given).schedule(pod).placed[0].node == "b"
        assert Cluster.of(nodes).simulate(pod, configuration=given).placed[0].node == "b"
    advice = re.escape('in place of `pluginSources`, plugins=["cheap.py"] takes any')
    with pytest.raises(ClusterError, match=rf"^configuration:.*pluginSources\[0\].file: cheap.py may not .*; {advice}"):
        Cluster.of(nodes, configuration=path.read_text(encoding="utf-8"))
    (tmp_path / "below").mkdir()
    elsewhere = tmp_path / "below" / "config.yaml"
    elsewhere.write_text(json.dumps({**plain, "pluginSources": [{"file": "../cheap.py"}]}), encoding="utf-8")
    with pytest.raises(ClusterError, match=r"may not be loaded .*; a configuration that is a file may name those in"):
        Cluster.of(nodes, configuration=elsewhere)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "no-manifest": (lambda: Cluster.of(5), "nodes: a manifest "),  # type: ignore[arg-type]
    "of-a-list": (lambda: Cluster.of(pods=[make_pod("web"), 5]), r"pods\[1\]: a manifest "),
    "wrong-type": (
        lambda: Cluster.of(pods=[{"metadata": {"name": "web"}, "spec": {"containers": 3}}]),
        r"pods\[0\] \(Pod web\): .*spec.containers",
    ),
    "amount-of-a-node": (lambda: Cluster.of(node_tree("a", cpu="four")), "node a: status.allocatable.cpu: .*'four'"),
    "amount-of-a-pod": (lambda: ONE.schedule([pod_tree("web", cpu="x")]), r"pods\[0\] \(Pod web\): spec.containers"),
    "amount-of-a-waiting-pod": (lambda: ONE.add(pod_tree("web", cpu="x")), "pod default/web: spec.containers"),
    "snake-case": (
        lambda: ONE.schedule(client_pod("web").to_dict()),
        "pods: (api_version|owner_references): .*to_dict",
    ),
    "yaml": (lambda: ONE.schedule("kind: [\n"), "pods:[12]: not YAML"),
    "no-such-file": (lambda: Cluster.from_files("/not/there"), "/not/there: cannot be read"),
    "no-such-pod-file": (lambda: ONE.schedule("not-there.yaml"), "not-there.yaml: cannot be read"),
    "kubeconfig": (lambda: Cluster.from_kubeconfig("/not/there"), "kubeconfig /not/there: No such file"),
    "configuration-file": (lambda: Cluster.of(configuration="/not/there"), "/not/there: cannot be read"),
    "configuration-field": (
        lambda: Cluster.of(configuration={**HEADER, "profile": []}),
        "configuration.*: profile: .*profiles",
    ),
    "configuration-type": (lambda: Cluster.of(configuration=5), "configuration: a path, a text or a dict"),  # type: ignore[arg-type]
    "plugin": (lambda: Cluster.of(plugins=[5]), "plugins: 5 is no plugin"),  # type: ignore[list-item]
    "plugin-misspelt": (
        lambda: Cluster.of(plugins=["BestFitt"]),
        "plugins: there is no plugin BestFitt, and no module; did you mean BestFit",
    ),
    "version-as-a-number": (lambda: Cluster.of(version=1.37), "version: a text such as '1.37' was expected, not 1.37"),  # type: ignore[arg-type]
    "gates-as-a-list": (lambda: Cluster.of(feature_gates=["A"]), "feature_gates: a dict such as"),  # type: ignore[arg-type]
    "drain-of-nothing": (ONE.drain, "drain: give the names of nodes"),
    "plugin-file": (lambda: Cluster.of(plugins=["not-there.py"]), "plugins: not-there.py cannot be read"),
    "gate": (lambda: Cluster.of(feature_gates={"Nope": True}), "feature_gates: .*Nope"),
    "version": (lambda: Cluster.of(version="9"), "version: '9' is none of those that are followed"),
    "node-to-drain": (lambda: ONE.drain("node-on"), r"drain\[0\]: there is no node node-on: do you mean node-one"),
    "node-to-copy": (lambda: ONE.simulate(add_nodes={"no": 2}), r"add_nodes\[0\].like: there is no node no"),
    "count-of-nodes": (lambda: ONE.simulate(add_nodes={"node-one": 0}), r"add_nodes\[0\].count: "),
    "too-many-nodes": (lambda: ONE.simulate(add_nodes={"node-one": 10**6}), "add_nodes: 1000000 nodes are more"),
    "labels": (lambda: ONE.simulate(labels={"node-one": 3}), r"labels\[0\].labels: expected object"),  # type: ignore[dict-item]
    "labels-by-node": (lambda: ONE.simulate(labels=["a"]), "labels: a dict with a key for each node"),  # type: ignore[arg-type]
    "taint": (lambda: ONE.simulate(taints={"node-one": ["x"]}), "taints: node-one: a dict with key"),  # type: ignore[list-item]
    "taint-without-effect": (lambda: ONE.simulate(taints={"node-one": [{"key": "k"}]}), r"taints\[0\]: .*effect"),
    "effect": (
        lambda: ONE.simulate(taints={"node-one": [{"key": "k", "effect": "No"}]}),
        r"node node-one: metadata.taints\[0\].effect: Unsupported value",
    ),
    "replicas": (lambda: ONE.simulate(replicas=3), "replicas: how many there are of each of the new `pods`"),
    "replicas-below-one": (lambda: ONE.simulate(make_pod("web"), replicas=0), "replicas: "),
    "too-many-replicas": (
        lambda: ONE.simulate([make_pod("web"), make_pod("api")], replicas=10_001),
        "more than 20000 new pods",
    ),
    "nameless": (
        lambda: Cluster.of(pods={"metadata": {"generateName": "web-"}, "spec": {"containers": []}}),
        "pods: metadata.name: is missing",
    ),
    "nodes-among-pods": (lambda: ONE.schedule([make_node("b")]), "pods: there are nodes among them"),
    "unknown-pod": (lambda: ONE.explain("web"), "pod: there is no pod default/web among the 0 pods"),
    "unknown-pod-with-a-long-name": (lambda: ONE.explain("w" * 300), "pod: there is no pod default/w"),
    "empty-text": (lambda: ONE.schedule(""), "pods: a text is empty"),
    "data-frame": (lambda: ONE.schedule(FrameLike()), "pods: a data frame is no list of objects"),
    "files-as-a-list": (lambda: Cluster.from_files(["a"]), "from_files: give the names of files"),  # type: ignore[arg-type]
    "no-files": (Cluster.from_files, "from_files: give the names of files"),
    "profiles": (lambda: ONE.compact(3), "names were expected, not 3"),  # type: ignore[arg-type]
    "trials": (lambda: ONE.compact(trials="3"), "trials: 3 is not from 1 to 1000"),  # type: ignore[arg-type]
    "two-pods": (lambda: ONE.explain([pod_tree("a"), pod_tree("b")]), "pod: 2 were given, and one was expected"),
    "two-made-pods": (lambda: ONE.explain([make_pod("a"), make_pod("b")]), "pod: 2 were given, and one was expected"),
    "no-pod": (lambda: ONE.explain([]), "pod: none was given"),
    "a-node": (lambda: ONE.explain(make_node("a")), "pod: a node was given"),
    "against": (lambda: ONE.explain(make_pod("web"), against="x"), "against: there is no node x"),
}


@pytest.mark.parametrize(("ask", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_error_that_names_its_place(ask: Callable[[], object], expected: str) -> None:
    with pytest.raises(ClusterError, match=f"^{expected}"):
        ask()


HALF_A_GPU: Any = {"nvidia.com/gpu": "500m"}


@pytest.mark.parametrize(
    ("made", "field", "text"),
    [
        pytest.param(
            make_pod("a", requests={"gpu": "1"}), "gpu", "must be a standard resource type or fully", id="gpu"
        ),
        pytest.param(
            make_pod("a", requests={"nvidia.com/gpu": "500m"}), "nvidia.com/gpu", "must be an integer", id="half-a-gpu"
        ),
        pytest.param(make_pod("A_b"), "metadata.name", "a lowercase RFC 1123 subdomain", id="name"),
        pytest.param(make_pod("a", nodeSelector={"a b": "c"}), "spec.nodeSelector", "name part must", id="selector"),
        pytest.param(make_node("a", gpu="8"), "gpu", "must be a standard resource type or fully", id="gpu-of-a-node"),
        pytest.param(make_node("a", **HALF_A_GPU), "nvidia.com/gpu", "must be an integer", id="half-of-a-node"),
        pytest.param(make_node("A_b"), "metadata.name", "a lowercase RFC 1123 subdomain", id="name-of-a-node"),
    ],
)
def test_made_objects_are_refused_by_the_rules_of_manifests(made: Node | Pod, field: str, text: str) -> None:
    kind = type(made).__name__
    place = rf"{re.escape(kind.lower())}s\[0\] \({kind} {made.metadata.name}\): .*{re.escape(field)}.*{text}"
    with pytest.raises(ClusterError, match=place):
        Cluster.of(nodes=[made]) if isinstance(made, Node) else Cluster.of(pods=[made])
    if isinstance(made, Pod):
        with pytest.raises(ClusterError, match=place):
            Cluster.of(make_node("a")).schedule([made])
        with pytest.raises(ClusterError, match=rf"pod \(Pod {made.metadata.name}\): .*{text}"):
            Cluster.of(make_node("a")).explain(made)


def test_each_made_pod_with_a_mistake_has_a_line() -> None:
    pods = [make_pod("web-0"), *(make_pod(f"web-{number}", requests={"gpu": "1"}) for number in (1, 2)), make_pod("W")]
    with pytest.raises(ClusterError) as failure:
        Cluster.of(make_node("a")).schedule(pods)
    places = list(dict.fromkeys(line.partition(":")[0] for line in str(failure.value).splitlines()))
    assert places == ["pods[1] (Pod web-1)", "pods[2] (Pod web-2)", "pods[3] (Pod W)"]


def test_a_made_pod_needs_no_image_and_no_limits() -> None:
    amounts = {"nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi", "cpu": "500m"}
    has: Any = {"nvidia.com/gpu": "8", "hugepages-2Mi": "1Gi", "attachable-volumes-csi-ebs": "25"}
    node = make_node("a", **has)
    own = make_pod("own", containers=[{"name": "main", "resources": {"requests": amounts}}])
    assert len(Cluster.of(node).schedule([make_pod("short", requests=amounts), own]).placed) == 2
