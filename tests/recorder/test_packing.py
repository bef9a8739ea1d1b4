"""Objects come out of a recording as they went in, whatever changed from one version to the next."""

import itertools
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS, SERVICES
from kscheduler.api.workloads import Service
from kscheduler.recorder import packing
from kscheduler.recorder.packing import ObjectPacker, ObjectUnpacker

NAMES = st.sampled_from(("a", "b", "c"))
LABELS = st.dictionaries(NAMES, NAMES, max_size=2)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    tree: dict[str, Any] = {
        "metadata": {
            "name": "pod",
            "namespace": "default",
            "uid": "uid",
            "resourceVersion": draw(NAMES),
            "labels": draw(LABELS),
            "annotations": draw(LABELS),
        },
        "spec": {
            "nodeName": draw(st.sampled_from(("", "node-1", "node-2"))),
            "priority": draw(st.sampled_from((0, 10))),
            "nodeSelector": draw(LABELS),
        },
        "status": {
            "phase": draw(st.sampled_from(("", "Running"))),
            "nominatedNodeName": draw(st.sampled_from(("", "n"))),
        },
    }
    return msgspec.convert(tree, Pod)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    tree = {
        "metadata": {"name": "node", "uid": "uid", "resourceVersion": draw(NAMES), "labels": draw(LABELS)},
        "spec": {"unschedulable": draw(st.booleans())},
        "status": {"allocatable": {"cpu": draw(st.sampled_from(("1", "2")))}},
    }
    return msgspec.convert(tree, Node)


@given(st.lists(pods(), min_size=1, max_size=6))
def test_each_version_of_a_pod_comes_out_as_it_was(versions: list[Pod]) -> None:
    packer, unpacker = ObjectPacker(), ObjectUnpacker()
    found = unpacker.whole(PODS, packer.whole(versions[0]))
    assert found == versions[0]
    for old, new in itertools.pairwise(versions):
        found = unpacker.update(PODS, found, packer.update(old, new))
        assert found == new


@given(st.lists(nodes(), min_size=1, max_size=6))
def test_each_version_of_a_node_comes_out_as_it_was(versions: list[Node]) -> None:
    packer, unpacker = ObjectPacker(), ObjectUnpacker()
    found = unpacker.whole(NODES, packer.whole(versions[0]))
    for old, new in itertools.pairwise(versions):
        found = unpacker.update(NODES, found, packer.update(old, new))
        assert found == new


def test_a_kind_of_which_whole_objects_are_written_comes_out_as_well() -> None:
    service = msgspec.convert(
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"a": "b"}}}, Service
    )
    packer, unpacker = ObjectPacker(), ObjectUnpacker()
    assert unpacker.whole(SERVICES, packer.whole(service)) == service
    assert unpacker.update(SERVICES, service, packer.update(service, service)) == service


def test_a_spec_that_was_written_before_is_a_number(monkeypatch: Any) -> None:
    monkeypatch.setattr(packing, "MAX_SPECS", 3)
    packer, unpacker = ObjectPacker(), ObjectUnpacker()
    are_numbers = []
    for number, priority in enumerate((0, 1, 0, 2, 3, 3, 0, 0)):
        pod = msgspec.convert({"metadata": {"name": f"pod-{number}"}, "spec": {"priority": priority}}, Pod)
        packed = packer.whole(pod)
        are_numbers.append(isinstance(packed[2], int))
        assert unpacker.whole(PODS, packed) == pod
    assert are_numbers == [False, False, True, False, False, True, False, True]  # the table was full once
