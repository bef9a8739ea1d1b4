"""What the benchmarks on a real API server put into it, as data: nodes, and pods in several mixtures.

A workload is one kind of pod, or several that take turns. The pods of a kind belong to Deployments that take turns too,
as they would arrive in a cluster where many things happen at once. All schedulers are given the very same objects, so
all of them go by one scheduler name.

What is asked of a workload (`Goal`) is kept beside it, so that a run can say where it stands.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType
from typing import Any, Final

from benchmarks.real import devices
from benchmarks.real.gangs import Gangs
from kscheduler.api.well_known import HOSTNAME, ZONE
from kscheduler.bench.objects import PREFERRED, REQUIRED, app_term, spread, weighted

Object = dict[str, Any]

SCHEDULER_NAME: Final = "kscheduler"
NAMESPACE: Final = "bench"
ZONES: Final = ("zone-0", "zone-1", "zone-2")
PODS_PER_NODE: Final = 110


def node(number: int) -> Object:
    """A node with 32 CPUs, 128 GiB and room for 110 pods, in one of three zones."""
    name = f"node-{number:05}"
    capacity = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": str(PODS_PER_NODE)}
    labels = {HOSTNAME: name, ZONE: ZONES[number % len(ZONES)]}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


# --- what pods ask for: the part of their spec that says so, from a number and the name of their Deployment -----------


def nothing(number: int, app: str) -> Object:  # noqa: ARG001 one signature for all
    return {}


def zone_of_its_own(number: int, app: str) -> Object:  # noqa: ARG001 one signature for all
    """Required node affinity to one zone, another for each pod."""
    return {"affinity": _in_zones(ZONES[number % len(ZONES)])}


def two_zones_near_its_like(number: int, app: str) -> Object:  # noqa: ARG001 one signature for all
    """Required node affinity to two of the three zones, and rather where others of the Deployment are."""
    return {"affinity": _in_zones(*ZONES[:2]) | _near(app)}


def near_its_like(number: int, app: str) -> Object:  # noqa: ARG001 one signature for all
    """Preferred pod affinity by zone."""
    return {"affinity": _near(app)}


def spread_over_zones(number: int, app: str) -> Object:  # noqa: ARG001 one signature for all
    return {"topologySpreadConstraints": [spread(ZONE, 1, "DoNotSchedule", {"app": app})]}


def spread_over_zones_and_hosts(number: int, app: str) -> Object:  # noqa: ARG001 one signature for all
    """Over zones it must be even, over hosts it should."""
    soft = spread(HOSTNAME, 1, "ScheduleAnyway", {"app": app})
    return {"topologySpreadConstraints": [spread(ZONE, 1, "DoNotSchedule", {"app": app}), soft]}


def one_per_host(number: int, app: str) -> Object:  # noqa: ARG001 one signature for all
    return {"affinity": {"podAntiAffinity": {REQUIRED: [app_term(HOSTNAME, app)]}}}


def _in_zones(*zones: str) -> Object:
    place = {"key": ZONE, "operator": "In", "values": list(zones)}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [place]}]}}}


def _near(app: str) -> Object:
    return {"podAffinity": {PREFERRED: [weighted(app_term(ZONE, app))]}}


# --- workloads --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Pods that ask for the same, each for its own Deployment."""

    name: str
    asks: Callable[[int, str], Object]
    deployments: int
    """So many take turns."""


@dataclass(frozen=True)
class Goal:
    """What kscheduler is held to."""

    times_kube_scheduler: float
    """Pods a second, to kube-scheduler's in the same run."""
    cpu_milliseconds: float
    """Per pod, at most."""
    times_floor: float
    """Pods a second, to those of the client that decides nothing."""


@dataclass(frozen=True)
class Workload:
    """Pods that wait while no scheduler runs, and the nodes for them."""

    name: str
    about: str
    nodes: int
    kinds: tuple[Kind, ...]
    goal: Goal
    pods: int = 5_000
    beside: Callable[[int, int, str], Iterable[tuple[str, Iterable[Object]]]] | None = None
    """From the numbers of nodes and pods and the namespace: paths, and what is created there before the pods."""
    has_gangs: bool = False
    """Needs pod groups: Kubernetes 1.37 with its gate. A pod that arrives alone would wait for others: none do."""

    def pod(self, number: int) -> Object:
        """The pod that is created as the `number`th, small enough that nodes are never short of room."""
        kind = self.kinds[number % len(self.kinds)]
        app = f"{kind.name}-{number // len(self.kinds) % kind.deployments}"
        resources = {"requests": {"cpu": "100m", "memory": "256Mi"}}
        container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
        metadata = {"name": f"pod-{number:05}", "namespace": NAMESPACE, "labels": {"app": app}}
        spec = {"schedulerName": SCHEDULER_NAME, "containers": [container], **kind.asks(number, app)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def least_nodes(self, pods: int) -> int:
        """How many nodes so many pods need: one for each 110, and one for each pod of a Deployment that shares none."""
        of_a_kind = ceil(pods / len(self.kinds))
        apart = (ceil(of_a_kind / kind.deployments) for kind in self.kinds if kind.asks is one_per_host)
        return max(ceil(pods / PODS_PER_NODE), len(ZONES), *apart)


PLAIN: Final = Goal(1.4, 0.6, 0.85)
CONSTRAINED: Final = Goal(3.8, 0.8, 0.75)
CLAIMING: Final = Goal(3.0, 3.0, 0.0)
_ANY: Final = (Kind("plain", nothing, 1),)
_AFFINE: Final = (Kind("affine", two_zones_near_its_like, 50),)
_EVEN: Final = (Kind("even", spread_over_zones_and_hosts, 50),)
_APART: Final = (Kind("apart", one_per_host, 500),)
_CLAIMING: Final = (Kind("claiming", devices.one_device, 1),)
_GANGS, _LARGE_GANGS = Gangs(3), Gangs(1_000)
_THREE: Final = (Kind("gang", _GANGS.asks, 1),)
_THOUSAND: Final = (Kind("gang", _LARGE_GANGS.asks, 1),)
_MIXED: Final = (
    Kind("plain", nothing, 10),
    Kind("placed", zone_of_its_own, 10),
    Kind("spread", spread_over_zones, 10),
    Kind("apart", one_per_host, 10),
    Kind("near", near_its_like, 10),
)
_ALL: Final = (
    Workload("plain-1000", "plain", 1_000, _ANY, PLAIN),
    Workload("plain", "plain", 5_000, _ANY, PLAIN),
    Workload("affinity", "required node affinity, preferred zone pod affinity", 5_000, _AFFINE, CONSTRAINED),
    Workload("spread", "hard zone spread, soft host spread", 5_000, _EVEN, CONSTRAINED),
    Workload("anti-affinity", "required hostname anti-affinity, 500 groups", 5_000, _APART, CONSTRAINED),
    Workload("mixed", "five kinds in turn, 50 Deployments", 5_000, _MIXED, CONSTRAINED),
    Workload("claims", "a device each", 1_000, _CLAIMING, CLAIMING, 2_500, devices.plain_claims),
    Workload("claims-selected", "a device each, by CEL", 1_000, _CLAIMING, CLAIMING, 2_500, devices.selected_claims),
    Workload("claims-match", "two devices each, one root", 1_000, _CLAIMING, CLAIMING, 2_500, devices.matching_claims),
    Workload("gangs", "gangs of 3", 5_000, _THREE, PLAIN, 3_000, _GANGS.groups, has_gangs=True),
    Workload("gangs-large", "gangs of 1,000", 5_000, _THOUSAND, PLAIN, 3_000, _LARGE_GANGS.groups, has_gangs=True),
)
WORKLOADS: Final[Mapping[str, Workload]] = MappingProxyType({one.name: one for one in _ALL})
