"""The constraints of pods that a controller owns: the same as long as it selects the same pods."""

from kscheduler.api.codec import convert
from kscheduler.api.workloads import ReplicaSet
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import parse_spread_constraint
from kscheduler.informers.store import Store
from kscheduler.plugins.pod_topology_spread.default_selector import DeducedConstraints, selecting
from kscheduler.plugins.pod_topology_spread.plugin import SYSTEM_CONSTRAINTS
from kscheduler.scheduling.stored_workloads import StoredWorkloads
from tests.builders import make_pod

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}


def test_a_replica_set_is_another_one_only_once_its_selector_differs() -> None:
    replica_sets: Store[ReplicaSet] = Store()
    workloads = StoredWorkloads(Store(), Store(), replica_sets, Store())
    deduced = DeducedConstraints([parse_spread_constraint(each, "", {}) for each in SYSTEM_CONSTRAINTS])
    pod = PodInfo(make_pod("web-1", labels={"app": "web"}, metadata={"ownerReferences": [OWNER]}))

    def put(app: str, version: int) -> None:
        metadata = {"name": "web", "namespace": "default", "resourceVersion": str(version)}
        spec = {"selector": {"matchLabels": {"app": app}}}
        replica_sets.put("default/web", convert({"metadata": metadata, "spec": spec}, ReplicaSet))

    put("web", 1)
    found, first = selecting(pod, workloads), deduced.of(pod, workloads)
    put("web", 2)
    assert found.is_current(workloads)
    assert deduced.of(pod, workloads) is first
    put("db", 3)
    assert not found.is_current(workloads)
    assert deduced.of(pod, workloads) != first
