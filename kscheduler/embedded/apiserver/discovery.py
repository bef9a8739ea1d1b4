"""Discovery documents: group lists, aggregated discovery, versions, OpenAPI, health.

All documents are made from the table of kinds, at the first request for each.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial

from aiohttp import web

from kscheduler.api.machinery.api_errors import Object, method_not_allowed, no_such_path
from kscheduler.api.machinery.kind_table import KindTable
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.embedded.apiserver.negotiation import DISCOVERY_TYPE, wants_aggregated_discovery
from kscheduler.embedded.apiserver.rendering import encode

# Clients request it for kinds that are missing in the documents of version 3. Ours is empty (no bytes, in protobuf),
# since version 3 is complete.
_OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_SCALE_KIND = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
_BINDING_KIND = {"group": "", "version": "v1", "kind": "Binding"}
_EVICTION_KIND = {"group": "policy", "version": "v1", "kind": "Eviction"}
_TOKEN_KIND = {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
_SUBRESOURCE_KINDS = {
    "scale": _SCALE_KIND,
    "binding": _BINDING_KIND,
    "eviction": _EVICTION_KIND,
    "token": _TOKEN_KIND,
}
_SUBRESOURCE_VERBS = {
    "log": ["get"],
    "binding": ["create"],
    "eviction": ["create"],
    "finalize": ["update"],
    "token": ["create"],
}


def version_info(release: str) -> Object:
    """Body of /version."""
    major, minor, _ = release.removeprefix("v").split(".")
    info: Object = {"major": major, "minor": minor, "gitVersion": release, "gitCommit": "", "gitTreeState": "clean"}
    return {**info, "buildDate": "2026-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "python"}


def _resource_entries(resource: ServedResource) -> list[Object]:
    """The entries of a resource and its subresources in an APIResourceList."""
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return [entry, *(_subresource_entry(resource, name) for name in resource.subresources)]


def _subresource_entry(resource: ServedResource, name: str) -> Object:
    entry: Object = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
    kind = _SUBRESOURCE_KINDS.get(name)
    if kind:
        entry |= kind
    else:
        entry["kind"] = resource.kind
    return {**entry, "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"])}


def resource_list(resources: list[ServedResource]) -> Object:
    """The APIResourceList of a group version."""
    entries = [entry for resource in resources for entry in _resource_entries(resource)]
    listed: Object = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": resources[0].group_version}
    return {**listed, "resources": entries}


def _group(group: str, versions: Iterable[str]) -> Object:
    named = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": named, "preferredVersion": named[0]}


def group_list(kinds: KindTable) -> Object:
    """The APIGroupList of all groups but core."""
    groups = [_group(group, versions) for group, versions in kinds.groups().items() if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def core_versions() -> Object:
    """The APIVersions of the core group."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def aggregated(kinds: KindTable, *, core: bool) -> Object:
    """The APIGroupDiscoveryList of the core group, or of all others."""
    items = []
    for group, by_version in kinds.groups().items():
        if (group == "") is not core:
            continue
        versions = [
            {"version": version, "freshness": "Current", "resources": [_aggregated_resource(one) for one in resources]}
            for version, resources in by_version.items()
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_resource(resource: ServedResource) -> Object:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    described: Object = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        described["shortNames"] = list(resource.short_names)
    if resource.categories:
        described["categories"] = list(resource.categories)
    if resource.subresources:
        described["subresources"] = [_aggregated_subresource(resource, name) for name in resource.subresources]
    return described


def _aggregated_subresource(resource: ServedResource, name: str) -> Object:
    subresource_kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    verbs = _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"])
    return {"subresource": name, "responseKind": _SUBRESOURCE_KINDS.get(name, subresource_kind), "verbs": verbs}


def _group_documents(kinds: KindTable) -> dict[str, Callable[[], Object]]:
    documents: dict[str, Callable[[], Object]] = {
        "/api": core_versions,
        "/apis": partial(group_list, kinds),
        "/version": partial(version_info, kinds.release),
    }
    for (group, version), resources in kinds.group_versions().items():
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        documents[prefix] = partial(resource_list, resources)
    for group, versions in kinds.groups().items():
        if group:
            documents[f"/apis/{group}"] = partial(_api_group, group, tuple(versions))
    return documents


def _api_group(group: str, versions: tuple[str, ...]) -> Object:
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}


class Discovery:
    """Answers paths that are not about objects. `openapi_document` makes the document of a path below /openapi/v3."""

    def __init__(self, kinds: KindTable, openapi_document: Callable[[str], Object | None]) -> None:
        self._kinds = kinds
        self._openapi = openapi_document
        self._make_documents()

    def _make_documents(self) -> None:
        self._generation = self._kinds.generation
        self._documents = _group_documents(self._kinds)
        self._encoded = cache(self._encode_document)

    def answer(self, request: web.BaseRequest) -> web.Response:
        """The document of this path. Raises 404 or 405."""
        path = request.path.rstrip("/") or "/"
        if self._generation != self._kinds.generation:
            self._make_documents()
        if request.method not in {"GET", "HEAD"}:
            raise method_not_allowed() if self._is_document(path) else no_such_path()
        if path in _HEALTH or path.rpartition("/")[0] in _HEALTH:
            return web.Response(text="ok")
        if path in {"/api", "/apis"} and wants_aggregated_discovery(request.headers.get("Accept", "")):
            body = encode(aggregated(self._kinds, core=path == "/api"))
            return web.Response(body=body, headers={"Content-Type": DISCOVERY_TYPE, "Vary": "Accept"})
        if path == "/openapi/v2":
            return web.Response(headers={"Content-Type": _OPENAPI_V2})
        body = self._encoded(path)
        return web.Response(body=body, content_type="application/json")

    def _is_document(self, path: str) -> bool:
        known = path == "/" or path in self._documents or path.startswith("/openapi/")
        return known or path in _HEALTH or path.rpartition("/")[0] in _HEALTH

    def _encode_document(self, path: str) -> bytes:
        if path == "/":
            return encode({"paths": sorted([*self._documents, *_HEALTH, "/openapi/v3"])})
        made = self._documents[path]() if path in self._documents else self._openapi(path)
        if made is None:
            raise no_such_path()
        return encode(made)
