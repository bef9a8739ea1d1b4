"""Lists: the requested version of a collection, selection, and paging.

resourceVersion and resourceVersionMatch follow the API concepts page of Kubernetes: unset means the newest state, 0 any
state, Exact a snapshot, NotOlderThan at least that version. A continue token names the snapshot of the first page, so
that all pages are consistent; 410 when its history is gone.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from kscheduler.api.machinery.api_errors import Object, bad_request, expired, too_large_resource_version
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.api.machinery.selectors import Selection
from kscheduler.api.machinery.shapes import parse_integer
from kscheduler.embedded.objects.store import Key, ObjectStore, Record


@dataclass(frozen=True, slots=True)
class Page:
    """The records of a page, in key order, with the list metadata."""

    records: list[Record]
    version: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> Object:
        """`ListMeta` of the page."""
        metadata: Object = {"resourceVersion": str(self.version)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


class _Token(msgspec.Struct):
    version: int
    namespace: str
    name: str


def parse_version(text: str) -> int:
    """A resource version from a query. Raises 400."""
    if not text.isascii() or not text.isdigit():
        raise bad_request(f"Invalid value: {text!r}: strconv.ParseUint: parsing {text!r}: invalid syntax")
    return int(text)


def list_page(store: ObjectStore, resource: ServedResource, selection: Selection, query: Mapping[str, str]) -> Page:
    """The page for a query. Raises 400, 410 or 504."""
    limit = parse_integer(query.get("limit"), "limit")
    token = query.get("continue", "")
    if token:
        return _continued(store, resource, selection, limit, token, query)
    version, records = _snapshot(store, resource, query)
    return _page(records, version, selection, limit, after=None)


def _snapshot(store: ObjectStore, resource: ServedResource, query: Mapping[str, str]) -> tuple[int, dict[Key, Record]]:
    requested, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    _check_match(requested, match)
    collection = store.collection(resource.collection)
    if not requested or requested == "0":
        return store.version, collection.records
    version = parse_version(requested)
    if version > store.version:
        raise too_large_resource_version(version, store.version)
    if match == "Exact" or (not match and parse_integer(query.get("limit"), "limit") > 0):
        return version, collection.snapshot(version)
    return store.version, collection.records


def _check_match(requested: str, match: str) -> None:
    if match not in {"", "Exact", "NotOlderThan"}:
        raise bad_request(
            f'resourceVersionMatch: Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"'
        )
    if match and not requested:
        raise bad_request(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match == "Exact" and requested == "0":
        raise bad_request(
            'resourceVersionMatch: Forbidden: resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'
        )


def _continued(
    store: ObjectStore, resource: ServedResource, selection: Selection, limit: int, token: str, query: Mapping[str, str]
) -> Page:
    if query.get("resourceVersion", "") not in {"", "0"}:
        raise bad_request("specifying resource version is not allowed when using continue")
    start = _decoded(token)
    collection = store.collection(resource.collection)
    if start.version < collection.oldest_resumable:
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results."
        )
    records = collection.snapshot(start.version)
    return _page(records, start.version, selection, limit, after=(start.namespace, start.name))


def _decoded(token: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=_Token)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error


def _page(records: dict[Key, Record], version: int, selection: Selection, limit: int, after: Key | None) -> Page:
    keys = sorted(_wanted_keys(records, selection.namespace, after))
    found: list[Record] = []
    for place, key in enumerate(keys):
        record = records[key]
        if not selection.matches(record.value):
            continue
        if limit and len(found) == limit:
            return _cut_page(found, version, selection, remaining=len(keys) - place)
        found.append(record)
    return Page(found, version)


def _wanted_keys(records: dict[Key, Record], namespace: str, after: Key | None) -> list[Key]:
    inside = [key for key in records if key[0] == namespace] if namespace else list(records)
    return inside if after is None else [key for key in inside if key > after]


def _cut_page(found: list[Record], version: int, selection: Selection, remaining: int) -> Page:
    last = found[-1].value["metadata"]
    token = msgspec.json.encode(_Token(version, last.get("namespace", ""), last["name"]))
    text = base64.urlsafe_b64encode(token).decode()
    return Page(found, version, text, None if selection.has_selector else remaining)
