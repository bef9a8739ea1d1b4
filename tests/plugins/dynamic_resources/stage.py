"""A cluster with devices for these tests, and DynamicResources over it."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from msgspec.structs import replace

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kscheduler.api.kinds import RESOURCE_SLICES
from kscheduler.assembly import Ports
from kscheduler.assembly.profiles_over import handle_over
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.plugin_args import DynamicResourcesArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.informers.transform import default_transform
from kscheduler.plugins.dynamic_resources import DynamicResources
from kscheduler.plugins.dynamic_resources.in_cycle import ClaimsInCycle
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod

Tree = dict[str, Any]
DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", **spec: Any) -> DeviceClass:
    """A class without selectors, unless `spec` has some."""
    return convert({"metadata": {"name": name}, "spec": spec}, DeviceClass)


def devices_of(node: str, *devices: str | Tree, **spec: Any) -> ResourceSlice:
    """The slice of a node with these devices, in a pool of its own."""
    described = [device if isinstance(device, dict) else {"name": device} for device in devices]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    own = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": described, **spec}
    return convert({"metadata": {"name": f"slice-{node}"}, "spec": own}, ResourceSlice)


def exactly(name: str = "r", count: int = 1, device_class: str = "gpu", **more: Any) -> Tree:
    """A request for devices of a class."""
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count, **more}}


def first_available(name: str, *classes: str) -> Tree:
    """A request with alternatives, one for each class and named after it."""
    alternatives = [{"name": each, "deviceClassName": each, "count": 1} for each in classes]
    return {"name": name, "firstAvailable": alternatives}


def allocation(node: str, *devices: str, **more: Any) -> Tree:
    """Devices of a node, which it alone reaches."""
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": each, **more} for each in devices]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}


def claim(
    name: str = "c0",
    *requests: Tree,
    allocated: Tree | None = None,
    users: Sequence[str] = (),
    version: int = 1,
    metadata: Tree | None = None,
    status: Tree | None = None,
) -> ResourceClaim:
    """A claim for one GPU, unless other requests are given; `users` are UIDs of pods."""
    own = {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    reserved = [{"resource": "pods", "name": uid, "uid": uid} for uid in users]
    known = {"reservedFor": reserved} | ({"allocation": allocated} if allocated is not None else {}) | (status or {})
    spec = {"devices": {"requests": list(requests) or [exactly()]}}
    return convert({"metadata": own | (metadata or {}), "spec": spec, "status": known}, ResourceClaim)


def taint_rule(name: str = "bad", **selector: str) -> DeviceTaintRule:
    """A rule that keeps devices from being used."""
    taint = {"key": name, "effect": "NoSchedule"}
    spec = {"deviceSelector": selector, "taint": taint}
    return convert({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)


def user(*claims: str, name: str = "pod", **fields: Any) -> Pod:
    """A pod that names these claims."""
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    return make_pod(name, resourceClaims=entries, **fields)


class Stage:
    """Nodes `n0` and so on, objects of devices, and the plugin with the defaults of a version."""

    def __init__(
        self,
        *objects: Any,
        nodes: int = 2,
        version: str = "1.37",
        filter_seconds: float = 10.0,
        shares_devices: bool = False,
    ) -> None:
        """`shares_devices`: as informers do, so that nodes have layouts in common."""
        self.share = default_transform(RESOURCE_SLICES.resource) if shares_devices else None
        gates = FeatureGates(version=version)
        self.cache, self.clock = Cache(gates.behaviours), VirtualClock()
        for number in range(nodes):
            self.cache.add_node(make_node(f"n{number}"))
        for each in objects:
            self.put(each)
        self.handle = handle_over(self.cache, Ports(), gates=gates, clock=self.clock)
        args = DynamicResourcesArgs(filter_timeout=round(filter_seconds * 1e9))  # type: ignore[arg-type]
        self.plugin = DynamicResources(args, self.handle)
        self.cycle = CycleState()

    def put(self, obj: Any) -> None:
        """Store an object as its handler would."""
        devices = self.cache.devices
        match obj:
            case DeviceClass():
                devices.put_class(obj)
            case ResourceSlice():
                if self.share is not None:
                    self.share(obj)
                devices.put_slice(obj)
            case ResourceClaim():
                devices.claims.update(obj)
            case DeviceTaintRule():
                devices.put_rule(obj)

    def without(self, **changed: Any) -> DynamicResources:
        """The plugin over another Handle."""
        return DynamicResources(None, replace(self.handle, **changed))

    # --- a cycle ------------------------------------------------------------------------------------------------------

    def begin(self, pod: Pod) -> Status:
        """A new cycle, up to PreFilter."""
        self.cycle = CycleState()
        return self.plugin.pre_filter(self.cycle, PodInfo(pod), self.cache.nodes).status

    def judge(self, pod: Pod) -> dict[str, str]:
        """A new cycle, up to Filter: by node what it lacks, or what the claims get there."""
        status = self.begin(pod)
        assert status is SUCCESS, status
        nodes = self.cache.nodes
        rows = nodes.rows()
        codes = self.plugin.filter(self.cycle, PodInfo(pod), nodes, rows)
        state = self.cycle.read(ClaimsInCycle)
        verdicts = {}
        for row, code in zip(rows.tolist(), [0] * len(rows) if codes is None else codes.tolist(), strict=True):
            name = nodes.name_of(row)
            if code:
                verdicts[name] = self.plugin.status(self.cycle, code).message
            else:
                verdicts[name] = ",".join(names(each) for each in state.found_on(nodes.info(row)) or ())
        return verdicts

    def points(self, pod: Pod) -> dict[str, int]:
        """Raw points by node."""
        nodes = self.cache.nodes
        scores = self.plugin.score(self.cycle, PodInfo(pod), nodes, nodes.rows())
        return dict(zip(map(nodes.name_of, nodes.rows().tolist()), scores.tolist(), strict=True))

    def post_filter(self, pod: Pod) -> PostFilterResult:
        """PostFilter after a cycle in which no node fits."""
        return self.plugin.post_filter(self.cycle, PodInfo(pod), self.cache.nodes, Diagnosis())

    def details(self, pod: Pod) -> list[Detail]:
        """About all nodes."""
        nodes = self.cache.nodes
        return list(self.plugin.details(self.cycle, PodInfo(pod), nodes, nodes.rows()))

    def reserve(self, pod: Pod, node: str) -> Status:
        """Reserve in the cycle that `judge` began."""
        return self.plugin.reserve(self.cycle, PodInfo(pod), node)

    def unreserve(self, pod: Pod, node: str) -> None:
        """Give back what `reserve` took."""
        self.plugin.unreserve(self.cycle, PodInfo(pod), node)


def names(allocated: AllocationResult) -> str:
    """The devices of an allocation."""
    return "+".join(result.device for result in allocated.devices.results)


class TickingClock(VirtualClock):
    """A second passes with each look at the clock."""

    def __init__(self) -> None:
        super().__init__()
        self._ticks: Iterator[int] = count()

    def monotonic(self) -> float:
        return float(next(self._ticks))
