"""A pod with what the plugins read of it, worked out once.

Everything derived is computed on first use and kept: a pod that waits costs its object and nothing else, and a cycle
that runs twice does not parse twice.
"""

from collections.abc import Hashable
from functools import cached_property
from typing import Final

import msgspec

from kscheduler.api import selectors
from kscheduler.api.core import Container, NodeAffinity, Pod, PodStatus, Toleration
from kscheduler.framework.pods import requests
from kscheduler.framework.pods.affinity_terms import AffinityTerms, affinity_terms
from kscheduler.framework.pods.requests import Requests
from kscheduler.framework.pods.spread_constraint import SpreadConstraint, parse_spread_constraint

HostPort = tuple[str, int, str]
"""Protocol, port, host IP (`0.0.0.0` stands for all)."""

ALL_INTERFACES = "0.0.0.0"
_NO_PORTS: Final[frozenset[HostPort]] = frozenset()
"""Python makes a new empty set each time, and most pods have one."""

_OF_SPEC = (
    "requests",
    "accounted",
    "nonzero_accounted",
    "nonzero_requests",
    "host_ports",
    "node_selector",
    "required_node_terms",
    "affinity_terms",
    "images",
)
"""What follows from a pod's spec and namespace, as long as its status says nothing of resources."""


class PodInfo:
    """A pod and its derived values. Never changed: a new version of the object is a new PodInfo."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.uid = pod.metadata.uid or pod.key
        self.priority = pod.spec.priority or 0
        self.signature: Hashable | None = None
        """What tells it from pods that plugins judge otherwise; `None` until it is worked out (`signatures`)."""
        self.is_like_another = False
        """Whether it has taken over what was worked out of another pod: there may be more of them."""

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    def bare(self) -> "PodInfo":
        """The same pod without what was worked out of it, except for its signature: for one that waits long."""
        bare = PodInfo(self.pod)
        bare.signature = self.signature
        return bare

    def take(self, other: "PodInfo") -> None:
        """Take over what was worked out of another pod's spec, which equals this one's, in the same namespace."""
        mine, its = self.__dict__, other.__dict__
        for name in _OF_SPEC:
            if name in its:
                mine[name] = its[name]
        constraints = self.pod.spec.topology_spread_constraints
        keys = [key for one in constraints for key in one.match_label_keys] if constraints else ()
        if not keys or all(self.labels.get(key) == other.labels.get(key) for key in keys):
            for name in ("spread_constraints", "spread_by_action"):
                if name in its:
                    mine[name] = its[name]
        self.is_like_another = True

    def take_sums(self, other: "PodInfo") -> bool:
        """Take over what another version of the pod takes of its node; whether nothing that it hangs on has changed.

        The other's must be readable.
        """
        mine, its = self.pod.spec, other.pod.spec
        if not _tell_the_same(self.pod.status, other.pod.status):
            return False
        same = mine.containers == its.containers and mine.init_containers == its.init_containers
        if not (same and mine.overhead == its.overhead and mine.resources == its.resources):
            return False
        self.accounted, self.nonzero_accounted = other.accounted, other.nonzero_accounted
        self.host_ports = other.host_ports
        return True

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.pod.key

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
        """The node it is on, or empty."""
        return self.pod.spec.node_name

    @property
    def is_terminating(self) -> bool:
        """Whether it has been asked to go."""
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """What taints it bears."""
        return self.pod.spec.tolerations

    @cached_property
    def requests(self) -> Requests:
        """What it asks of a node that it is to be placed on."""
        return requests.incoming_requests(self.pod)

    @cached_property
    def accounted(self) -> Requests:
        """What it takes from the node that it is on."""
        return requests.accounted_requests(self.pod)

    @cached_property
    def nonzero_accounted(self) -> tuple[int, int]:
        """(cpu in thousandths, memory in bytes) that scoring presumes it takes from its node."""
        return requests.nonzero_accounted(self.pod)

    @cached_property
    def nonzero_requests(self) -> Requests:
        """What NodeResourcesFit's score presumes it asks for; pod-level requests are left out, as upstream (Q4)."""
        return requests.nonzero_requests(self.pod, use_status=False, pod_level=False)

    @cached_property
    def host_ports(self) -> frozenset[HostPort]:
        """Host ports of containers and sidecars; ordinary init containers' are not counted (Q32)."""
        spec = self.pod.spec
        if not any(container.ports for container in (*spec.containers, *spec.init_containers)):
            return _NO_PORTS
        sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
        ports = [port for container in (*spec.containers, *sidecars) for port in _host_ports(container)]
        return frozenset(ports) if ports else _NO_PORTS

    @property
    def node_affinity(self) -> NodeAffinity | None:
        """`spec.affinity.nodeAffinity`."""
        affinity = self.pod.spec.affinity
        return affinity.node_affinity if affinity is not None else None

    @cached_property
    def node_selector(self) -> selectors.NodeTerm | None:
        """`spec.nodeSelector`, parsed; `None` when there is none."""
        labels = self.pod.spec.node_selector
        return selectors.parse_node_selector_map(labels) if labels else None

    @cached_property
    def required_node_terms(self) -> tuple[selectors.NodeTerm, ...] | None:
        """Required node affinity, one of which must match; `None` when the pod requires nothing."""
        affinity = self.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        if not required:
            return None
        return tuple(selectors.parse_node_term(term) for term in required.node_selector_terms)

    @cached_property
    def affinity_terms(self) -> AffinityTerms:
        """What it asks of other pods nearby."""
        return affinity_terms(self.pod)

    @cached_property
    def spread_constraints(self) -> tuple[SpreadConstraint, ...]:
        """`spec.topologySpreadConstraints`, parsed, in that order."""
        constraints = self.pod.spec.topology_spread_constraints
        return tuple(parse_spread_constraint(one, self.namespace, self.labels) for one in constraints)

    @cached_property
    def spread_by_action(self) -> dict[str, tuple[SpreadConstraint, ...]]:
        """The same by `whenUnsatisfiable`."""
        constraints = self.spread_constraints
        actions = dict.fromkeys(one.action for one in constraints)
        return {action: tuple(one for one in constraints if one.action == action) for action in actions}

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Normalised image names of all containers and image volumes, in that order, repeats included."""
        spec = self.pod.spec
        names = [container.image for container in (*spec.init_containers, *spec.containers)]
        names.extend(volume.image.reference for volume in spec.volumes if volume.image is not None)
        return tuple(normalized_image_name(name) for name in names)


def _tell_the_same(one: PodStatus, other: PodStatus) -> bool:
    """Whether the kubelet has said the same of what containers have got, and nothing of a resize that it puts off."""
    says_something = one.container_statuses or one.init_container_statuses or one.resources is not None
    if says_something and (_is_resize_put_off(one) or _is_resize_put_off(other)):
        return False
    return (
        one.container_statuses == other.container_statuses
        and one.init_container_statuses == other.init_container_statuses
        and one.resources == other.resources
        and one.allocated_resources == other.allocated_resources
    )


def _is_resize_put_off(status: PodStatus) -> bool:
    return "PodResizePending" in [condition.type for condition in status.conditions]


def _host_ports(container: Container) -> list[HostPort]:
    return [
        (port.protocol or "TCP", port.host_port, port.host_ip or ALL_INTERFACES)
        for port in container.ports
        if port.host_port > 0
    ]


def placed(pod: Pod, node_name: str) -> Pod:
    """The pod as it is on the node that was chosen for it: hints must see it there before the watch shows it so."""
    if pod.spec.node_name == node_name:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


def normalized_image_name(name: str) -> str:
    """With `:latest` where neither tag nor digest is given."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name
