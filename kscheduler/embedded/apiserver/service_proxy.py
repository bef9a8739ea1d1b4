"""The API server's proxy to services.

    GET /api/v1/namespaces/kscheduler-system/services/https:kscheduler:10259/proxy/explain?pod=...

Where the service is says its Endpoints object; here that may name an address of this machine alone, and anyone who
starts a program writes it. As the real one, the proxy forwards method, path, query, body and headers, but nobody's
Authorization. An answer is read whole before it is passed on, so what never ends (a stream of events) does not come
through.
"""

import re
from typing import Final

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from kscheduler.api.machinery.api_errors import ApiError, not_found
from kscheduler.embedded.objects.store import ObjectStore

_PATH: Final = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/services/(?P<target>[^/]+)/proxy(?P<path>/.*)?")
_NOT_FORWARDED: Final = frozenset(
    {hdrs.AUTHORIZATION, hdrs.HOST, hdrs.CONNECTION, hdrs.CONTENT_LENGTH, hdrs.TRANSFER_ENCODING, hdrs.ACCEPT_ENCODING}
)
_PASSED_BACK: Final = (hdrs.CONTENT_TYPE, hdrs.RETRY_AFTER, hdrs.CACHE_CONTROL, hdrs.VARY, hdrs.LOCATION)
_HERE: Final = ("127.0.0.1",)
_SECONDS: Final = 30.0


class ServiceProxy:
    """Passes requests on to services."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def answer(self, request: web.BaseRequest) -> web.Response | None:
        """The service's answer; `None` if the request is not for this proxy. Raises `ApiError`."""
        found = _PATH.fullmatch(request.rel_url.raw_path)
        if found is None:
            return None
        namespace, name = found["namespace"], _name_in(found["target"])
        if self._store.get("services", namespace, name) is None:
            raise not_found("services", "", name)
        url = self._url(namespace, name)
        if not url:
            raise ApiError(503, "ServiceUnavailable", f'no endpoints available for service "{name}"')
        query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
        return await _forwarded(request, URL(f"{url}{found['path'] or '/'}{query}", encoded=True))

    def _url(self, namespace: str, name: str) -> str:
        """Of the first endpoint; empty if there is none on this machine."""
        record = self._store.get("endpoints", namespace, name)
        for subset in record.value.get("subsets") or () if record is not None else ():
            for address in subset.get("addresses") or ():
                for port in subset.get("ports") or ():
                    if address.get("ip") in _HERE:
                        return f"{port.get('appProtocol', 'http')}://{address['ip']}:{port['port']}"
        return ""


def _name_in(target: str) -> str:
    """Of `name`, `name:port` or `scheme:name:port`."""
    parts = target.split(":")
    return parts[1] if len(parts) > 2 else parts[0]


async def _forwarded(request: web.BaseRequest, url: URL) -> web.Response:
    headers = {name: value for name, value in request.headers.items() if name.title() not in _NOT_FORWARDED}
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(
                request.method, url, data=await request.read(), headers=headers, allow_redirects=False
            ) as response,
        ):
            body = await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        message = f"error trying to reach service: {str(error) or type(error).__name__}"
        raise ApiError(503, "ServiceUnavailable", message) from error
    passed = {name: response.headers[name] for name in _PASSED_BACK if name in response.headers}
    return web.Response(status=response.status, body=body, headers=passed)
