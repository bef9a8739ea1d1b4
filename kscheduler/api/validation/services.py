"""Rules of services (ports, types, selectors) and of the Ingresses that lead to them."""

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object
from kscheduler.api.validation.containers import port_number

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ANY_PATH = "ImplementationSpecific"
_PATH_TYPES = ("Exact", _ANY_PATH, "Prefix")


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


def validate_ingress(ingress: Object) -> list[FieldCause]:
    """An Ingress leads somewhere: each path has a type and a backend."""
    spec = ingress.get("spec") or {}
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        return [rules.bad_value("spec", None, "either `defaultBackend` or `rules` must be specified")]
    causes: list[FieldCause] = []
    if spec.get("defaultBackend") is not None:
        causes += _backend(spec["defaultBackend"], "spec.defaultBackend")
    for place, rule in enumerate(spec.get("rules") or ()):
        where = f"spec.rules[{place}].http.paths"
        paths = (rule.get("http") or {}).get("paths") or []
        if rule.get("http") is not None and not paths:
            causes.append(rules.required(where))
        for number, path in enumerate(paths):
            causes += _path(path, f"{where}[{number}]")
    return causes


def _path(path: Object, where: str) -> list[FieldCause]:
    kind, text = path.get("pathType"), path.get("path") or ""
    if kind is None:
        return [rules.required(f"{where}.pathType", "pathType must be specified")]
    causes = rules.enumerated(f"{where}.pathType", kind, _PATH_TYPES)
    if not causes and not text.startswith("/") and (text or kind != _ANY_PATH):
        causes.append(rules.bad_value(f"{where}.path", text, "must be an absolute path"))
    return causes + _backend(path.get("backend") or {}, f"{where}.backend")


def _backend(backend: Object, where: str) -> list[FieldCause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [rules.bad_value(where, "", "cannot set both resource and service backends")]
    if service is None:
        reason = "resource or service backend is required"
        return [] if resource is not None else [rules.bad_value(where, "", reason)]
    if not service.get("name"):
        return [rules.required(f"{where}.service.name")]
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        return [rules.bad_value(where, "", "cannot set both port name & port number")]
    if not port.get("name") and not port.get("number"):
        return [rules.required(where, "port name or number is required")]
    return []
