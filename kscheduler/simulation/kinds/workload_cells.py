"""Table cells of workloads: Jobs, revisions and autoscalers, and columns of `-o wide`."""

from datetime import datetime
from typing import Any

from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.durations import age, parse_time
from kscheduler.simulation.kinds.table_cells import NONE, condition, field

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
