"""How lists and maps of Kubernetes objects merge: the one table behind strategic merge, server-side apply and OpenAPI.

Plain JSON knows nothing of what identifies an element of a list. The table says it per field, as the API types'
markers do: `merge_key` for strategic merge patches, `keys` for server-side apply, sets of primitives, atomic values.
A list that the table does not name is atomic; a map that it does not name merges field by field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Merge:
    """How the value of one field merges."""

    merge_key: str = ""
    """The key that names an element for strategic merge; empty: the list is replaced."""
    keys: tuple[str, ...] = ()
    """The keys that name an element for server-side apply; empty: the list is atomic or a set."""
    fields: "Fields" = field(default_factory=dict)
    """Fields of the value, or of each element."""
    is_set: bool = False
    """A list of primitives that merges as a set."""
    is_atomic: bool = False
    """The value changes as a whole under server-side apply."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Values that keys of an element take when it leaves them out."""


Fields = Mapping[str, Merge]

DEFAULT = Merge()
"""What holds for every field that the table does not name."""


def _by(key: str, fields: Fields = MappingProxyType({}), keys: tuple[str, ...] = ()) -> Merge:
    return Merge(merge_key=key, keys=keys or (key,), fields=fields)


def _struct(**fields: Merge) -> Merge:
    return Merge(fields=MappingProxyType(fields))


SET = Merge(merge_key="", is_set=True)
ATOMIC = Merge(is_atomic=True)
PROTOCOL = MappingProxyType({"protocol": "TCP"})

METADATA = _struct(finalizers=SET, ownerReferences=_by("uid"))

_CONDITIONS = _by("type")
_RESOURCES = _struct(claims=Merge(keys=("name",)))

_CONTAINER: Fields = MappingProxyType(
    {
        "ports": Merge("containerPort", ("containerPort", "protocol"), defaults=PROTOCOL),
        "env": _by("name"),
        "volumeMounts": _by("mountPath"),
        "volumeDevices": _by("devicePath"),
        "resources": _RESOURCES,
    }
)

POD_SPEC: Fields = MappingProxyType(
    {
        "containers": _by("name", _CONTAINER),
        "initContainers": _by("name", _CONTAINER),
        "ephemeralContainers": _by("name", _CONTAINER),
        "volumes": _by("name"),
        "imagePullSecrets": _by("name"),
        "hostAliases": _by("ip"),
        "topologySpreadConstraints": _by("topologyKey", keys=("topologyKey", "whenUnsatisfiable")),
        "schedulingGates": _by("name"),
        "resourceClaims": _by("name"),
        "resources": _RESOURCES,
        "nodeSelector": ATOMIC,
    }
)

_TEMPLATE = _struct(metadata=METADATA, spec=Merge(fields=POD_SPEC))
_WORKLOAD_SPEC = _struct(template=_TEMPLATE, selector=ATOMIC)
_WITH_CONDITIONS = _struct(conditions=_CONDITIONS)


def _kind(**fields: Merge) -> Fields:
    return MappingProxyType({"metadata": METADATA, **fields})


_WORKLOAD = _kind(spec=_WORKLOAD_SPEC, status=_WITH_CONDITIONS)

BY_KIND: Mapping[str, Fields] = MappingProxyType(
    {
        "Pod": _kind(
            spec=Merge(fields=POD_SPEC),
            status=_struct(conditions=_CONDITIONS, podIPs=_by("ip"), hostIPs=ATOMIC, resourceClaimStatuses=_by("name")),
        ),
        "Node": _kind(
            spec=_struct(podCIDRs=SET),
            status=_struct(conditions=_CONDITIONS, addresses=_by("type")),
        ),
        "Namespace": _kind(status=_WITH_CONDITIONS),
        "Service": _kind(
            spec=_struct(
                ports=Merge("port", ("port", "protocol"), defaults=PROTOCOL), selector=ATOMIC, clusterIPs=ATOMIC
            ),
            status=_WITH_CONDITIONS,
        ),
        "ServiceAccount": _kind(secrets=_by("name"), imagePullSecrets=ATOMIC),
        "ReplicationController": _WORKLOAD,
        "DaemonSet": _WORKLOAD,
        "Deployment": _WORKLOAD,
        "ReplicaSet": _WORKLOAD,
        "StatefulSet": _WORKLOAD,
        "Job": _WORKLOAD,
        "PodDisruptionBudget": _kind(spec=_struct(selector=Merge(is_atomic=True)), status=_WITH_CONDITIONS),
        "PersistentVolumeClaim": _kind(spec=_struct(selector=ATOMIC), status=_WITH_CONDITIONS),
        "PersistentVolume": _kind(spec=_struct(claimRef=Merge())),
        "CSINode": _kind(spec=_struct(drivers=_by("name"))),
        "ResourceClaim": _kind(
            status=_struct(reservedFor=_by("uid"), devices=Merge(keys=("driver", "device", "pool")))
        ),
    }
)
"""Merge rules by kind; kinds that are not here only have those of metadata."""


def fields_of(kind: str) -> Fields:
    """Merge rules of the top-level fields of a kind."""
    return BY_KIND.get(kind, _kind())
