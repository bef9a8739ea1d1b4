"""Devices for scenarios: a class, what drivers publish on nodes, claims, pods with claims, and the audit at the end.

The audit reads the whole history of the claims from the API server: at no moment did two claims hold one device. Every
bound pod has all of its claims reserved, and their devices are on its node.
"""

from collections.abc import Iterator

from tests.controlplane.rest import MERGE_PATCH, Object
from tests.e2e.audit import name_of
from tests.e2e.scenario import Scenario

GROUP = "/apis/resource.k8s.io/v1"
VERSION = {"apiVersion": "resource.k8s.io/v1"}
PROTECTION = "resource.kubernetes.io/delete-protection"


class DevicesRoom:
    """A class of devices and a driver of the scenario's own."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.api = scenario.api
        self.driver = f"gpu.{scenario.namespace}.example.com"
        self.device_class = f"gpu-{scenario.namespace}"
        self.claims_path = f"{GROUP}/namespaces/{scenario.namespace}/resourceclaims"
        self.resource = f"{self.driver}/gpu"
        """The extended resource that the class stands for."""
        self._create("deviceclasses", "DeviceClass", self.device_class, {"extendedResourceName": self.resource})
        self._slices: set[str] = set()
        for number in range(4):
            scenario.add_node(f"node-{number}")
        self._version = self.api.get(self.claims_path)["metadata"]["resourceVersion"]

    def remove(self) -> None:
        """What is not in the namespace."""
        for name in self._slices:
            self.api.delete(f"{GROUP}/resourceslices/{name}", missing_ok=True)
        self.api.delete(f"{GROUP}/deviceclasses/{self.device_class}")

    # What drivers do

    def publish(self, node: str, *devices: str, generation: int = 1, **fields: object) -> None:
        """The driver's one slice of a node; `fields` are those of each device."""
        name = f"{self.device_class}-{node}"
        pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
        listed = [{"name": device} | fields for device in devices]
        spec = {"driver": self.driver, "nodeName": node, "pool": pool, "devices": listed}
        if name in self._slices:
            self.api.patch(f"{GROUP}/resourceslices/{name}", {"spec": spec}, MERGE_PATCH)
        else:
            self._create("resourceslices", "ResourceSlice", name, spec)
        self._slices.add(name)

    def add_rule(self, name: str, device: str) -> None:
        """An administrator taints all devices of this name."""
        selector = {"driver": self.driver, "device": device}
        taint = {"key": "example.com/broken", "effect": "NoSchedule"}
        spec = {"deviceSelector": selector, "taint": taint}
        self._create("devicetaintrules", "DeviceTaintRule", f"{self.device_class}-{name}", spec)

    def remove_rule(self, name: str) -> None:
        self.api.delete(f"{GROUP}/devicetaintrules/{self.device_class}-{name}")

    def withdraw(self, node: str) -> None:
        """The driver is gone from a node."""
        name = f"{self.device_class}-{node}"
        self._slices.discard(name)
        self.api.delete(f"{GROUP}/resourceslices/{name}")

    def allocate(self, claim: str, node: str, device: str) -> None:
        """Somebody has allocated a device and then gone."""
        self.api.patch(f"{self.claims_path}/{claim}", {"metadata": {"finalizers": [PROTECTION]}}, MERGE_PATCH)
        result = {"request": "one", "driver": self.driver, "pool": node, "device": device}
        match = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": match}]},
        }
        self.api.patch(f"{self.claims_path}/{claim}/status", {"status": {"allocation": allocation}}, MERGE_PATCH)

    def report(self, claim: str, **conditions: str) -> None:
        """The driver says what has become of the first device of a claim."""
        (device, *_) = self.claim(claim)["status"]["allocation"]["devices"]["results"]
        when = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Test", "message": "as told"}
        said = [{"type": name, "status": status} | when for name, status in conditions.items()]
        place = {field: device[field] for field in ("driver", "pool", "device")}
        status = {"status": {"devices": [place | {"conditions": said}]}}
        self.api.patch(f"{self.claims_path}/{claim}/status", status, MERGE_PATCH)

    # What users do

    def add_claim(self, name: str, devices: int = 1, selector: str = "") -> None:
        """`selector`: a CEL expression."""
        wanted = self._wanted(devices, selector)
        self._create(f"namespaces/{self.scenario.namespace}/resourceclaims", "ResourceClaim", name, wanted)

    def add_template(self, name: str, devices: int = 1) -> None:
        path = f"namespaces/{self.scenario.namespace}/resourceclaimtemplates"
        self._create(path, "ResourceClaimTemplate", name, {"spec": self._wanted(devices)})

    def _wanted(self, devices: int, selector: str = "") -> Object:
        exactly: Object = {"deviceClassName": self.device_class, "count": devices}
        if selector:
            exactly["selectors"] = [{"cel": {"expression": selector}}]
        return {"devices": {"requests": [{"name": "one", "exactly": exactly}]}}

    def add_pod(self, name: str, *claims: str, template: str = "", node_name: str = "", **spec: object) -> None:
        """A pod with these claims, and one of a template."""
        wanted = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        if template:
            wanted.append({"name": "made", "resourceClaimTemplateName": template})
        if node_name:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node_name}
        self.scenario.add_pod(name, resourceClaims=wanted, **spec)  # type: ignore[arg-type]

    def _create(self, path: str, kind: str, name: str, spec: Object) -> None:
        self.api.create(f"{GROUP}/{path}", VERSION | {"kind": kind, "metadata": {"name": name}, "spec": spec})

    # What can be seen

    def claim(self, name: str) -> Object:
        return self.api.get(f"{self.claims_path}/{name}")

    def claims(self) -> list[Object]:
        return self.api.items(self.claims_path)

    def held_by(self, claim: str) -> list[str]:
        """The devices of a claim, as `pool/device`."""
        return [f"{found['pool']}/{found['device']}" for found in results(self.claim(claim))]

    def users(self, claim: str) -> list[str]:
        """The pods that have it reserved."""
        return [user["name"] for user in self.claim(claim).get("status", {}).get("reservedFor", [])]

    # The end

    def audit(self) -> None:
        found = [*self._held_twice(), *self._pods_astray()]
        if found:
            raise AssertionError("the audit of devices found:\n" + "\n".join(found))

    def check_pods(self) -> None:
        """Bound pods have what they claim, now."""
        found = [*self._pods_astray()]
        assert not found, found

    def _held_twice(self) -> Iterator[str]:
        """Devices that two claims ever held at one time."""
        holders: dict[str, dict[str, str]] = {}
        parameters = {"resourceVersion": self._version, "timeoutSeconds": "1"}
        with self.api.watch(self.claims_path, parameters) as history:
            for event in history:
                assert event["type"] != "ERROR", event
                claim = event["object"]
                uid, is_gone = claim["metadata"]["uid"], event["type"] == "DELETED"
                for devices in holders.values():
                    devices.pop(uid, None)
                for result in [] if is_gone else results(claim):
                    device = f"{result['driver']}/{result['pool']}/{result['device']}"
                    held = holders.setdefault(device, {})
                    held[uid] = name_of(claim)
                    if len(held) > 1:
                        yield f"device {device} was held by {sorted(held.values())}"

    def _pods_astray(self) -> Iterator[str]:
        """Bound pods with a claim that is not reserved for them, or has no device on their node."""
        pods = self.scenario.pods()  # before the claims: a pod that is bound meanwhile has its claims already
        claims = {claim["metadata"]["name"]: claim for claim in self.claims()}
        for pod in pods:
            node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
            if not node or pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            for name in claims_of(pod):
                claim = claims.get(name, {})
                users = [user["uid"] for user in claim.get("status", {}).get("reservedFor", [])]
                pools = {found["pool"] for found in results(claim)}
                if uid not in users or pools != {node}:
                    yield f"pod {name_of(pod)} on {node}: claim {name} has devices of {pools} and users {users}"


def results(claim: Object) -> list[Object]:
    """The devices of a claim."""
    allocation = claim.get("status", {}).get("allocation") or {}
    found: list[Object] = allocation.get("devices", {}).get("results", [])
    return found


def claims_of(pod: Object) -> list[str]:
    """Names of the claims that a pod has."""
    made = {one["name"]: one["resourceClaimName"] for one in pod["status"].get("resourceClaimStatuses", [])}
    entries = pod["spec"].get("resourceClaims", [])
    return [entry.get("resourceClaimName") or made[entry["name"]] for entry in entries]
