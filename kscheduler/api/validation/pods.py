"""Rules of pod specs, also of templates, in the order in which the API server reports them."""

from collections.abc import Iterator

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery import pod_amounts
from kscheduler.api.machinery.api_errors import FieldCause, Object
from kscheduler.api.validation import containers, device_claims, placement, volumes
from kscheduler.cel.kubernetes.quantities import QuantityTextError

# Rules of what a pod asks for as a whole (`spec.resources`), beside what its containers ask for.


def validate_pod_resources(spec: Object, path: str) -> list[FieldCause]:
    """Pod-level limits and requests: which resources, and that they hold what the containers ask for."""
    required = spec.get("resources")
    if required is None:
        return []
    where = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        return [rules.forbidden_field(where, "may not be set for a windows pod")]
    causes = _claims(required, where) + containers.resources(required, where)
    for field in ("limits", "requests"):
        for name in required.get(field) or {}:
            if not pod_amounts.may_be_pod_level(name):
                supported = pod_amounts.SUPPORTED_AT_POD_LEVEL
                causes.append(rules.unsupported(f"{where}.{field}[{name}]", name, supported))
    try:
        return causes + _holds_containers(spec, required, where)
    except QuantityTextError:
        return causes  # the text itself is refused where it stands


def _claims(required: Object, where: str) -> list[FieldCause]:
    if not required.get("claims"):
        return []
    return [rules.forbidden_field(f"{where}.claims", "claims may not be set for Resources at pod-level")]


def _holds_containers(spec: Object, required: Object, where: str) -> list[FieldCause]:
    """Requests hold those of all containers together, limits of hugepages too; other limits those of each alone."""
    causes: list[FieldCause] = []
    own = {field: pod_amounts.read(required.get(field) or {}) for field in ("requests", "limits")}
    for field, amounts in own.items():
        for name, together in pod_amounts.of_containers(spec, field).items():
            if field == "limits" and not name.startswith(pod_amounts.HUGE_PAGES):
                continue
            if name in amounts and together.fresh().compare(amounts[name].fresh()) > 0:
                reason = f"must be greater than or equal to aggregate container {field} of {together.text()}"
                causes.append(rules.bad_value(f"{where}.{field}[{name}]", amounts[name].text(), reason))
    for place, container in enumerate(spec.get("containers") or ()):
        limits = pod_amounts.read((container.get("resources") or {}).get("limits") or {})
        for name, limit in limits.items():
            if name in own["limits"] and limit.fresh().compare(own["limits"][name].fresh()) > 0:
                reason = f"must be less than or equal to pod limits of {own['limits'][name].text()}"
                field = f"{where}.containers[{place}][{name}].limits"
                causes.append(rules.bad_value(field, limit.text(), reason))
    return causes


# Rules of a pod that says which operating system it is for: what only the other one has may not be set.

_SYSTEMS = ("linux", "windows")
_NOT_OF_WINDOWS = "cannot be set for a windows pod"
_NOT_OF_LINUX = "windows options cannot be set for a linux pod"
_OF_PODS = (
    "appArmorProfile",
    "seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "shareProcessNamespace",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
# Those that stand in the spec itself. Of `hostPID` and `hostIPC` the server knows only whether they are true.
_OF_SPECS = frozenset({"hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"})
_FLAGS = frozenset({"hostPID", "hostIPC"})
_OF_CONTAINERS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def validate_system(spec: Object, path: str) -> list[FieldCause]:
    """The operating system of a pod spec at `path`, and what it leaves out."""
    if spec.get("os") is None:
        return []
    name = spec["os"].get("name") or ""
    if not name:
        return [rules.required(f"{path}.os.name")]
    if name not in _SYSTEMS:
        return [rules.unsupported(f"{path}.os", name, _SYSTEMS)]
    if name == "linux":
        return [
            rules.forbidden_field(f"{where}.windowsOptions", _NOT_OF_LINUX)
            for where, context in [(f"{path}.securityContext", spec.get("securityContext") or {}), *_own(spec, path)]
            if context.get("windowsOptions") is not None
        ]
    causes = []
    for field in _OF_PODS:
        holder = spec if field in _OF_SPECS else spec.get("securityContext") or {}
        if holder.get(field) if field in _FLAGS else holder.get(field) is not None:
            where = path if field in _OF_SPECS else f"{path}.securityContext"
            causes.append(rules.forbidden_field(f"{where}.{field}", _NOT_OF_WINDOWS))
    return causes + [
        rules.forbidden_field(f"{where}.{field}", _NOT_OF_WINDOWS)
        for where, context in _own(spec, path)
        for field in _OF_CONTAINERS
        if context.get(field) is not None
    ]


def _own(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    """The security context of each container, with its place."""
    for kind in ("initContainers", "containers"):
        for place, container in enumerate(spec.get(kind) or ()):
            yield f"{path}.{kind}[{place}].securityContext", container.get("securityContext") or {}


_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_LONGEST_DEADLINE = (1 << 31) - 1


def validate_pod(pod: Object) -> list[FieldCause]:
    """All violated rules of a new pod."""
    spec = pod["spec"]
    causes = validate_spec(spec, "spec")
    if spec.get("schedulingGates") and spec.get("nodeName"):
        reason = "cannot be set until all schedulingGates have been cleared"
        causes.append(rules.forbidden_field("spec.nodeName", reason))
    return causes


def validate_spec(spec: Object, path: str) -> list[FieldCause]:
    """All violated rules of a pod spec at `path`."""
    names, causes = volumes.validate_pod_volumes(spec.get("volumes"), f"{path}.volumes")
    causes += device_claims.validate_pod_claims(spec.get("resourceClaims"), f"{path}.resourceClaims")
    causes += _used_claims(spec, path)
    causes += containers.validate_containers(spec, path, names)
    causes += validate_pod_resources(spec, path)
    causes += rules.enumerated(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    causes += rules.enumerated(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    causes += rules.labels(f"{path}.nodeSelector", spec.get("nodeSelector") or {})
    causes += placement.validate_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    causes += _name_servers(spec, path)
    for place, gate in enumerate(spec.get("readinessGates") or ()):
        causes += rules.qualified_name(f"{path}.readinessGates[{place}].conditionType", gate.get("conditionType"))
    causes += placement.validate_gates(spec.get("schedulingGates"), f"{path}.schedulingGates")
    causes += placement.validate_spread(spec.get("topologySpreadConstraints"), f"{path}.topologySpreadConstraints")
    causes += _names(spec, path)
    causes += placement.validate_tolerations(spec.get("tolerations"), f"{path}.tolerations")
    if spec.get("priorityClassName"):
        causes += rules.subdomain(f"{path}.priorityClassName", spec["priorityClassName"])
    if spec.get("runtimeClassName"):
        causes += rules.subdomain(f"{path}.runtimeClassName", spec["runtimeClassName"])
    causes += rules.enumerated(f"{path}.preemptionPolicy", spec.get("preemptionPolicy"), _PREEMPTION_POLICIES)
    causes += rules.amounts(f"{path}.overhead", spec.get("overhead") or {})
    return causes + validate_system(spec, path)


def _name_servers(spec: Object, path: str) -> list[FieldCause]:
    """A pod that asks nobody for names says whom it asks instead."""
    if spec.get("dnsPolicy") != "None":
        return []
    if spec.get("dnsConfig") is None:
        return [rules.required(f"{path}.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")]
    if not spec["dnsConfig"].get("nameservers"):
        reason = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [rules.required(f"{path}.dnsConfig.nameservers", reason)]
    return []


def _used_claims(spec: Object, path: str) -> list[FieldCause]:
    names = {claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")}
    return [
        cause
        for kind in ("containers", "initContainers")
        for place, container in enumerate(spec.get(kind) or ())
        for cause in device_claims.validate_used_claims(container, f"{path}.{kind}[{place}]", names)
    ]


def _names(spec: Object, path: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    for name in ("serviceAccountName", "nodeName"):
        if spec.get(name):
            causes += rules.subdomain(f"{path}.{name}", spec[name])
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST_DEADLINE:
        reason = f"must be between 1 and {_LONGEST_DEADLINE}, inclusive"
        causes.append(rules.bad_value(f"{path}.activeDeadlineSeconds", deadline, reason))
    for name in ("hostname", "subdomain"):
        if spec.get(name):
            causes += rules.dns_label(f"{path}.{name}", spec[name])
    return causes
