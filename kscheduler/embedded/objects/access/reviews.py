"""Access reviews, which are answered but not stored: `kubectl auth can-i`, `auth whoami`, tokens.

A token names its service account and is not signed: tokens are never checked, since every client is the administrator.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from kscheduler.api.machinery.api_errors import Object, invalid
from kscheduler.api.machinery.durations import timestamp
from kscheduler.api.machinery.field_rules import bad_value
from kscheduler.embedded.objects.access.roles import Attributes, User, allows, rules_of
from kscheduler.embedded.objects.store import ObjectStore

_TOKEN = "kscheduler-embedded."  # noqa: S105 - the prefix of tokens that grant nothing
_DEFAULT_SECONDS = 3600
_EITHER = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def answer(store: ObjectStore, kind: str, review: Object, user: User, now: datetime) -> Object:
    """The review with its status. Raises 422."""
    return _ANSWERS[kind](store, review, user, now)


def _attributes(review: Object) -> Attributes:
    spec: Object = review.get("spec") or {}
    resource: Object | None
    url: Object | None
    resource, url = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (url is None):
        shown = {"ResourceAttributes": resource, "NonResourceAttributes": url}
        raise invalid(review["kind"], "authorization.k8s.io", "", [bad_value("spec", shown, _EITHER)])
    if url is not None:
        return Attributes(url.get("verb", ""), url=url.get("path", ""))
    resource = resource or {}
    plural, part = resource.get("resource", ""), resource.get("subresource", "")
    return Attributes(
        resource.get("verb", ""),
        resource.get("group", ""),
        f"{plural}/{part}" if part else plural,
        resource.get("namespace", ""),
        resource.get("name", ""),
    )


def _self_access(store: ObjectStore, review: Object, user: User, now: datetime) -> Object:
    del now
    return {**review, "status": {"allowed": allows(store, user, _attributes(review))}}


def _access(store: ObjectStore, review: Object, user: User, now: datetime) -> Object:
    del user, now
    spec = review.get("spec") or {}
    asker = User(spec.get("user", ""), tuple(spec.get("groups") or ()))
    return {**review, "status": {"allowed": allows(store, asker, _attributes(review))}}


def _rules(store: ObjectStore, review: Object, user: User, now: datetime) -> Object:
    del now
    found = list(rules_of(store, user, (review.get("spec") or {}).get("namespace", "")))
    status: Object = {
        "resourceRules": [rule for rule in found if "resources" in rule],
        "nonResourceRules": [rule for rule in found if "nonResourceURLs" in rule],
        "incomplete": False,
    }
    return {**review, "status": status}


def _who(store: ObjectStore, review: Object, user: User, now: datetime) -> Object:
    del store
    metadata = {"creationTimestamp": timestamp(now)}
    return {**review, "metadata": metadata, "status": {"userInfo": user.as_object()}}


def _token(store: ObjectStore, review: Object, user: User, now: datetime) -> Object:
    del store, user, now
    account = account_of((review.get("spec") or {}).get("token", ""))
    if account is None:
        return {**review, "status": {"user": {}, "error": "invalid bearer token"}}
    namespace, name = account
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    shown = {"username": f"system:serviceaccount:{namespace}:{name}", "groups": groups}
    return {**review, "status": {"authenticated": True, "user": shown}}


_ANSWERS: Mapping[str, Callable[[ObjectStore, Object, User, datetime], Object]] = MappingProxyType(
    {
        "SelfSubjectAccessReview": _self_access,
        "SubjectAccessReview": _access,
        "LocalSubjectAccessReview": _access,
        "SelfSubjectRulesReview": _rules,
        "SelfSubjectReview": _who,
        "TokenReview": _token,
    }
)
REVIEWS = frozenset(_ANSWERS)


def token_request(namespace: str, name: str, request: Object, now: datetime) -> Object:
    """The answer to `kubectl create token`."""
    seconds = (request.get("spec") or {}).get("expirationSeconds") or _DEFAULT_SECONDS
    token = _TOKEN + base64.urlsafe_b64encode(f"{namespace}/{name}".encode()).decode()
    status = {"token": token, "expirationTimestamp": timestamp(now + timedelta(seconds=seconds))}
    kind = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": timestamp(now)}
    return {**kind, "metadata": metadata, "spec": request.get("spec") or {}, "status": status}


def account_of(token: str) -> tuple[str, str] | None:
    """(namespace, name) of the service account that a token was made for; None for any other token."""
    if not token.startswith(_TOKEN):
        return None
    try:
        namespace, slash, name = base64.urlsafe_b64decode(token.removeprefix(_TOKEN)).decode().partition("/")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (namespace, name) if slash else None
