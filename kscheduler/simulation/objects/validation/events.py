"""Validation of Events: strict in events.k8s.io/v1 and lenient in core/v1, as on the real server.

A client that writes incomplete Events loses them silently on a real cluster (recorders only log the refusal), so the
embedded server must refuse what the real one refuses.
"""

from kscheduler.simulation.kinds import field_rules as rules
from kscheduler.simulation.kinds.api_errors import FieldCause, Object

_LONGEST_NOTE = 1024
_LONGEST_PART = 128
_TYPES = ("Normal", "Warning")
_CLUSTER_SCOPED_IN = frozenset({"", "default", "kube-system"})


def validate_core_event(event: Object) -> list[FieldCause]:
    """Rules of core/v1: the Event is in the namespace of its object."""
    return _namespace(event, "involvedObject")


def validate_event(event: Object) -> list[FieldCause]:
    """Rules of events.k8s.io/v1: time and reporting controller are required, texts are bounded, the type is known."""
    causes = _namespace(event, "regarding")
    if not event.get("eventTime"):
        causes.append(rules.required("eventTime"))
    if not event.get("reportingController"):
        causes.append(rules.required("reportingController"))
    else:
        causes += rules.qualified_name("reportingController", event["reportingController"])
    for field in ("reportingInstance", "action", "reason"):
        causes += _short(field, event.get(field) or "")
    if len(event.get("note") or "") > _LONGEST_NOTE:
        causes.append(rules.bad_value("note", "", "can have at most 1024 bytes"))
    if event.get("type") not in _TYPES:
        causes.append(rules.bad_value("type", "", f"has invalid value: {event.get('type') or ''}"))
    return causes


def _short(field: str, text: str) -> list[FieldCause]:
    if not text:
        return [rules.required(field)]
    return [rules.bad_value(field, "", "can have at most 128 bytes")] if len(text) > _LONGEST_PART else []


def _namespace(event: Object, field: str) -> list[FieldCause]:
    about, namespace = (event.get(field) or {}).get("namespace", ""), event["metadata"].get("namespace", "")
    fits = namespace in _CLUSTER_SCOPED_IN if not about else about == namespace
    # The real server names the core/v1 field in both groups.
    return [] if fits else [rules.bad_value("involvedObject.namespace", about, "does not match event.namespace")]
