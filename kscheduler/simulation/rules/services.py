"""Rules of services: ports, types, selectors."""

from kscheduler.simulation.kinds import field_rules as rules
from kscheduler.simulation.kinds.api_errors import FieldCause, Object
from kscheduler.simulation.rules.containers import port_number

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_service(value: Object) -> list[FieldCause]:
    """A Service."""
    spec = value.get("spec") or {}
    kind, ports = spec.get("type") or "ClusterIP", spec.get("ports") or ()
    causes: list[FieldCause] = []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        causes.append(rules.required("spec.ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        causes.append(rules.required("spec.externalName"))
    causes += _ports(list(ports))
    causes += rules.labels("spec.selector", spec.get("selector") or {})
    affinity = spec.get("sessionAffinity")
    causes += rules.enumerated("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    causes += rules.enumerated("spec.type", kind, _TYPES)
    if kind == "ClusterIP":
        reason = "may not be used when `type` is 'ClusterIP'"
        causes += [
            rules.forbidden_field(f"spec.ports[{place}].nodePort", reason)
            for place, port in enumerate(ports)
            if port.get("nodePort")
        ]
    return causes


def _ports(ports: list[Object]) -> list[FieldCause]:
    causes: list[FieldCause] = []
    names: set[str] = set()
    for place, port in enumerate(ports):
        path, name = f"spec.ports[{place}]", port.get("name")
        if not name and len(ports) > 1:
            causes.append(rules.required(f"{path}.name"))
        elif name:
            causes += rules.dns_label(f"{path}.name", name)
            if name in names:
                causes.append(rules.duplicate(f"{path}.name", name))
            names.add(name)
        causes += port_number(f"{path}.port", port.get("port") or 0)
        causes += rules.enumerated(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
        target = port.get("targetPort")
        if isinstance(target, int):
            causes += port_number(f"{path}.targetPort", target)
    return causes
