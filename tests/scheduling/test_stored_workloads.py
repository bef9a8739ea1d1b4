"""Services and controllers are found by what they select, whatever the informers have stored, replaced and removed."""

from kscheduler.api.codec import Decoder
from kscheduler.api.kinds import REPLICA_SETS, REPLICATION_CONTROLLERS, SERVICES, STATEFUL_SETS, WORKLOAD_KINDS
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.informers.store import Store
from kscheduler.scheduling.stored_workloads import StoredWorkloads

SERVICE = Decoder(Service)


def service(name: str, selector: str, namespace: str = "default") -> Service:
    text = f'{{"metadata": {{"name": "{name}", "namespace": "{namespace}"}}, "spec": {{"selector": {selector}}}}}'
    return SERVICE.decode(text)


class Stores:
    """Empty stores and the listers over them."""

    def __init__(self) -> None:
        self.services: Store[Service] = Store()
        self.controllers: Store[ReplicationController] = Store()
        self.replica_sets: Store[ReplicaSet] = Store()
        self.stateful_sets: Store[StatefulSet] = Store()
        self.listers = StoredWorkloads(self.services, self.controllers, self.replica_sets, self.stateful_sets)

    def put(self, *services: Service) -> None:
        for one in services:
            self.services.put(one.key, one)

    def selecting(self, namespace: str = "default", **labels: str) -> set[str]:
        return {one.metadata.name for one in self.listers.services_selecting(namespace, labels)}


def test_services_are_found_by_all_labels_that_they_ask_for() -> None:
    stores = Stores()
    stores.put(
        service("web", '{"app": "web"}'),
        service("canary", '{"app": "web", "track": "canary"}'),
        service("track", '{"track": "canary"}'),
        service("elsewhere", '{"app": "web"}', "other"),
        service("everything", "{}"),
        service("headless", "null"),
    )
    assert stores.selecting(app="web") == {"web"}
    assert stores.selecting(app="web", track="canary", more="labels") == {"web", "canary", "track"}
    assert stores.selecting(app="db") == set()
    assert stores.selecting("other", app="web") == {"elsewhere"}


def test_a_service_that_changes_its_selector_is_found_under_the_new_one() -> None:
    stores = Stores()
    stores.put(service("web", '{"app": "web"}'))
    stores.put(service("web", '{"app": "db"}'))
    assert (stores.selecting(app="web"), stores.selecting(app="db")) == (set(), {"web"})
    stores.services.remove("default/web")
    assert stores.selecting(app="db") == set()


def test_services_that_were_stored_before_the_listers_are_found() -> None:
    services: Store[Service] = Store()
    services.put("default/web", service("web", '{"app": "web"}'))
    listers = StoredWorkloads(services, Store(), Store(), Store())
    assert [one.metadata.name for one in listers.services_selecting("default", {"app": "web"})] == ["web"]


def test_controllers_are_found_by_namespace_and_name() -> None:
    stores = Stores()
    controller, replica_set, stateful_set = ReplicationController(), ReplicaSet(), StatefulSet()
    stores.controllers.put("default/one", controller)
    stores.replica_sets.put("default/one", replica_set)
    stores.stateful_sets.put("default/one", stateful_set)
    found = stores.listers
    assert found.replication_controller("default", "one") is controller
    assert found.replica_set("default", "one") is replica_set
    assert found.stateful_set("default", "one") is stateful_set
    assert found.replica_set("other", "one") is None


def test_their_kinds_stand_in_the_table_where_the_api_has_them() -> None:
    assert WORKLOAD_KINDS == (SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
    assert [kind.path for kind in WORKLOAD_KINDS] == [
        "/api/v1/services",
        "/api/v1/replicationcontrollers",
        "/apis/apps/v1/replicasets",
        "/apis/apps/v1/statefulsets",
    ]
    assert all(kind.namespaced for kind in WORKLOAD_KINDS)


def test_a_set_is_read_with_its_label_selector() -> None:
    text = (
        b'{"metadata": {"name": "s"}, "spec": {"replicas": 3, "serviceName": "s", "template": {"spec": {}},'
        b' "selector": {"matchLabels": {"app": "db"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}}}'
    )
    for read in (Decoder(ReplicaSet).decode(text), Decoder(StatefulSet).decode(text)):
        selector = read.spec.selector
        assert selector is not None
        assert selector.match_labels == {"app": "db"}
        assert selector.match_expressions[0].operator == "Exists"
