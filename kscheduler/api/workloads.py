"""Services and the controllers that own pods, with their selectors only."""

import msgspec

from kscheduler.api.core import LabelSelector
from kscheduler.api.meta import KubeObject, Value


class ServiceSpec(Value, frozen=True):
    """The pods that a service sends traffic to."""

    selector: dict[str, str] = {}
    """Labels that must all match; an empty selector selects no pod."""


class Service(KubeObject):
    """A service."""

    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


class ReplicationControllerSpec(Value, frozen=True):
    """The pods that a replication controller manages."""

    selector: dict[str, str] = {}


class ReplicationController(KubeObject):
    """A replication controller."""

    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)


class SetSpec(Value, frozen=True):
    """The pods that a ReplicaSet or StatefulSet manages."""

    selector: LabelSelector | None = None


class ReplicaSet(KubeObject):
    """A ReplicaSet: one version of a Deployment's pods."""

    spec: SetSpec = msgspec.field(default_factory=SetSpec)


class StatefulSet(KubeObject):
    """A StatefulSet."""

    spec: SetSpec = msgspec.field(default_factory=SetSpec)
