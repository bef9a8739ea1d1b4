"""Table cells that need more than a field, such as a pod's status or a node's roles."""

from datetime import datetime
from typing import Any

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import age, parse_time

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


# Cells of the tables of claims and volumes.

UNSET = "<unset>"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def claim_modes(claim: Object) -> str:
    """Access modes of the bound volume, which may be more than the claim requested."""
    return _short(field(claim, "status.accessModes", ()))


def volume_modes(volume: Object) -> str:
    """Access modes of a volume."""
    return _short(field(volume, "spec.accessModes", ()))


def phase(value: Object) -> str:
    """The phase, or Terminating."""
    return "Terminating" if "deletionTimestamp" in value["metadata"] else str(field(value, "status.phase", ""))


def _short(modes: list[str] | tuple[str, ...]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


# Table cells of workloads: Jobs, revisions and autoscalers, and columns of `-o wide`.

_UNKNOWN = "<unknown>"
_SHOWN_METRICS = 2
_OPERATORS = {"In": "in", "NotIn": "notin"}


def container_names(value: Object) -> str:
    """Names of the template's containers."""
    return ",".join(str(container.get("name", "")) for container in _containers(value))


def container_images(value: Object) -> str:
    """Images of the template's containers."""
    return ",".join(str(container.get("image", "")) for container in _containers(value))


def selector(value: Object) -> str:
    """The label selector as text; for a ReplicationController it is a plain map."""
    found = field(_spec(value), "selector", None)
    if found is None:
        return NONE
    labels = found if value["kind"] == "ReplicationController" else found.get("matchLabels") or {}
    parts = [f"{key}={labels[key]}" for key in sorted(labels)]
    parts += [_expression(expression) for expression in found.get("matchExpressions") or ()]
    return ",".join(parts) or NONE


def job_status(job: Object) -> str:
    """The status of a Job in one word."""
    for kind in ("Complete", "Failed"):
        if _holds(job, kind):
            return kind
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _holds(job, kind):
            return kind
    return "Running"


def job_completions(job: Object) -> str:
    """`succeeded/completions`."""
    succeeded, wanted = field(job, "status.succeeded", 0), field(job, "spec.completions", None)
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = field(job, "spec.parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def job_duration(job: Object, now: datetime) -> str:
    """The duration of the Job so far, or until its end."""
    start = field(job, "status.startTime", None)
    return "" if start is None else age(start, parse_time(field(job, "status.completionTime", None)) or now)


def last_schedule(cron_job: Object, now: datetime) -> str:
    """The time since the last Job was created."""
    moment = field(cron_job, "status.lastScheduleTime", None)
    return NONE if moment is None else age(moment, now)


def revision_controller(revision: Object) -> str:
    """Kind and name of the revision's owner."""
    for reference in revision["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            group = reference["apiVersion"].rpartition("/")[0]
            return f"{reference['kind'].lower()}.{group}/{reference['name']}".replace("./", "/")
    return NONE


def scale_target(autoscaler: Object) -> str:
    """The target of an autoscaler."""
    return f"{field(autoscaler, 'spec.scaleTargetRef.kind')}/{field(autoscaler, 'spec.scaleTargetRef.name')}"


def scale_metrics(autoscaler: Object) -> str:
    """The metrics of an autoscaler; the current values are always unknown here."""
    metrics: list[Object] = field(autoscaler, "spec.metrics", [])
    if not metrics:
        return NONE
    texts = [_metric(metric) for metric in metrics]
    more = len(texts) - _SHOWN_METRICS
    return ", ".join(texts[:_SHOWN_METRICS]) + (f" + {more} more..." if more > 0 else "")


def _metric(metric: Object) -> str:
    kind = str(metric.get("type", ""))
    source: Object = metric.get(kind[:1].lower() + kind[1:]) or {}
    target = source.get("target") or {}
    if kind in {"Resource", "ContainerResource"}:
        utilization = target.get("averageUtilization")
        wanted = target.get("averageValue") or ("<auto>" if utilization is None else f"{utilization}%")
        return f"{source.get('name', '')}: {_UNKNOWN}/{wanted}"
    if kind != "Pods" and target.get("averageValue") is not None:
        return f"{_UNKNOWN}/{target['averageValue']} (avg)"
    return f"{_UNKNOWN}/{target.get('averageValue', target.get('value', ''))}"


def _expression(expression: Object) -> str:
    key, operator = expression.get("key", ""), expression.get("operator", "")
    if operator in _OPERATORS:
        return f"{key} {_OPERATORS[operator]} ({','.join(sorted(expression.get('values') or ()))})"
    return f"!{key}" if operator == "DoesNotExist" else str(key)


def _spec(value: Object) -> Any:
    spec = value.get("spec") or {}
    return (spec.get("jobTemplate") or {}).get("spec") or {} if value["kind"] == "CronJob" else spec


def _containers(value: Object) -> list[Object]:
    found: list[Object] = field(_spec(value), "template.spec.containers", [])
    return found


def _holds(value: Object, kind: str) -> bool:
    found = condition(value, kind)
    return found is not None and found.get("status") == "True"
