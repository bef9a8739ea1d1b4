"""A pod with the derived values that plugins read.

Derived values are computed on first use and kept: a waiting pod costs no more than its object, and a repeated cycle
does not parse again.
"""

from collections.abc import Hashable
from functools import cached_property
from typing import Any, ClassVar, Final

import msgspec

from kscheduler.api import selectors
from kscheduler.api.core import Container, NodeAffinity, Pod, Toleration
from kscheduler.framework.pods import pod_weight, requests
from kscheduler.framework.pods.affinity_terms import AffinityTerms, affinity_terms
from kscheduler.framework.pods.requests import Requests, Resizing
from kscheduler.framework.pods.spread_constraint import SpreadConstraint, parse_spread_constraint

# Protocol, port, host IP (`0.0.0.0` means all addresses).
HostPort = tuple[str, int, str]

ALL_INTERFACES = "0.0.0.0"
# Shared, because most pods have no host ports and Python would create a new empty set for each.
_NO_PORTS: Final[frozenset[HostPort]] = frozenset()

# Values that depend only on a pod's spec and namespace, as long as its status has no resources: those that a pod needs
# to count on a node, and those that only a pod needs which is being decided.
_COUNTED = ("accounted", "nonzero_accounted", "host_ports", "affinity_terms")
_DECIDED = (
    "requests",
    "nonzero_requests",
    "nonzero_pod_requests",
    "node_selector",
    "required_node_terms",
    "images",
)
_SPREAD = ("spread_constraints", "spread_by_action")
# Flags of what is known: of the first ones, and whether the pod is costly.
_SUMS, _PORTS, _TERMS, _IS_CHEAP, _IS_COSTLY = 1, 2, 4, 8, 16


class PodInfo:
    """A pod and its derived values. Never modified: a new version of the object is a new PodInfo."""

    # A million pods count on nodes that are not being decided. So what counting needs has a place of its own, and the
    # dict of all other derived values is only made when there are any.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_known",
        "is_like_another",
        "pod",
        "priority",
        "signature",
        "uid",
        *_COUNTED,
    )

    resizing: ClassVar[Resizing] = Resizing.BY_CONTAINER
    """What counts on its node while it is being resized."""
    accounted: Requests
    """The amounts that the pod uses on its node."""
    nonzero_accounted: tuple[int, int]
    """(cpu in thousandths, memory in bytes) that scoring presumes the pod uses on its node."""
    host_ports: frozenset[HostPort]
    """(protocol, port, address) of the host ports of containers and sidecars.

    Those of ordinary init containers are not counted (Q32).
    """
    affinity_terms: AffinityTerms
    """The affinity and anti-affinity terms about other pods."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        """The object: fields as in the API, in snake_case."""
        metadata = pod.metadata
        self.uid = metadata.uid or pod.key
        """The object's UID; `namespace/name` for a pod of a file that has none."""
        self.priority = pod.spec.priority or 0
        """`spec.priority`; 0 if it has none."""
        self.signature: Hashable | None = None
        """Equal for pods that all plugins treat alike; `None` until it is computed (`signatures`)."""
        self._known = 0
        self.is_like_another = False
        """Whether it has taken over derived values of another pod: then more such pods are likely."""

    def __getattr__(self, name: str) -> Any:
        # Called for what counting needs, the first time, and for names that do not exist.
        if name in ("accounted", "nonzero_accounted"):
            # Both are asked for when it is counted there, and sums of giants are not kept anywhere else.
            self.accounted, self.nonzero_accounted = requests.both_accounted(self.pod, self.resizing)
            self._known |= _SUMS
        elif name == "host_ports":
            self.host_ports = _host_ports_of(self.pod)
            self._known |= _PORTS
        elif name == "affinity_terms":
            self.affinity_terms = affinity_terms(self.pod)
            self._known |= _TERMS
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    def bare(self) -> "PodInfo":
        """The same pod without derived values, except the signature: for pods that wait long."""
        bare = type(self)(self.pod)
        bare.signature = self.signature
        return bare

    def take(self, other: "PodInfo", *, is_alike: bool = False) -> None:
        """Take over the derived values of another pod with an equal spec in the same namespace.

        `is_alike`: its labels are equal, too.
        """
        known = other._known & (_SUMS | _PORTS | _TERMS)
        self._known |= known
        if known & _SUMS:
            self.accounted, self.nonzero_accounted = other.accounted, other.nonzero_accounted
        if known & _PORTS:
            self.host_ports = other.host_ports
        if known & _TERMS:
            self.affinity_terms = other.affinity_terms
        values, others = self.__dict__, other.__dict__
        self.is_like_another = True
        if is_alike:
            values.update(others)
            return
        for name in _DECIDED:
            if name in others:
                values[name] = others[name]
        constraints = self.pod.spec.topology_spread_constraints
        keys = [key for constraint in constraints for key in constraint.match_label_keys] if constraints else ()
        if not keys or all(self.labels.get(key) == other.labels.get(key) for key in keys):
            for name in _SPREAD:
                if name in others:
                    values[name] = others[name]

    def take_sums(self, other: "PodInfo") -> bool:
        """Take over the sums of another version of the pod; False if they cannot be told to be the same.

        The sums of the other version must be computable.
        """
        spec, others = self.pod.spec, other.pod.spec
        if spec is others or (spec.containers == others.containers and spec.init_containers == others.init_containers):
            self.host_ports = other.host_ports
            self._known |= _PORTS
        if not requests.depend_on_the_same(other.pod, self.pod):
            return False
        self.accounted, self.nonzero_accounted = other.accounted, other.nonzero_accounted
        self._known |= _SUMS
        return True

    def take_counted(self, other: "PodInfo") -> None:
        """Take over what counting on a node needs, of another version with the same containers and resources."""
        self.accounted, self.nonzero_accounted = other.accounted, other.nonzero_accounted
        self.host_ports = other.host_ports
        self._known |= _SUMS | _PORTS

    def count_sums(self) -> None:
        """Compute what it uses on its node, if it is not known yet: `accounted` and `nonzero_accounted`."""
        if not self._known & _SUMS:
            self.accounted, self.nonzero_accounted = requests.both_accounted(self.pod, self.resizing)
            self._known |= _SUMS

    @property
    def key(self) -> str:
        """`namespace/name`."""
        metadata = self.pod.metadata  # as `pod.key`, without another call
        return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.pod.metadata.name

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.pod.metadata.namespace

    @property
    def labels(self) -> dict[str, str]:
        """The pod's labels."""
        return self.pod.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        """The pod's annotations."""
        return self.pod.metadata.annotations

    @property
    def node_name(self) -> str:
        """The node that the pod is on, or empty."""
        return self.pod.spec.node_name

    @property
    def is_terminating(self) -> bool:
        """Whether its deletion has been requested."""
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """`spec.tolerations`."""
        return self.pod.spec.tolerations

    @property
    def is_costly(self) -> bool:
        """Whether it has so many entries that it must wait behind others (`pod_weight`)."""
        # Not a `cached_property`: each pod is asked, and that takes a lock in Python 3.11.
        if not self._known & (_IS_CHEAP | _IS_COSTLY):
            self._known |= _IS_COSTLY if pod_weight.weight_of(self.pod) > pod_weight.COSTLY else _IS_CHEAP
        return self._known & _IS_COSTLY != 0

    @cached_property
    def requests(self) -> Requests:
        """The amounts that a node must have free for the pod, by resource, in units as `NodeInfo.allocatable`."""
        return requests.incoming_requests(self.pod)

    @cached_property
    def nonzero_requests(self) -> Requests:
        """The requests that NodeResourcesFit's score presumes until 1.37: without pod-level requests (Q4)."""
        return requests.nonzero_requests(self.pod, pod_level=False)

    @cached_property
    def nonzero_pod_requests(self) -> Requests:
        """The same from 1.38 on: with pod-level requests, and the largest of the sums in a resize."""
        return requests.nonzero_requests(self.pod, pod_level=True)

    @property
    def node_affinity(self) -> NodeAffinity | None:
        """`spec.affinity.nodeAffinity`."""
        affinity = self.pod.spec.affinity
        return affinity.node_affinity if affinity is not None else None

    @property
    def names_nodes(self) -> bool:
        """Whether required node affinity names the nodes, in each of its terms: each pod of a DaemonSet has its own."""
        affinity = self.pod.spec.affinity
        if affinity is None or affinity.node_affinity is None:
            return False
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
        terms = required.node_selector_terms if required is not None else ()
        return bool(terms) and all(any(name.operator == "In" for name in term.match_fields) for term in terms)

    @cached_property
    def node_selector(self) -> selectors.NodeTerm | None:
        """`spec.nodeSelector`, parsed; `None` when there is none."""
        labels = self.pod.spec.node_selector
        return selectors.parse_node_selector_map(labels) if labels else None

    @cached_property
    def required_node_terms(self) -> tuple[selectors.NodeTerm, ...] | None:
        """Required node affinity terms, one of which must match; `None` if the pod has none."""
        affinity = self.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        if not required:
            return None
        return tuple(selectors.parse_node_term(term) for term in required.node_selector_terms)

    @cached_property
    def spread_constraints(self) -> tuple[SpreadConstraint, ...]:
        """`spec.topologySpreadConstraints`, parsed, in that order."""
        constraints = self.pod.spec.topology_spread_constraints
        return tuple(parse_spread_constraint(constraint, self.namespace, self.labels) for constraint in constraints)

    @cached_property
    def spread_by_action(self) -> dict[str, tuple[SpreadConstraint, ...]]:
        """The constraints by `whenUnsatisfiable`."""
        found = self.spread_constraints
        actions = dict.fromkeys(constraint.action for constraint in found)
        return {action: tuple(constraint for constraint in found if constraint.action == action) for action in actions}

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Normalised image names of all containers and image volumes, in that order, repeats included."""
        spec = self.pod.spec
        names = [container.image for container in (*spec.init_containers, *spec.containers)]
        names.extend(volume.image.reference for volume in spec.volumes if volume.image is not None)
        return tuple(normalized_image_name(name) for name in names)


def _host_ports_of(pod: Pod) -> frozenset[HostPort]:
    spec = pod.spec
    for container in (*spec.containers, *spec.init_containers):  # written out: each pod on a node is asked
        if container.ports and _host_ports(container):
            break
    else:
        return _NO_PORTS
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    ports = [port for container in (*spec.containers, *sidecars) for port in _host_ports(container)]
    return frozenset(ports) if ports else _NO_PORTS


def _host_ports(container: Container) -> list[HostPort]:
    return [
        (port.protocol or "TCP", port.host_port, port.host_ip or ALL_INTERFACES)
        for port in container.ports
        if port.host_port > 0
    ]


def placed(pod: Pod, node_name: str) -> Pod:
    """The pod with `spec.nodeName` set to its chosen node: hints must see it there before the watch shows it."""
    if pod.spec.node_name == node_name:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


def normalized_image_name(name: str) -> str:
    """The image name, with `:latest` if it has neither tag nor digest."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name


class WholeResizePodInfo(PodInfo):
    """A pod whose resizes count as from 1.37 on."""

    __slots__ = ()

    resizing = Resizing.BY_POD
