"""What came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

NEW: Final = "new"
# Where pods come from, besides those that replace others.
PENDING: Final = "pending"
DRAIN: Final = "drain"
REMOVAL: Final = "removal"
# Why pods are evicted, besides for a preemptor.
TAINT: Final = "taint"
# Behind the name of a class, as a ResourceQuota names its devices.
DEVICES_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod that has got a node."""

    pod: str
    """`namespace/name`."""
    node: str
    origin: str
    """`pending`: it waits in the cluster; `new`: it was asked about; else the pod that it replaces."""


@dataclass(frozen=True, slots=True)
class StillPending:
    """A pod that stays pending."""

    pod: str
    message: str
    """Why, as its condition would say."""
    origin: str
    nominated_node: str = ""


@dataclass(frozen=True, slots=True)
class Evicted:
    """A pod that had to go."""

    pod: str
    node: str
    by: str
    """The preemptor; `drain`, `removal` or `taint` (NoExecute)."""
    priority: int
    replacement: str
    """The pod that its controller makes instead; empty: nobody makes one."""
    after_seconds: int = 0
    """For how long it tolerates the taint; 0 for all others."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What `kubectl drain --ignore-daemonsets` of a node comes to."""

    node: str
    evicted: tuple[str, ...]
    blocked: tuple[tuple[str, str], ...]
    """Pods that stay, each with the disruption budget that allows no further disruption."""
    unmanaged: tuple[str, ...]
    """Pods without a controller: drain refuses them without --force, and then they are lost."""
    staying: tuple[str, ...]
    """Pods of DaemonSets, and of the node itself."""


@dataclass(frozen=True, slots=True)
class ResourceCapacity:
    """Of one resource on all nodes, in the scheduler's units (cpu in thousandths)."""

    allocatable: int
    requested: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many more would fit."""

    pods: int
    is_more: bool = False
    """At least so many: the count was ended."""
    groups: int | None = None
    """How many whole gangs that are; `None`: the first new pod is in none, and pods are counted one by one."""
    group: str = ""
    """The gang that they are like, `namespace/name`."""


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The outcome of a plan."""

    placed: tuple[Placed, ...] = ()
    """In the order of the bindings."""
    waiting: tuple[StillPending, ...] = ()
    evicted: tuple[Evicted, ...] = ()
    drains: tuple[Drained, ...] = ()
    before: Mapping[str, ResourceCapacity] = field(default_factory=dict)
    """By resource."""
    after: Mapping[str, ResourceCapacity] = field(default_factory=dict)
    capacity: Capacity | None = None
    """`None`: not asked."""
    notes: tuple[str, ...] = ()
    added_nodes: tuple[str, ...] = ()
    """The nodes that came, by name."""
    left_out: tuple[str, ...] = ()
    """Objects of the cluster that cannot be read, and were not there: `node web-1`."""
    is_whole: bool = True
    """Played to its end; else the time was up."""
