"""What happened to pods and their claims to devices, for free runs, and what they hold in one."""

from collections.abc import Iterator
from typing import Any, Final

from kscheduler.api.devices import ResourceClaim
from kscheduler.api.kinds import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.well_known import HOSTNAME
from kscheduler.assembly.configured import Configured
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.recorder.alternatives.free_run import ExternalChange, FreeRun
from kscheduler.recorder.step_clock import MICROS
from tests.builders import make_node, make_pod
from tests.plugins.dynamic_resources.stage import allocation, claim, device_class, devices_of, exactly

Tree = dict[str, Any]
KINDS: Final = [NODES, PODS, DEVICE_CLASSES, RESOURCE_SLICES, RESOURCE_CLAIMS]
PACKED: Final = b"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: kscheduler
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
SPREAD: Final = default_configuration("kscheduler", parse_feature_gates("", version="1.37"))
# What drivers say of a device.
READY: Final = {"driver": "gpu.example.com", "pool": "n0", "device": "gpu-0", "conditions": []}


class Recording:
    """What happened, a second at a time: changes that a run is given."""

    def __init__(self, nodes: int = 2, devices: int = 2) -> None:
        self.second = 1
        self.changes: list[ExternalChange] = []
        self._now: dict[tuple[Kind, str], KubeObject] = {}
        self.put(DEVICE_CLASSES, device_class())
        for name in [f"n{number}" for number in range(nodes)]:
            self.put(NODES, make_node(name, labels={HOSTNAME: name}))
            self.put(RESOURCE_SLICES, devices_of(name, *[f"gpu-{number}" for number in range(devices)]))

    def put(self, kind: Kind, new: KubeObject) -> None:
        """It is there, or is another one now."""
        self._change(kind, new.key, new)

    def remove(self, kind: Kind, key: str) -> None:
        """It is gone."""
        self._change(kind, f"default/{key}", None)

    def _change(self, kind: Kind, key: str, new: Any) -> None:
        old: Any = self._now.pop((kind, key), None)
        if new is not None:
            self._now[kind, key] = new
        self.changes.append(ExternalChange(self.second * MICROS, kind, old, new))

    def pod(self, name: str, *claims: str, **fields: Any) -> None:
        """A pod comes or changes, with claims of these names."""
        entries = [{"name": each, "resourceClaimName": each} for each in claims]
        self.put(PODS, make_pod(name, **({"resourceClaims": entries, "requests": {"cpu": "1"}} | fields)))

    def claim(self, name: str, *devices: str, users: tuple[str, ...] = (), owner: str = "", **more: Any) -> None:
        """A claim comes or changes; it has these devices (`n0/gpu-0`), and is reserved for these pods."""
        node = devices[0].partition("/")[0] if devices else ""
        held = allocation(node, *[each.partition("/")[2] for each in devices]) if devices else None
        status: Tree = {"reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-of-{user}"} for user in users]}
        meta: Tree = dict(more.pop("metadata", {}))
        if owner:
            of = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-of-{owner}", "controller": True}
            meta["ownerReferences"] = [of]
        count = exactly(count=more.pop("count", 1))
        self.put(RESOURCE_CLAIMS, claim(name, count, allocated=held, metadata=meta, status=status | more))

    def wait(self, seconds: int = 1) -> None:
        """Time goes on; the queue is flushed as often as in the service."""
        for _ in range(seconds):
            self.second += 1
            self.changes.append(ExternalChange(self.second * MICROS, None, is_net=True))


def played(recording: Recording, config: LoadedConfig = SPREAD, victims: frozenset[str] = frozenset()) -> FreeRun:
    """All of it, under this configuration."""
    run = FreeRun(Configured(config), KINDS, victims)
    for change in recording.changes:
        run.apply_external(change)
        held = list(held_devices(run))
        assert len(held) == len(set(held)), f"twice: {held}"
    return run


def held_devices(run: FreeRun) -> Iterator[str]:
    for each in run.assembly.cache.devices.claims.allocated():
        assert each.status.allocation is not None
        yield from (f"{found.pool}/{found.device}" for found in each.status.allocation.devices.results)


def found(run: FreeRun, name: str) -> ResourceClaim | None:
    return run.assembly.cache.devices.claims.get(f"default/{name}")


def devices_in(run: FreeRun, name: str) -> list[str]:
    """The devices that a claim has."""
    known = found(run, name)
    if known is None or known.status.allocation is None:
        return []
    return [f"{each.pool}/{each.device}" for each in known.status.allocation.devices.results]


def users_of(run: FreeRun, name: str) -> list[str]:
    known = found(run, name)
    return [] if known is None else [user.name for user in known.status.reserved_for]


def node_of(run: FreeRun, name: str) -> str:
    pod = run.pod_of(f"default/{name}")
    assert pod is not None
    return pod.spec.node_name
