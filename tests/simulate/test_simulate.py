"""`kscheduler simulate` over objects from a file: who goes where, who stays, what goes, what is left."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kscheduler.cli import main
from kscheduler.cli.kubectl_plugin import main as main_of_kubectl
from kscheduler.simulate.simulation_result import schema_text

MILLIONS = pytest.mark.slow("counts pods beyond the memory of a machine")

Tree = dict[str, Any]
VALIDATOR = Draft202012Validator(json.loads(schema_text()))
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "1", "controller": True}


def node(name: str, *, cpu: str = "4", labels: Tree | None = None, **spec: Any) -> Tree:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def pod(name: str, *, cpu: str = "1", on: str = "", owner: Tree | None = OWNER, **spec: Any) -> Tree:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    metadata: Tree = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": {"app": "web"}}
    if owner:
        metadata["ownerReferences"] = [owner]
    whole = {"schedulerName": "kscheduler", "containers": [container], **({"nodeName": on} if on else {}), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def workload(kind: str, replicas: int | None = None, **spec: Any) -> Tree:
    whole: Tree = {"selector": {"matchLabels": {"app": "new"}}, **spec}
    if replicas is not None:
        whole["parallelism" if kind == "Job" else "replicas"] = replicas
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    pod_spec = {"schedulerName": "kscheduler", "containers": [container]}
    if kind == "Job":
        whole = {"parallelism": replicas}
        pod_spec["restartPolicy"] = "Never"
    template = {"metadata": {"labels": {"app": "new"}}, "spec": pod_spec}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "new", "namespace": "shop"},
        "spec": whole | {"template": template},
    }


def budget(allowed: int) -> Tree:
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    metadata = {"name": "web", "namespace": "shop", "uid": "budget"}
    status = {"disruptionsAllowed": allowed}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def simulate(*flags: str) -> int:
    return main(["simulate", *flags])


def whatif(*flags: str) -> int:
    return main_of_kubectl(["whatif", *flags])


Command = Callable[..., int]
COMMANDS = (simulate, whatif)


class Play:
    """Runs the command over some objects."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder, self._capsys = folder, capsys

    def write(self, name: str, *objects: Tree) -> str:
        path = self._folder / name
        path.write_text("".join(f"---\n{json.dumps(obj)}\n" for obj in objects))
        return str(path)

    def __call__(self, *flags: str, objects: list[Tree]) -> Tree:
        source = self.write("cluster.yaml", *objects)
        assert main(["simulate", "--from", source, "-o", "json", *flags]) == 0
        tree: Tree = json.loads(self._capsys.readouterr().out)
        assert [problem.message for problem in VALIDATOR.iter_errors(tree)] == []
        return tree

    def text(self, *flags: str, objects: list[Tree]) -> str:
        source = self.write("cluster.yaml", *objects)
        assert main(["simulate", "--from", source, *flags]) == 0
        return self._capsys.readouterr().out

    def refused(self, *flags: str, objects: list[Tree]) -> str:
        source = self.write("cluster.yaml", *objects)
        assert main(["simulate", "--from", source, *flags]) == 2
        return self._capsys.readouterr().err


@pytest.fixture
def play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Play:
    return Play(tmp_path, capsys)


def nodes_of(tree: Tree) -> dict[str, str]:
    return {each["pod"]: each["node"] for each in tree["placed"]}


def test_pods_that_wait_and_new_ones_get_nodes(play: Play) -> None:
    new = play.write("new.yaml", workload("Deployment", 3))
    tree = play("-f", new, objects=[node("a"), node("b", cpu="2"), pod("waits", cpu="3")])
    origins = {each["pod"]: each["origin"] for each in tree["placed"]}
    assert origins == {"shop/waits": "pending", "shop/new-new": "new", "shop/new-new-1": "new", "shop/new-new-2": "new"}
    assert nodes_of(tree)["shop/waits"] == "a"
    assert tree["pending"] == []
    assert tree["room"]["after"]["cpu"] == {"allocatable": 6000, "requested": 6000}
    assert tree["room"]["before"]["cpu"]["requested"] == 0


def test_the_room_of_nodes_that_have_more_together_than_an_int64_holds(play: Play) -> None:
    objects = [node("a"), node("b"), *(pod(f"on-{name}", on=name) for name in "ab")]
    for each in objects[:2]:
        each["status"]["allocatable"] |= {"a.b/c": "8E", "pods": "8E"}
    for each in objects[2:]:
        each["spec"]["containers"][0]["resources"]["requests"]["a.b/c"] = "9E"
    room = play(objects=objects)["room"]["after"]
    assert room["a.b/c"] == {"allocatable": 16 * 10**18, "requested": 18 * 10**18}
    assert room["pods"] == {"allocatable": 16 * 10**18, "requested": 2}


def test_who_stays_pending_says_why(play: Play) -> None:
    tree = play(objects=[node("a"), pod("large", cpu="9"), pod("gated", schedulingGates=[{"name": "x/quota"}])])
    messages = {each["pod"]: each["message"] for each in tree["pending"]}
    assert messages["shop/large"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert "waiting for scheduling gates: [x/quota]" in messages["shop/gated"]


@pytest.mark.parametrize(("kind", "names"), [
    ("StatefulSet", ["new-0", "new-1"]),
    ("Job", ["new-new", "new-new-1"]),
    ("ReplicaSet", ["new-new", "new-new-1"]),
])  # fmt: skip
def test_a_workload_makes_its_pods(play: Play, kind: str, names: list[str]) -> None:
    tree = play("-f", play.write("new.yaml", workload(kind, 2)), objects=[node("a")])
    assert list(nodes_of(tree)) == [f"shop/{name}" for name in names]
    tree = play("-f", play.write("new.yaml", workload(kind, 2)), "--replicas", "4", objects=[node("a")])
    assert len(tree["placed"]) == 4


def with_hash(name: str) -> Tree:
    owned = pod(name, cpu="100m", on="a", owner={**OWNER, "name": "new-5d9c"})
    owned["metadata"]["labels"]["pod-template-hash"] = "5d9c"
    return owned


OF_DEPLOYMENT = {**OWNER, "kind": "Deployment", "name": "new"}
REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "new-5d9c", "namespace": "shop", "uid": "5", "ownerReferences": [OF_DEPLOYMENT]},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
}
BESIDES = "Deployment shop/new exists with"


@pytest.mark.parametrize(("replicas", "objects", "notes"), [
    pytest.param(5, [with_hash("r-1"), with_hash("r-2")],
                 [f"{BESIDES} 2 pods: these 5 come besides them; to scale up to 5, say replicas: 3"], id="by the hash"),
    pytest.param(5, [REPLICA_SET, pod("r", cpu="100m", on="a", owner={**OWNER, "name": "new-5d9c"})],
                 [f"{BESIDES} 1 pod: these 5 come besides it; to scale up to 5, say replicas: 4"], id="by ReplicaSet"),
    pytest.param(1, [with_hash("r-1"), with_hash("r-2")],
                 [f"{BESIDES} 2 pods: this 1 comes besides them"], id="less than there are"),
    pytest.param(2, [pod("r", cpu="100m", on="a"), {**with_hash("done"), "status": {"phase": "Succeeded"}}],
                 [], id="others, and pods that have ended"),
])  # fmt: skip
def test_pods_of_a_workload_that_has_some_already_come_besides_them_which_is_noted(
    play: Play, replicas: int, objects: list[Tree], notes: list[str]
) -> None:
    tree = play("-f", play.write("new.yaml", workload("Deployment", replicas)), objects=[node("a", cpu="8"), *objects])
    assert len(tree["placed"]) == replicas
    assert [note for note in tree["notes"] if "exists" in note] == notes


def test_a_daemon_set_has_a_pod_on_each_node(play: Play) -> None:
    new = play.write("new.yaml", workload("DaemonSet"))
    tree = play("-f", new, objects=[node("a"), node("b", unschedulable=True), node("c", cpu="500m")])
    assert nodes_of(tree) == {"shop/new-new-a": "a", "shop/new-new-b": "b"}
    assert [each["pod"] for each in tree["pending"]] == ["shop/new-new-c"]


def test_nodes_are_added_removed_cordoned_labelled_and_tainted(play: Play) -> None:
    objects = [
        node("a"),
        node("b"),
        pod("runs", cpu="3", on="b"),
        pod("waits", cpu="4"),
        pod("picky", nodeSelector={"disk": "ssd"}),
    ]
    assert nodes_of(play("--cordon", "b", objects=objects)) == {"shop/waits": "a"}
    tree = play("--add-nodes", "2:a", objects=objects)
    assert nodes_of(tree)["shop/waits"] in ("a", "a-new-1", "a-new-2")
    assert tree["addedNodes"] == ["a-new-1", "a-new-2"]
    assert tree["room"]["before"]["cpu"] == {"allocatable": 8_000, "requested": 3_000}
    assert tree["room"]["after"]["cpu"]["allocatable"] == 16_000
    assert "2 nodes added: a-new-1, a-new-2\n" in play.text("--add-nodes", "2:a", objects=objects)
    tree = play("--remove-node", "b", "--label-node", "a:disk=ssd", objects=objects)
    removed = {"pod": "shop/runs", "node": "b", "by": "removal", "priority": 0, "replacement": "shop/runs-again-1"}
    assert tree["evicted"] == [{**removed, "afterSeconds": 0}]
    assert len(tree["placed"]) + len(tree["pending"]) == 3
    assert tree["room"]["before"]["cpu"] == {"allocatable": 8_000, "requested": 3_000}
    assert tree["room"]["before"]["pods"] == {"allocatable": 220, "requested": 1}
    assert tree["room"]["after"]["cpu"]["allocatable"] == 4_000
    given = play("-f", play.write("new.yaml", node("c")), objects=objects)
    assert (given["addedNodes"], given["room"]["before"]["cpu"]["allocatable"]) == (["c"], 8_000)
    tree = play("--taint-node", "a:team=ml:NoSchedule", "--label-node", "b:disk=ssd", objects=objects)
    assert nodes_of(tree) == {"shop/picky": "b"}
    tainted = [node("a", taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}]), pod("waits")]
    assert nodes_of(play("--taint-node", "a:team:NoSchedule-", objects=tainted)) == {"shop/waits": "a"}


def test_a_preemption_is_played_to_its_end(play: Play) -> None:
    objects = [node("a"), pod("victim", cpu="3", on="a", priority=0), pod("important", cpu="3", priority=1000)]
    tree = play(objects=objects)
    assert nodes_of(tree) == {"shop/important": "a"}
    (gone,) = tree["evicted"]
    assert (gone["pod"], gone["by"], gone["replacement"]) == ("shop/victim", "shop/important", "shop/victim-again-1")
    assert [each["pod"] for each in tree["pending"]] == ["shop/victim-again-1"]


def test_a_drain_goes_as_far_as_budgets_allow(play: Play) -> None:
    """One disruption at a time is enough where the pods find another node; none at all stops it."""
    objects = [node("a"), node("b"), *(pod(f"web-{number}", on="a") for number in range(3))]
    tree = play("--drain", "a", objects=[*objects, budget(1)])
    (drained,) = tree["drains"]
    assert len(drained["evicted"]) == 3
    assert not drained["blocked"]
    assert set(nodes_of(tree).values()) == {"b"}
    (drained,) = play("--drain", "a", objects=[*objects, budget(0)])["drains"]
    assert drained["blocked"] == [{"pod": f"shop/web-{number}", "budget": "shop/web"} for number in range(3)]
    full = [*objects, pod("fills", cpu="3", on="b"), budget(1)]
    (drained,) = play("--drain", "a", objects=full)["drains"]
    assert (len(drained["evicted"]), len(drained["blocked"])) == (2, 1)


def test_a_drain_leaves_daemons_and_names_what_nobody_makes_anew(play: Play) -> None:
    daemon = {**OWNER, "kind": "DaemonSet"}
    objects = [node("a"), node("b"), pod("agent", on="a", owner=daemon), pod("bare", on="a", owner=None)]
    tree = play("--drain", "a", objects=objects)
    (drained,) = tree["drains"]
    assert (drained["staying"], drained["unmanaged"]) == (["shop/agent"], ["shop/bare"])
    assert tree["placed"] == []
    text = play.text("--drain", "a", objects=objects)
    assert "shop/bare: no controller recreates them; kubectl drain demands --force for that" in " ".join(text.split())


def test_capacity_counts_pods_like_the_first_new_one(play: Play) -> None:
    new = play.write("new.yaml", workload("Deployment", 1))
    objects = [node("a"), node("b"), pod("runs", cpu="2", on="a")]
    assert play("-f", new, "--capacity", objects=objects)["capacity"] == {
        "pods": 5,
        "groups": None,
        "group": None,
        "isMore": False,
    }
    assert "capacity for more: 5 more like the first new one" in play.text("-f", new, "--capacity", objects=objects)


def test_another_configuration(play: Play) -> None:
    """Most allocated packs what least allocated spreads."""
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    profile = {
        "schedulerName": "kscheduler",
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}],
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    path = play.write("config.yaml", config)
    objects = [node("a"), node("b"), pod("runs", on="a"), *(pod(f"p-{number}") for number in range(2))]
    assert set(nodes_of(play("--config", path, objects=objects)).values()) == {"a"}
    assert set(nodes_of(play(objects=objects)).values()) != {"a"}


@pytest.mark.parametrize(("flags", "problem"), [
    (("--drain", "c"), "there is no node c among its 2 nodes"),
    (("--drain", "node-7"), "there is no node node-7: do you mean node-007?"),
    (("--add-nodes", "a"), "--add-nodes a: COUNT:NODE was expected, such as 3:node-7"),
    (("--label-node", "a"), "--label-node a: NODE:KEY=VALUE or NODE:KEY- was expected"),
    (("--taint-node", "a:team=ml"), "--taint-node a:team=ml: NODE:KEY=VALUE:EFFECT was expected"),
    (("--capacity",), "--capacity counts pods like the first of -f FILE: give one"),
    (("--replicas", "3"), "--replicas is how many pods each manifest of -f FILE makes: give one"),
    (("--replicas", "0"), "--replicas: a number above 0 was expected"),
    (("--replicas", "1000000000", "-f", "x"), "--replicas: 1000000000 is not from 1 to 20000"),
    (("--add-nodes", "99999999:a"), "--add-nodes: 99999999 nodes are more than 10000"),
    (("--add-nodes", "6000:a", "--add-nodes", "6000:a"), "--add-nodes: 12000 nodes are more than 10000"),
    (("--add-nodes", "²:a"), "--add-nodes ²:a: COUNT:NODE was expected"),
    (("--master", "http://127.0.0.1:1"), "--kubeconfig, --context and --master go with a live cluster"),
    (("-f", "missing.yaml"), "missing.yaml: cannot be read"),
])  # fmt: skip
def test_flags_that_cannot_be_used(play: Play, flags: tuple[str, ...], problem: str) -> None:
    assert problem in play.refused(*flags, objects=[node("a"), node("node-007")])


@MILLIONS
@pytest.mark.parametrize("command", COMMANDS)
def test_more_pods_than_fit_into_memory_are_refused_before_any_is_made(
    play: Play, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    source = play.write("cluster.yaml", node("a"))
    many = play.write("many.yaml", workload("Deployment", 10**9))
    assert command("--from", source, "-f", many) == 2
    assert f"{many}: document 1: spec.replicas: 1000000000 is not from 0 to 20000" in capsys.readouterr().err
    sets = [{**workload("StatefulSet", 20_000), "metadata": {"name": f"s-{number}"}} for number in range(2)]
    assert command("--from", source, "-f", play.write("sets.yaml", *sets)) == 2
    assert "more than 20000 new pods: ask for fewer" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "said"), [
    pytest.param("", "new.yaml: no object in it, only an empty file or list: give pods", id="empty"),
    pytest.param("hello\n", "a mapping with apiVersion and kind was expected", id="a word"),
    pytest.param('{"apiVersion": "apps/v1", "kind": "Deploymnet", "metadata": {"name": "web"}}',
                 "no pod and nothing that makes pods: Deploymnet web (do you mean Deployment?)", id="a misspelt kind"),
    pytest.param(json.dumps(workload("Deployment", 0)),
                 "no pod and nothing that makes pods: Deployment new asks for 0 pods", id="no replicas"),
])  # fmt: skip
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_makes_no_pods_is_refused_with_the_reason(
    play: Play, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: Command, text: str, said: str
) -> None:
    (tmp_path / "new.yaml").write_text(text)
    source = play.write("cluster.yaml", node("a"))
    assert command("--from", source, "-f", str(tmp_path / "new.yaml")) == 2
    assert said in capsys.readouterr().err


def test_flags_are_looked_at_before_any_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--add-nodes", "3", "--kubeconfig", "not-there", "--from", "not-there"]) == 2
    assert "--add-nodes 3: COUNT:NODE was expected" in capsys.readouterr().err


def test_a_new_pod_with_a_taken_name_is_refused(play: Play) -> None:
    assert "pod shop/runs exists already" in play.refused(
        "-f", play.write("new.yaml", pod("runs")), objects=[node("a"), pod("runs", on="a")]
    )


def test_all_mistakes_of_all_manifests_are_reported_at_once_with_object_and_field(play: Play) -> None:
    """Wrong types first, all of them; the rules of an object are asked where its types are right."""
    types, rules = workload("Deployment", 2), workload("StatefulSet", 2)
    resources = {"requests": {"cpu": "1x", "memory": "2y"}}
    types["spec"]["template"]["spec"]["containers"][0] |= {"resources": resources, "image": 7}
    rules["metadata"]["name"] = "N"
    rules["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    new = play.write("new.yaml", types, pod("sound"), rules)
    other = play.write("other.yaml", pod("wrong", cpu="-1"))
    reported = play.refused("-f", new, "-f", other, objects=[node("a")]).splitlines()
    container = "spec.template.spec.containers[0].resources.requests"
    expected = (
        (f"{new}: document 1 (Deployment new): ", "json: cannot unmarshal number into Go struct field Container."),
        (f"{new}: document 1 (Deployment new): ", f"{container}.cpu: "),
        (f"{new}: document 1 (Deployment new): ", f"{container}.memory: "),
        (f"{new}: document 3 (StatefulSet N): ", "metadata.name: Invalid value: "),
        (f"{new}: document 3 (StatefulSet N): ", "spec.template.spec.restartPolicy: Unsupported value: "),
        (f"{other}: document 1 (Pod wrong): ", "spec.containers[0].resources.requests[cpu]: Invalid value: "),
    )
    assert len(reported) == len(expected)
    for line, (place, problem) in zip(reported, expected, strict=True):
        assert line.startswith(f"kscheduler: {place}{problem}")


def test_of_many_mistakes_twenty_are_reported_and_the_number_of_the_rest(play: Play) -> None:
    new = play.write("new.yaml", *(pod(f"p-{number}", cpu="-1") for number in range(33)))
    reported = play.refused("-f", new, objects=[node("a")]).splitlines()
    assert (len(reported), reported[-1]) == (21, "kscheduler: and 13 more")


def test_each_taken_name_is_reported(play: Play) -> None:
    new = play.write("new.yaml", pod("runs"), pod("new"), pod("waits"))
    reported = play.refused("-f", new, objects=[node("a"), pod("runs", on="a"), pod("waits")]).splitlines()
    assert [line.partition(" exists already")[0] for line in reported] == [
        "kscheduler: pod shop/runs",
        "kscheduler: pod shop/waits",
    ]


def test_pods_of_other_schedulers_are_left_alone_where_it_is_said_who_schedules(play: Play) -> None:
    new = play.write("new.yaml", pod("other", schedulerName="default-scheduler"))
    assert play("-f", new, "--scheduler-name", "kscheduler", objects=[node("a")])["placed"] == []
    reported = play("-f", new, objects=[node("a")])
    assert [(each["pod"], each["node"]) for each in reported["placed"]] == [("shop/other", "a")]
    presumed = "pods of scheduler {} are decided about by the default plugins unless --config says more"
    assert presumed.format("default-scheduler") not in reported["notes"]  # of a file nobody expects anything else
    new = play.write("new.yaml", pod("another", schedulerName="mine"))
    assert presumed.format("mine") in play("-f", new, objects=[node("a")])["notes"]


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--schema"]) == 0
    Draft202012Validator.check_schema(json.loads(capsys.readouterr().out))


def test_a_misspelt_field_of_a_new_pod_is_noted_once_with_its_path(play: Play) -> None:
    many = workload("StatefulSet", 2)
    many["spec"]["template"]["spec"]["nodeSelectr"] = {"disk": "ssd"}
    single = pod("single", nodeSelectr={"disk": "ssd"})
    tree = play("-f", play.write("new.yaml", many, single), objects=[node("a")])
    about = [note.partition("): ")[2] for note in tree["notes"] if "nodeSelectr" in note]
    hint = "nodeSelectr is not a field: do you mean nodeSelector?"
    assert about == [f"spec.template.spec.{hint}", f"spec.{hint}"]


@pytest.mark.parametrize("verb", ["simulate", "explain"])
def test_a_misspelt_number_of_replicas_is_reported(play: Play, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    web = workload("Deployment")
    web["spec"]["replica"] = 20
    assert main([verb, "--from", play.write("dump.yaml", node("a")), "-f", play.write("new.yaml", web)]) == 0
    hint = "document 1 (Deployment): spec.replica is not a field: do you mean replicas?\n"
    assert capsys.readouterr().err.count(hint) == 1


def tolerating(seconds: int | None = None, **more: str) -> Tree:
    toleration: Tree = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoExecute", **more}
    return {"tolerations": [toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}]}


def test_a_no_execute_taint_drives_pods_off_as_the_taint_eviction_controller_does(play: Play) -> None:
    """At once, after the time of the toleration, or never; no disruption budget holds them."""
    daemon = {**OWNER, "kind": "DaemonSet"}
    objects = [
        node("a"),
        node("b"),
        pod("goes", on="a"),
        pod("agent", cpu="100m", on="a", owner=daemon),
        pod("other-value", cpu="100m", on="a", **tolerating(value="web")),
        pod("for-a-day", cpu="100m", on="a", **tolerating(86_400)),
        pod("for-a-minute", cpu="100m", on="a", **tolerating(60)),
        pod("for-ever", cpu="100m", on="a", **tolerating()),
        pod("elsewhere", on="b"),
        pod("waits", cpu="9"),
        budget(0),
    ]
    tree = play("--taint-node", "a:team=ml:NoExecute", objects=objects)
    gone = [(each["pod"], each["by"], each["afterSeconds"], each["replacement"]) for each in tree["evicted"]]
    assert gone == [
        ("shop/agent", "taint", 0, None),
        ("shop/goes", "taint", 0, "shop/goes-again-1"),
        ("shop/other-value", "taint", 0, "shop/other-value-again-1"),
        ("shop/for-a-minute", "taint", 60, "shop/for-a-minute-again-1"),
        ("shop/for-a-day", "taint", 86_400, "shop/for-a-day-again-1"),
    ]
    assert nodes_of(tree)["shop/goes-again-1"] == "b"
    assert "shop/for-ever-again-1" not in nodes_of(tree)
    assert [each["pod"] for each in tree["pending"]] == ["shop/waits"]
    assert tree["room"]["after"]["pods"] == {"allocatable": 220, "requested": 6}


def test_a_no_execute_taint_that_a_node_has_already_or_that_goes_drives_nobody_off(play: Play) -> None:
    taint = {"key": "team", "value": "ml", "effect": "NoExecute"}
    objects = [node("a", taints=[taint]), node("b"), pod("runs", on="a")]
    for flag in ("a:team=ml:NoExecute", "a:team:NoExecute-", "b:team=ml:NoSchedule"):
        assert play("--taint-node", flag, objects=objects)["evicted"] == []


def test_of_a_taint_the_answer_says_first_subject_it_drives_off(play: Play) -> None:
    """A pod that tolerates the taint for a time may come back."""
    later = pod("later", cpu="100m", on="a", **tolerating(60))
    objects = [node("a"), node("b"), pod("goes", on="a"), pod("large", cpu="3500m", on="a"), later]
    lines = play.text("--taint-node", "a:team=ml:NoExecute", objects=objects).splitlines()
    assert lines[0] == "a with its taint: 3 pods are evicted, 2 get a node, 1 stays pending"
    rows = [" ".join(line.split()) for line in lines]
    assert "shop/goes a priority 0 taint recreated as shop/goes-again-1, on b" in rows
    assert "shop/large a priority 0 taint recreated as shop/large-again-1, pending" in rows
    assert "shop/later a priority 0 taint, after 60 s recreated as shop/later-again-1, on a" in rows


def test_of_a_drain_the_answer_says_first_what_becomes_of_its_pods(play: Play) -> None:
    daemon = {**OWNER, "kind": "DaemonSet"}
    objects = [
        node("a"),
        node("b"),
        pod("agent", cpu="100m", on="a", owner=daemon),
        pod("bare", cpu="100m", on="a", owner=None),
        pod("fits", on="a"),
        pod("large", cpu="2", on="a"),
        pod("stays", cpu="2", on="b"),
        pod("waits", cpu="9"),
    ]
    text = play.text("--drain", "a", objects=objects)
    lines = text.splitlines()
    fate = "3 pods are evicted, 1 gets a node, 1 stays pending, 1 is not recreated"
    assert " ".join(" ".join(lines[:2]).split()) == f"a would be empty but for 1 pod of DaemonSets: {fate}"
    parts = [
        text.index(part)
        for part in (
            "3 pods would lose their node",
            "1 pod would get a node",
            "1 pod would stay pending\n",
            "1 pod would stay pending, as now",
        )
    ]
    assert parts == sorted(parts)
    rows = play.text("--drain", "a", objects=[*objects, budget(0)]).splitlines()
    assert rows[0] == "a would not be empty: 0 pods are evicted"


def test_of_a_removal_the_answer_says_first_what_becomes_of_the_pods(play: Play) -> None:
    text = play.text("--remove-node", "a", objects=[node("a"), node("b"), pod("runs", on="a"), pod("waits", cpu="9")])
    assert text.startswith("a, removed: 1 pod is evicted, 1 gets a node\n\n1 pod would lose its node")


def test_a_change_that_changes_nothing_is_noted(play: Play) -> None:
    tainted = node("a", labels={"disk": "ssd"}, taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])
    none = ("--label-node", "a:nope-", "--taint-node", "a:absent:NoSchedule-", "--taint-node", "a:team:NoExecute-")
    assert play(*none, objects=[tainted])["notes"] == [
        "node a has no label nope: nothing is removed",
        "node a has no taint absent:NoSchedule: nothing is removed",
        "node a has no taint team:NoExecute: nothing is removed",
    ]
    some = ("--label-node", "a:disk-", "--taint-node", "a:team:NoSchedule-")
    added = ("--label-node", "a:new=x", "--label-node", "a:new-")
    assert play(*some, *added, objects=[tainted])["notes"] == []


def test_of_a_node_that_is_drained_and_removed_one_sentence_says_what_becomes_of_its_pods(play: Play) -> None:
    objects = [node("a"), node("b"), pod("moves", on="a"), budget(0)]
    tree = play("--drain", "a", "--remove-node", "a", objects=objects)
    assert tree["drains"] == []
    assert [note.partition(":")[0] for note in tree["notes"]] == ["node a is removed, which takes its pods at once"]
    text = play.text("--drain", "a", "--remove-node", "a", objects=objects)
    assert text.splitlines()[0] == "a, removed: 1 pod is evicted, 1 gets a node"
    assert "would be empty" not in text


def test_each_row_of_the_room_has_one_unit(play: Play) -> None:
    objects = [node("a", cpu="4500m"), node("b"), pod("runs", cpu="500m", on="a"), pod("waits", cpu="1500m")]
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in play.text(objects=objects).splitlines() if line}
    assert rows["cpu"] == "0.5 of 8.5 (5 %) 2 of 8.5 (23 %)"
    assert rows["memory"] == "64Mi of 16384Mi (0 %) 128Mi of 16384Mi (0 %)"
    assert rows["pods"] == "1 of 220 (0 %) 2 of 220 (0 %)"
    many = [node(f"n-{number}", cpu="18252m") for number in range(100)]
    for each in many:
        each["status"]["allocatable"]["memory"] = "180Gi"
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in play.text(objects=many).splitlines() if line}
    assert rows["cpu"] == "0 of 1825.2 (0 %) 0 of 1825.2 (0 %)"
    assert rows["memory"] == "0 of 18000Gi (0 %) 0 of 18000Gi (0 %)"


def test_a_slow_call_holds_nobody_up_in_a_rehearsal_and_is_not_reported(
    play: Play, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(1_000_000))
    monkeypatch.setattr("kscheduler.scheduling.runtime.guard.perf_counter", lambda: float(next(calls)))
    cluster, new = play.write("cluster.yaml", node("a")), play.write("new.yaml", pod("new"))
    assert main(["simulate", "--from", cluster, "-f", new]) == 0
    assert capsys.readouterr().err == ""


def test_a_static_pod_stays_on_a_node_that_is_drained(play: Play) -> None:
    """As kubectl drain has it, which knows such a pod by its annotation."""
    static = pod("etcd", on="a", owner=None)
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    (drained,) = play("--drain", "a", objects=[node("a"), node("b"), static])["drains"]
    assert (drained["staying"], drained["evicted"], drained["unmanaged"]) == (["shop/etcd"], [], [])
