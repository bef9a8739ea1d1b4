"""What `make bench-real` puts into a cluster, in which size and in which order, and what its audit finds there."""

import argparse
import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from benchmarks.real import throughput as real
from benchmarks.real.audit import room_faults, rule_faults
from benchmarks.real.devices import device_faults
from benchmarks.real.gangs import gang_faults
from benchmarks.real.workloads import SCHEDULER_NAME, WORKLOADS, Object, Workload, node

NAMES = tuple(WORKLOADS)
NODES = [node(number) for number in range(12)]


def placed(pod: Object, host: int) -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": f"node-{host:05}"}}


def on(hosts: Callable[[int], int], workload: Workload, pods: int) -> list[Object]:
    """The first pods of a workload, each on the node that `hosts` tells for its number."""
    return [placed(workload.pod(number), hosts(number)) for number in range(pods)]


def options(*arguments: str) -> argparse.Namespace:
    return real.parse(list(arguments))


def test_without_options_everything_is_measured_in_its_own_size() -> None:
    chosen = options()
    assert chosen.workload == real.WITHOUT_GANGS == [name for name in NAMES if not name.startswith("gangs")]
    assert chosen.schedulers == ["kscheduler", "kube-scheduler", "floor"]
    sizes = [real.size_of(WORKLOADS[name], chosen) for name in chosen.workload]
    assert [(size.nodes, size.pods) for size in sizes] == [(1_000, 5_000)] + [(5_000, 5_000)] * 5 + [(1_000, 2_500)] * 3


def test_a_size_that_is_given_goes_before_quick_and_quick_before_the_workloads_own() -> None:
    size = real.size_of(WORKLOADS["plain"], options("--quick", "--nodes", "300"))
    assert (size.nodes, size.pods) == (300, real.QUICK_PODS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workload", "nonsense"],
        ["--schedulers", "volcano"],
        ["--nodes", "0"],
        ["--rounds", "-1"],
        ["--pods", "many"],
        ["--arrivals", "-1"],
        ["--rate", "0"],
    ],
    ids=" ".join,
)
def test_an_option_that_makes_no_sense_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        options(*arguments)


def test_a_cluster_that_is_too_small_is_refused_before_anything_is_started() -> None:
    chosen = options("--nodes", "102", "--pods", "5000", "--arrivals", "150")
    with pytest.raises(SystemExit, match="5,150 pods need 103 nodes"):
        real.size_of(WORKLOADS["mixed"], chosen)


def test_a_name_that_is_given_twice_is_measured_once() -> None:
    assert options("--workload", "mixed", "plain", "mixed").workload == ["mixed", "plain"]


def test_each_scheduler_comes_first_as_often_as_the_others() -> None:
    orders = [real.in_turn(["a", "b", "c"], turn) for turn in range(6)]
    assert [order[0] for order in orders] == ["a", "b", "c"] * 2
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)


@pytest.mark.parametrize("name", NAMES)
def test_pods_have_names_of_their_own_and_the_same_scheduler(name: str) -> None:
    pods = [WORKLOADS[name].pod(number) for number in range(50)]
    assert len({pod["metadata"]["name"] for pod in pods}) == 50
    assert {pod["spec"]["schedulerName"] for pod in pods} == {SCHEDULER_NAME}


def test_groups_of_anti_affinity_take_turns() -> None:
    apps = [WORKLOADS["anti-affinity"].pod(number)["metadata"]["labels"]["app"] for number in range(1_000)]
    assert len(set(apps[:500])) == 500
    assert apps[:500] == apps[500:]


# --- the audit --------------------------------------------------------------------------------------------------------


def by_group(workload: Workload, pods: int, first: Callable[[str], int] = lambda _: 0) -> list[Object]:
    """Pods of each Deployment on node after node."""
    seen: dict[str, int] = {}

    def next_of(number: int) -> int:
        app = workload.pod(number)["metadata"]["labels"]["app"]
        seen[app] = seen.get(app, first(app) - 1) + 1
        return seen[app] % len(NODES)

    return on(next_of, workload, pods)


@pytest.mark.parametrize("name", ["plain", "spread", "anti-affinity"])
def test_what_stands_as_it_should_has_no_faults(name: str) -> None:
    pods = by_group(WORKLOADS[name], 600)
    assert rule_faults(NODES, pods) == []


@pytest.mark.parametrize(
    ("name", "host", "said"),
    [
        pytest.param("affinity", 2, "does not belong on node-00002", id="a zone that is not asked for"),
        pytest.param("spread", 0, "skew 2, at most 1 allowed", id="two in one zone, none in the others"),
        pytest.param("anti-affinity", 0, "share kubernetes.io/hostname node-00000", id="two of a group on a host"),
        pytest.param("mixed", 0, "share kubernetes.io/hostname node-00000", id="the same in a mixture"),
    ],
)
def test_each_broken_rule_is_found(name: str, host: int, said: str) -> None:
    workload = WORKLOADS[name]
    one_group = [n for n in range(1_100) if workload.pod(n)["metadata"]["labels"]["app"] == workload_app(workload)]
    pods = [placed(workload.pod(number), host) for number in itertools.islice(one_group, 2)]
    assert any(said in fault for fault in rule_faults(NODES, pods))


def workload_app(workload: Workload) -> str:
    """The first Deployment with a rule that placement can break."""
    kind = next(kind for kind in reversed(workload.kinds) if kind.name in {"affine", "even", "apart"})
    return f"{kind.name}-0"


def test_soft_rules_are_not_audited() -> None:
    near = [placed(WORKLOADS["mixed"].pod(4 + 50 * number), number) for number in range(3)]
    assert rule_faults(NODES, near) == []


def test_waiting_pods_break_no_rule() -> None:
    assert rule_faults(NODES, [WORKLOADS["spread"].pod(number) for number in range(100)]) == []


def test_a_node_past_its_room_is_found_for_every_scheduler() -> None:
    faults = room_faults(NODES, on(lambda _: 0, WORKLOADS["plain"], 111))
    assert [fault.partition(":")[0] for fault in faults] == ["node node-00000 is over its allocatable pods"]


def test_a_selector_that_the_audit_cannot_judge_is_an_error_not_a_pass() -> None:
    pod = placed(WORKLOADS["spread"].pod(0), 0)
    pod["spec"]["topologySpreadConstraints"][0]["labelSelector"] = {"matchExpressions": []}
    with pytest.raises(ValueError, match="matchLabels only"):
        rule_faults(NODES, [pod])


def test_a_device_that_two_claims_have_is_a_fault() -> None:
    def claim(*devices: str) -> Object:
        results = [{"driver": "d", "pool": "p", "device": device} for device in devices]
        return {"status": {"allocation": {"devices": {"results": results}}}}

    assert device_faults([claim("a"), claim("b", "c"), {"status": {}}, {}]) == []
    assert device_faults([claim("a", "b"), claim("b")]) == ["device d/p/b was given to 2 claims"]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("claims")])
def test_each_claiming_pod_has_a_claim_of_its_own_and_each_node_a_slice(name: str) -> None:
    workload = WORKLOADS[name]
    assert workload.beside is not None
    made = {path.rpartition("/")[2]: list(objects) for path, objects in workload.beside(12, 20, "bench")}
    assert [each["spec"]["nodeName"] for each in made["resourceslices"]] == [each["metadata"]["name"] for each in NODES]
    claims = {each["metadata"]["name"] for each in made["resourceclaims"]}
    assert claims == {workload.pod(number)["spec"]["resourceClaims"][0]["resourceClaimName"] for number in range(20)}


@pytest.mark.parametrize(("name", "members"), [("gangs", 3), ("gangs-large", 1_000)])
def test_gangs_are_whole_and_the_audit_sees_when_they_are_not(name: str, members: int) -> None:
    workload = WORKLOADS[name]
    assert workload.beside is not None
    ((path, groups),) = workload.beside(5_000, workload.pods, "bench")
    assert path == "/apis/scheduling.k8s.io/v1beta1/namespaces/bench/podgroups"
    names = [group["metadata"]["name"] for group in groups]
    pods = [workload.pod(number) for number in range(workload.pods)]
    counts = Counter(pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods)
    assert counts == dict.fromkeys(names, members)
    bound = [placed(pod, 0) for pod in pods[:members]]
    assert gang_faults([*bound, *pods[members:]]) == []
    (fault,) = gang_faults([*bound, placed(pods[members], 0), *pods[members + 1 :]])
    assert fault == f"1 of {members} members of gang-00001 are bound"
    with pytest.raises(ValueError, match="no whole gangs"):
        [*workload.beside(5_000, workload.pods + 1, "bench")]


def test_pods_of_gangs_do_not_arrive_alone() -> None:
    assert real.size_of(WORKLOADS["gangs"], options("--workload", "gangs")).arrivals == 0
