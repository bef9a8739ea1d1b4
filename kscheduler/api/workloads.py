"""What groups pods: services and the controllers that own pods, with their selectors and nothing else."""

import msgspec

from kscheduler.api.core import LabelSelector
from kscheduler.api.meta import KubeObject, Value


class ServiceSpec(Value, frozen=True):
    """Which pods a service sends traffic to."""

    selector: dict[str, str] = {}
    """Labels that all must match; none selects no pod."""


class Service(KubeObject):
    """A service."""

    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class ReplicationControllerSpec(Value, frozen=True):
    """Which pods a replication controller counts as its own."""

    selector: dict[str, str] = {}


class ReplicationController(KubeObject):
    """A replication controller."""

    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)


class SetSpec(Value, frozen=True):
    """Which pods a ReplicaSet or StatefulSet counts as its own."""

    selector: LabelSelector | None = None


class ReplicaSet(KubeObject):
    """A ReplicaSet: one version of a Deployment's pods."""

    spec: SetSpec = msgspec.field(default_factory=SetSpec)


class StatefulSet(KubeObject):
    """A StatefulSet."""

    spec: SetSpec = msgspec.field(default_factory=SetSpec)
