"""How lists and maps of objects merge: the table behind strategic merge, server-side apply and OpenAPI.

Plain JSON does not say what identifies an element of a list. The table does, for each field, as the markers of the API
types do: `merge_key` for strategic merge patches, `keys` for server-side apply, sets of primitives, atomic values. A
list that is not in the table is atomic; a map that is not in it merges field by field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Merge:
    """How the value of a field merges."""

    merge_key: str = ""
    """The key that identifies an element for strategic merge; empty means that the list is replaced."""
    keys: tuple[str, ...] = ()
    """The keys that identify an element for server-side apply; empty means that the list is atomic or a set."""
    fields: "Fields" = field(default_factory=dict)
    """Fields of the value, or of each element."""
    is_set: bool = False
    """Whether a list of primitives merges as a set."""
    is_atomic: bool = False
    """Whether server-side apply replaces the value as a whole."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Default values of an element's keys."""


Fields = Mapping[str, Merge]

# The rule for fields that are not in the table.
DEFAULT = Merge()


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

# Merge rules by kind; other kinds have those of metadata only.
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
        "CronJob": _kind(spec=_struct(jobTemplate=_struct(metadata=METADATA, spec=_WORKLOAD_SPEC))),
        "PodDisruptionBudget": _kind(spec=_struct(selector=Merge(is_atomic=True)), status=_WITH_CONDITIONS),
        "PersistentVolumeClaim": _kind(spec=_struct(selector=ATOMIC), status=_WITH_CONDITIONS),
        "PersistentVolume": _kind(spec=_struct(claimRef=Merge())),
        "CSINode": _kind(spec=_struct(drivers=_by("name"))),
        "ResourceClaim": _kind(
            status=_struct(reservedFor=_by("uid"), devices=Merge(keys=("driver", "device", "pool")))
        ),
    }
)

# The API groups of these kinds; the others are of the core group.
_GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "CSINode": "storage.k8s.io",
        "CronJob": "batch",
        "DaemonSet": "apps",
        "Deployment": "apps",
        "Job": "batch",
        "PodDisruptionBudget": "policy",
        "ReplicaSet": "apps",
        "ResourceClaim": "resource.k8s.io",
        "StatefulSet": "apps",
    }
)


def fields_of(kind: str, group_version: str = "") -> Fields:
    """Merge rules of the top-level fields of a kind; with a group, another project's kind of that name has none."""
    known = BY_KIND.get(kind)
    if known is None or (group_version and group_version.rpartition("/")[0] != _GROUPS.get(kind, "")):
        return _kind()
    return known
