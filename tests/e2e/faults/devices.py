"""The devices of a lane: a class, some on each node, and a claim for each pod that wants one."""

from collections import Counter

from tests.controlplane.rest import Api

GROUP = "/apis/resource.k8s.io/v1"


class Devices:
    """A driver of the lane's own; claims are made in one namespace."""

    def __init__(self, api: Api, lane: str, namespace: str) -> None:
        self._api = api
        self._lane = lane
        self._driver = f"{lane}.example.com"
        self._claims = f"{GROUP}/namespaces/{namespace}/resourceclaims"
        self._has_class = False

    def publish(self, node: str, count: int) -> None:
        """The node's devices; with the first of them the class."""
        if not self._has_class:
            selector = {"cel": {"expression": f"device.driver == '{self._driver}'"}}
            self._create(f"{GROUP}/deviceclasses", "DeviceClass", self._lane, {"selectors": [selector]})
            self._has_class = True
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"device-{number}"} for number in range(count)]
        spec = {"driver": self._driver, "nodeName": node, "pool": pool, "devices": devices}
        self._create(f"{GROUP}/resourceslices", "ResourceSlice", node, spec)

    def withdraw(self, node: str) -> None:
        """The node is gone, and when it was the first one, the class."""
        self._api.delete(f"{GROUP}/resourceslices/{node}", missing_ok=True)
        self._api.delete(f"{GROUP}/deviceclasses/{self._lane}", missing_ok=True)

    def add_claim(self, namespace: str, name: str) -> None:
        wanted = {"name": "one", "exactly": {"deviceClassName": self._lane, "count": 1}}
        path = f"{GROUP}/namespaces/{namespace}/resourceclaims"
        self._create(path, "ResourceClaim", name, {"devices": {"requests": [wanted]}})

    def clear(self) -> None:
        """Removes the claims, protected or not: their pods go with them."""
        for claim in self._api.items(self._claims):
            path = f"{self._claims}/{claim['metadata']['name']}"
            if claim["metadata"].get("finalizers"):
                self._api.patch(path, {"metadata": {"finalizers": None}})
            self._api.delete(path, missing_ok=True)

    def given_twice(self) -> list[str]:
        """A line for each device that several claims hold."""
        holders = Counter(
            (result["pool"], result["device"])
            for claim in self._api.items(self._claims)
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        )
        return [f"a device held by {count} claims: {device}" for device, count in holders.items() if count > 1]

    def _create(self, path: str, kind: str, name: str, spec: object) -> None:
        body = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self._api.create(path, body)
