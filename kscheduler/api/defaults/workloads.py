"""Defaults of workloads in apps/v1, batch/v1 and autoscaling/v2.

Controllers rely on these fields. Each function changes its argument, a fresh copy, in place.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kscheduler.api.defaults import pods as pod_defaults
from kscheduler.api.machinery.api_errors import Object

_QUARTER = "25%"
# Annotation of a DaemonSet: how often its template has changed; its pods carry it as a label.
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_MOST = (1 << 31) - 1
_LABELLED = frozenset({"Job", "ReplicationController"})
_TRACKING_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


def fill(value: Object) -> None:
    """Fill in the defaults of a new or changed workload; other kinds stay unchanged."""
    default = _SPEC.get(value["kind"])
    spec = value.get("spec")
    if default is not None and isinstance(spec, dict):
        default(spec)
        if value["kind"] in _LABELLED:
            _label(value["metadata"], spec)


def _label(metadata: Object, spec: Object) -> None:
    """An object without labels gets those of its template."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def fill_new(value: Object) -> None:
    """Fill in defaults of new objects: a Job's selector and the labels of its pods, from its UID."""
    if value["kind"] == "DaemonSet":
        _count_template(value, 1)
    if value["kind"] != "Job" or (value.get("spec") or {}).get("manualSelector"):
        return
    metadata, spec = value["metadata"], value["spec"]
    template = spec.setdefault("template", {})
    labels = dict((template.get("metadata") or {}).get("labels") or {})
    uid, name = metadata["uid"], metadata["name"]
    labels.update(zip(_TRACKING_LABELS, (uid, name, uid, name), strict=True))
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})


def fill_changed(old: Object, new: Object) -> None:
    """Fill in defaults of changed objects: the generation of a DaemonSet's template."""
    if new["kind"] == "DaemonSet":
        count = int((old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, 0))
        same = (old.get("spec") or {}).get("template") == (new.get("spec") or {}).get("template")
        _count_template(new, count if same else count + 1)


def _count_template(value: Object, count: int) -> None:
    metadata = value["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), TEMPLATE_GENERATION: str(count)}


def _deployment(spec: Object) -> None:
    strategy = _object(spec, "strategy")
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = _object(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", _QUARTER)
        rolling.setdefault("maxSurge", _QUARTER)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _stateful_set(spec: Object) -> None:
    spec.setdefault("serviceName", "")
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = _object(spec, "updateStrategy")
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        _object(strategy, "rollingUpdate").setdefault("partition", 0)
    retention = _object(spec, "persistentVolumeClaimRetentionPolicy")
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("revisionHistoryLimit", 10)
    for template in spec.get("volumeClaimTemplates") or ():
        template.setdefault("apiVersion", "v1")
        template.setdefault("kind", "PersistentVolumeClaim")
        _object(template, "spec").setdefault("volumeMode", "Filesystem")
        template.setdefault("status", {"phase": "Pending"})


def _daemon_set(spec: Object) -> None:
    strategy = _object(spec, "updateStrategy")
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = _object(strategy, "rollingUpdate")
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def _job(spec: Object) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    # With a limit per index, that of the whole Job is out of the way.
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MOST)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            condition["status"] = condition.get("status") or "True"
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")


def _cron_job(spec: Object) -> None:
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    made = _object(spec, "jobTemplate")
    made.setdefault("metadata", {})
    job = _object(made, "spec")
    template = job.get("template")
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        pod_defaults.default_pod_spec(template.setdefault("spec", {}))


def _autoscaler(spec: Object) -> None:
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _replication_controller(spec: Object) -> None:
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)


def _object(value: Object, name: str) -> Any:
    """The object in a field, created if absent. Raises TypeError if the field has another type."""
    found = value.setdefault(name, {})
    if not isinstance(found, dict):
        raise TypeError(f"cannot unmarshal {type(found).__name__} into field {name}")
    return found


_SPEC: Mapping[str, Callable[[Object], None]] = MappingProxyType(
    {
        "Deployment": _deployment,
        "StatefulSet": _stateful_set,
        "DaemonSet": _daemon_set,
        "Job": _job,
        "CronJob": _cron_job,
        "HorizontalPodAutoscaler": _autoscaler,
        "ReplicationController": _replication_controller,
    }
)
