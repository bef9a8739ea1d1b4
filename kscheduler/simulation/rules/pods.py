"""Rules of pod specs, also of templates, in the order in which the API server reports them."""

from kscheduler.simulation.kinds import field_rules as rules
from kscheduler.simulation.kinds.api_errors import FieldCause, Object
from kscheduler.simulation.rules import containers, device_claims, operating_systems, placement, pod_resources, volumes

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
    causes += pod_resources.validate_pod_resources(spec, path)
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
    return causes + operating_systems.validate_system(spec, path)


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
