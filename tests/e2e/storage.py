"""Storage for scenarios: two classes, disks, claims, pods with claims, and the audit of volumes at the end.

The audit reads the whole history of the volumes from the API server: none ever carried the names of two claims, no
claim has two volumes, and every bound pod reaches all of its volumes from its node.
"""

from collections import Counter
from collections.abc import Iterator

from tests.controlplane.rest import Object
from tests.e2e.audit import name_of, term_matches
from tests.e2e.provisioner import DRIVER, SELECTED_NODE, VOLUMES, ZONE, Provisioner, volume
from tests.e2e.scenario import HOSTNAME, Scenario

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ZONES = {"node-0": "a", "node-1": "b", "node-2": "a", "node-3": "b"}


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

    def add_pod(self, name: str, *claims: str, zone: str = "", node_name: str = "", cpu: str = "100m") -> None:
        """A pod with these claims; with `zone` or `node_name` it may run nowhere else."""
        sources = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        labels = ({ZONE: zone} if zone else {}) | ({HOSTNAME: node_name} if node_name else {})
        self.scenario.add_pod(name, cpu=cpu, volumes=sources, nodeSelector=labels)

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
        """The volume that the claim is bound to for good; empty before. Its phase may follow a moment later."""
        found = self.claim(claim)
        is_bound = BIND_COMPLETED in found["metadata"].get("annotations", {})
        return str(found["spec"].get("volumeName", "")) if is_bound else ""

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
