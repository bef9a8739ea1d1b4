"""A node's free resources: the simulation's own arithmetic, independent of the scheduler's in order to check it.

Amounts are exact integers in billionths (`api.quantity.nano_value`), so nothing is rounded before comparison. To stay
independent this module imports nothing of `framework`, and the sums are plain loops over containers.

Limits: requests of the spec only; a resize in progress is ignored.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from kscheduler.api.core import Container, Node, Pod, ResourceList, Taint
from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE
from kscheduler.api.quantity import nano_value
from kscheduler.api.validation.containers import is_extended
from kscheduler.api.well_known import UNSCHEDULABLE
from kscheduler.framework.rules.node_match import selects, untolerated

# Resource name to amount in billionths; `pods` counts pods.
Amounts = dict[str, int]
# (address, protocol, port); the address `0.0.0.0` means all.
HostPort = tuple[str, str, int]

_WHOLE = 10**9
_ALL_ADDRESSES = "0.0.0.0"
# The order in which lacking resources are named.
_FIRST = ("pods", "cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Lack:
    """A resource of which a node has too little: cpu in thousandths, others in units."""

    resource: str
    requested: int
    used: int
    allocatable: int


def needs_of(pod: Pod) -> Amounts:
    """The resources of a pod: containers and sidecars together, or the peak during its start.

    Pod-level requests replace the sums of the resources that they name; overhead is added; each pod counts as 1 of
    `pods`.
    """
    return _needs(pod, _request_of)


def _needs(pod: Pod, request_of: Callable[[Container], Amounts]) -> Amounts:
    spec = pod.spec
    running: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        request = request_of(container)
        _take_larger(peak, _together(running, request))
        if container.restart_policy == "Always":
            running = _together(running, request)
    for container in spec.containers:
        running = _together(running, request_of(container))
    _take_larger(peak, running)
    if spec.resources is not None:
        whole = {name: amount for name, amount in spec.resources.requests.items() if _may_be_pod_level(name)}
        peak.update(_amounts(whole))
    peak = _together(peak, _amounts(spec.overhead))
    peak["pods"] = _WHOLE
    return peak


def _request_of(container: Container) -> Amounts:
    return _amounts(container.resources.requests)


def _needs_without_devices(pod: Pod) -> Amounts:
    """As `needs_of`, without the extended resources that containers get as devices of the pod's own claim.

    The scheduler names them in the pod's status before it binds the pod; the node need not have any of them.
    """
    claimed = pod.status.extended_resource_claim_status
    served = {(each.container_name, each.resource_name) for each in claimed.request_mappings} if claimed else set()

    def request_of(container: Container) -> Amounts:
        request = _request_of(container)
        return {
            name: amount
            for name, amount in request.items()
            if not (_may_be_devices(name) and (container.name, name) in served)
        }

    return _needs(pod, request_of)


def _may_be_devices(name: str) -> bool:
    return is_extended(name) or name.startswith(IMPLICIT_EXTENDED_RESOURCE)


def _amounts(resources: ResourceList) -> Amounts:
    return {name: nano_value(quantity) for name, quantity in resources.items()}


def _together(left: Amounts, right: Amounts) -> Amounts:
    return {name: left.get(name, 0) + right.get(name, 0) for name in left | right}


def _take_larger(level: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        level[name] = max(level.get(name, 0), amount)


def _may_be_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _is_counted(name: str) -> bool:
    """Whether the resource is counted; native resources that are not allocated (`storage`) are not, as in kubelets."""
    return name in _FIRST or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def host_ports_of(pod: Pod) -> Iterator[HostPort]:
    """The host ports of the pod, including those of its sidecars."""
    sidecars = (sidecar for sidecar in pod.spec.init_containers if sidecar.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                yield port.host_ip or _ALL_ADDRESSES, port.protocol or "TCP", port.host_port


def _collide(left: HostPort, right: HostPort) -> bool:
    same_address = left[0] == right[0] or _ALL_ADDRESSES in (left[0], right[0])
    return same_address and left[1:] == right[1:]


class NodeCapacity:
    """A node's allocatable, and the pods that use it."""

    def __init__(self, node: Node) -> None:
        """Raises `QuantityError` if the node's allocatable cannot be read."""
        self.node = node
        self.used: Amounts = {}
        self._allocatable = _amounts(node.status.allocatable)
        self._pods: dict[str, Amounts] = {}
        self._counted_here: dict[str, Amounts] = {}
        """What each pod takes of the node itself, without what it gets as devices."""
        self._ports: dict[str, list[HostPort]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def set_node(self, node: Node) -> None:
        """Take a new version of the node."""
        self._allocatable = _amounts(node.status.allocatable)
        self.node = node

    def uids(self) -> frozenset[str]:
        """The UIDs of its pods."""
        return frozenset(self._pods)

    def add(self, pod: Pod) -> None:
        """Add a pod, whether it fits or not."""
        uid = pod.metadata.uid
        self.remove(uid)
        self._pods[uid] = needs_of(pod)
        self._counted_here[uid] = _needs_without_devices(pod)
        self.used = _together(self.used, self._pods[uid])
        if ports := list(host_ports_of(pod)):
            self._ports[uid] = ports

    def remove(self, uid: str) -> None:
        """Remove a pod, if it is here."""
        for name, amount in self._pods.pop(uid, {}).items():
            self.used[name] -= amount
        self._counted_here.pop(uid, None)
        self._ports.pop(uid, None)

    def lack_for(self, pod: Pod) -> Lack | None:
        """The first resource that is insufficient for another pod."""
        needs = needs_of(pod)
        return next(self._lacks(needs, needs), None)

    def lack_at_admission(self, pod: Pod) -> Lack | None:
        """The first resource for which the node's kubelet rejects the pod.

        Extended resources that the node does not name are skipped: somebody else counts them, such as an extender
        of the scheduler. So are those for which the pod has devices.
        """
        needs = _needs_without_devices(pod)
        return next(
            self._lacks(needs, (name for name in needs if name in self._allocatable or not is_extended(name))), None
        )

    def overcommitted(self) -> list[Lack]:
        """The overcommitted resources; what pods get as devices is not the node's."""
        here: Amounts = {}
        for amounts in self._counted_here.values():
            for name, amount in amounts.items():
                here[name] = here.get(name, 0) + amount
        return list(self._lacks({}, here, here))

    def _lacks(self, needs: Amounts, names: Iterable[str], all_used: Amounts | None = None) -> Iterator[Lack]:
        taken = self.used if all_used is None else all_used
        for name in sorted(names, key=_naming_order):
            requested, used, allocatable = needs.get(name, 0), taken.get(name, 0), self._allocatable.get(name, 0)
            matters = _is_counted(name) and (requested > 0 or not needs)
            if matters and used + requested > allocatable:
                yield Lack(name, _shown(name, requested), _shown(name, used), _shown(name, allocatable))

    def collision_for(self, pod: Pod) -> HostPort | None:
        """A host port of the pod that another pod on the node has already."""
        taken = [port for ports in self._ports.values() for port in ports]
        return next(
            (port for port in host_ports_of(pod) for taken_port in taken if _collide(port, taken_port)),
            None,
        )

    def share(self, resource: str) -> float:
        """The used share of the allocatable amount, 0 to 1 (more if overcommitted; 0 if the node has none)."""
        allocatable = self._allocatable.get(resource, 0)
        return self.used.get(resource, 0) / allocatable if allocatable else 0.0


def _naming_order(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def _shown(name: str, nanos: int) -> int:
    return -(-nanos // (10**6 if name == "cpu" else _WHOLE))


# Whether a node may run a pod, checked for a single node and pod, independently of the scheduler's columns.
#
# Kubelets use `refusal`, the checks at admission (resources, required node affinity, host ports, NoExecute taints). The
# demo uses `fits`, whether a scheduler may place the pod there, which includes NoSchedule taints and cordons. Rules
# about other nodes or volumes are not checked here, only detected (`needs_other_rules`).

# Taints with these effects keep a scheduler from placing a pod.
HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_CORDON = Taint(key=UNSCHEDULABLE, effect="NoSchedule")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kubelet's rejection of a pod: its `status.reason` and `status.message`."""

    reason: str
    message: str


def refusal(pod: Pod, room: NodeCapacity) -> Refusal | None:
    """Why the node's kubelet would reject the pod; `None` if it would run it."""
    lack = room.lack_at_admission(pod)
    if lack is not None:
        amounts = f"requested: {lack.requested}, used: {lack.used}, capacity: {lack.allocatable}"
        text = f"Pod was rejected: Node didn't have enough resource: {lack.resource}, {amounts}"
        return Refusal(f"OutOf{lack.resource}", text)
    for rule, holds in (
        ("NodeAffinity", selects(pod, room.node)),
        ("NodePorts", room.collision_for(pod) is None),
        ("TaintToleration", _tolerates_all(pod, room.node.spec.taints, {"NoExecute"})),
    ):
        if not holds:
            return Refusal(rule, f"Pod was rejected: Predicate {rule} failed")
    return None


def fits(pod: Pod, room: NodeCapacity) -> bool:
    """Whether a scheduler may place the pod on the node together with its present pods."""
    wanted = pod.spec.node_name
    if wanted and wanted != room.node.metadata.name:
        return False
    # a cordoned node counts as tainted even before the node lifecycle controller has written the taint
    taints = (*room.node.spec.taints, _CORDON) if room.node.spec.unschedulable else room.node.spec.taints
    if not _tolerates_all(pod, taints, HARD_EFFECTS) or not selects(pod, room.node):
        return False
    return room.lack_for(pod) is None and room.collision_for(pod) is None


def _tolerates_all(pod: Pod, taints: Iterable[Taint], effects: Collection[str]) -> bool:
    return not any(untolerated(taints, pod.spec.tolerations, effects))


def needs_other_rules(pod: Pod) -> bool:
    """Whether the pod's place depends on other pods, volumes, devices or groups, beyond a single node."""
    spec = pod.spec
    affinity = spec.affinity
    near_others = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    claims = any(volume.persistent_volume_claim or volume.ephemeral is not None for volume in spec.volumes)
    return bool(
        near_others or claims or spec.topology_spread_constraints or spec.resource_claims or spec.scheduling_group
    )
