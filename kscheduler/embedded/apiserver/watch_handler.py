"""Watch requests: from the query to a subscribed watcher and its first events.

resourceVersion=N            everything after N from history, or 410
resourceVersion="" or 0      synthetic ADDED events of the current state, then changes
sendInitialEvents=true       the same, with a bookmark at the end of the initial events (WatchList)
"""

from datetime import datetime

from aiohttp import web

from kscheduler.api.machinery.api_errors import ApiError, bad_request, invalid, too_large_resource_version
from kscheduler.api.machinery.field_rules import forbidden_field
from kscheduler.api.machinery.kind_table import ResourcePath
from kscheduler.api.machinery.selectors import parse_selection
from kscheduler.embedded.apiserver.faults import Faults
from kscheduler.embedded.apiserver.listing import list_page, parse_version
from kscheduler.embedded.apiserver.negotiation import form_of
from kscheduler.embedded.apiserver.rendering import watch_encoder
from kscheduler.embedded.apiserver.watch_streams import MakeLine, WatchStream, WatchStreams, event_filter
from kscheduler.embedded.apiserver.watching import LineCache, Watcher, WatchRequest, bookmark_line, error_line
from kscheduler.embedded.objects import event_views
from kscheduler.embedded.objects.registry import ObjectRegistry
from kscheduler.embedded.objects.store import ChangeType

_DEFAULT_TIMEOUT_SECONDS = 1800.0


def parse_watch(request: web.BaseRequest, path: ResourcePath) -> WatchRequest:
    """The watch that the query requests. Raises 400 or 422."""
    query = request.query
    try:
        timeout = float(query.get("timeoutSeconds") or 0) or _DEFAULT_TIMEOUT_SECONDS
    except ValueError as error:
        raise bad_request(f"timeoutSeconds: {error}") from error
    initial = query.get("sendInitialEvents") == "true"
    match = query.get("resourceVersionMatch", "")
    if initial and match != "NotOlderThan":
        reason = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid("ListOptions", "meta.k8s.io", "", [forbidden_field("resourceVersionMatch", reason)])
    if match and not initial:
        reason = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise invalid("ListOptions", "meta.k8s.io", "", [forbidden_field("resourceVersionMatch", reason)])
    return WatchRequest(
        resource=path.resource,
        selection=parse_selection(query, path.resource, path.namespace, path.name),
        form=form_of(request.headers.get("Accept", "")),
        bookmarks=query.get("allowWatchBookmarks") in {"1", "true"},
        initial_events=initial,
        resource_version=query.get("resourceVersion", ""),
        include_object=query.get("includeObject", ""),
        timeout_seconds=timeout,
    )


class Watches:
    """All watches of a server."""

    def __init__(self, registry: ObjectRegistry, faults: Faults, bookmark_seconds: float) -> None:
        self.streams = WatchStreams()
        self._registry = registry
        self._faults = faults
        self._bookmark_seconds = bookmark_seconds
        self._caches: dict[str, LineCache] = {}

    async def serve(self, request: web.BaseRequest, watch: WatchRequest) -> web.StreamResponse:
        """Answer with the stream until it ends. There is no await between reading the state and subscribing."""
        store = self._registry.store
        watcher = Watcher(
            watch.selection,
            watch_encoder(watch.resource, watch.form, self._now, self._cache(watch), watch.include_object),
        )
        watcher.filter_fault = event_filter(self._faults, request.path)
        try:
            self._replay(watch, watcher)
        except ApiError as error:
            return await self._refuse(request, watcher, error)
        first = b"".join(watcher.take_nowait())
        store.subscribe(watch.resource.collection, watcher.deliver)
        stream = WatchStream(self.streams, watcher, watch.timeout_seconds, self._bookmark_seconds)
        try:
            return await stream.send(request, first, self._bookmark(watch))
        finally:
            store.unsubscribe(watch.resource.collection, watcher.deliver)

    def _now(self) -> datetime:
        return self._registry.now()

    def _cache(self, watch: WatchRequest) -> LineCache:
        key = f"{watch.resource.group_version}/{watch.resource.plural}"
        if key not in self._caches:
            self._caches[key] = LineCache(event_views.view_of(watch.resource))
        return self._caches[key]

    def _replay(self, watch: WatchRequest, watcher: Watcher) -> None:
        """Queue the first events for the client. Raises 410 or 504."""
        if watch.initial_events or watch.resource_version in {"", "0"}:
            self._present_state(watch, watcher)
            return
        store, version = self._registry.store, parse_version(watch.resource_version)
        if version > store.version:
            # A client with a version from before a restart of the server would otherwise wait forever.
            raise too_large_resource_version(version, store.version)
        for change in store.collection(watch.resource.collection).changes_since(version):
            watcher.deliver(change)

    def _present_state(self, watch: WatchRequest, watcher: Watcher) -> None:
        query = {"resourceVersion": watch.resource_version} if watch.resource_version else {}
        page = list_page(self._registry.store, watch.resource, watch.selection, query)
        for record in page.records:
            watcher.push_event(ChangeType.ADDED, record)
        if watch.initial_events:
            watcher.push(bookmark_line(watch.resource, page.version, ends_initial_events=True))

    def _bookmark(self, watch: WatchRequest) -> MakeLine:
        store = self._registry.store
        return lambda: bookmark_line(watch.resource, store.version) if watch.bookmarks else b""

    async def _refuse(self, request: web.BaseRequest, watcher: Watcher, error: ApiError) -> web.StreamResponse:
        """Send a 410 as the ERROR event of a stream that ends at once; other refusals are plain answers."""
        if error.code != 410:
            raise error
        stream = WatchStream(self.streams, watcher, 0.0, self._bookmark_seconds)
        return await stream.send(request, error_line(error), lambda: b"")
