"""Whether what came with a 2xx is what an API server answers to that request.

The problem: what stands between us and the API server may answer by itself, with 200: a proxy's login page, an empty
body, 204, the answer to somebody else's request. Taken for success, a pod counts as bound that nobody has bound.
The idea: an answer is believed only if it says what the verb answers. Anything else proves nothing, neither that the
request was applied nor that it was not.

    verb                            accepted
    POST .../binding, .../eviction  200, 201, 202: a Status that says Success
    DELETE of an object             200, 202: a Status that says Success, or the object
    PUT, PATCH, GET of an object    200, 201: the object: its kind and name, and the UID that the request names
    POST to a collection            200, 201, 202: the object, likewise

The kind is compared where the resource is one of those that we know, apiVersion never: an object may be answered in
another version than it was asked for. A Status of success is compared byte by byte with what real API servers send,
since every Binding is answered by one; others are decoded. Lists and paths that name no
resource are left to their readers, unless they are pages for people (as of a captive portal, also in place of a
watch); so is whatever a proxied Service answers.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import KINDS, RESOURCE_CLAIM_TEMPLATES
from kscheduler.client.errors import status_of
from kscheduler.client.http.http1 import HttpRequest
from kscheduler.client.resource_path import RequestPath, parse_resource_path

# How the answer to a Binding begins (seen with 1.34 to 1.37).
_SUCCESS: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"'
_STATUS_ANSWERED: Final = ("/binding", "/eviction")
# How the answer to a new Event begins (likewise), and in the request and the answer its name, if nothing is escaped.
_EVENT: Final = b'{"kind":"Event","apiVersion":"events.k8s.io/v1",'
_NAMED: Final = b'"metadata":{"name":"'
_KINDS_BESIDE: Final = {
    "events": "Event",
    "leases": "Lease",
    RESOURCE_CLAIM_TEMPLATES.plural: RESOURCE_CLAIM_TEMPLATES.name,
    POD_GROUPS.plural: POD_GROUPS.name,
}
# By resource, for those that a scheduler writes or reads by name.
_KIND_OF: Final[Mapping[str, str]] = MappingProxyType(
    {**{plural: kind.name for plural, kind in KINDS.items()}, **_KINDS_BESIDE}
)


# Content types of pages for people, which no watch has.
PAGES: Final = frozenset(("text/html", "application/xhtml+xml"))
# Bytes at whose begin a page shows.
_HEAD: Final = 64


class _Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Answered(msgspec.Struct):
    """As much of an object, or of a Status, as tells what it is."""

    kind: str = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: msgspec.Raw = msgspec.Raw(b"")


_decode: Final = msgspec.json.Decoder(_Answered).decode


def response_problem(request: HttpRequest, status: int, body: bytes) -> str | None:
    """What is wrong with a 2xx answer, in half a sentence; `None`: it is what the API server answers to this."""
    method, target = request.method, request.target
    if method == "POST" and target.endswith(_STATUS_ANSWERED):
        if body.startswith(_SUCCESS) and status <= 202:
            return None
        return _unless(_says_success(_decoded(body)) and status <= 202, status, body)
    if status == 201 and body.startswith(_EVENT) and target.endswith("/events") and _is_named_alike(request.body, body):
        return None  # each pod has one, and reading both costs three microseconds
    place = parse_resource_path(target)
    if place is None or place.subresource.startswith("proxy"):
        is_ours = place is None  # behind a proxy of a Service or pod is somebody else, who answers as he likes
        return _unless(not _is_page(body), status, body) if is_ours and method == "GET" else None
    if method == "GET":
        return _of_read(request, place, status, body)
    return _unless(status <= 202 and _is_of_write(request, place, _decoded(body)), status, body)


def _is_named_alike(sent: bytes, event: bytes) -> bool:
    """Whether an answered Event begins with the name that was sent, in the same bytes. Those of the recorder have no
    UID; whatever else is looked at as other objects are.
    """
    begin = sent.find(_NAMED)
    name = sent[begin : sent.find(b'"', begin + len(_NAMED)) + 1]
    return begin >= 0 and len(name) > len(_NAMED) and event.startswith(name, len(_EVENT))


def _is_page(body: bytes) -> bool:
    """Whether an answer is a page for people: what an API server answers to requests of ours never begins so."""
    return body[:_HEAD].lstrip()[:1] == b"<"


def _of_read(request: HttpRequest, place: RequestPath, status: int, body: bytes) -> str | None:
    if not place.name or place.subresource or "as=" in request.accept:
        return _unless(not _is_page(body), status, body)  # else who reads it says what is wrong with it
    found = _decoded(body)
    return _unless(status == 200 and found is not None and _is_object(place, found, place.name, ""), status, body)


def _is_of_write(request: HttpRequest, place: RequestPath, found: _Answered | None) -> bool:
    if found is None:
        return False
    if request.method == "DELETE" and _says_success(found):
        return True
    sent = _decoded(request.body) if request.body and request.method != "DELETE" else None
    named = sent.metadata if sent is not None else _Metadata()
    return _is_object(place, found, place.name or named.name, named.uid)


def _is_object(place: RequestPath, found: _Answered, name: str, uid: str) -> bool:
    kind = _KIND_OF.get(place.resource)
    is_kind = found.kind == kind if kind is not None else found.kind != "Status"
    meta = found.metadata
    return is_kind and (meta.name == name or not name) and (meta.uid == uid or not uid)


def _says_success(found: _Answered | None) -> bool:
    return found is not None and found.kind == "Status" and bytes(found.status) == b'"Success"'


def _decoded(body: bytes) -> _Answered | None:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _unless(is_answer: bool, status: int, body: bytes) -> str | None:
    return None if is_answer else unexpected_response(status, body)


def unexpected_response(status: int, body: bytes) -> str:
    """A 2xx that is no answer to the request, in half a sentence."""
    if not body:
        return f"answered {status} with an empty body, as no API server answers this"
    found = _decoded(body)
    if found is None:
        return f"answered {status} with something else than an API server's answer: {status_of(status, body).message}"
    reported = " ".join(part for part in (found.kind or "an object without a kind", found.metadata.name) if part)
    return f"answered {status} with another object than was asked for: {reported}"
