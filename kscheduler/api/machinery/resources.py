"""The table of kinds that the embedded API server serves.

Discovery, routing, OpenAPI, tables and the store all read it; a kind is added by a line here. Two API groups may share
a collection (`stored_as`), as Events do. Kinds of later releases (`LATER`) are served by a server that
is told to be like one, if their gate is on: `served_kinds`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kscheduler.api.releases import RELEASE, VERSION

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A served kind: its group and version, its names and its subresources."""

    group: str
    """API group, empty for core."""
    version: str
    plural: str
    """Resource name in URLs."""
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    """`status`, `scale`, `binding`, `eviction`, `log` ... as path segments after the name."""
    has_generation: bool = False
    """Whether `metadata.generation` counts the changes of `spec`."""
    verbs: tuple[str, ...] = ALL_VERBS
    stored_as: str = ""
    """The key of the collection that holds the objects, if it belongs to another resource."""
    since: str = ""
    """The first release that serves it, if it is later than the followed one: `1.37`."""
    until: str = ""
    """The last release that serves it; empty: the newest does."""
    gate: str = ""
    """The feature gate that it needs."""
    is_plain: bool = False
    """Whether its objects are stored as they are, without types, defaults and rules: no scheduling rule reads them."""
    is_custom: bool = False
    """Whether a CustomResourceDefinition has defined it."""
    has_versions: bool = False
    """Whether other versions of the kind are served from the same collection."""

    def is_of(self, version: str) -> bool:
        """Whether a release of this version (`1.37`) has the kind; for those that name their first release."""
        return _as_numbers(self.since) <= _as_numbers(version) <= _as_numbers(self.until or version)

    @property
    def group_version(self) -> str:
        """`group/version` as in `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """`plural.group`: the name of the collection and of the resource in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def collection(self) -> str:
        """The collection that holds the objects."""
        return self.stored_as or self.key

    @property
    def singular(self) -> str:
        """The singular in lower case, for discovery."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """Kind of a list of these objects."""
        return f"{self.kind}List"


_ALL = ("all",)
_STATUS = ("status",)
_SCALED = ("scale", "status")
_POD_PARTS = ("binding", "ephemeralcontainers", "eviction", "log", "resize", "status")


def _namespaced(group_version: str, plural: str, kind: str, **fields: Any) -> ServedResource:
    group, _, version = group_version.rpartition("/")
    return ServedResource(group, version, plural, kind, **fields)


def _cluster(group_version: str, plural: str, kind: str, **fields: Any) -> ServedResource:
    return _namespaced(group_version, plural, kind, namespaced=False, **fields)


def _workload(group_version: str, plural: str, kind: str, *short: str, scaled: bool = True) -> ServedResource:
    parts = _SCALED if scaled else _STATUS
    fields = {"short_names": short, "categories": _ALL, "subresources": parts, "has_generation": True}
    return _namespaced(group_version, plural, kind, **fields)


_CORE = (
    _namespaced("v1", "bindings", "Binding", verbs=("create",)),
    _namespaced("v1", "configmaps", "ConfigMap", short_names=("cm",)),
    _namespaced("v1", "endpoints", "Endpoints", short_names=("ep",)),
    _namespaced("v1", "events", "Event", short_names=("ev",)),
    _namespaced("v1", "limitranges", "LimitRange", short_names=("limits",)),
    _cluster(
        "v1",
        "namespaces",
        "Namespace",
        short_names=("ns",),
        subresources=("finalize", "status"),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    ),
    _cluster("v1", "nodes", "Node", short_names=("no",), subresources=_STATUS),
    _namespaced("v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",), subresources=_STATUS),
    _cluster("v1", "persistentvolumes", "PersistentVolume", short_names=("pv",), subresources=_STATUS),
    _namespaced(
        "v1", "pods", "Pod", short_names=("po",), categories=_ALL, subresources=_POD_PARTS, has_generation=True
    ),
    _workload("v1", "replicationcontrollers", "ReplicationController", "rc"),
    _namespaced("v1", "resourcequotas", "ResourceQuota", short_names=("quota",), subresources=_STATUS),
    _namespaced("v1", "secrets", "Secret"),
    _namespaced("v1", "serviceaccounts", "ServiceAccount", short_names=("sa",), subresources=("token",)),
    _namespaced("v1", "services", "Service", short_names=("svc",), categories=_ALL, subresources=_STATUS),
)

_WORKLOADS = (
    _namespaced("apps/v1", "controllerrevisions", "ControllerRevision"),
    _workload("apps/v1", "daemonsets", "DaemonSet", "ds", scaled=False),
    _workload("apps/v1", "deployments", "Deployment", "deploy"),
    _workload("apps/v1", "replicasets", "ReplicaSet", "rs"),
    _workload("apps/v1", "statefulsets", "StatefulSet", "sts"),
    _namespaced(
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=_ALL,
        subresources=_STATUS,
        has_versions=True,
    ),
    _workload("batch/v1", "cronjobs", "CronJob", "cj", scaled=False),
    _workload("batch/v1", "jobs", "Job", scaled=False),
)

_POLICIES = (
    _namespaced("coordination.k8s.io/v1", "leases", "Lease"),
    _namespaced("events.k8s.io/v1", "events", "Event", short_names=("ev",), stored_as="events"),
    _namespaced(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        subresources=_STATUS,
        has_generation=True,
    ),
    _cluster("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", short_names=("pc",), has_generation=True),
)

_STORAGE = (
    _cluster("storage.k8s.io/v1", "csidrivers", "CSIDriver"),
    _cluster("storage.k8s.io/v1", "csinodes", "CSINode"),
    _namespaced("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"),
    _cluster("storage.k8s.io/v1", "storageclasses", "StorageClass", short_names=("sc",)),
    _cluster("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", subresources=_STATUS),
)

_DEVICES = (
    _cluster("resource.k8s.io/v1", "deviceclasses", "DeviceClass", has_generation=True),
    _namespaced("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", subresources=_STATUS),
    _namespaced("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    _cluster("resource.k8s.io/v1", "resourceslices", "ResourceSlice", has_generation=True),
)

_RBAC = "rbac.authorization.k8s.io/v1"
_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io/v1", "authentication.k8s.io/v1"
# Verbs of reviews, which are answered but never stored.
_QUERIED = ("create",)

_ACCESS = (
    _cluster(_RBAC, "clusterrolebindings", "ClusterRoleBinding"),
    _cluster(_RBAC, "clusterroles", "ClusterRole"),
    _namespaced(_RBAC, "rolebindings", "RoleBinding"),
    _namespaced(_RBAC, "roles", "Role"),
)
_REVIEWS = (
    _cluster(_AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview", verbs=_QUERIED),
    _cluster(_AUTHENTICATION, "tokenreviews", "TokenReview", verbs=_QUERIED),
    _namespaced(_AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=_QUERIED),
    _cluster(_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview", verbs=_QUERIED),
    _cluster(_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview", verbs=_QUERIED),
    _cluster(_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview", verbs=_QUERIED),
)
_NETWORK = (
    _cluster("networking.k8s.io/v1", "ingressclasses", "IngressClass", has_generation=True),
    _namespaced(
        "networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        short_names=("ing",),
        subresources=_STATUS,
        has_generation=True,
    ),
    _namespaced(
        "networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",), has_generation=True
    ),
    _namespaced("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", has_generation=True),
)
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"
# Stored and shown only, except that a pod gets its RuntimeClass's overhead.
_MORE = (
    _cluster(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        categories=("api-extensions",),
        has_generation=True,
    ),
    _cluster(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        categories=("api-extensions",),
        has_generation=True,
    ),
    _cluster(_FLOW_CONTROL, "flowschemas", "FlowSchema", subresources=_STATUS, has_generation=True),
    _cluster(
        _FLOW_CONTROL,
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        subresources=_STATUS,
        has_generation=True,
    ),
    _cluster("node.k8s.io/v1", "runtimeclasses", "RuntimeClass"),
)

_PLAIN = {"has_generation": True, "is_plain": True}
_ADMISSION = "admissionregistration.k8s.io/v1"
_EXTENSIONS = {"categories": ("api-extensions",), **_PLAIN}
# Kinds that no scheduling rule reads and that published manifests have: taken, stored and shown as they are.
_STORED = (
    _namespaced("v1", "podtemplates", "PodTemplate", **_PLAIN),
    _cluster(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        short_names=("crd", "crds"),
        subresources=_STATUS,
        **_EXTENSIONS,
    ),
    _cluster("apiregistration.k8s.io/v1", "apiservices", "APIService", subresources=_STATUS, **_EXTENSIONS),
    _cluster(_ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", **_EXTENSIONS),
    _cluster(_ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", **_EXTENSIONS),
    _cluster(
        _ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", subresources=_STATUS, **_EXTENSIONS
    ),
    _cluster(_ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", **_EXTENSIONS),
    _cluster(
        "storage.k8s.io/v1", "volumeattributesclasses", "VolumeAttributesClass", short_names=("vac",), is_plain=True
    ),
    _cluster(
        "certificates.k8s.io/v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        short_names=("csr",),
        subresources=("approval", "status"),
        is_plain=True,
    ),
    _cluster("networking.k8s.io/v1", "ipaddresses", "IPAddress", short_names=("ip",), is_plain=True),
    _cluster("networking.k8s.io/v1", "servicecidrs", "ServiceCIDR", subresources=_STATUS, is_plain=True),
)

_GROUPS = {"since": "1.37", "gate": "GenericWorkload"}

# Kinds that later releases serve.
LATER = (
    _cluster(
        "resource.k8s.io/v1",
        "devicetaintrules",
        "DeviceTaintRule",
        subresources=_STATUS,
        has_generation=True,
        since="1.37",
        gate="DRADeviceTaintRules",
    ),
    _namespaced("scheduling.k8s.io/v1beta1", "podgroups", "PodGroup", subresources=_STATUS, **_GROUPS),
    _namespaced("scheduling.k8s.io/v1beta1", "workloads", "Workload", **_GROUPS),
    _namespaced(
        "scheduling.k8s.io/v1alpha3",
        "compositepodgroups",
        "CompositePodGroup",
        subresources=_STATUS,
        since="1.37",
        until="1.37",
        gate="CompositePodGroup",
    ),
    _namespaced(
        "scheduling.k8s.io/v1beta1",
        "compositepodgroups",
        "CompositePodGroup",
        subresources=_STATUS,
        since="1.38",
        gate="CompositePodGroup",
    ),
)

# Versions that are served beside the preferred one, from the same collection.
OTHER_VERSIONS = (
    _namespaced(
        "autoscaling/v1",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=_ALL,
        subresources=_STATUS,
        is_plain=True,
        has_versions=True,
    ),
)

# The kinds that are always served, in the order of discovery.
RESOURCES = (*_CORE, *_WORKLOADS, *_POLICIES, *_STORAGE, *_DEVICES, *_ACCESS, *_REVIEWS, *_NETWORK, *_MORE, *_STORED)

KNOWN = (*RESOURCES, *OTHER_VERSIONS, *LATER)
# The first version of each kind.
BY_KEY = MappingProxyType({resource.key: resource for resource in reversed(KNOWN)})
BY_GROUP_KIND = MappingProxyType({(resource.group_version, resource.kind): resource for resource in KNOWN})
BY_PATH = MappingProxyType({(r.group, r.version, r.plural): r for r in KNOWN})

CUSTOM_RESOURCE_DEFINITIONS = BY_KEY["customresourcedefinitions.apiextensions.k8s.io"]
CLAIMS = BY_KEY["persistentvolumeclaims"]
CONTROLLER_REVISIONS = BY_KEY["controllerrevisions.apps"]
CRON_JOBS = BY_KEY["cronjobs.batch"]
DAEMON_SETS = BY_KEY["daemonsets.apps"]
DEPLOYMENTS = BY_KEY["deployments.apps"]
JOBS = BY_KEY["jobs.batch"]
LEASES = BY_KEY["leases.coordination.k8s.io"]
PODS = BY_KEY["pods"]
REPLICA_SETS = BY_KEY["replicasets.apps"]
REPLICATION_CONTROLLERS = BY_KEY["replicationcontrollers"]
SERVICE_ACCOUNTS = BY_KEY["serviceaccounts"]
STATEFUL_SETS = BY_KEY["statefulsets.apps"]
STORAGE_CLASSES = BY_KEY["storageclasses.storage.k8s.io"]
VOLUMES = BY_KEY["persistentvolumes"]
NODES = BY_KEY["nodes"]
NAMESPACES = BY_KEY["namespaces"]
EVENTS = BY_KEY["events"]
BUDGETS = BY_KEY["poddisruptionbudgets.policy"]
CONFIG_MAPS = BY_KEY["configmaps"]
SERVICES = BY_KEY["services"]
RUNTIME_CLASSES = BY_KEY["runtimeclasses.node.k8s.io"]
PRIORITY_CLASSES = BY_KEY["priorityclasses.scheduling.k8s.io"]
DEVICE_CLASSES = BY_KEY["deviceclasses.resource.k8s.io"]
DEVICE_TAINT_RULES = BY_KEY["devicetaintrules.resource.k8s.io"]
POD_GROUPS = BY_KEY["podgroups.scheduling.k8s.io"]
COMPOSITE_POD_GROUPS = tuple(each for each in LATER if each.kind == "CompositePodGroup")
RESOURCE_CLAIMS = BY_KEY["resourceclaims.resource.k8s.io"]
RESOURCE_CLAIM_TEMPLATES = BY_KEY["resourceclaimtemplates.resource.k8s.io"]
RESOURCE_SLICES = BY_KEY["resourceslices.resource.k8s.io"]


@dataclass(frozen=True, slots=True)
class ServedKinds:
    """The kinds of a server, and the release that it says it is."""

    release: str = RELEASE
    """`gitVersion` of /version."""
    resources: tuple[ServedResource, ...] = (*RESOURCES, *OTHER_VERSIONS)
    has_comparisons: bool = False
    """Whether tolerations may compare numbers (`Gt`, `Lt`): TaintTolerationComparisonOperators, off by default."""

    def group_versions(self) -> dict[tuple[str, str], list[ServedResource]]:
        """Resources by (group, version), core first, in table order."""
        return by_group_version(self.resources)

    def groups(self) -> dict[str, dict[str, list[ServedResource]]]:
        """Resources by group and version; the first version of a group is the preferred one."""
        return by_group(self.resources)


def by_group_version(resources: Iterable[ServedResource]) -> dict[tuple[str, str], list[ServedResource]]:
    """Resources by (group, version), in their order."""
    grouped: dict[tuple[str, str], list[ServedResource]] = {}
    for resource in resources:
        grouped.setdefault((resource.group, resource.version), []).append(resource)
    return grouped


def by_group(resources: Iterable[ServedResource]) -> dict[str, dict[str, list[ServedResource]]]:
    """Resources by group and version, in their order."""
    grouped: dict[str, dict[str, list[ServedResource]]] = {}
    for (group, version), listed in by_group_version(resources).items():
        grouped.setdefault(group, {})[version] = listed
    return grouped


# The kinds of a server that nobody told anything.
USUAL = ServedKinds()


def served_kinds(version: str, is_enabled: Callable[[str], bool]) -> ServedKinds:
    """The kinds of a server like this version (`1.37`), where `is_enabled` knows the feature gates by their names."""
    later = tuple(each for each in LATER if each.is_of(version) and (not each.gate or is_enabled(each.gate)))
    release = RELEASE if version == VERSION else f"v{version}.0"
    return ServedKinds(release, (*RESOURCES, *OTHER_VERSIONS, *later), is_enabled("TaintTolerationComparisonOperators"))


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
