"""What a request is about, from its path: `/apis/GROUP/VERSION[/namespaces/NAMESPACE]/RESOURCE[/NAME[/SUBRESOURCE]]`.

Only requests that something is to be found out about are taken apart: those that hang, and those whose answer is to be
compared with what was asked.
"""

from typing import NamedTuple
from urllib.parse import unquote

from kscheduler.client.http.http1 import HttpRequest

_SUBRESOURCES_OF_NAMESPACES = frozenset({"status", "finalize"})


class RequestPath(NamedTuple):
    """A path of the API server, unquoted. Parts that it does not have are empty."""

    api_version: str
    """As in `apiVersion`."""
    namespace: str
    resource: str
    """The plural."""
    name: str
    subresource: str

    @property
    def text(self) -> str:
        """`pods/binding`, as in RBAC rules."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def parse_resource_path(target: str) -> RequestPath | None:
    """The parts of a request's target; `None` if it names no resource (`/version`, `/readyz`)."""
    parts = target.partition("?")[0].strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        api_version, parts = parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        api_version, parts = f"{parts[1]}/{parts[2]}", parts[3:]
    else:
        return None
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in _SUBRESOURCES_OF_NAMESPACES:
        namespace, parts = unquote(parts[1]), parts[2:]
    name = unquote(parts[1]) if len(parts) > 1 else ""
    return RequestPath(api_version, namespace, parts[0], name, "/".join(parts[2:]))


class RequestOwner(NamedTuple):
    """Whose requests hang together: those of one kind in one namespace, since webhooks and quotas are for both."""

    namespace: str
    write: str
    """The verb and the resource, as in RBAC rules: `create pods/binding`."""

    @property
    def is_read(self) -> bool:
        """Whether nothing is written."""
        return self.write.startswith("get ")


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}


def owner_of_request(request: HttpRequest) -> RequestOwner | None:
    """Whose request it is; `None` for one of no namespace: lists, for example, may take long."""
    place = parse_resource_path(request.target)
    if place is None:
        return None
    namespace = place.namespace or request.tenant
    return RequestOwner(namespace, f"{_VERBS[request.method]} {place.text}") if namespace else None
