"""Properties that hold for any sequence of writes and any body."""

from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.machinery.resources import NODES, PODS
from kscheduler.api.machinery.selectors import Selection, parse_labels
from kscheduler.api.patches.field_sets import field_set, from_fields_v1, to_fields_v1
from kscheduler.api.patches.merge_schema import fields_of
from kscheduler.embedded.apiserver.bodies import patching
from kscheduler.embedded.apiserver.listing import list_page
from kscheduler.embedded.apiserver.negotiation import AnswerForm
from kscheduler.embedded.apiserver.rendering import watch_encoder
from kscheduler.embedded.apiserver.watching import LineCache, Watcher
from kscheduler.embedded.objects.registry import ObjectRegistry
from kscheduler.embedded.objects.store import ObjectStore
from tests.effort import example_count
from tests.embedded.cluster_client import Clock, pod, refusal_code

NAMES = st.sampled_from("abc")
LABELS = st.sampled_from(["x", "y"])
WRITES = st.lists(st.tuples(st.sampled_from(["put", "remove"]), NAMES, LABELS), max_size=30)
FIELDS = (
    *("affinity", "containers", "initContainers", "nodeName", "nodeSelector", "overhead", "priorityClassName"),
    *("resources", "restartPolicy", "schedulingGates", "tolerations", "topologySpreadConstraints", "volumes"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "1", "10Mi", "x/y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def write(store: ObjectStore, action: str, name: str, label: str) -> None:
    if action == "put":
        metadata = {"name": name, "namespace": "default", "labels": {"l": label}}
        store.put("pods", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})
    elif store.get("pods", "default", name):
        store.remove("pods", ("default", name))


def state(store: ObjectStore, selection: Selection, **query: str) -> dict[str, str]:
    records = list_page(store, PODS, selection, query).records
    return {record.value["metadata"]["name"]: str(record.version) for record in records}


@given(before=WRITES, after=WRITES, selector=st.sampled_from(["", "l=x"]))
def test_a_list_and_the_watch_after_it_give_the_next_list(
    before: list[tuple[str, str, str]], after: list[tuple[str, str, str]], selector: str
) -> None:
    store, selection = ObjectStore(), Selection(labels=parse_labels(selector))
    for step in before:
        write(store, *step)
    seen, start = state(store, selection), store.version
    for step in after:
        write(store, *step)
    watcher = Watcher(selection, watch_encoder(PODS, AnswerForm.PLAIN, Clock(), LineCache(None)))
    for change in store.collection("pods").changes_since(start):
        watcher.deliver(change)
    last = start
    for line in watcher.take_nowait():
        event = msgspec.json.decode(line)
        metadata = event["object"]["metadata"]
        assert int(metadata["resourceVersion"]) > last
        last = int(metadata["resourceVersion"])
        if event["type"] == "DELETED":
            del seen[metadata["name"]]
        else:
            assert (metadata["name"] in seen) is (event["type"] == "MODIFIED")
            seen[metadata["name"]] = metadata["resourceVersion"]
    assert seen == state(store, selection)


@given(writes=WRITES)
def test_any_past_version_can_be_listed_again(writes: list[tuple[str, str, str]]) -> None:
    store, everything = ObjectStore(), Selection()
    past = {store.version: state(store, everything)}
    for step in writes:
        write(store, *step)
        past[store.version] = state(store, everything)
    for version, expected in past.items():
        assert state(store, everything, resourceVersion=str(version), resourceVersionMatch="Exact") == expected


@settings(max_examples=example_count(300), deadline=None)
@given(
    field=st.sampled_from(FIELDS),
    value=JSON,
)
def test_a_malformed_pod_is_refused_or_stored_but_never_a_defect(field: str, value: Any) -> None:
    registry = ObjectRegistry(ObjectStore(), Clock(), Random(1))
    body = pod()
    body["spec"][field] = value
    assert refusal_code(lambda: registry.create(PODS, "default", body)) in {None, 400, 403, 422}


@settings(max_examples=example_count(200), deadline=None)
@given(part=st.sampled_from(["spec", "status", "metadata"]), value=JSON)
def test_a_malformed_node_is_refused_or_stored_but_never_a_defect(part: str, value: Any) -> None:
    registry = ObjectRegistry(ObjectStore(), Clock(), Random(1))
    parts: dict[str, Any] = {"metadata": {"name": "n"}}
    parts[part] = {"name": "n", "taints": value, "capacity": value, "labels": value, "ownerReferences": value}
    assert refusal_code(lambda: registry.create(NODES, "", parts)) in {None, 400, 422}


@given(value=st.dictionaries(st.sampled_from("abc"), JSON, min_size=1, max_size=3))
def test_sets_of_fields_survive_their_json_form(value: dict[str, Any]) -> None:
    paths = field_set(value, fields_of("Pod"))
    assert from_fields_v1(to_fields_v1(paths)) == paths


@given(current=JSON, patch=JSON)
def test_a_merge_patch_applied_twice_is_applied_once(current: Any, patch: Any) -> None:
    once = patching.merge(current, patch)
    assert patching.merge(once, patch) == once
