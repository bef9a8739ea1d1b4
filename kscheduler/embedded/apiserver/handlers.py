"""The REST verbs over HTTP.

Requests are parsed by hand rather than by a router: the API's path grammar is a single rule, and a binding must be
answered in well under a millisecond. `ApiError` becomes its Status only here; any other exception is a bug and becomes
a 500 that names the request.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from aiohttp import web

from kscheduler.api.machinery.api_errors import (
    ApiError,
    Object,
    bad_request,
    method_not_allowed,
    no_such_path,
    unsupported_media_type,
)
from kscheduler.api.machinery.kind_table import ResourcePath, parse_path, parse_with
from kscheduler.api.machinery.resources import JOBS, PODS, USUAL, ServedKinds, ServedResource
from kscheduler.api.machinery.selectors import parse_selection
from kscheduler.api.typed.decoding import json_type
from kscheduler.api.validation.warnings import DEPRECATED, ORPHANED_PODS, warnings_of
from kscheduler.embedded.apiserver import watch_handler
from kscheduler.embedded.apiserver.bodies import field_validation, patching
from kscheduler.embedded.apiserver.bodies import formats as bodies
from kscheduler.embedded.apiserver.discovery import Discovery
from kscheduler.embedded.apiserver.listing import list_page
from kscheduler.embedded.apiserver.negotiation import AnswerForm, form_of
from kscheduler.embedded.apiserver.rendering import encode, render_object, render_page
from kscheduler.embedded.apiserver.watch_handler import Watches
from kscheduler.embedded.objects import subresources
from kscheduler.embedded.objects.access import reviews as access_reviews
from kscheduler.embedded.objects.access import roles as access
from kscheduler.embedded.objects.deletion import DeleteOptions
from kscheduler.embedded.objects.registry import ObjectRegistry, WriteOptions
from kscheduler.embedded.objects.store import Record
from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)
# Kinds whose DELETE answers with the object; other kinds answer with a Status.
_RETURNS_DELETED = frozenset(
    {"pods", "namespaces", "services", "serviceaccounts", "persistentvolumeclaims", "persistentvolumes"}
)
# Kinds whose DELETE leaves their pods, unless it says what becomes of them, as kubectl does.
_KEEPS_DEPENDENTS = frozenset({"jobs.batch", "replicationcontrollers"})


def respond(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response."""
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def respond_error(error: ApiError) -> web.Response:
    """A refusal as its Status."""
    headers = {"Retry-After": str(error.retry_after_seconds)} if error.retry_after_seconds else None
    return respond(encode(error.status_object()), error.code, headers)


def write_options(query: Mapping[str, str]) -> WriteOptions:
    """The options of a write from its query. Raises 400."""
    dry_run = query.get("dryRun", "")
    if dry_run not in {"", "All"}:
        raise bad_request(f'dryRun: Unsupported value: "{dry_run}": supported values: "All"')
    return WriteOptions(dry_run == "All", query.get("fieldManager", ""), query.get("force") == "true")


class Handlers:
    """Answers the requests of a server."""

    def __init__(
        self, registry: ObjectRegistry, watches: Watches, discovery: Discovery, kinds: ServedKinds = USUAL
    ) -> None:
        self._registry = registry
        self._watches = watches
        self._discovery = discovery
        self._served = frozenset((resource.group_version, resource.plural) for resource in kinds.resources)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; errors become Status objects here."""
        path = self._path_of(request.path)
        warning = DEPRECATED.get(path.resource.key) if path is not None else None
        response = await self._answered(request, path)
        if warning and response.status not in {405, 415} and not response.prepared:
            _warned(response, (warning,))
        return response

    def _path_of(self, path: str) -> ResourcePath | None:
        parsed = parse_path(path)
        return parsed if parsed is not None else parse_with(path, self._registry.kinds.at)

    async def _answered(self, request: web.BaseRequest, path: ResourcePath | None) -> web.StreamResponse:
        try:
            return await self._route(request, path)
        except ApiError as error:
            return respond_error(error)
        except Exception as error:  # noqa: BLE001 - the HTTP boundary: a bug becomes a 500 that names the request
            _log.exception("request_not_answered", method=request.method, path=request.path)
            message = f"Internal error occurred: {type(error).__name__}: {error}"
            return respond_error(ApiError(500, "InternalError", message))

    def _serves(self, resource: ServedResource) -> bool:
        return (resource.group_version, resource.plural) in self._served

    async def _route(self, request: web.BaseRequest, path: ResourcePath | None) -> web.StreamResponse:
        if path is None or not (path.resource.is_custom or self._serves(path.resource)):
            return self._discovery.answer(request)
        if path.is_watch:
            if request.method not in {"GET", "HEAD"} or "watch" not in path.resource.verbs:
                raise method_not_allowed()
            return await self._watch(request, path)
        verb = self._verb(request.method, path)
        if path.subresource != "log":
            is_list = not path.name and request.method == "GET"
            form_of(request.headers.get("Accept", ""), of_list=is_list)  # before anything is done
        if "Impersonate-User" in request.headers:
            self._authorize(request, path)
        return await verb(request, path)

    def _authorize(self, request: web.BaseRequest, path: ResourcePath) -> None:
        """An impersonated user may do only what the user's roles allow. Raises 403."""
        user, requested = requester(request), attributes_of(request, path)
        if not access.allows(self._registry.store, user, requested):
            raise access.refusal(user, requested)

    def _verb(self, method: str, path: ResourcePath) -> "Verb":
        resource = path.resource
        if path.subresource in _SPECIAL:
            verbs = _SPECIAL[path.subresource]
        elif path.subresource:
            verbs = _ON_PART
        elif path.name:
            verbs = _ON_OBJECT
        else:
            verbs = _ON_COLLECTION
        if resource.verbs == ("create",) and path.name:
            raise no_such_path()
        found = verbs.get(method)
        # A namespaced object is written in its namespace; some kinds are deleted one by one.
        is_elsewhere = resource.namespaced and not path.namespace and method != "GET"
        is_singly = method == "DELETE" and "deletecollection" not in resource.verbs
        if found is None or (not path.name and (is_elsewhere or is_singly)):
            raise method_not_allowed()
        if resource.verbs == ("create",) and method != "POST":
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
        body = await self._typed_body(request, path)
        if path.resource.key == "bindings":
            field_validation.check_kind(path.resource, body)
            field_validation.check_body(path.resource, body, {})
            name = (body.get("metadata") or {}).get("name", "")
            field_validation.check_sent(field_validation.BINDING, body, path.namespace, name)
            return self._bound(request, path, name, body)
        if path.resource.verbs == ("create",) and path.resource.kind in access_reviews.REVIEWS:
            return self._review(request, path, body)
        warnings = field_validation.check_body(path.resource, body, request.query)
        options = write_options(request.query)
        record = self._registry.create(path.resource, path.namespace, body, options)
        warnings += warnings_of(path.resource, None, record.value)
        return self._object(request, path, record, 201, warnings)

    def _review(self, request: web.BaseRequest, path: ResourcePath, body: Object) -> web.Response:
        warnings = field_validation.check_body(path.resource, body, request.query)
        kind = {"kind": path.resource.kind, "apiVersion": path.resource.group_version}
        review = {**kind, "metadata": body.get("metadata") or {}, **body}
        user = requester(request)
        answer = access_reviews.answer(self._registry.store, path.resource.kind, review, user, self._registry.now())
        return _warned(respond(encode(answer), 201), warnings)

    async def _create_token(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        requested = await self._sent_body(request, field_validation.TOKEN)
        self._registry.get(path.resource, path.namespace, path.name)
        answer = access_reviews.token_request(path.namespace, path.name, requested, self._registry.now())
        return respond(encode(answer), 201)

    async def _update(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = await self._typed_body(request, path)
        warnings = field_validation.check_body(path.resource, body, request.query)
        field_validation.check_named(body, path.name)
        options = write_options(request.query)
        old = self._registry.get(path.resource, path.namespace, path.name)
        arguments = (path.resource, path.namespace, path.name, body, options, path.subresource)
        record = self._registry.update(*arguments)
        if not path.subresource:
            warnings += warnings_of(path.resource, old.value, record.value)
        return self._object(request, path, record, 200, warnings)

    async def _patch(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        patch = patching.read_patch(await bodies.read(request), request.headers.get("Content-Type", ""))
        if path.resource.is_custom and patch.type == bodies.STRATEGIC_PATCH:
            raise unsupported_media_type("", (bodies.JSON_PATCH, bodies.MERGE_PATCH, bodies.APPLY_PATCH))
        old = self._registry.store.get(path.resource.collection, path.namespace, path.name)
        outcome = patching.patch_object(self._registry, path, patch, write_options(request.query), request.query)
        warnings = outcome.warnings
        if not path.subresource:
            warnings += warnings_of(path.resource, old.value if old else None, outcome.record.value)
        return self._object(request, path, outcome.record, 201 if outcome.created else 200, warnings)

    async def _delete(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = bodies.decode_object(await bodies.read(request), request.headers.get("Content-Type", ""))
        options, warnings = self._delete_options(path.resource, body, request.query)
        try:
            record = self._registry.deletion.delete(path.resource, path.namespace, path.name, options)
        except ApiError as error:
            return _warned(respond_error(error), warnings)
        is_gone = self._registry.store.get(path.resource.collection, path.namespace, path.name) is None
        if is_gone and not options.dry_run and path.resource.key not in _RETURNS_DELETED:
            return _warned(respond(encode(_deleted_status(path, record))), warnings)
        return self._object(request, path, record, 200, warnings)

    def _delete_options(
        self, resource: ServedResource, body: Object, query: Mapping[str, str]
    ) -> tuple[DeleteOptions, tuple[str, ...]]:
        """The options of a DELETE, and a warning where the kind's own rule keeps what the object has made."""
        options = subresources.delete_options(body, query)
        delete_options = body or query
        if (
            resource.key not in _KEEPS_DEPENDENTS
            or "propagationPolicy" in delete_options
            or "orphanDependents" in delete_options
        ):
            return options, ()
        return replace(options, propagation="Orphan"), (ORPHANED_PODS,) if resource is JOBS else ()

    async def _delete_collection(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = bodies.decode_object(await bodies.read(request), request.headers.get("Content-Type", ""))
        options, warnings = self._delete_options(path.resource, body, request.query)
        selection = parse_selection(request.query, path.resource, path.namespace)
        page = list_page(self._registry.store, path.resource, selection, {})
        for record in page.records:
            metadata = record.value["metadata"]
            namespace, name = metadata.get("namespace", ""), metadata["name"]
            if self._registry.store.get(path.resource.collection, namespace, name) is not None:
                self._registry.deletion.delete(path.resource, namespace, name, options)
        return _warned(respond(render_page(path.resource, page, AnswerForm.PLAIN, self._registry.now())), warnings)

    async def _bind(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = await self._sent_body(request, field_validation.BINDING)
        field_validation.check_sent(field_validation.BINDING, body, path.namespace, path.name)
        return self._bound(request, path, path.name, body)

    def _bound(self, request: web.BaseRequest, path: ResourcePath, name: str, body: Object) -> web.Response:
        options = write_options(request.query)
        return respond(encode(subresources.bind(self._registry, path.namespace, name, body, options)), 201)

    async def _evict(self, request: web.BaseRequest, path: ResourcePath) -> web.StreamResponse:
        body = await self._sent_body(request, field_validation.EVICTION)
        field_validation.check_sent(field_validation.EVICTION, body, path.namespace, path.name)
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
        if request.method == "PATCH":
            patch = patching.read_patch(await bodies.read(request), request.headers.get("Content-Type", ""))
            record = self._registry.get(path.resource, path.namespace, path.name)
            scale = patching.merged(subresources.scale_of(record.value), patch, {})
        else:
            scale = await self._sent_body(request, field_validation.SCALE)
            field_validation.check_sent(field_validation.SCALE, scale, path.namespace, path.name)
            record = self._registry.get(path.resource, path.namespace, path.name)
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
        return _warned(response, warnings)

    async def _typed_body(self, request: web.BaseRequest, path: ResourcePath) -> Object:
        """The object in the body, of the path's kind. Raises 400, 413 or 415."""
        value = await self._sent_body(request, path.resource)
        if path.resource.key != "bindings":
            field_validation.check_kind(path.resource, value)
        return value

    async def _sent_body(self, request: web.BaseRequest, kind: ServedResource) -> Object:
        """The object in the body, which is named by `kind` where it is none. Raises 400, 413 or 415."""
        body, content_type = await bodies.read(request), request.headers.get("Content-Type", "")
        value = bodies.decode(body, content_type) if body else None
        if not isinstance(value, dict):
            raise field_validation.unrecognized(kind, body, json_type(value))
        return value


_R = TypeVar("_R", bound=web.StreamResponse)


def _warned(response: _R, warnings: tuple[str, ...]) -> _R:
    for warning in warnings:
        escaped = warning.replace("\\", r"\\").replace('"', r"\"")
        response.headers.add("Warning", f'299 - "{escaped}"')
    return response


def requester(request: web.BaseRequest) -> access.User:
    """The user of a request: the administrator, unless it impersonates another user."""
    if "Impersonate-User" not in request.headers:
        return access.ADMIN
    return access.user_of(request.headers, tuple(request.headers.getall("Impersonate-Group", ())))


def attributes_of(request: web.BaseRequest, path: ResourcePath) -> access.Attributes:
    """The attributes of a request for role-based access control."""
    verb = _VERBS[request.method]
    if verb == "get" and (not path.name or request.query.get("watch") in {"1", "true"}):
        verb = "watch" if request.query.get("watch") in {"1", "true"} else "list"
    if verb == "delete" and not path.name:
        verb = "deletecollection"
    plural = f"{path.resource.plural}/{path.subresource}" if path.subresource else path.resource.plural
    return access.Attributes(verb, path.resource.group, plural, path.namespace, path.name)


def _deleted_status(path: ResourcePath, record: Record) -> Object:
    details: Object = {"name": path.name, "kind": path.resource.plural, "uid": record.value["metadata"]["uid"]}
    if path.resource.group:
        details["group"] = path.resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
Verb = Callable[[web.BaseRequest, ResourcePath], Awaitable[web.StreamResponse]]

_ON_COLLECTION = {"GET": Handlers._list, "POST": Handlers._create, "DELETE": Handlers._delete_collection}
_ON_OBJECT = {
    "GET": Handlers._get,
    "PUT": Handlers._update,
    "PATCH": Handlers._patch,
    "DELETE": Handlers._delete,
}
_ON_PART = {name: _ON_OBJECT[name] for name in ("GET", "PUT", "PATCH")}
_SPECIAL = {
    "finalize": {"PUT": Handlers._update},
    "binding": {"POST": Handlers._bind},
    "eviction": {"POST": Handlers._evict},
    "log": {"GET": Handlers._get_log},
    "token": {"POST": Handlers._create_token},
    "scale": {"GET": Handlers._get_scale, "PUT": Handlers._put_scale, "PATCH": Handlers._put_scale},
}
