"""Rules of the metadata that every object has."""

from kscheduler.simulation.kinds import field_rules as rules
from kscheduler.simulation.kinds.api_errors import FieldCause, Object
from kscheduler.simulation.kinds.resources import ServedResource

_LABEL_NAMED = frozenset({"namespaces", "services"})
_PATH_NAMED = frozenset({"rbac.authorization.k8s.io"})
"""Groups whose names may hold nearly anything, as `system:node` does."""
_STANDARD_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


def validate_metadata(resource: ServedResource, metadata: Object) -> list[FieldCause]:
    """Every rule that the metadata breaks."""
    causes = _name(resource, metadata["name"])
    causes += rules.labels("metadata.labels", metadata.get("labels") or {})
    for key in metadata.get("annotations") or {}:
        causes += [rules.bad_value(cause_field, key, why) for cause_field, why in _annotation_key(key)]
    for reference in metadata.get("ownerReferences") or ():
        causes += _owner(reference)
    for place, finalizer in enumerate(metadata.get("finalizers") or ()):
        causes += _finalizer(f"metadata.finalizers[{place}]", finalizer)
    return causes


def _name(resource: ServedResource, name: str) -> list[FieldCause]:
    if resource.group in _PATH_NAMED:
        wrong = name in {".", ".."} or "/" in name or "%" in name
        return [rules.bad_value("metadata.name", name, "may not contain '/' or '%'")] if wrong else []
    rule = rules.dns_label if resource.key in _LABEL_NAMED else rules.subdomain
    return rule("metadata.name", name)


def _annotation_key(key: str) -> list[tuple[str, str]]:
    """Keys are judged in lower case, and shown as they are."""
    return [("metadata.annotations", why) for why in rules.wrong_with_name(key.lower())]


def _owner(reference: Object) -> list[FieldCause]:
    causes: list[FieldCause] = []
    for field, why in (
        ("apiVersion", "version must not be empty"),
        ("kind", "must not be empty"),
        ("name", "must not be empty"),
        ("uid", "must not be empty"),
    ):
        if not reference.get(field):
            causes.append(rules.bad_value(f"metadata.ownerReferences.{field}", reference.get(field) or "", why))
    return causes


def _finalizer(field: str, name: str) -> list[FieldCause]:
    causes = rules.qualified_name(field, name)
    if not causes and "/" not in name and name not in _STANDARD_FINALIZERS:
        why = "name is neither a standard finalizer name nor is it fully qualified"
        causes.append(rules.bad_value(field, name, why))
    return causes
