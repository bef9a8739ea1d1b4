"""Role-based access control by the stored roles and bindings.

Every client of the embedded server is its administrator. Impersonated requests (`kubectl --as`) are checked against the
stored objects, so that the permissions of a manifest can be tried out before a real cluster refuses them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kscheduler.api.machinery.api_errors import ApiError, Object
from kscheduler.api.machinery.resources import BY_KEY, ServedResource
from kscheduler.embedded.objects.store import ObjectStore

_RBAC = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = BY_KEY[f"roles.{_RBAC}"], BY_KEY[f"clusterroles.{_RBAC}"]
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = BY_KEY[f"rolebindings.{_RBAC}"], BY_KEY[f"clusterrolebindings.{_RBAC}"]
ADMINISTRATORS, AUTHENTICATED, ANONYMOUS = "system:masters", "system:authenticated", "system:unauthenticated"
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def as_object(self) -> Object:
        """The user as `kubectl auth whoami` shows it."""
        shown: Object = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        return {name: value for name, value in shown.items() if value}


ADMIN = User("admin", (ADMINISTRATORS, AUTHENTICATED), "admin")


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a request: a verb on a resource, or on a non-resource URL."""

    verb: str
    group: str = ""
    resource: str = ""
    """Includes the subresource: `pods/binding`."""
    namespace: str = ""
    name: str = ""
    url: str = ""


def user_of(headers: Mapping[str, str], groups: tuple[str, ...] = ()) -> User:
    """The user of a request. `groups` are the values of all its Impersonate-Group headers."""
    name = headers.get("Impersonate-User", "")
    return User(name, _groups_of(name, groups), headers.get("Impersonate-Uid", "")) if name else ADMIN


def _groups_of(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if name.startswith(_ACCOUNT) and not groups:
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return (*groups, AUTHENTICATED) if AUTHENTICATED not in groups and name != "system:anonymous" else groups


def allows(store: ObjectStore, user: User, requested: Attributes) -> bool:
    """Whether a binding gives the user a role with a rule that covers the request."""
    return any(_covers(rule, requested) for rule in rules_of(store, user, requested.namespace))


def rules_of(store: ObjectStore, user: User, namespace: str) -> Iterator[Object]:
    """The rules of all the user's roles in a namespace, or in the whole cluster if `namespace` is empty."""
    for record in store.collection(CLUSTER_ROLE_BINDINGS.collection).records.values():
        if _binds(record.value, user, ""):
            yield from _rules(store, record.value, "")
    for key, record in store.collection(ROLE_BINDINGS.collection).records.items():
        if namespace and key[0] == namespace and _binds(record.value, user, namespace):
            yield from _rules(store, record.value, namespace)


def _binds(binding: Object, user: User, namespace: str) -> bool:
    return any(_is_subject(subject, user, namespace) for subject in binding.get("subjects") or ())


def _is_subject(subject: Object, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    return user.name == f"{_ACCOUNT}{subject.get('namespace') or namespace}:{name}"


def _rules(store: ObjectStore, binding: Object, namespace: str) -> list[Object]:
    reference = binding.get("roleRef") or {}
    role = ROLES if reference.get("kind") == "Role" else CLUSTER_ROLES
    record = store.get(role.collection, namespace if role is ROLES else "", reference.get("name", ""))
    found: list[Object] = (record.value.get("rules") or []) if record else []
    return found


def _covers(rule: Object, requested: Attributes) -> bool:
    if not _has(rule.get("verbs"), requested.verb):
        return False
    if requested.url:
        return any(_is_url(pattern, requested.url) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), requested.group)
        and _has_resource(rule.get("resources") or (), requested.resource)
        and (not names or requested.name in names)
    )


def _has(listed: list[str] | None, value: str) -> bool:
    return listed is not None and ("*" in listed or value in listed)


def _has_resource(listed: list[str] | tuple[str, ...], resource: str) -> bool:
    _, slash, part = resource.partition("/")
    return "*" in listed or resource in listed or bool(slash and f"*/{part}" in listed)


def _is_url(pattern: str, url: str) -> bool:
    return url.startswith(pattern[:-1]) if pattern.endswith("*") else url == pattern


def refusal(user: User, requested: Attributes) -> ApiError:
    """403 for a request that the user may not make."""
    if requested.url:
        message = f'User "{user.name}" cannot {requested.verb} path "{requested.url}"'
        return ApiError(403, "Forbidden", f"forbidden: {message}", {})
    where = f'in the namespace "{requested.namespace}"' if requested.namespace else "at the cluster scope"
    plural = requested.resource.partition("/")[0]
    qualified = f"{plural}.{requested.group}" if requested.group else plural
    shown = f'{qualified} "{requested.name}"' if requested.name else qualified
    verb, resource, group = requested.verb, requested.resource, requested.group
    reason = f'User "{user.name}" cannot {verb} resource "{resource}" in API group "{group}" {where}'
    details: Object = {"kind": plural}
    if requested.name:
        details["name"] = requested.name
    if requested.group:
        details["group"] = requested.group
    return ApiError(403, "Forbidden", f"{shown} is forbidden: {reason}", details)


def initial_access() -> list[tuple[ServedResource, Object]]:
    """Roles that every cluster has: the administrator's, and those of all users."""
    health = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
    documents = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*"]
    everything = [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]
    access_reviews = [
        {
            "verbs": ["create"],
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        },
        {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    ]
    return [
        *_role("cluster-admin", everything, ADMINISTRATORS),
        *_role("system:basic-user", access_reviews, AUTHENTICATED),
        *_role(
            "system:discovery",
            [{"verbs": ["get"], "nonResourceURLs": [*documents, "/readyz", "/version", "/version/"]}],
            AUTHENTICATED,
        ),
        *_role("system:public-info-viewer", [{"verbs": ["get"], "nonResourceURLs": health}], AUTHENTICATED, ANONYMOUS),
    ]


def _role(name: str, rules: list[Object], *groups: str) -> list[tuple[ServedResource, Object]]:
    metadata = {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    role_ref = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "Group", "apiGroup": _RBAC, "name": group} for group in groups]
    return [
        (CLUSTER_ROLES, {"metadata": dict(metadata), "rules": rules}),
        (CLUSTER_ROLE_BINDINGS, {"metadata": dict(metadata), "roleRef": role_ref, "subjects": subjects}),
    ]
