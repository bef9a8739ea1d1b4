"""Which pods repeat the cycle of one before: those that no plugin in play can tell from it, and they are decided alike.

Once in a while a class counts its bytes, and then a pod repeats nothing: hence the bounds.
"""

from collections.abc import Sequence

import msgspec
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.assembly import profiles_over
from kscheduler.config.loader import from_tree
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.informers.store import Store
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.decide import scenario_ports
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.runtime.timing import NoStopwatch
from kscheduler.scheduling.stored_workloads import StoredWorkloads
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, make_pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
INDEX = "batch.kubernetes.io/job-completion-index"
CONFIGURATION: Tree = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "kscheduler"}],
}


class CountsRepeats(NoStopwatch):
    """Counts the cycles that repeated one before."""

    def __init__(self) -> None:
        self.repeats = 0

    def repeated(self) -> None:
        self.repeats += 1


class Run:
    """Twelve nodes in three zones, and pods that are placed one by one."""

    def __init__(self) -> None:
        self.cache = Cache()
        for number in range(12):
            labels = {ZONE: "abc"[number % 3], HOST: f"node-{number}"}
            self.cache.add_node(make_node(f"node-{number}", labels=labels, cpu="64", pods="110"))
        self.services: Store[Service] = Store()
        self.controllers: Store[ReplicationController] = Store()
        self.replica_sets: Store[ReplicaSet] = Store()
        stateful_sets: Store[StatefulSet] = Store()
        workloads = StoredWorkloads(self.services, self.controllers, self.replica_sets, stateful_sets)
        ports = msgspec.structs.replace(scenario_ports(ClusterObjects()), workloads=workloads)
        profiles = profiles_over(self.cache, from_tree(CONFIGURATION, "test"), registry(), ports)
        self.profile = profiles["kscheduler"]
        self.engine = ClassEngine(self.profile, self.cache)
        self.stopwatch = CountsRepeats()
        self._number = 0

    def repeats(self, count: int, labels: Tree, *, owner: str = "", indexed: bool = False, **spec: object) -> int:
        """Place so many pods, each where it would go alone. Returns how many repeated the cycle of one before."""
        before = self.stopwatch.repeats
        for _ in range(count):
            self._number += 1
            pod = self._pod({**labels, INDEX: str(self._number)} if indexed else labels, owner, spec)
            alone = schedule(self.profile, PodInfo(pod.pod), self.cache)
            record = schedule(self.profile, pod, self.cache, self.stopwatch, engine=self.engine)
            assert (record.node_name, record.best_score) == (alone.node_name, alone.best_score)
            assert record.feasible.tolist() == alone.feasible.tolist()
            assert sorted(record.skipped) == sorted(alone.skipped)
            self.cache.assume_pod(pod, record.node_name)
        return self.stopwatch.repeats - before

    def _pod(self, labels: Tree, owner: str, spec: Tree) -> PodInfo:
        name, metadata = f"pod-{self._number}", {}
        if owner:
            kind, _, of = owner.partition("/")
            version = "v1" if kind == "ReplicationController" else "apps/v1"
            references = [{"apiVersion": version, "kind": kind, "name": of, "uid": of, "controller": True}]
            metadata = {"ownerReferences": references}
        requests = {"cpu": "100m"}
        return PodInfo(make_pod(name, uid=name, labels=labels, metadata=metadata, requests=requests, **spec))

    def put_service(self, selector: Tree) -> None:
        tree = {"metadata": {"name": "service", "namespace": "default"}, "spec": {"selector": selector}}
        self.services.put("default/service", convert(tree, Service))

    def put_replica_set(self, selector: Tree, status: int = 0) -> None:
        tree = {
            "metadata": {"name": "web", "namespace": "default", "resourceVersion": str(status)},
            "spec": {"selector": {"matchLabels": selector}},
        }
        self.replica_sets.put("default/web", convert(tree, ReplicaSet))


def spread(key: str, when: str, **fields: object) -> Tree:
    selector = {"matchLabels": {"app": "web"}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **fields}


def test_pods_that_differ_in_a_label_that_nothing_selects_by_repeat_each_other() -> None:
    assert Run().repeats(10, {"app": "web"}, indexed=True) >= 8


def test_they_do_not_where_a_service_selects_by_the_label() -> None:
    run = Run()
    run.put_service({INDEX: "77"})
    assert run.repeats(10, {"app": "web"}, indexed=True) == 0


def test_a_service_that_comes_in_the_middle_is_seen() -> None:
    run = Run()
    assert run.repeats(5, {"app": "web"}, indexed=True) >= 3
    run.put_service({INDEX: "7"})
    assert run.repeats(5, {"app": "web"}, indexed=True) == 0


def test_they_do_not_where_a_term_of_a_running_pod_names_the_label() -> None:
    run = Run()
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {INDEX: "5"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    run.repeats(1, {"app": "db"}, affinity={"podAntiAffinity": required})
    assert run.repeats(20, {"app": "web"}, indexed=True) <= 3, "pods that the term can tell apart"


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("key", [ZONE, HOST])
def test_pods_with_terms_repeat_each_other(kind: str, key: str) -> None:
    run, term = Run(), {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}}
    preferred = [{"weight": 3, "podAffinityTerm": term}]
    terms = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert run.repeats(20, {"app": "db"}, affinity=terms) >= 12


def test_rows_of_buckets_are_judged_in_their_order() -> None:
    """The zones are known in another order than the nodes are."""
    run = Run()
    for number in range(12):
        is_open = number in (1, 3)
        labels = {ZONE: "acbb"[number % 4], HOST: f"node-{number}"}
        run.cache.add_node(make_node(f"node-{number}", labels=labels, spec={"unschedulable": not is_open}, cpu="64"))
    run.cache.nodes.label_values(ZONE, run.cache.nodes.rows())
    for number, zone in ((0, "c"), (1, "b"), (3, "a")):
        spec = {"unschedulable": number == 0}
        labels = {ZONE: zone, HOST: f"node-{number}"}
        run.cache.add_node(make_node(f"node-{number}", labels=labels, spec=spec, cpu="64"))
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
    terms = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": term}]}
    }
    assert run.repeats(12, {"app": "db"}, affinity=terms) >= 7


def test_pods_that_must_not_meet_repeat_each_other_until_no_node_is_left() -> None:
    run, term = Run(), {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}
    terms = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert run.repeats(11, {"app": "db"}, affinity=terms) >= 6


def test_another_label_is_another_pod() -> None:
    run = Run()
    run.repeats(3, {"app": "web"})
    assert run.repeats(1, {"app": "web", "more": "labels"}) == 0


def test_pods_of_a_replica_set_repeat_each_other_though_each_changes_the_spread() -> None:
    run = Run()
    run.put_replica_set({"app": "web"})
    run.put_service({"app": "web"})
    assert run.repeats(20, {"app": "web"}, owner="ReplicaSet/web", indexed=True) >= 12


def test_a_replica_set_with_another_status_selects_the_same_pods() -> None:
    run, found = Run(), 0
    for status in range(10):
        run.put_replica_set({"app": "web"}, status)
        found += run.repeats(2, {"app": "web"}, owner="ReplicaSet/web")
    assert found >= 12


def test_a_replica_set_that_selects_other_pods_is_seen() -> None:
    run = Run()
    run.put_replica_set({"app": "web"})
    run.repeats(5, {"app": "web"}, owner="ReplicaSet/web")
    run.put_replica_set({"app": "db"})
    run.repeats(5, {"app": "web"}, owner="ReplicaSet/web")


def test_a_replication_controller_that_comes_later_is_seen() -> None:
    run = Run()
    assert run.repeats(3, {"app": "web"}, owner="ReplicationController/web") == 0
    tree = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    run.controllers.put("default/web", convert(tree, ReplicationController))
    assert run.repeats(10, {"app": "web"}, owner="ReplicationController/web") >= 4


@pytest.mark.parametrize(
    "constraints",
    [
        pytest.param([spread(ZONE, "DoNotSchedule")], id="hard by zone"),
        pytest.param([spread(ZONE, "ScheduleAnyway")], id="soft by zone"),
        pytest.param([spread(HOST, "ScheduleAnyway")], id="soft by host"),
        pytest.param([spread(ZONE, "DoNotSchedule"), spread(HOST, "ScheduleAnyway")], id="hard by zone, soft by host"),
        pytest.param([spread(HOST, "ScheduleAnyway"), spread(ZONE, "ScheduleAnyway")], id="soft by host and zone"),
        pytest.param([spread(ZONE, "DoNotSchedule", minDomains=4)], id="more domains than there are"),
    ],
)
def test_pods_with_constraints_of_their_own_repeat_each_other(constraints: Sequence[Tree]) -> None:
    run = Run()
    run.repeats(2, {"app": "web"}, topologySpreadConstraints=constraints)
    count = 1 if "minDomains" in constraints[0] else 20
    assert run.repeats(count, {"app": "web"}, topologySpreadConstraints=constraints) >= count - 5


def test_a_hard_constraint_by_host_name_is_judged_node_by_node() -> None:
    assert Run().repeats(10, {"app": "web"}, topologySpreadConstraints=[spread(HOST, "DoNotSchedule")]) == 0


def test_match_label_keys_read_the_label() -> None:
    run, keys = Run(), spread(ZONE, "DoNotSchedule", matchLabelKeys=["hash"])
    assert run.repeats(6, {"app": "web", "hash": "1"}, topologySpreadConstraints=[keys]) >= 2
    assert run.repeats(1, {"app": "web", "hash": "2"}, topologySpreadConstraints=[keys]) == 0


def test_pods_beside_a_run_move_the_counts() -> None:
    run = Run()
    run.put_replica_set({"app": "web"})
    for _ in range(6):
        assert run.repeats(1, {"app": "web", "of": "another"}) <= 1
        run.repeats(3, {"app": "web"}, owner="ReplicaSet/web")
    assert run.stopwatch.repeats >= 10
