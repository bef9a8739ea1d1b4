"""Label and field selectors of list and watch requests, parsed from their query strings.

`app in (a,b),!canary,tier!=x` and `spec.nodeName=n1,status.phase!=Failed` become a `Selection` that matches stored
objects. A field that the real server does not index for the kind is refused with the server's message.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kscheduler.api.machinery.api_errors import Object, bad_request
from kscheduler.api.machinery.resources import ServedResource

_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<gone>[^\s,=!()<>]+)"
    r"|(?P<key>[^\s,=!()<>]+)\s*(?:(?P<set>\bin\b|\bnotin\b)\s*\((?P<values>[^()]*)\)"
    r"|(?P<operator>==|=|!=|>|<)\s*(?P<value>[^\s,=!()<>]*))?)\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """A requirement on a label; the operator is `in`, `notin`, `exists`, `absent`, `>` or `<`."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the requirement; a missing label meets `notin` and `absent`."""
        value = labels.get(self.key)
        if value is None:
            return self.operator in {"notin", "absent"}
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case ">" | "<":
                return _compares(value, self.operator, min(self.values))
            case _:
                return self.operator == "exists"


def _compares(value: str, operator: str, bound: str) -> bool:
    try:
        left, right = int(value), int(bound)
    except ValueError:
        return False
    return left > right if operator == ">" else left < right


def parse_labels(text: str) -> tuple[LabelTerm, ...]:
    """The terms of a label selector string. Raises 400 if it is invalid."""
    terms: list[LabelTerm] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None or match.end() == position:
            raise bad_request(f"unable to parse requirement: found {text[position:]!r}, expected: a label requirement")
        terms.append(_label_term(match))
        position = match.end()
    return tuple(terms)


def _label_term(match: re.Match[str]) -> LabelTerm:
    if match["absent"]:
        return LabelTerm(match["gone"], "absent")
    key = match["key"]
    if match["set"]:
        return LabelTerm(key, match["set"], frozenset(part.strip() for part in match["values"].split(",")))
    operators = {None: "exists", "=": "in", "==": "in", "!=": "notin"}
    operator = operators.get(match["operator"], match["operator"])
    return LabelTerm(key, operator, frozenset() if match["operator"] is None else frozenset({match["value"]}))


def labels_match(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a LabelSelector *object*; None selects nothing, an empty selector everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    for expression in selector.get("matchExpressions") or ():
        operator = operators.get(expression.get("operator", ""), "none")
        term = LabelTerm(expression.get("key", ""), operator, frozenset(expression.get("values") or ()))
        if not term.matches(labels):
            return False
    return True


_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})

_EVENT_FIELDS = (
    *(
        f"involvedObject.{part}"
        for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    ),
    "reason",
    "reportingComponent",
    "source",
    "type",
)

# Further fields that the server can select by, besides metadata.name and metadata.namespace, per collection.
INDEXED_FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "pods": frozenset(
            {
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            }
        ),
        "nodes": frozenset({"spec.unschedulable"}),
        "namespaces": frozenset({"status.phase"}),
        "events": frozenset(_EVENT_FIELDS),
        "replicationcontrollers": frozenset({"status.replicas"}),
        "replicasets.apps": frozenset({"status.replicas"}),
        "jobs.batch": frozenset({"status.successful"}),
        "services": frozenset({"spec.clusterIP", "spec.type"}),
        "resourceslices.resource.k8s.io": frozenset({"spec.nodeName", "spec.driver"}),
    }
)


def _field(value: Object, path: str) -> str:
    """A field as text for selectors: empty if absent, `true` or `false` for a boolean."""
    if path == "source":
        return str((value.get("source") or {}).get("component") or value.get("reportingComponent") or "")
    found: Any = value
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        return "false" if path in {"spec.unschedulable", "spec.hostNetwork"} else ""
    return str(found).lower() if isinstance(found, bool) else str(found)


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """`path = value` or `path != value`."""

    path: str
    value: str
    equal: bool

    def matches(self, value: Object) -> bool:
        """Whether the object's field agrees."""
        return (_field(value, self.path) == self.value) is self.equal


_FIELD_TERM = re.compile(r"(?P<path>[^=!]+)(?P<operator>==|!=|=)(?P<value>.*)", re.DOTALL)
_EVENT_VIEW_PATHS = (("regarding.", "involvedObject."), ("reportingController", "reportingComponent"))


def parse_fields(text: str, resource: ServedResource) -> tuple[FieldTerm, ...]:
    """The terms of a field selector string. Raises 400 if it is invalid or a field is not indexed."""
    terms = []
    for part in filter(None, re.split(r"(?<!\\),", text)):
        match = _FIELD_TERM.fullmatch(part.strip())
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        path = _stored_path(match["path"].strip(), resource)
        value = re.sub(r"\\([\\,=])", r"\1", match["value"])
        terms.append(FieldTerm(path, value, match["operator"] != "!="))
    return tuple(terms)


def _stored_path(path: str, resource: ServedResource) -> str:
    if resource.stored_as:
        for shown, stored in _EVENT_VIEW_PATHS:
            path = stored + path.removeprefix(shown) if path.startswith(shown) else path
    if path not in _METADATA_FIELDS and path not in INDEXED_FIELDS.get(resource.collection, ()):
        raise bad_request(f"field label not supported: {path}")
    return path


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of a list or watch: a namespace (empty means all), label terms and field terms."""

    namespace: str = ""
    labels: tuple[LabelTerm, ...] = ()
    fields: tuple[FieldTerm, ...] = ()

    @property
    def has_selector(self) -> bool:
        """Whether it selects by more than the namespace."""
        return bool(self.labels or self.fields)

    def matches(self, value: Object) -> bool:
        """Whether a stored object is selected."""
        metadata = value["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.labels:
            present = metadata.get("labels") or {}
            if not all(term.matches(present) for term in self.labels):
                return False
        return all(term.matches(value) for term in self.fields)


def parse_selection(query: Mapping[str, str], resource: ServedResource, namespace: str, name: str = "") -> Selection:
    """The selection of a request's query. Raises 400."""
    fields = parse_fields(query.get("fieldSelector", ""), resource)
    if name:
        fields = (*fields, FieldTerm("metadata.name", name, equal=True))
    return Selection(namespace, parse_labels(query.get("labelSelector", "")), fields)
