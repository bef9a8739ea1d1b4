"""`kscheduler compact`: against an exact solver, and what stays, moves, is left out or refused."""

import json
import random
from pathlib import Path
from typing import Any

import highspy
import pytest
from jsonschema import Draft202012Validator

from kscheduler.cli import main
from kscheduler.compact.compaction_result import schema_text
from tests.simulate.test_claims_to_devices import claim_spec, device_class, gpus
from tests.simulate.test_simulate import Tree, node, pod

VALIDATOR = Draft202012Validator(json.loads(schema_text()))
DAEMONS = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": True}
PACKED = ("--profile", "best-fit")


class Compact:
    """Runs the command over some objects."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self._source = folder / "cluster.json"

    def _run(self, objects: list[Tree], *flags: str) -> int:
        self._source.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return main(["compact", "--from", str(self._source), *flags])

    def __call__(self, objects: list[Tree], *flags: str) -> Tree:
        assert self._run(objects, "-o", "json", *flags) == 0
        tree: Tree = json.loads(self._capsys.readouterr().out)
        assert [problem.message for problem in VALIDATOR.iter_errors(tree)] == []
        return tree

    def text(self, objects: list[Tree], *flags: str) -> str:
        assert self._run(objects, *flags) == 0
        return self._capsys.readouterr().out

    def refused(self, objects: list[Tree], *flags: str) -> str:
        assert self._run(objects, *flags) == 2
        return self._capsys.readouterr().err


@pytest.fixture
def compact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Compact:
    return Compact(tmp_path, capsys)


def fewest(answer: Tree) -> int:
    trials: list[int] = answer["profiles"][0]["trials"]
    return min(trials)


def fewest_possible(sizes: list[int], wanted: list[int]) -> int:
    """On how few nodes of these sizes the pods fit, by HiGHS: x[p, n] is pod p on node n, y[n] is node n kept."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.silent()
    kept = [solver.addBinary() for _ in sizes]
    at = [[solver.addBinary() for _ in sizes] for _ in wanted]
    for of_pod in at:
        solver.addConstr(sum(of_pod) == 1)
    for number, size in enumerate(sizes):
        solver.addConstr(sum(cpu * at[each][number] for each, cpu in enumerate(wanted)) <= size * kept[number])
    solver.minimize(sum(kept))
    return round(solver.getObjectiveValue())


@pytest.mark.parametrize("seed", range(5))
def test_it_is_within_one_node_of_an_exact_solver(compact: Compact, seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.choice((4000, 8000)) if seed % 2 else 4000 for _ in range(8)]
    left, objects, wanted = list(sizes), [], []
    for number in range(20):
        cpu = chance.choice((300, 500, 700, 1100, 1500))
        on = max(range(len(left)), key=left.__getitem__)
        left[on] -= cpu
        wanted.append(cpu)
        objects.append(pod(f"p{number}", cpu=f"{cpu}m", on=f"n{on}"))
    assert min(left) >= 0, "the pods fit as they are"
    nodes = [node(f"n{number}", cpu=f"{size}m") for number, size in enumerate(sizes)]
    answer = compact([*nodes, *objects], *PACKED)
    exact = fewest_possible(sizes, wanted)
    assert answer["atLeast"] <= exact <= fewest(answer) <= exact + 1
    assert len(answer["profiles"][0]["kept"]) == fewest(answer)


def test_pods_of_daemon_sets_take_their_room_on_each_node_that_stays(compact: Compact) -> None:
    nodes = [node(f"n{number}", cpu="4") for number in range(4)]
    web = [pod(f"web-{number}", cpu="1", on=f"n{number}") for number in range(4)]
    alone = compact([*nodes, *web], *PACKED)
    agents = [pod(f"agent-{number}", cpu="2", on=f"n{number}", owner=DAEMONS) for number in range(4)]
    beside = compact([*nodes, *web, *agents], *PACKED)
    assert (fewest(alone), fewest(beside)) == (1, 2)
    assert (beside["moving"], beside["staying"], beside["atLeast"]) == (4, 4, 2)


def test_a_node_that_a_pod_needs_stays_whatever_is_drawn(compact: Compact) -> None:
    nodes = [node(f"n{number}", cpu="4") for number in range(6)]
    pinned = [pod(f"db-{name}", on=name, nodeSelector={"kubernetes.io/hostname": name}) for name in ("n1", "n4")]
    answer = compact([*nodes, *pinned, pod("web", on="n0")], *PACKED, "--trials", "5")
    assert answer["profiles"][0]["trials"] == [2] * 5
    assert answer["profiles"][0]["kept"] == ["n1", "n4"]


def test_devices_of_claims_are_given_anew(compact: Compact) -> None:
    """Four pods with a device each, on four nodes with two: they move together as their claims do."""
    nodes = [node(f"n{number}", cpu="64") for number in range(4)]
    objects: list[Tree] = [device_class()]
    for number in range(4):
        objects.append(gpus(f"n{number}", 2))
        claims = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
        objects.append(pod(f"train-{number}", on=f"n{number}", resourceClaims=claims))
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": f"n{number}", "device": "gpu-0"}
        match = {"key": "metadata.name", "operator": "In", "values": [f"n{number}"]}
        objects.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": f"claim-{number}", "namespace": "shop", "uid": f"claim-{number}"},
                "spec": claim_spec(),
                "status": {
                    "allocation": {
                        "devices": {"results": [result]},
                        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [match]}]},
                    },
                    "reservedFor": [{"resource": "pods", "name": f"train-{number}", "uid": f"uid-train-{number}"}],
                },
            }
        )
    assert fewest(compact([*nodes, *objects], *PACKED)) == 2


def test_what_waits_has_ended_or_goes_is_not_placed(compact: Compact) -> None:
    nodes = [node(f"n{number}", cpu="2") for number in range(2)]
    done = {**pod("done", cpu="2", on="n0"), "status": {"phase": "Succeeded"}}
    going = pod("going", cpu="2", on="n1")
    going["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    answer = compact([*nodes, done, going, pod("waits", cpu="2"), pod("web", on="n0")], *PACKED)
    assert (answer["moving"], answer["pending"], fewest(answer)) == (1, 1, 1)


def test_pods_that_fit_only_as_they_are_have_no_trials_and_a_reason(compact: Compact) -> None:
    """After a drain is planned a node takes no pods, so its own would not come back."""
    nodes = [node("n0", cpu="2"), node("n1", cpu="2", unschedulable=True)]
    pods = [pod("a", cpu="2", on="n0"), pod("b", cpu="2", on="n1")]
    (profile,) = compact([*nodes, *pods], *PACKED)["profiles"]
    assert (profile["trials"], [each["pod"] for each in profile["unplaced"]]) == ([], ["shop/b"])
    assert "best-fit: 1 pod would find no place" in compact.text([*nodes, *pods], *PACKED)


def gpu_node(name: str, *, cpu: str, **spec: Any) -> Tree:
    whole = node(name, cpu=cpu, **spec)
    whole["status"]["allocatable"]["nvidia.com/gpu"] = "4"
    return whole


def gpu_pod(name: str, gpus: int, *, cpu: str, on: str = "") -> Tree:
    whole = pod(name, cpu=cpu, on=on)
    whole["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = str(gpus)
    return whole


def test_what_is_free_and_of_no_use_is_told_with_what_its_node_lacks(compact: Compact) -> None:
    """n0 has 2 GPUs and no CPU left, n1 one GPU of which all want two, n2 is cordoned, n3 is free."""
    nodes = [gpu_node(name, cpu="8") for name in ("n0", "n1", "n3")] + [gpu_node("n2", cpu="8", unschedulable=True)]
    pods = [gpu_pod("a", 2, cpu="4", on="n0"), pod("b", cpu="4", on="n0"), gpu_pod("c", 3, cpu="1", on="n1")]
    objects = [*nodes, *pods, gpu_pod("waits", 2, cpu="2")]
    answer = compact(objects, *PACKED, "--trials", "1")
    by_resource = {each["resource"]: each for each in answer["fragments"]}
    gpus = by_resource["nvidia.com/gpu"]
    assert (gpus["free"], gpus["cordoned"], gpus["lacking"]) == (11, 4, {"cpu": 2, "nvidia.com/gpu": 1})
    assert (by_resource["cpu"]["cordoned"], by_resource["cpu"]["lacking"]) == (8000, {})
    line = "nvidia.com/gpu 7 of 11 (64 %) 2 for lack of cpu, 1 in pieces too small, 4 on cordoned nodes"
    assert line in " ".join(compact.text(objects, *PACKED, "--trials", "1").split())


def test_a_pod_that_asks_for_what_no_node_has_uses_nothing(compact: Compact) -> None:
    strange = pod("waits", cpu="1")
    strange["spec"]["containers"][0]["resources"]["requests"]["example.com/none"] = "1"
    answer = compact([node("n0", cpu="4"), pod("big", cpu="4", on="n0"), node("n1", cpu="1"), strange], *PACKED)
    (cpu, _) = answer["fragments"]
    assert (cpu["resource"], cpu["free"], cpu["lacking"]) == ("cpu", 1000, {"cpu": 1000})


LICENCE = "example.com/licence"


def of_extender(folder: Path) -> Path:
    """A configuration whose extender alone accounts for licences."""
    managed = [{"name": LICENCE, "ignoredByScheduler": True}]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "http://127.0.0.1:1", "bindVerb": "bind", "managedResources": managed}],
        "profiles": [{"schedulerName": "kscheduler"}, {"schedulerName": "other"}],
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def with_licence(whole: Tree) -> Tree:
    """The pod asks for a licence, or the node has one."""
    kind = whole["spec"]["containers"][0]["resources"]["requests"] if whole["kind"] == "Pod" else None
    (whole["status"]["allocatable"] if kind is None else kind)[LICENCE] = "1"
    return whole


def test_a_resource_that_the_profiles_ignore_keeps_no_node(compact: Compact) -> None:
    """Each of four nodes has one licence, and each of four pods wants one: the extender knows better."""
    nodes = [with_licence(node(f"n{number}", cpu="4")) for number in range(4)]
    pods = [with_licence(pod(f"p{number}", cpu="1", on=f"n{number}")) for number in range(4)]
    config = ("--config", str(of_extender(compact.folder)), "--profile", "kscheduler", "--trials", "1")
    answer = compact([*nodes, *pods], *config)
    assert (answer["atLeast"], fewest(answer)) == (1, 1)
    assert [(each["resource"], each["lacking"]) for each in answer["fragments"]] == [("cpu", {}), ("memory", {})]
    counted = compact([*nodes, *pods], *PACKED, "--trials", "1")
    assert (counted["atLeast"], fewest(counted)) == (4, 4)


def test_a_profile_that_compares_no_resources_is_not_bound_by_sums(compact: Compact) -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "kscheduler",
                "plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}},
            }
        ],
    }
    path = compact.folder / "config.json"
    path.write_text(json.dumps(config))
    nodes = [node(f"n{number}", cpu="1") for number in range(3)]
    answer = compact(
        [*nodes, *(pod(f"p{n}", cpu="1", on=f"n{n}") for n in range(3))], "--config", str(path), "--trials", "1"
    )
    assert (answer["atLeast"], fewest(answer)) == (1, 1)


def test_requests_and_nodes_beyond_an_int64_are_added_up(compact: Compact) -> None:
    """5P cores are 5e18 thousandths; a node has room for one such pod, and three nodes for all that moves."""
    nodes = [node(f"n{number}", cpu="9P") for number in range(4)]
    pods = [pod(f"p{number}", cpu="5P", on=f"n{number}") for number in range(3)]
    answer = compact([*nodes, *pods], *PACKED, "--trials", "1")
    assert (answer["atLeast"], fewest(answer)) == (2, 3)


def test_a_few_nodes_that_alone_have_something_do_not_end_the_search(compact: Compact) -> None:
    """Three GPU nodes, whose GPUs are all taken and whose CPU is mostly idle, hold what ten other nodes hold."""
    nodes = [gpu_node(f"gpu-{number}", cpu="32") for number in range(3)]
    nodes += [node(f"plain-{number}", cpu="8") for number in range(10)]
    pods = [gpu_pod(f"train-{number}", 4, cpu="8", on=f"gpu-{number}") for number in range(3)]
    pods += [pod(f"web-{number}", cpu="2", on=f"plain-{number}") for number in range(10)]
    answer = compact([*nodes, *pods], *PACKED)
    assert answer["profiles"][0]["trials"] == [3] * 11
    assert answer["profiles"][0]["kept"] == [f"gpu-{number}" for number in range(3)]


def test_pods_on_nodes_that_are_not_there_move_and_a_note_counts_them(
    compact: Compact, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [node("n0", cpu="8"), *(pod(f"p{number}", on=f"gone-{number}") for number in range(3))]
    answer = compact(objects, *PACKED, "--trials", "1")
    assert (answer["moving"], answer["nodes"], answer["nodesInUse"], fewest(answer)) == (3, 1, 0, 1)
    (note,) = answer["notes"]
    assert note.endswith("3 pods run on nodes that are not among the objects; rescheduled like the others")


def test_a_member_that_waits_is_placed_with_its_gang(compact: Compact) -> None:
    gang = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "shop", "uid": "train"},
        "spec": {"minMember": 3},
    }
    members = [pod("m0", cpu="2", on="n0"), pod("m1", cpu="2", on="n1"), pod("m2", cpu="2")]
    for member in members:
        member["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "train"
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podGroupAPIs": ["scheduler-plugins"],
        "profiles": [{"schedulerName": "kscheduler"}],
    }
    path = compact.folder / "config.json"
    path.write_text(json.dumps(config))
    objects = [node("n0", cpu="4"), node("n1", cpu="4"), node("n2", cpu="4"), gang, *members, pod("alone")]
    answer = compact(objects, "--config", str(path), "--trials", "1")
    assert (answer["moving"], answer["pending"], fewest(answer)) == (3, 1, 2)


def test_profiles_that_fail_alike_are_told_together_and_preemption_is_not_blamed(compact: Compact) -> None:
    objects = [node("n0", cpu="1"), node("n1", cpu="1"), pod("p", cpu="2", on="n0")]
    lines = compact.text(objects).splitlines()
    assert "all nodes together have less than these pods request" not in lines
    names = "kscheduler, best-fit, fragmentation-aware, dominant-most-allocated"
    assert " ".join(lines[2:]).count("shop/p: 0/2 nodes are available: 2 Insufficient cpu.") == 1
    assert any(line.startswith(f"{names}: 1 pod would find no place") for line in lines)
    assert "preemption" not in " ".join(lines[:6])
    too_much = [node("n0", cpu="1"), pod("p", cpu="2", on="n0")]
    assert "all nodes together have less than these pods request" in compact.text(too_much)


def test_static_pods_stay_and_pods_being_deleted_are_counted(compact: Compact) -> None:
    static = pod("etcd", on="n0", owner=None)
    static["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    going = pod("going", on="n0")
    going["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    objects = [node("n0"), static, going, pod("web", on="n0")]
    answer = compact(objects, *PACKED, "--trials", "1")
    assert (answer["staying"], answer["terminating"], answer["moving"]) == (1, 1, 1)
    assert "  1 pod being deleted, left out" in compact.text(objects, *PACKED, "--trials", "1").splitlines()


def test_the_same_seed_draws_the_same_nodes(compact: Compact) -> None:
    nodes = [node(f"n{number}", cpu=str(2 + number % 3)) for number in range(6)]
    objects = [*nodes, *(pod(f"p{number}", on=f"n{number}") for number in range(6))]
    first, again = (compact(objects, *PACKED, "--trials", "3", "--seed", "7") for _ in range(2))
    assert first == again
    kept = {
        tuple(compact(objects, *PACKED, "--trials", "1", "--seed", str(n))["profiles"][0]["kept"]) for n in range(5)
    }
    assert len(kept) > 1


def test_the_text_has_a_line_for_each_profile_of_the_configuration(compact: Compact) -> None:
    nodes = [node(f"n{number}", cpu="4") for number in range(3)]
    text = compact.text([*nodes, *(pod(f"p{number}", on=f"n{number}") for number in range(3))], "--trials", "2")
    assert text.splitlines()[:9] == [
        "today: 3 pods on 3 of 3 nodes",
        "at least: 1 node, by the sum of the requests",
        "rescheduled, nodes removed at random until they no longer fit, 2 trials:",
        "  profile                  fewest  median  90 %  of today's nodes",
        "  kscheduler                    1       1     1              33 %",
        "  best-fit                      1       1     1              33 %",
        "  fragmentation-aware           1       1     1              33 %",
        "  dominant-most-allocated       1       1     1              33 %",
        "",
    ]


@pytest.mark.parametrize(
    ("objects", "flags", "message"),
    [
        ([node("n0")], PACKED, "no pod runs that could move to another node"),
        ([pod("p", on="n0")], PACKED, "there are no nodes"),
        ([node("n0"), pod("p", on="n0")], ("--trials", "0"), "--trials: 0 is not from 1 to 1000"),
        ([node("n0"), pod("p", on="n0")], ("--profile", "bestfit"), "; did you mean best-fit?"),
        ([node("n0"), pod("p", on="n0")], ("--scheduler-name", "x"), "--profile chooses one"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    compact: Compact, objects: list[Tree], flags: tuple[str, ...], message: str
) -> None:
    assert message in compact.refused(objects, *flags)
