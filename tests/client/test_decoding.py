"""Watch lines and list bodies: every answer is a value, whatever the server sends."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NAMESPACES, NODES, PODS, Kind
from kscheduler.client.errors import LineTooLongError
from kscheduler.client.http.lines import LineSplitter
from kscheduler.client.lists import ListDecoder
from kscheduler.client.watch import (
    RUN_BYTES,
    Bookmark,
    Decoded,
    Garbled,
    Undecodable,
    WatchDecoder,
    WatchError,
    WatchEvent,
)

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "managedFields": [{}]},
    "spec": {"schedulerName": "kscheduler", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    "status": {"phase": "Pending"},
}
STATUS = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


def feed(kind: Kind, raw: bytes) -> Decoded[Any]:
    decoder: WatchDecoder[Any] = WatchDecoder(kind)
    return decoder.feed(raw)


def pod_lists(*, is_watched: bool = False) -> ListDecoder[Pod]:
    return ListDecoder(PODS, is_watched=is_watched)


def line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_is_its_type_and_its_typed_object(kind: str) -> None:
    event = feed(PODS, line(kind, POD))
    assert isinstance(event, WatchEvent)
    assert (event.type, event.object.key, event.object.metadata.resource_version) == (kind, "ns/a", "7")


def test_nulls_are_nothing() -> None:
    event = feed(PODS, line("ADDED", {**POD, "spec": {"containers": None, "tolerations": None}}))
    assert isinstance(event, WatchEvent)


@pytest.mark.parametrize(
    ("annotations", "ends"),
    [pytest.param({}, False, id="ordinary"), pytest.param({"k8s.io/initial-events-end": "true"}, True, id="ends")],
)
def test_a_bookmark_reports_its_version_and_whether_the_initial_events_are_complete(
    annotations: dict[str, str], ends: bool
) -> None:
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "9", "annotations": annotations}, "spec": {}}
    assert feed(PODS, line("BOOKMARK", bookmark)) == Bookmark("9", ends)


@pytest.mark.parametrize("kind", [PODS, NODES, NAMESPACES], ids=lambda kind: kind.plural)
def test_an_error_event_is_a_status_whatever_the_kind(kind: Kind) -> None:
    event = feed(kind, line("ERROR", STATUS))
    assert isinstance(event, WatchError)
    assert (event.status.code, event.status.reason) == (410, "Expired")


def test_what_cannot_be_read_keeps_its_identity() -> None:
    bad = {**POD, "spec": {"nodeName": "n1", "priority": "high"}}
    event = feed(PODS, line("MODIFIED", bad))
    assert isinstance(event, Undecodable)
    assert (event.key, event.uid, event.resource_version, event.node_name) == ("ns/a", "u", "7", "n1")
    assert "spec.priority" in event.error


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"<html>", id="html"),
        pytest.param(b'{"type":"ADDED","object":{"metadata"', id="cut"),
        pytest.param(b"[]", id="array"),
        pytest.param(b'{"type":"ADDED"}', id="no object"),
        pytest.param(b'{"type":"STRANGE","object":{}}', id="unknown type"),
        pytest.param(b'{"type":"ADDED","object":"\xff\xfe"}', id="not UTF-8"),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
)
def test_a_line_that_is_no_event_is_garbled(raw: bytes) -> None:
    assert isinstance(feed(PODS, raw), Garbled)


@given(st.binary(max_size=200), st.integers(min_value=0, max_value=400), st.integers())
def test_mutilated_lines_never_raise(noise: bytes, position: int, seed: int) -> None:
    raw = bytearray(line("ADDED", POD))
    raw[position : position + random.Random(seed).randint(0, 20)] = noise
    feed(PODS, bytes(raw))


@given(json_values, json_values, json_values)
def test_objects_of_any_shape_never_raise(metadata: Any, spec: Any, status: Any) -> None:
    event = feed(PODS, line("ADDED", {"metadata": metadata, "spec": spec, "status": status}))
    assert isinstance(event, WatchEvent | Undecodable)


@given(st.lists(json_values, max_size=6), st.integers(min_value=0, max_value=6))
def test_a_list_gives_every_good_item_whatever_lies_beside_it(others: list[Any], place: int) -> None:
    items = [*others[:place], POD, *others[place:]]
    body = json.dumps({"metadata": {"resourceVersion": "5"}, "items": items}).encode()
    page = pod_lists().decode(body)
    assert "ns/a" in [one.key for one in page.items]
    nulls = sum(item is None for item in others)
    assert len(page.items) + len(page.undecodable) >= len(items) - nulls
    assert page.resource_version == "5"


def test_split_and_whole_decoding_agree() -> None:
    body = json.dumps({"metadata": {"resourceVersion": "5", "continue": "t"}, "items": [POD] * 3}).encode()
    decoder = pod_lists()
    whole, unread = decoder.decode(body), decoder.split(body)
    items, bad = decoder.decode_items(unread.items)
    assert (items, bad) == (whole.items, [])
    assert (
        (unread.resource_version, unread.continue_token) == ("5", "t") == (whole.resource_version, whole.continue_token)
    )


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items":7}', b""], ids=["html", "array", "no list", "empty"])
def test_a_body_that_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(UndecodableError):
        pod_lists().decode(body)


@given(st.lists(st.binary(max_size=30)), st.integers(min_value=1, max_value=9))
def test_lines_come_out_whole_however_the_network_cuts_them(parts: list[bytes], size: int) -> None:
    text = b"\n".join(parts)
    splitter = LineSplitter()
    got = [one for begin in range(0, len(text), size) for one in splitter.feed(text[begin : begin + size])]
    *complete, rest = text.split(b"\n")
    assert got == [one for one in complete if one]
    assert splitter.pending == len(rest)


@given(st.lists(st.sampled_from(["good", "bad", "bookmark", "error", "noise"]), max_size=8), st.data())
def test_a_run_of_lines_decodes_as_each_line_by_itself(kinds: list[str], data: st.DataObject) -> None:
    identity = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    texts = {
        "good": b'{"type":"ADDED","object":{"kind":"Pod","metadata":%b}}' % json.dumps(identity).encode(),
        "bad": b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"b"},"spec":7}}',
        "bookmark": b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}',
        "error": b'{"type":"ERROR","object":{"code":410}}',
        "noise": b"<html>",
    }
    lines = [texts[kind] for kind in kinds]
    decoder: WatchDecoder[Pod] = WatchDecoder(PODS)
    begin = data.draw(st.integers(0, len(lines)))
    decoded: list[object] = []
    while begin + len(decoded) < len(lines):
        events, other = decoder.feed_run(lines, begin + len(decoded))
        decoded += events
        decoded += [] if other is None else [other]
    assert decoded == [decoder.feed(line) for line in lines[begin:]]


def test_of_a_deleted_object_only_the_identity_is_read() -> None:
    """Its last state is stored, and a state that cannot be read does not keep it from being gone."""
    identity = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    decoder: WatchDecoder[Pod] = WatchDecoder(PODS)
    for spec in ({"nodeName": "x"}, 7):
        line = (
            b'{"type":"DELETED","object":%b}' % json.dumps({"kind": "Pod", "metadata": identity, "spec": spec}).encode()
        )
        event = decoder.feed(line)
        assert isinstance(event, WatchEvent)
        assert (event.type, event.object.key, event.object.metadata.uid) == ("DELETED", "n/a", "u")
    nameless = decoder.feed(
        b'{"type":"DELETED","object":{"kind":"Pod","metadata":{"uid":"u"},"spec":{"nodeName":"x"}}}'
    )
    assert isinstance(nameless, Undecodable)
    assert nameless.node_name == "x"


def test_a_run_ends_before_it_holds_the_loop() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"}}
    line = json.dumps({"type": "ADDED", "object": {**pod, "status": {"message": "x" * (RUN_BYTES // 2)}}}).encode()
    decoder: WatchDecoder[Pod] = WatchDecoder(PODS)
    events, other = decoder.feed_run([line] * 5, 0)
    assert (len(events), other) == (2, None)
    assert len(decoder.feed_run([line] * 5, 4)[0]) == 1


def test_a_line_without_end_is_given_up() -> None:
    splitter = LineSplitter(longest=100)
    splitter.feed(b"x" * 60)
    with pytest.raises(LineTooLongError):
        splitter.feed(b"x" * 60)


ITEMS = {"items": [POD]}
VERSION = {"metadata": {"resourceVersion": "9"}}


@pytest.mark.parametrize("way", ["decode", "split"])
@pytest.mark.parametrize(
    ("body", "missing"),
    [
        pytest.param({}, "metadata.resourceVersion, items", id="an empty object"),
        pytest.param({"kind": "PodList", **VERSION}, "items", id="no items"),
        pytest.param({"kind": "PodList", **ITEMS}, "metadata.resourceVersion", id="no version"),
    ],
)
def test_what_is_no_list_is_refused_and_is_no_empty_cluster(way: str, body: Any, missing: str) -> None:
    with pytest.raises(UndecodableError, match=f"the answer is no PodList of an API server: no {missing}$"):
        getattr(pod_lists(is_watched=True), way)(json.dumps(body).encode())


@pytest.mark.parametrize("way", ["decode", "split"])
def test_without_a_watch_a_list_needs_no_version_but_items(way: str) -> None:
    assert getattr(pod_lists(), way)(b'{"items": []}').items == []
    for body in (b"{}", b'{"kind": "PodList", "metadata": {"resourceVersion": "9"}}'):
        with pytest.raises(UndecodableError, match=r"the answer is no PodList of an API server: no items$"):
            getattr(pod_lists(), way)(body)


async def test_a_page_that_is_no_list_names_its_path() -> None:
    async def get(path: str, params: Mapping[str, str]) -> bytes:
        return b"{}"

    with pytest.raises(UndecodableError, match=r"^GET /api/v1/pods: the answer is no PodList"):
        _ = [page async for page in pod_lists().pages(get, "/api/v1/pods", {})]


@pytest.mark.parametrize("way", ["decode", "split"])
def test_a_list_without_objects_and_a_page_whose_version_comes_last_are_lists(way: str) -> None:
    for body in (
        b'{"items": [], "metadata": {"resourceVersion": "9"}}',
        b'{"items": null, "metadata": {"resourceVersion": "9"}}',
    ):
        page = getattr(pod_lists(is_watched=True), way)(body)
        assert (page.items, page.resource_version) == ([], "9")
    first = getattr(pod_lists(is_watched=True), way)(json.dumps({**ITEMS, "metadata": {"continue": "c"}}).encode())
    assert (len(first.items), first.continue_token) == (1, "c")


# --- identity ---------------------------------------------------------------------------------------------------------

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}}


def changed(tree: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The object with other metadata; `None` leaves a field out."""
    merged = {**tree["metadata"], **metadata}
    return {**tree, "metadata": {field: value for field, value in merged.items() if value is not None}}


@pytest.mark.parametrize(
    ("kind", "tree", "key", "error"),
    [
        pytest.param(NODES, changed(NODE, name=None), "", "no name", id="no name"),
        pytest.param(NODES, changed(NODE, name=""), "", "no name", id="an empty name"),
        pytest.param(NODES, {"kind": "Node"}, "", "no name", id="no metadata"),
        pytest.param(NODES, changed(NODE, uid=None), "n", "no uid", id="no uid"),
        pytest.param(NODES, changed(NODE, resourceVersion=None), "n", "no resourceVersion", id="no version"),
        pytest.param(NODES, changed(NODE, namespace="x"), "x/n", "namespace", id="a namespace where none belongs"),
        pytest.param(PODS, changed(POD, namespace=None), "a", "no namespace", id="no namespace"),
        pytest.param(PODS, {**POD, "kind": "Node"}, "ns/a", "it is a Node, not a Pod", id="another kind"),
        pytest.param(PODS, {**POD, "kind": 7}, "ns/a", "readable kind", id="no kind"),
    ],
)
@pytest.mark.parametrize("event", ["ADDED", "MODIFIED", "DELETED"])
def test_what_decodes_and_is_no_object_of_the_kind_is_undecodable(
    kind: Kind, tree: dict[str, Any], key: str, error: str, event: str
) -> None:
    decoded = feed(kind, line(event, tree))
    assert isinstance(decoded, Undecodable)
    assert (decoded.type, decoded.key) == (event, key)
    assert error in decoded.error


def test_a_server_may_write_an_object_in_any_order_and_leave_the_kind_out() -> None:
    backwards = dict(reversed({**POD, "status": {"phase": "P" * 500}}.items()))
    without = {field: value for field, value in POD.items() if field != "kind"}
    for tree in (backwards, without):
        assert isinstance(feed(PODS, line("ADDED", tree)), WatchEvent)


def test_bytes_that_are_no_text_cost_the_text_and_not_the_name() -> None:
    raw = line("ADDED", {**POD, "spec": {"schedulerName": "X"}}).replace(b"X", b"\xff\xfe")
    decoded = feed(PODS, raw)
    assert isinstance(decoded, Undecodable)
    assert decoded.key == "ns/a"
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[%s]}' % json.dumps(POD).encode()
    listed = pod_lists(is_watched=True).decode(page.replace(b'"kscheduler"', b'"\xff"'))
    assert [bad.key for bad in listed.undecodable] == ["ns/a"]


@pytest.mark.parametrize("where", [b"nodeName", b"containers", b"nowhere", b"status"])
def test_a_garbled_field_is_not_one_that_was_left_out(where: bytes) -> None:
    """A decoder does not look at what it skips: the pod would be one without a node, and its room given away."""
    raw = line("MODIFIED", {**POD, "spec": {"nodeName": "n1", "containers": [], "nowhere": 1}})
    garbled = where[:-1] + bytes([where[-1] ^ 0x80])
    decoded = feed(PODS, raw.replace(where, garbled))
    assert isinstance(decoded, Undecodable)
    assert decoded.key == "ns/a"
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[%s]}' % json.dumps(
        {**POD, "spec": {"nodeName": "n1", "containers": [], "nowhere": 1}}
    ).encode().replace(where, garbled)
    listed = pod_lists(is_watched=True).decode(page)
    assert ([bad.key for bad in listed.undecodable], listed.items) == (["ns/a"], [])


def test_half_a_name_is_nobodys() -> None:
    raw = line("MODIFIED", {**changed(POD, name="NAME", uid="UID"), "spec": {"nodeName": "NODE"}})
    for word in (b"NAME", b"UID", b"NODE"):
        raw = raw.replace(word, word[:-1] + bytes([word[-1] ^ 0x80]))
    decoded = feed(PODS, raw)
    assert isinstance(decoded, Undecodable)
    assert (decoded.name, decoded.uid, decoded.node_name) == ("", "", "")


def test_other_letters_are_text() -> None:
    event = {"type": "ADDED", "object": changed(POD, labels={"a": "Gr\u00fc\u00dfe \u4e16\u754c"})}
    assert isinstance(feed(PODS, json.dumps(event, ensure_ascii=False).encode()), WatchEvent)


@pytest.mark.parametrize("where", [b"continue", b"resourceVersion", b"items", b"metadata"])
def test_a_page_that_is_garbled_around_its_items_is_none(where: bytes) -> None:
    """A continue token that was lost would end the list, and delete all that was to come."""
    page = b'{"kind":"PodList","metadata":{"resourceVersion":"1","continue":"t"},"items":[%s]}'
    garbled = page.replace(where, where[:-1] + bytes([where[-1] ^ 0x80]), 1) % json.dumps(POD).encode()
    with pytest.raises(UndecodableError):
        pod_lists(is_watched=True).decode(garbled)
    with pytest.raises(UndecodableError):
        pod_lists(is_watched=True).split(garbled)


@pytest.mark.parametrize("body", [{}, [], "x", 7, None, {"code": 0}, {"kind": "Pod", "code": 410}, {"code": "x"}])
def test_an_error_that_is_no_status_says_what_it_is(body: Any) -> None:
    decoded = feed(PODS, line("ERROR", body))
    assert isinstance(decoded, WatchError)
    assert (decoded.status.code, decoded.status.reason) == (500, "InternalError")
    assert "without a readable Status" in decoded.status.message
    assert json.dumps(body, separators=(",", ":")) in decoded.status.message


def test_a_file_or_a_query_needs_no_identity() -> None:
    page = json.dumps({"kind": "PodList", "items": [{"metadata": {"name": "a"}}]}).encode()
    assert len(pod_lists().decode(page).items) == 1
