"""The REST verbs over HTTP: a request in, the registry asked, bytes out.

Every request is parsed by hand instead of through a router: the path grammar of the API is one rule, and a binding is
answered in well under a millisecond. `ApiError` becomes its Status here and nowhere else; any other exception is a
defect and becomes a 500 that names the request.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import web

from kscheduler.simulation.apiserver import bodies, field_validation, patching, watch_handler
from kscheduler.simulation.apiserver.discovery import Discovery
from kscheduler.simulation.apiserver.listing import list_page
from kscheduler.simulation.apiserver.negotiation import Form, form_of
from kscheduler.simulation.apiserver.rendering import encode, render_object, render_page
from kscheduler.simulation.apiserver.watch_handler import Watches
from kscheduler.simulation.objects import subresources
from kscheduler.simulation.objects.api_errors import ApiError, Object, bad_request, method_not_allowed
from kscheduler.simulation.objects.registry import Registry, WriteOptions
from kscheduler.simulation.objects.request_path import ResourcePath, parse_path
from kscheduler.simulation.objects.resources import PODS
from kscheduler.simulation.objects.selectors import parse_selection
from kscheduler.simulation.objects.store import Record

_log = logging.getLogger(__name__)
_RETURNS_DELETED = frozenset(
    {"pods", "namespaces", "services", "serviceaccounts", "persistentvolumeclaims", "persistentvolumes"}
)
"""Kinds whose DELETE answers with the object; the others answer with a Status."""


def respond(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response."""
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def respond_error(error: ApiError) -> web.Response:
    """A refusal as its Status."""
    headers = {"Retry-After": str(error.retry_after_seconds)} if error.retry_after_seconds else None
    return respond(encode(error.status_object()), error.code, headers)


def write_options(query: Mapping[str, str]) -> WriteOptions:
    """Options of a write from its query. Raises 400."""
    dry_run = query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        raise bad_request(f'dryRun: Unsupported value: "{dry_run}": supported values: "All"')
    return WriteOptions(dry_run == "All", query.get("fieldManager", ""), query.get("force") == "true")


class Handlers:
    """Answers every request of one server."""

    def __init__(self, registry: Registry, watches: Watches, discovery: Discovery) -> None:
        self._registry = registry
        self._watches = watches
        self._discovery = discovery

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The one entry: errors become Status objects here."""
        try:
            return await self._route(request)
        except ApiError as error:
            return respond_error(error)
        except Exception as error:  # noqa: BLE001 - the HTTP boundary: a defect becomes a 500 that names the request
            _log.exception("defect while answering %s %s", request.method, request.path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return respond_error(ApiError(500, "InternalError", message))

    async def _route(self, request: web.BaseRequest) -> web.StreamResponse:
        path = parse_path(request.path)
        if path is None:
            return self._discovery.answer(request)
        verb = self._verb(request.method, path)
        return await verb(request, path)

    def _verb(self, method: str, path: ResourcePath) -> "Verb":
        if path.subresource in {"binding", "eviction", "log", "scale"}:
            verbs = _SPECIAL.get(path.subresource, {})
        elif path.name:
            verbs = _ON_OBJECT
        else:
            verbs = _ON_COLLECTION
        found = verbs.get(method)
        if found is None or (path.resource.verbs == ("create",) and method != "POST"):
            raise method_not_allowed()
        return partial(found, self)

    async def _get(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        if request.query.get("watch") in {"1", "true"}:
            return await self._watch(request, path)
        record = self._registry.get(path.resource, path.namespace, path.name)
        return self._object(request, path, record)

    async def _list(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        if request.query.get("watch") in {"1", "true"}:
            return await self._watch(request, path)
        form = form_of(request.headers.get("Accept", ""))
        selection = parse_selection(request.query, path.resource, path.namespace)
        page = list_page(self._registry.store, path.resource, selection, request.query)
        include = request.query.get("includeObject", "")
        return respond(render_page(path.resource, page, form, self._registry.now(), include))

    async def _watch(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        watch = watch_handler.parse_watch(request, path)
        return await self._watches.serve(request, watch)

    async def _create(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = bodies.decode_object(await request.read(), request.headers.get("Content-Type", ""))
        if path.resource.key == "bindings":
            name = (body.get("metadata") or {}).get("name", "")
            return self._bound(request, path, name, body)
        if path.resource.namespaced and not path.namespace:
            raise method_not_allowed()
        self._check_kind(path, body)
        warnings = field_validation.check(path.resource, body, request.query)
        options = write_options(request.query)
        record = self._registry.create(path.resource, path.namespace, body, options)
        return self._object(request, path, record, 201, warnings)

    async def _update(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = bodies.decode_object(await request.read(), request.headers.get("Content-Type", ""))
        self._check_kind(path, body)
        warnings = field_validation.check(path.resource, body, request.query)
        options = write_options(request.query)
        arguments = (path.resource, path.namespace, path.name, body, options, path.subresource)
        return self._object(request, path, self._registry.update(*arguments), 200, warnings)

    async def _patch(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        patch = patching.read_patch(await request.read(), request.headers.get("Content-Type", ""))
        outcome = patching.patch_object(self._registry, path, patch, write_options(request.query), request.query)
        return self._object(request, path, outcome.record, 201 if outcome.created else 200, outcome.warnings)

    async def _delete(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = bodies.decode_object(await request.read(), request.headers.get("Content-Type", ""))
        options = subresources.delete_options(body, request.query)
        record = self._registry.deletion.delete(path.resource, path.namespace, path.name, options)
        is_gone = self._registry.store.get(path.resource.collection, path.namespace, path.name) is None
        if is_gone and not options.dry_run and path.resource.key not in _RETURNS_DELETED:
            return respond(encode(_deleted_status(path, record)))
        return self._object(request, path, record)

    async def _delete_collection(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = bodies.decode_object(await request.read(), request.headers.get("Content-Type", ""))
        options = subresources.delete_options(body, request.query)
        selection = parse_selection(request.query, path.resource, path.namespace)
        page = list_page(self._registry.store, path.resource, selection, {})
        for record in page.records:
            metadata = record.value["metadata"]
            namespace, name = metadata.get("namespace", ""), metadata["name"]
            if self._registry.store.get(path.resource.collection, namespace, name) is not None:
                self._registry.deletion.delete(path.resource, namespace, name, options)
        return respond(render_page(path.resource, page, Form.PLAIN, self._registry.now()))

    async def _bind(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = bodies.decode_object(await request.read(), request.headers.get("Content-Type", ""))
        return self._bound(request, path, path.name, body)

    def _bound(self, request: web.BaseRequest, path: ResourcePath, name: str, body: Object) -> web.Response:
        options = write_options(request.query)
        return respond(encode(subresources.bind(self._registry, path.namespace, name, body, options)), 201)

    async def _evict(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = bodies.decode_object(await request.read(), request.headers.get("Content-Type", ""))
        dry_run = write_options(request.query).dry_run
        answer = subresources.evict(self._registry, path.namespace, path.name, body, dry_run=dry_run)
        return respond(encode(answer), 201)

    async def _get_log(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        del request
        record = self._registry.get(PODS, path.namespace, path.name)
        return web.Response(text=subresources.log_text(record.value))

    async def _get_scale(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        del request
        record = self._registry.get(path.resource, path.namespace, path.name)
        return respond(encode(subresources.scale_of(record.value)))

    async def _put_scale(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        record = self._registry.get(path.resource, path.namespace, path.name)
        if request.method == "PATCH":
            patch = patching.read_patch(await request.read(), request.headers.get("Content-Type", ""))
            scale = patching.merged(subresources.scale_of(record.value), patch, {})
        else:
            scale = bodies.decode_object(await request.read(), request.headers.get("Content-Type", ""))
        options = write_options(request.query)
        written = subresources.set_scale(self._registry, path.resource, record, scale, options)
        return respond(encode(subresources.scale_of(written.value)))

    def _object(
        self,
        request: web.BaseRequest,
        path: ResourcePath,
        record: Record,
        status: int = 200,
        warnings: tuple[str, ...] = (),
    ) -> web.Response:
        form = form_of(request.headers.get("Accept", ""))
        include = request.query.get("includeObject", "")
        response = respond(render_object(path.resource, record, form, self._registry.now(), include), status)
        for warning in warnings:
            response.headers.add("Warning", f'299 - "{warning}"')
        return response

    def _check_kind(self, path: ResourcePath, body: Object) -> None:
        resource = path.resource
        kind, group_version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.group_version
        if (kind, group_version) != (resource.kind, resource.group_version):
            given, expected = (
                f"{kind} in version {group_version}",
                f"{resource.kind} in version {resource.group_version}",
            )
            raise bad_request(f"the object provided ({given}) does not match the expected one ({expected})")


def _deleted_status(path: ResourcePath, record: Record) -> Object:
    details: Object = {"name": path.name, "kind": path.resource.plural, "uid": record.value["metadata"]["uid"]}
    if path.resource.group:
        details["group"] = path.resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


Verb = Callable[[web.BaseRequest, ResourcePath], Awaitable[web.StreamResponse]]

_ON_COLLECTION = {"GET": Handlers._list, "POST": Handlers._create, "DELETE": Handlers._delete_collection}
_ON_OBJECT = {
    "GET": Handlers._get,
    "PUT": Handlers._update,
    "PATCH": Handlers._patch,
    "DELETE": Handlers._delete,
}
_SPECIAL = {
    "binding": {"POST": Handlers._bind},
    "eviction": {"POST": Handlers._evict},
    "log": {"GET": Handlers._get_log},
    "scale": {"GET": Handlers._get_scale, "PUT": Handlers._put_scale, "PATCH": Handlers._put_scale},
}
