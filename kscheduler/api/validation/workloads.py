"""Rules of workloads: selectors that match their templates, and the strategies of each kind."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery import schedules
from kscheduler.api.machinery.api_errors import FieldCause, Object
from kscheduler.api.machinery.selectors import labels_match
from kscheduler.api.validation import volumes
from kscheduler.api.validation.pods import validate_spec

_STRATEGIES = ("Recreate", "RollingUpdate")
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_STATEFUL_UPDATABLE = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)
_STATEFUL_TEXT = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_NONE = (None, 0, "0%")
_JOB_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_COMPLETION_MODES = ("NonIndexed", "Indexed")
_GENERATED_LABELS = frozenset({"batch.kubernetes.io/controller-uid", "controller-uid"})


def count_or_percent(field: str, value: Any) -> list[FieldCause]:
    """A number that is not negative, or a percentage such as `25%`."""
    if isinstance(value, str):
        return [] if _PERCENT.fullmatch(value) else [rules.bad_value(field, value, _PERCENT_TEXT)]
    return rules.not_negative(field, value)


def at_most_all(field: str, value: Any) -> list[FieldCause]:
    """A percentage is at most 100."""
    if not isinstance(value, str) or not _PERCENT.fullmatch(value) or int(value[:-1]) <= 100:
        return []
    return [rules.bad_value(field, value, "must not be greater than 100%")]


def _selector(spec: Object, kind: str) -> list[FieldCause]:
    selector = spec.get("selector")
    if selector is None:
        return [rules.required("spec.selector")]
    causes = rules.label_selector("spec.selector", selector)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(rules.bad_value("spec.selector", selector, f"empty selector is invalid for {kind.lower()}"))
    return causes


def _template(spec: Object) -> list[FieldCause]:
    """The selector matches the template's labels, the spec is valid, and its pods restart."""
    template = spec.get("template") or {}
    labels, selector = (template.get("metadata") or {}).get("labels"), spec.get("selector")
    selects_all = selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions"))
    causes: list[FieldCause] = []
    if not selects_all and (selector is None or not labels_match(selector, labels or {})):
        reason = "`selector` does not match template `labels`"
        causes.append(rules.bad_value("spec.template.metadata.labels", labels, reason))
    pod = template.get("spec") or {}
    causes += rules.labels("spec.template.labels", labels or {})
    causes += validate_spec(pod, "spec.template.spec")
    if pod.get("restartPolicy") in {"OnFailure", "Never"}:
        causes.append(rules.unsupported("spec.template.spec.restartPolicy", pod["restartPolicy"], ("Always",)))
    return causes


def validate_deployment(value: Object) -> list[FieldCause]:
    """A Deployment."""
    spec = value.get("spec") or {}
    causes = rules.not_negative("spec.replicas", spec.get("replicas"))
    causes += _selector(spec, "Deployment") + _template(spec) + _deployment_strategy(spec.get("strategy") or {})
    wait = spec.get("minReadySeconds") or 0
    causes += rules.not_negative("spec.minReadySeconds", wait)
    causes += rules.not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    causes += rules.not_negative("spec.progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= wait:
        causes.append(rules.bad_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes


def _deployment_strategy(strategy: Object) -> list[FieldCause]:
    kind, rolling, path = strategy.get("type") or "RollingUpdate", strategy.get("rollingUpdate"), "spec.strategy"
    if kind not in _STRATEGIES:
        return [rules.unsupported(path, {"Type": kind, "RollingUpdate": rolling}, _STRATEGIES)]
    if rolling is None:
        return []
    if kind == "Recreate":
        reason = "may not be specified when strategy `type` is 'Recreate'"
        return [rules.forbidden_field(f"{path}.rollingUpdate", reason)]
    path = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", "25%"), rolling.get("maxSurge", "25%")
    causes = count_or_percent(f"{path}.maxUnavailable", unavailable) + count_or_percent(f"{path}.maxSurge", surge)
    if unavailable in {0, "0%"} and surge in {0, "0%"}:
        causes.append(rules.bad_value(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return causes + at_most_all(f"{path}.maxUnavailable", unavailable)


def validate_replica_set(value: Object) -> list[FieldCause]:
    """A ReplicaSet."""
    spec = value.get("spec") or {}
    causes = rules.not_negative("spec.replicas", spec.get("replicas"))
    causes += rules.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    return causes + _selector(spec, "ReplicaSet") + _template(spec)


def validate_replication_controller(value: Object) -> list[FieldCause]:
    """A ReplicationController: its selector is a plain map."""
    spec = value.get("spec") or {}
    causes = rules.not_negative("spec.replicas", spec.get("replicas"))
    selector, template = spec.get("selector") or {}, spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector:
        causes.append(rules.required("spec.selector"))
    if any(labels.get(key) != text for key, text in selector.items()):
        reason = "`selector` does not match template `labels`"
        causes.append(rules.bad_value("spec.template.metadata.labels", labels or None, reason))
    return causes + validate_spec(template.get("spec") or {}, "spec.template.spec")


def validate_stateful_set(value: Object) -> list[FieldCause]:
    """A StatefulSet."""
    spec = value.get("spec") or {}
    causes: list[FieldCause] = []
    policy = spec.get("podManagementPolicy", "OrderedReady")
    if policy not in {"OrderedReady", "Parallel"}:
        reason = "must be 'OrderedReady' or 'Parallel'"
        causes.append(rules.bad_value("spec.podManagementPolicy", policy, reason))
    for place, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        path = f"spec.volumeClaimTemplates[{place}].spec"
        causes += volumes.validate_claim_spec(claim.get("spec") or {}, path)
    causes += rules.not_negative("spec.replicas", spec.get("replicas"))
    causes += rules.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    if spec.get("serviceName"):
        causes += rules.dns_label("spec.serviceName", spec["serviceName"])
    return causes + _selector(spec, "StatefulSet") + _template(_with_claimed_volumes(spec))


def _with_claimed_volumes(spec: Object) -> Object:
    """The spec of its pods: each claim template is a volume that containers may mount."""
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    volumes_of_pod = list(pod.get("volumes") or ())
    known = {volume.get("name") for volume in volumes_of_pod}
    claimed = [(claim.get("metadata") or {}).get("name") for claim in spec.get("volumeClaimTemplates") or ()]
    volumes_of_pod += [{"name": name, "emptyDir": {}} for name in claimed if name and name not in known]
    return {**spec, "template": {**template, "spec": {**pod, "volumes": volumes_of_pod}}}


def validate_daemon_set(value: Object) -> list[FieldCause]:
    """A DaemonSet."""
    spec = value.get("spec") or {}
    causes = _selector(spec, "DaemonSet") + _template(spec)
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    if rolling.get("maxSurge") not in _NONE and rolling.get("maxUnavailable") not in _NONE:
        reason = "may not be set when maxUnavailable is non-zero"
        causes.append(rules.bad_value("spec.updateStrategy.rollingUpdate.maxSurge", rolling["maxSurge"], reason))
    return causes + rules.not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))


def validate_job(value: Object) -> list[FieldCause]:
    """A Job: its pods must not restart forever, and its selector is generated."""
    spec = value.get("spec") or {}
    causes: list[FieldCause] = []
    for name in _JOB_COUNTS:
        causes += rules.not_negative(f"spec.{name}", spec.get(name))
    causes += rules.enumerated("spec.completionMode", spec.get("completionMode"), _COMPLETION_MODES)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        causes.append(rules.required("spec.completions", "when completion mode is Indexed"))
    if spec.get("backoffLimitPerIndex") is not None and spec.get("completionMode") != "Indexed":
        reason = "requires indexed completion mode"
        causes.append(rules.bad_value("spec.backoffLimitPerIndex", spec["backoffLimitPerIndex"], reason))
    selector = spec.get("selector") or {}
    labels = selector.get("matchLabels") or {}
    if not spec.get("manualSelector") and (set(labels) - _GENERATED_LABELS or selector.get("matchExpressions")):
        causes.append(rules.bad_value("spec.selector", selector, "`selector` not auto-generated"))
    pod = (spec.get("template") or {}).get("spec") or {}
    causes += _job_template(pod, "spec.template.spec")
    if spec.get("podFailurePolicy") is not None and pod.get("restartPolicy") != "Never":
        reason = 'only "Never" is supported when podFailurePolicy is specified'
        causes.append(rules.bad_value("spec.template.spec.restartPolicy", pod.get("restartPolicy"), reason))
    return causes


def _job_template(pod: Object, path: str) -> list[FieldCause]:
    causes = validate_spec(pod, path)
    if pod.get("restartPolicy") == "Always":
        causes.append(rules.required(f"{path}.restartPolicy", 'valid values: "OnFailure", "Never"'))
    return causes


def validate_cron_job(value: Object) -> list[FieldCause]:
    """A CronJob."""
    spec = value.get("spec") or {}
    causes = _schedule("spec.schedule", spec.get("schedule"))
    policy = spec.get("concurrencyPolicy")
    causes += rules.enumerated("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))
    pod = ((((spec.get("jobTemplate") or {}).get("spec") or {}).get("template")) or {}).get("spec") or {}
    return causes + _job_template(pod, "spec.jobTemplate.spec.template.spec")


def _schedule(field: str, text: str | None) -> list[FieldCause]:
    if not text:
        return [rules.required(field)]
    causes = []
    try:
        schedules.check(text)
    except ValueError as error:
        causes.append(rules.bad_value(field, text, str(error)))
    if "TZ" in text:
        reason = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        causes.append(rules.bad_value(field, text, reason))
    return causes


def _same_selector(old: Object, new: Object) -> list[FieldCause]:
    before, after = ((value.get("spec") or {}).get("selector") for value in (old, new))
    return [] if before == after else [rules.bad_value("spec.selector", after, "field is immutable")]


def _stateful_set_update(old: Object, new: Object) -> list[FieldCause]:
    before, after = (
        {name: part for name, part in (value.get("spec") or {}).items() if name not in _STATEFUL_UPDATABLE}
        for value in (old, new)
    )
    return [] if before == after else [rules.forbidden_field("spec", _STATEFUL_TEXT)]


def _job_update(old: Object, new: Object) -> list[FieldCause]:
    """A Job that has not started, or is suspended, may still change resources and placement of its pods."""
    before, after = (old.get("spec") or {}, new.get("spec") or {})
    names = ["completions", "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"]
    if before.get("completionMode") == "Indexed" and after.get("completions") == after.get("parallelism"):
        names.remove("completions")
    if not before.get("suspend"):
        names.append("template")
    return [
        rules.bad_value(f"spec.{name}", after.get(name), "field is immutable")
        for name in names
        if before.get(name) != after.get(name)
    ]


ON_CREATE: Mapping[str, Callable[[Object], list[FieldCause]]] = MappingProxyType(
    {
        "daemonsets.apps": validate_daemon_set,
        "deployments.apps": validate_deployment,
        "replicasets.apps": validate_replica_set,
        "statefulsets.apps": validate_stateful_set,
        "replicationcontrollers": validate_replication_controller,
        "jobs.batch": validate_job,
        "cronjobs.batch": validate_cron_job,
    }
)
ON_UPDATE: Mapping[str, Callable[[Object, Object], list[FieldCause]]] = MappingProxyType(
    {
        "daemonsets.apps": _same_selector,
        "deployments.apps": _same_selector,
        "replicasets.apps": _same_selector,
        "statefulsets.apps": _stateful_set_update,
        "jobs.batch": _job_update,
    }
)
