"""Rules of containers: names, images, ports, environment, mounts, resources."""

import re
from collections.abc import Iterable
from typing import Any

from kscheduler.api import quantity
from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object

_LARGEST_PORT = 65535
_LONGEST_PORT_NAME = 15
_PORT_NAME = re.compile("[-a-z0-9]+")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_STANDARD = frozenset(
    {
        "configmaps",
        "cpu",
        "ephemeral-storage",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    }
)
_OF_CONTAINERS = frozenset({"cpu", "memory", "ephemeral-storage"})
HUGE_PAGES = "hugepages-"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


def validate_containers(spec: Object, path: str, volumes: Iterable[str]) -> list[FieldCause]:
    """Containers, then init containers, of a pod spec; `volumes` are the names that may be mounted."""
    # Per list: each container by itself with the uniqueness of its name, then what concerns all of them (host ports).
    known = set(volumes)
    if not spec.get("containers"):
        return [rules.required(f"{path}.containers")]
    causes: list[FieldCause] = []
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for place, container in enumerate(spec.get(field) or ()):
            where, name = f"{path}.{field}[{place}]", container.get("name")
            causes += _container(container, where, known)
            if field == "containers":
                causes += _of_regular(container, where)
            elif container.get("restartPolicy") != "Always":
                causes += _of_steps(container, where)
            if name and name in seen:
                causes.append(rules.duplicate(f"{where}.name", name))
            seen.add(name)
        if field == "containers":
            causes += _host_ports(spec["containers"], f"{path}.{field}")
            if spec.get("hostNetwork"):
                causes += _ports_of_host_network(spec["containers"], f"{path}.{field}")
    return causes


def _container(container: Object, path: str, volumes: set[str]) -> list[FieldCause]:
    name = container.get("name")
    causes = rules.dns_label(f"{path}.name", name) if name else [rules.required(f"{path}.name")]
    if not container.get("image"):
        causes.append(rules.required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy")
    causes += rules.enumerated(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    causes += _ports(container.get("ports") or (), f"{path}.ports")
    for place, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            causes.append(rules.required(f"{path}.env[{place}].name"))
        if variable.get("value") and variable.get("valueFrom") is not None:
            reason = "may not be specified when `value` is not empty"
            causes.append(rules.bad_value(f"{path}.env[{place}].valueFrom", "", reason))
    causes += _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    causes += rules.enumerated(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    return causes + resources(container.get("resources"), f"{path}.resources")


def _of_regular(container: Object, path: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    for name in _PROBES:
        probe = container.get(name)
        if probe is not None:
            causes += _probe(probe, f"{path}.{name}")
    image = container.get("image") or ""
    if image != image.strip():
        causes.append(rules.bad_value(f"{path}.image", image, "must not have leading or trailing whitespace"))
    return causes


def _of_steps(container: Object, path: str) -> list[FieldCause]:
    """An init container that ends before the next begins is not asked whether it lives."""
    reason = "may not be set for init containers without restartPolicy=Always"
    return [
        rules.forbidden_field(f"{path}.{name}", reason)
        for name in ("lifecycle", *_PROBES)
        if container.get(name) is not None
    ]


def _probe(probe: Object, path: str) -> list[FieldCause]:
    handlers = [name for name in _HANDLERS if name in probe]
    causes = [] if handlers else [rules.required(path, "must specify a handler type")]
    reason = "may not specify more than 1 handler type"
    causes += [rules.forbidden_field(f"{path}.{extra}", reason) for extra in handlers[1:]]
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        causes += rules.not_negative(f"{path}.{name}", probe.get(name))
    return causes


def _ports(ports: Iterable[Object], path: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    names: set[str] = set()
    for place, port in enumerate(ports):
        where, name = f"{path}[{place}]", port.get("name")
        if name and name in names:
            causes.append(rules.duplicate(f"{where}.name", name))
        names.add(name or "")
        causes += (
            [rules.bad_value(f"{where}.name", name, reason) for reason in wrong_with_port_name(name)] if name else []
        )
        if not port.get("containerPort"):
            causes.append(rules.required(f"{where}.containerPort"))
        for field in ("containerPort", "hostPort"):
            causes += port_number(f"{where}.{field}", port.get(field) or None)
        causes += rules.enumerated(f"{where}.protocol", port.get("protocol"), _PROTOCOLS)
    return causes


def wrong_with_port_name(name: str) -> list[str]:
    """Why it is no name of a port, as IANA has them."""
    tests = (
        (len(name) <= _LONGEST_PORT_NAME, f"must be no more than {_LONGEST_PORT_NAME} characters"),
        (_PORT_NAME.fullmatch(name), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (re.search("[a-z]", name), "must contain at least one letter (a-z)"),
        ("--" not in name, "must not contain consecutive hyphens"),
        (not name.startswith("-") and not name.endswith("-"), "must not begin or end with a hyphen"),
    )
    return [reason for holds, reason in tests if not holds]


def port_number(field: str, number: Any) -> list[FieldCause]:
    """A port, if given, is between 1 and 65535."""
    if number is None or 1 <= number <= _LARGEST_PORT:
        return []
    return [rules.bad_value(field, number, "must be between 1 and 65535, inclusive")]


def _host_ports(containers: Iterable[Object], path: str) -> list[FieldCause]:
    causes: list[FieldCause] = []
    seen: set[str] = set()
    for place, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            taken = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if taken in seen:
                causes.append(rules.duplicate(f"{path}[{place}].ports[{number}].hostPort", taken))
            seen.add(taken)
    return causes


def _ports_of_host_network(containers: Iterable[Object], path: str) -> list[FieldCause]:
    reason = "must match `containerPort` when `hostNetwork` is true"
    return [
        rules.bad_value(f"{path}[{place}].ports[{number}].hostPort", port.get("hostPort", 0), reason)
        for place, container in enumerate(containers)
        for number, port in enumerate(container.get("ports") or ())
        if port.get("hostPort") and port["hostPort"] != port.get("containerPort")
    ]


def _mounts(mounts: Iterable[Object], path: str, volumes: set[str]) -> list[FieldCause]:
    causes: list[FieldCause] = []
    paths: set[str] = set()
    for place, mount in enumerate(mounts):
        where, name, at = f"{path}[{place}]", mount.get("name"), mount.get("mountPath")
        if not name:
            causes.append(rules.required(f"{where}.name"))
        if name not in volumes:
            causes.append(rules.not_found(f"{where}.name", name or ""))
        if not at:
            causes.append(rules.required(f"{where}.mountPath"))
        elif at in paths:
            causes.append(rules.bad_value(f"{where}.mountPath", at, "must be unique"))
        paths.add(at or "")
    return causes


def resources(required: Object | None, path: str) -> list[FieldCause]:
    """Limits and requests of a container, or pod-level ones."""
    if not required:
        return []
    limits, requests = required.get("limits") or {}, required.get("requests") or {}
    causes: list[FieldCause] = []
    for name, amount in limits.items():
        causes += resource_amount(f"{path}.limits[{name}]", name, amount)
    for name, amount in requests.items():
        causes += resource_amount(f"{path}.requests[{name}]", name, amount)
        causes += _within(name, amount, limits, path)
    requested = limits.keys() | requests.keys()
    if any(name.startswith(HUGE_PAGES) for name in requested) and not requested & {"cpu", "memory"}:
        causes.append(rules.forbidden_field(path, "HugePages require cpu or memory"))
    return causes


def resource_amount(field: str, name: str, amount: Any) -> list[FieldCause]:
    """A container may have the resource, and this much of it."""
    causes = rules.qualified_name(field, name)
    if not causes and "/" not in name and not name.startswith(HUGE_PAGES):
        if name not in _STANDARD:
            causes.append(rules.bad_value(field, name, "must be a standard resource type or fully qualified"))
        if name not in _OF_CONTAINERS:
            causes.append(rules.bad_value(field, name, "must be a standard resource for containers"))
    causes += rules.amount(field, amount)
    if is_extended(name) and quantity.milli_value(amount) % 1000:
        causes.append(rules.bad_value(field, amount, "must be an integer"))
    if name.startswith(HUGE_PAGES) and not _is_whole_pages(name.removeprefix(HUGE_PAGES), amount):
        reason = f"{amount} is not positive integer multiple of {name}"
        causes.append(rules.bad_value(field, str(amount), reason))
    return causes


def _is_whole_pages(size: str, amount: Any) -> bool:
    """Whether the amount is a multiple of the page size, which the resource's name says: `2Mi`."""
    try:
        page = quantity.milli_value(size)
    except quantity.QuantityError:
        return False
    whole = -(-quantity.milli_value(amount) // 1000) * 1000  # rounded up to whole bytes, as Go's Value()
    return page > 0 and page % 1000 == 0 and whole % page == 0


def is_extended(name: str) -> bool:
    """Whether the resource is extended (outside kubernetes.io): counted in whole units and never overcommitted."""
    prefix = name.partition("/")[0] if "/" in name else ""
    return bool(prefix) and not f".{prefix}".endswith(".kubernetes.io") and not name.startswith("requests.")


def _within(name: str, amount: Any, limits: Object, path: str) -> list[FieldCause]:
    strict = is_extended(name) or name.startswith(HUGE_PAGES)
    if name not in limits:
        reason = "Limit must be set for non overcommitable resources"
        return [rules.required(f"{path}.limits", reason)] if strict else []
    requested, limit = quantity.milli_value(amount), quantity.milli_value(limits[name])
    if strict and requested != limit:
        reason = f"must be equal to {name} limit of {limits[name]}"
    elif requested > limit:
        reason = f"must be less than or equal to {name} limit of {limits[name]}"
    else:
        return []
    return [rules.bad_value(f"{path}.requests", amount, reason)]
