"""Table cells that need more than a field, such as a pod's status or a node's roles."""

from datetime import datetime
from typing import Any

from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.durations import age

NONE = "<none>"
_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"


def field(value: Object, path: str, default: Any = "") -> Any:
    """The value of a dotted path, or the default if any part of it is missing."""
    found: Any = value
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
        if found is None:
            return default
    return found


def quantity_field(value: Object, path: str) -> str:
    """A quantity as text."""
    return str(field(value, path, ""))


def condition(value: Object, kind: str) -> Object | None:
    """The status condition of this type."""
    for found in field(value, "status.conditions", ()):
        if found.get("type") == kind:
            match: Object = found
            return match
    return None


def _statuses(pod: Object) -> list[Object]:
    statuses: list[Object] = field(pod, "status.containerStatuses", [])
    return statuses


def pod_ready(pod: Object) -> str:
    """`ready/total` containers."""
    ready = sum(bool(status.get("ready")) for status in _statuses(pod))
    return f"{ready}/{len(field(pod, 'spec.containers', ()))}"


def pod_restarts(pod: Object) -> str:
    """Restarts of all containers."""
    return str(sum(status.get("restartCount", 0) for status in _statuses(pod)))


def pod_status(pod: Object) -> str:
    """The phase, or a more specific reason: gates, a container's problem, termination."""
    shown = field(pod, "status.reason", "") or field(pod, "status.phase", "")
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        shown = "SchedulingGated"
    for status in reversed(_statuses(pod)):
        reason = _container_reason(status)
        shown = reason or shown
    if "deletionTimestamp" not in pod["metadata"]:
        return str(shown)
    if field(pod, "status.reason", "") == "NodeLost":
        return "Unknown"
    return str(shown) if field(pod, "status.phase", "") in {"Succeeded", "Failed"} else "Terminating"


def _container_reason(status: Object) -> str:
    state = status.get("state") or {}
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    if waiting.get("reason"):
        return str(waiting["reason"])
    if terminated:
        return str(terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}")
    return ""


def readiness_gates(pod: Object) -> str:
    """`met/total` readiness gates."""
    gates = field(pod, "spec.readinessGates", ())
    if not gates:
        return NONE
    met = sum((condition(pod, gate.get("conditionType", "")) or {}).get("status") == "True" for gate in gates)
    return f"{met}/{len(gates)}"


def node_status(node: Object) -> str:
    """Ready, NotReady or Unknown, and whether scheduling is disabled."""
    ready = condition(node, "Ready")
    shown = "Unknown" if ready is None else ("Ready" if ready.get("status") == "True" else "NotReady")
    return f"{shown},SchedulingDisabled" if field(node, "spec.unschedulable", default=False) else shown


def node_roles(node: Object) -> str:
    """The roles from the node's labels."""
    roles = set()
    for key, text in (node["metadata"].get("labels") or {}).items():
        if key.startswith(_ROLE_PREFIX) and key != _ROLE_PREFIX:
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE_LABEL and text:
            roles.add(text)
    return ",".join(sorted(roles)) or NONE


def internal_address(node: Object) -> str:
    """The node's first internal address."""
    return _address(node, "InternalIP")


def external_address(node: Object) -> str:
    """The node's first external address."""
    return _address(node, "ExternalIP")


def _address(node: Object, kind: str) -> str:
    for address in field(node, "status.addresses", ()):
        if address.get("type") == kind:
            return str(address.get("address"))
    return NONE


def last_seen(event: Object, now: datetime) -> str:
    """The time since an Event was last seen; for a series also its count and duration."""
    series = event.get("series") or {}
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp") or first
    count = series.get("count") or event.get("count") or event.get("deprecatedCount") or 1
    return f"{age(last, now)} (x{count} over {age(first, now)})" if count > 1 else age(last, now)


def event_object(event: Object) -> str:
    """`kind/name` of the Event's object."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def event_source(event: Object) -> str:
    """The reporter of an Event, and its host."""
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(filter(None, (component, host)))


def service_ports(service: Object) -> str:
    """`80/TCP,443:30443/TCP`."""
    ports = field(service, "spec.ports", ())
    shown = []
    for port in ports:
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{outside}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def selector_text(selector: dict[str, str]) -> str:
    """A map of labels as `a=b,c=d`."""
    return ",".join(f"{key}={text}" for key, text in sorted(selector.items())) or NONE


def volume_mode(value: Object) -> str:
    """Filesystem or Block."""
    return str(field(value, "spec.volumeMode", "Filesystem"))
