"""Rules of roles and their bindings, of config maps and secrets."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object

_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


_ACCOUNT_NAME = "kubernetes.io/service-account.name"
# Keys that a secret of a type must have.
_PROMISED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kubernetes.io/dockercfg": (".dockercfg",),
        "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
        "kubernetes.io/tls": ("tls.crt", "tls.key"),
    }
)


def validate_role(value: Object) -> list[FieldCause]:
    """Each rule names verbs, and resources with their groups or, for the whole cluster, URLs."""
    causes: list[FieldCause] = []
    for place, rule in enumerate(value.get("rules") or ()):
        path = f"rules[{place}]"
        if not rule.get("verbs"):
            causes.append(rules.required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if value["kind"] == "Role":
                reason = "namespaced rules cannot apply to non-resource URLs"
                causes.append(rules.bad_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], reason))
            continue
        if not rule.get("apiGroups"):
            reason = "resource rules must supply at least one api group"
            causes.append(rules.required(f"{path}.apiGroups", reason))
        if not rule.get("resources"):
            reason = "resource rules must supply at least one resource"
            causes.append(rules.required(f"{path}.resources", reason))
    return causes


def validate_binding(value: Object) -> list[FieldCause]:
    """A binding names a role and complete subjects."""
    role = value.get("roleRef") or {}
    kinds = ("ClusterRole",) if value["kind"] == "ClusterRoleBinding" else ("Role", "ClusterRole")
    causes: list[FieldCause] = []
    if role.get("kind", "") not in kinds:
        causes.append(rules.unsupported("roleRef.kind", role.get("kind") or "", kinds))
    if not role.get("name"):
        causes.append(rules.required("roleRef.name"))
    for place, subject in enumerate(value.get("subjects") or ()):
        causes += _subject(subject, f"subjects[{place}]", in_namespace=value["kind"] == "RoleBinding")
    return causes


def _subject(subject: Object, path: str, *, in_namespace: bool) -> list[FieldCause]:
    causes = [] if subject.get("name") else [rules.required(f"{path}.name")]
    kind = subject.get("kind") or ""
    if kind == "ServiceAccount":
        if subject.get("name"):
            causes += rules.subdomain(f"{path}.name", subject["name"])
        if not subject.get("namespace") and not in_namespace:
            causes.append(rules.required(f"{path}.namespace"))
    elif kind not in {"User", "Group"}:
        causes.append(rules.unsupported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
    return causes


def validate_binding_update(old: Object, new: Object) -> list[FieldCause]:
    """The role of a binding is immutable."""
    if old.get("roleRef") == new.get("roleRef"):
        return []
    role = new.get("roleRef") or {}
    shown = {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}
    return [rules.bad_value("roleRef", shown, "cannot change roleRef")]


def validate_settings(value: Object) -> list[FieldCause]:
    """The keys of a config map or secret."""
    return [
        rules.bad_value(f"{field}[{key}]", key, _KEY_TEXT)
        for field in ("data", "binaryData")
        for key in value.get(field) or {}
        if not _KEY.fullmatch(key)
    ]


def validate_secret(value: Object) -> list[FieldCause]:
    """A secret has the keys that its type promises."""
    causes = validate_settings(value)
    kind, data = value.get("type"), value.get("data") or {}
    if kind == "kubernetes.io/service-account-token":
        if not (value["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
            causes.append(rules.required(f"metadata.annotations[{_ACCOUNT_NAME}]"))
    elif kind == "kubernetes.io/basic-auth":
        if not {"username", "password"} & data.keys():
            causes += [rules.required(f"data[{name}]") for name in ("username", "password")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            causes.append(rules.required("data[ssh-privatekey]"))
    else:
        causes += [rules.required(f"data[{name}]") for name in _PROMISED.get(kind or "", ()) if name not in data]
    return causes


def validate_settings_update(old: Object, new: Object) -> list[FieldCause]:
    """Immutable data and a secret's type stay the same."""
    causes: list[FieldCause] = []
    if old.get("type") != new.get("type"):
        causes.append(rules.bad_value("type", new.get("type") or "", "field is immutable"))
    if not old.get("immutable"):
        return causes
    reason = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        causes.append(rules.forbidden_field("immutable", reason))
    changed = [field for field in ("data", "binaryData") if old.get(field) != new.get(field)]
    return causes + [rules.forbidden_field(field, reason) for field in changed]
