"""Decoding: forgiving where the API is, and never anything but an UndecodableError."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import Decoder, UndecodableError, convert, identity_of
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import KINDS
from tests.builders import node_tree, pod_tree

PODS: Decoder[Pod] = Decoder(Pod)
NODES: Decoder[Node] = Decoder(Node)

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def paths(tree: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every member, at any depth."""
    members = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    return [deeper for key, child in members for deeper in ((*here, key), *paths(child, (*here, key)))]


def replaced(tree: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy of the tree with one member replaced."""
    if not path:
        return value
    copy: Any = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copy


RICH = pod_tree(
    "rich",
    requests={"cpu": "1", "memory": "1Gi"},
    labels={"app": "web"},
    status={"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
    priority=5,
    nodeSelector={"disk": "ssd"},
    tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
    volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    schedulingGates=[{"name": "gate"}],
    topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
            }
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
    },
)
PATHS = paths(RICH)


@given(st.sampled_from(PATHS))
def test_null_means_nothing_wherever_it_stands(path: tuple[str | int, ...]) -> None:
    """Go clients write `null` for empty lists and maps; the object is the same as without the field."""
    decoded = PODS.decode(json.dumps(replaced(RICH, path, None)))
    if isinstance(path[-1], str):
        *parent, key = path
        without: Any = RICH
        for step in parent:
            without = without[step]
        left_out = {name: child for name, child in without.items() if name != key}
        assert decoded == PODS.decode(json.dumps(replaced(RICH, tuple(parent), left_out)))


@given(st.sampled_from(PATHS), junk)
def test_a_malformed_pod_is_decoded_or_undecodable_and_nothing_else(path: tuple[str | int, ...], wrong: Any) -> None:
    text = json.dumps(replaced(RICH, path, wrong))
    try:
        pod = PODS.decode(text)
    except UndecodableError:
        return
    assert PODS.decode(msgspec.json.encode(pod)) == pod


@given(st.binary(max_size=60))
def test_malformed_bytes_are_undecodable_and_nothing_else(data: bytes) -> None:
    for decoder in (PODS, NODES):
        try:
            decoder.decode(data)
        except UndecodableError:
            continue


@given(st.integers(0, len(json.dumps(RICH)) - 1))
def test_a_document_that_was_cut_is_undecodable(length: int) -> None:
    with pytest.raises(UndecodableError):
        PODS.decode(json.dumps(RICH)[:length])


@given(junk)
def test_a_tree_of_anything_converts_or_is_undecodable(tree: Any) -> None:
    try:
        pod = convert(tree, Pod)
    except UndecodableError:
        return
    assert identity_of(tree) in {"", pod.key}


@pytest.mark.parametrize("depth", [10_000, 200_000])
def test_nesting_without_end_is_undecodable(depth: int) -> None:
    with pytest.raises(UndecodableError):
        PODS.decode('{"metadata":' * depth)
    with pytest.raises(UndecodableError):
        PODS.decode('{"spec":{"affinity":' + "[" * depth + "]" * depth + "}}")


def test_unknown_fields_are_skipped_at_every_depth() -> None:
    odd = replaced(RICH, ("spec", "containers", 0), {**RICH["spec"]["containers"][0], "futureField": {"a": [1]}})
    odd = {**odd, "kind": "Pod", "apiVersion": "v1", "managed": None}
    assert PODS.decode(json.dumps(odd)) == PODS.decode(json.dumps(RICH))


def test_an_undecodable_object_is_named() -> None:
    with pytest.raises(UndecodableError, match="priority") as caught:
        PODS.decode(json.dumps(pod_tree("broken", priority="high")))
    assert caught.value.identity == "default/broken"


@pytest.mark.parametrize("tree", [None, 5, "x", [], {}, {"metadata": 5}, {"metadata": {"name": None}}], ids=repr)
def test_what_has_no_name_has_an_empty_identity(tree: Any) -> None:
    assert identity_of(tree) == ""


def test_quantities_may_be_numbers_as_in_yaml() -> None:
    node = convert(node_tree(cpu=4, memory=1.5e9), Node)
    assert node.status.allocatable["cpu"] == 4
    assert NODES.decode(json.dumps(node_tree(cpu=4))).status.allocatable["cpu"] == 4


@pytest.mark.parametrize(
    ("plural", "collection", "one"),
    [
        ("pods", "/api/v1/pods", "/api/v1/namespaces/ns/pods/x"),
        ("nodes", "/api/v1/nodes", "/api/v1/nodes/x"),
        ("namespaces", "/api/v1/namespaces", "/api/v1/namespaces/x"),
    ],
)
def test_where_each_kind_lives(plural: str, collection: str, one: str) -> None:
    kind = KINDS[plural]
    assert (kind.path, kind.object_path("x", "ns"), kind.group_version) == (collection, one, "v1")


def test_the_watch_leaves_ended_pods_out() -> None:
    assert KINDS["pods"].field_selector == "status.phase!=Succeeded,status.phase!=Failed"
