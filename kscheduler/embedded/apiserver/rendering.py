"""Objects as response bytes, in the form that the client negotiated.

The plain form joins the stored bytes of records without decoding them; tables and metadata are made per request, since
only people and a few controllers request them.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.embedded.apiserver.listing import Page
from kscheduler.embedded.apiserver.negotiation import AnswerForm
from kscheduler.embedded.apiserver.tables import kinds as tables
from kscheduler.embedded.apiserver.watching import LineCache, event_line
from kscheduler.embedded.objects import event_views
from kscheduler.embedded.objects.store import ChangeType, Record

_META = "meta.k8s.io/v1"
encode = msgspec.json.Encoder().encode


def partial_metadata(value: Object) -> Object:
    """The metadata of an object only."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": value["metadata"]}


def render_object(
    resource: ServedResource, record: Record, form: AnswerForm, now: datetime, include: str = ""
) -> bytes:
    """An object. `include` is the includeObject parameter of tables."""
    if form is AnswerForm.PLAIN:
        return record.encoded_as(event_views.view_of(resource))
    value = event_views.shown(resource, record.value)
    if form is AnswerForm.METADATA:
        return encode(partial_metadata(value))
    metadata = {"resourceVersion": str(record.version)}
    return encode(tables.table(resource, [value], metadata, now, include))


def render_page(resource: ServedResource, page: Page, form: AnswerForm, now: datetime, include: str = "") -> bytes:
    """A page of a list."""
    if form is AnswerForm.PLAIN:
        return _plain_list(resource, page)
    values = [event_views.shown(resource, record.value) for record in page.records]
    if form is AnswerForm.TABLE:
        return encode(tables.table(resource, values, page.metadata(), now, include))
    items = [partial_metadata(value) for value in values]
    listed = {"kind": "PartialObjectMetadataList", "apiVersion": _META, "metadata": page.metadata(), "items": items}
    return encode(listed)


def _plain_list(resource: ServedResource, page: Page) -> bytes:
    view = event_views.view_of(resource)
    head = {"kind": resource.list_kind, "apiVersion": resource.group_version, "metadata": page.metadata()}
    items = b",".join(record.encoded_as(view) for record in page.records)
    return encode(head)[:-1] + b',"items":[' + items + b"]}"


def watch_encoder(
    resource: ServedResource, form: AnswerForm, now: Callable[[], datetime], cache: LineCache, include: str = ""
) -> Callable[[ChangeType, Record], bytes]:
    """The encoder of a watcher's lines; lines of the plain form are shared through `cache`."""
    if form is AnswerForm.PLAIN:
        return cache.line

    def line(event_type: ChangeType, record: Record) -> bytes:
        return event_line(event_type.value, render_object(resource, record, form, now(), include))

    return line
