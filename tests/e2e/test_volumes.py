"""Volumes all the way: kscheduler decides, a stand-in provisioner makes, kube-controller-manager binds.

In every scenario a pod ends bound rightly or pending with a true reason. The audit of volumes, at the end of each,
reads the whole history of the volumes from the API server: none ever carried the names of two claims, no claim has two
volumes, and every bound pod reaches all of its volumes from its node.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.controlplane.rest import Object
from tests.e2e.audit import name_of, term_matches
from tests.e2e.provisioner import DRIVER, SELECTED_NODE, VOLUMES, ZONE, Provisioner, volume
from tests.e2e.scenario import HOSTNAME, Scenario

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NO_VOLUME = "didn't find available persistent volumes to bind"
OUT_OF_REACH = "didn't match PersistentVolume's node affinity"
ZONES = {"node-0": "a", "node-1": "b", "node-2": "a", "node-3": "b"}
OTHER_ZONE = {"a": "b", "b": "a"}


class Storage:
    """Four nodes in two zones, a class whose volumes are made on demand and one whose volumes are local disks."""

    def __init__(self, scenario: Scenario, provisioner: Provisioner) -> None:
        self.scenario = scenario
        self.provisioner = provisioner
        self.api = scenario.api
        self.made, self.local = f"made-{scenario.namespace}", f"local-{scenario.namespace}"
        self.claims_path = f"/api/v1/namespaces/{scenario.namespace}/persistentvolumeclaims"
        for name, driver in ((self.made, DRIVER), (self.local, "kubernetes.io/no-provisioner")):
            mode = {"provisioner": driver, "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Retain"}
            kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
            self.api.create(CLASSES, kind | {"metadata": {"name": name}} | mode)
        for name, zone in ZONES.items():
            scenario.add_node(name, labels={ZONE: zone})
        self._version = self.api.get(VOLUMES)["metadata"]["resourceVersion"]

    def remove(self) -> None:
        """Bound volumes stay until the namespace, and with it their claims, is gone."""
        for found in self.volumes():
            self.api.delete(f"{VOLUMES}/{name_of(found)}", missing_ok=True)
        for name in (self.made, self.local):
            self.api.delete(f"{CLASSES}/{name}")

    # What users do

    def add_disk(self, number: int, node_name: str) -> str:
        """A local disk; returns the name of its volume once kube-controller-manager has taken note of it."""
        name = f"{self.local}-{number}"
        self.api.create(VOLUMES, volume(name, self.local, HOSTNAME, node_name, {"local": {"path": "/mnt/disk"}}))
        self.scenario.wait(f"{name} is known", lambda: self.volume_phase(name) in ("Available", "Bound"))
        return name

    def add_claim(self, name: str, storage_class: str) -> None:
        wanted = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": wanted}
        metadata = {"name": name, "namespace": self.scenario.namespace}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        self.api.create(self.claims_path, claim)

    def add_pod(self, name: str, *claims: str, zone: str = "") -> None:
        """A pod with these claims; with `zone` it may run nowhere else."""
        sources = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        self.scenario.add_pod(name, volumes=sources, nodeSelector={ZONE: zone} if zone else {})

    # What can be seen

    def claim(self, name: str) -> Object:
        return self.api.get(f"{self.claims_path}/{name}")

    def volume_phase(self, name: str) -> str:
        return str(self.api.get(f"{VOLUMES}/{name}").get("status", {}).get("phase", ""))

    def claims(self) -> list[Object]:
        return self.api.items(self.claims_path)

    def volumes(self) -> list[Object]:
        """The volumes of this scenario."""
        return [one for one in self.api.items(VOLUMES) if one["spec"]["storageClassName"] in (self.made, self.local)]

    def volume_of(self, claim: str) -> str:
        """The volume that the claim is bound to; empty before."""
        found = self.claim(claim)
        bound = found.get("status", {}).get("phase") == "Bound"
        return str(found["spec"]["volumeName"]) if bound else ""

    def selected_node(self, claim: str) -> str:
        """The node for which the claim's volume is to be made; empty while none is selected."""
        return str(self.claim(claim)["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))

    def wait_selected(self, claim: str) -> str:
        self.scenario.wait(f"a node is selected for {claim}", lambda: self.selected_node(claim))
        return self.selected_node(claim)

    def wait_claim_bound(self, claim: str) -> str:
        self.scenario.wait(f"{claim} is bound", lambda: self.volume_of(claim))
        return self.volume_of(claim)

    # The end

    def audit(self) -> None:
        found = [*self._claimed_twice(), *self._claims_astray(), *self._pods_out_of_reach()]
        if found:
            raise AssertionError("the audit of volumes found:\n" + "\n".join(found))

    def _claimed_twice(self) -> Iterator[str]:
        """Volumes that ever named two claims, and claims that two volumes ever named, were it for a moment."""
        owners = self._owners()
        missed = {name_of(one) for one in self.volumes()} - owners.keys()
        yield from (f"volume {name} is missing in the history" for name in missed)
        yield from (f"volume {name} was claimed by {uids}" for name, uids in owners.items() if len(uids) > 1)
        uses = Counter(uid for uids in owners.values() for uid in uids)
        yield from (f"claim {uid} was named by {count} volumes" for uid, count in uses.items() if count > 1)

    def _owners(self) -> dict[str, set[str]]:
        """The UIDs of all claims that each volume has named since the scenario's begin."""
        owners: dict[str, set[str]] = {}
        parameters = {"resourceVersion": self._version, "timeoutSeconds": "1"}
        with self.api.watch(VOLUMES, parameters) as history:
            for event in history:
                assert event["type"] != "ERROR", event
                owner = event["object"]["spec"].get("claimRef", {}).get("uid")
                owners.setdefault(name_of(event["object"]), set()).update([owner] if owner else [])
        return owners

    def _claims_astray(self) -> Iterator[str]:
        """Claims that are bound to a volume which names another, and claims that two volumes name."""
        owners = {name_of(one): one["spec"].get("claimRef", {}).get("uid") for one in self.volumes()}
        for claim in self.claims():
            uid, bound_to = claim["metadata"]["uid"], claim["spec"].get("volumeName")
            named_by = [name for name, owner in owners.items() if owner == uid]
            if len(named_by) > 1 or (bound_to and named_by != [bound_to]):
                yield f"claim {name_of(claim)} is bound to {bound_to}, and volumes {named_by} name it"

    def _pods_out_of_reach(self) -> Iterator[str]:
        """Bound pods with a claim that is not bound, or whose volume's terms do not match their node."""
        labels = {name_of(node): node["metadata"]["labels"] for node in self.api.items("/api/v1/nodes")}
        terms = {name_of(one): one["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] for one in self.volumes()}
        for pod in self.scenario.pods():
            node = pod["spec"].get("nodeName")
            for name in claim_names(pod) if node else ():
                reached = terms.get(self.volume_of(name), [])
                if not any(term_matches(term, labels[node]) for term in reached):
                    yield f"pod {name_of(pod)} on {node} cannot reach the volume of claim {name}"


def claim_names(pod: Object) -> list[str]:
    sources = [source.get("persistentVolumeClaim") for source in pod["spec"]["volumes"]]
    return [source["claimName"] for source in sources if source]


@pytest.fixture
def storage(scenario: Scenario) -> Iterator[Storage]:
    """After the test: the audit of volumes, while the scheduler still runs."""
    if not scenario.server.has_controllers:
        pytest.skip("no controller manager completes bindings on the embedded server")
    with Provisioner(scenario.api, scenario.namespace) as provisioner:
        play = Storage(scenario, provisioner)
        try:
            yield play
            play.audit()
        finally:
            play.remove()


def test_a_claim_that_waits_for_its_pod_gets_a_volume_made_where_the_pod_goes(
    scenario: Scenario, storage: Storage
) -> None:
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data", zone="b")
    scenario.start_scheduler()
    scenario.wait_bound("stateful")
    node = scenario.node_of("stateful")
    assert ZONES[node] == "b"
    assert storage.selected_node("data") == node
    assert storage.volume_of("data") == f"pvc-{storage.claim('data')['metadata']['uid']}"
    storage.add_pod("reader", "data")
    scenario.wait_bound("reader")
    assert ZONES[scenario.node_of("reader")] == "b", "the volume that is there draws the next pod to its zone"


def test_a_provisioner_that_gives_the_node_back_is_asked_again(scenario: Scenario, storage: Storage) -> None:
    storage.provisioner.refusals = 1
    storage.provisioner.working.clear()
    scenario.start_scheduler()
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data")
    scenario.wait_rejected("stateful", 'provisioning failed for PVC "data"', reason="SchedulerError")
    assert storage.provisioner.refusals == 0
    storage.wait_selected("data")
    storage.provisioner.working.set()
    scenario.wait_bound("stateful")


def test_of_two_pods_that_race_for_one_disk_one_gets_it_and_the_other_waits_for_the_next(
    scenario: Scenario, storage: Storage
) -> None:
    storage.add_disk(0, "node-1")
    for name in ("one", "two"):
        storage.add_claim(f"disk-of-{name}", storage.local)
        storage.add_pod(name, f"disk-of-{name}")
    scenario.start_scheduler()
    scenario.wait("one is bound", lambda: len(scenario.pending()) == 1)
    (loser,) = scenario.pending()
    scenario.wait_rejected(loser, f"0/4 nodes are available: 4 node(s) {NO_VOLUME}")
    (winner,) = {"one", "two"} - {loser}
    assert scenario.node_of(winner) == "node-1"
    assert not storage.volume_of(f"disk-of-{loser}")
    second = storage.add_disk(1, "node-2")
    scenario.wait_bound(loser)
    assert scenario.node_of(loser) == "node-2"
    assert storage.volume_of(f"disk-of-{loser}") == second


def test_a_pod_whose_claim_is_deleted_while_it_waits_says_so_and_takes_the_claim_that_comes_next(
    scenario: Scenario, storage: Storage
) -> None:
    storage.provisioner.working.clear()
    scenario.start_scheduler()
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data")
    storage.wait_selected("data")
    first = storage.claim("data")["metadata"]["uid"]
    storage.api.delete(f"{storage.claims_path}/data")
    scenario.wait_rejected("stateful", 'persistentvolumeclaim "data" not found')
    storage.add_claim("data", storage.made)
    storage.provisioner.working.set()
    scenario.wait_bound("stateful")
    assert storage.volume_of("data") != f"pvc-{first}"


def test_a_pod_that_is_kept_from_the_zone_of_its_volume_waits(scenario: Scenario, storage: Storage) -> None:
    storage.provisioner.misplaced = OTHER_ZONE
    scenario.start_scheduler()
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data", zone="b")
    scenario.wait_rejected("stateful", f"2 node(s) {OUT_OF_REACH}")
    assert storage.volume_of("data"), "the claim is bound, and the pod cannot go there"
    assert ZONES[storage.selected_node("data")] == "b"


def test_a_pod_that_is_free_to_move_follows_its_volume_to_another_zone(scenario: Scenario, storage: Storage) -> None:
    storage.provisioner.misplaced = OTHER_ZONE
    scenario.start_scheduler()
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data")
    scenario.wait_bound("stateful")
    asked_for = ZONES[storage.selected_node("data")]
    assert ZONES[scenario.node_of("stateful")] == OTHER_ZONE[asked_for]


@pytest.mark.parametrize("made_while_down", [True, False], ids=["made-while-down", "made-after"])
def test_a_scheduler_that_is_killed_while_a_pod_waits_for_its_volumes_ends_the_work_when_it_is_back(
    scenario: Scenario, storage: Storage, made_while_down: bool
) -> None:
    """The pod needs a disk that is there and a volume that is made; a rival wants the same disk after the restart."""
    disk = storage.add_disk(0, "node-1")
    storage.provisioner.working.clear()
    storage.add_claim("disk", storage.local)
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "disk", "data")
    first = scenario.start_scheduler()
    assert storage.wait_selected("data") == "node-1"
    first.kill()
    assert not scenario.node_of("stateful")
    storage.add_claim("rivals-disk", storage.local)
    storage.add_pod("rival", "rivals-disk")
    if made_while_down:
        storage.provisioner.working.set()
        storage.wait_claim_bound("data")
    scenario.start_scheduler()
    scenario.wait_rejected("rival", NO_VOLUME)
    storage.provisioner.working.set()
    scenario.wait_bound("stateful")
    assert scenario.node_of("stateful") == "node-1"
    assert storage.volume_of("disk") == disk
    assert scenario.pending() == ["rival"]


def test_a_scheduler_that_was_killed_between_its_two_writes_goes_on_from_the_first(
    scenario: Scenario, storage: Storage
) -> None:
    """The disk has the claim's name on it, and no node is selected for the other claim: nobody can kill so exactly,
    so the first write is made here as the scheduler makes it.
    """
    disk = storage.add_disk(0, "node-1")
    storage.add_claim("disk", storage.local)
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "disk", "data")
    owner = {field: storage.claim("disk")["metadata"][field] for field in ("namespace", "name", "uid")}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | owner
    metadata = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    storage.api.patch(f"{VOLUMES}/{disk}", {"metadata": metadata, "spec": {"claimRef": reference}})
    scenario.start_scheduler()
    scenario.wait_bound("stateful")
    assert scenario.node_of("stateful") == "node-1"
    assert storage.selected_node("data") == "node-1"
    assert storage.volume_of("disk") == disk
