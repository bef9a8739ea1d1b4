"""Pods and nodes of plugins' tests: a keyword that means nothing is an error, with what may be meant."""

import re
from typing import Any

import pytest

from kscheduler.state.cache import Cache
from kscheduler.testing import make_node, make_pod

GPUS: Any = {"nvidia.com/gpu": "8"}


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"node_name": "a"}, "make_pod: node_name is no field of a pod's spec: do you mean node?"),
        ({"node_selector": {}}, "make_pod: node_selector is no field of a pod's spec: do you mean nodeSelector?"),
        ({"nodeSelectr": {}}, "make_pod: nodeSelectr is no field of a pod's spec: do you mean nodeSelector?"),
        ({"label": {}}, "make_pod: label is no field of a pod's spec"),
        ({"cpu": "1"}, "make_pod: cpu is no field of a pod's spec"),
        (
            {"affinity": {"nodeAffinty": {}}},
            "make_pod: affinity.nodeAffinty is not a field: do you mean nodeAffinity?",
        ),
    ],
    ids=str,
)
def test_what_a_pod_does_not_know_is_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        make_pod("x", **keywords)


def test_every_field_of_the_api_is_known() -> None:
    pod = make_pod("x", nodeName="a", restartPolicy="Never", terminationGracePeriodSeconds=3, hostNetwork=True)
    assert pod.spec.node_name == "a"


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"label": {"a": "b"}}, "make_node: label={'a': 'b'} is no amount of a resource: do you mean labels=?"),
        (
            {"zone": "a"},
            "make_node: zone='a' is no amount of a resource: other keywords are resources, such as cpu='2'",
        ),
    ],
    ids=str,
)
def test_what_a_node_does_not_know_is_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        make_node("x", **keywords)


def test_names_of_rows_have_no_empty_ones_where_a_node_has_gone() -> None:
    cache = Cache()
    for name in ("a", "b", "c"):
        cache.add_node(make_node(name, **GPUS))
    cache.remove_node("b")
    assert cache.nodes.names(cache.nodes.rows()) == ("a", "c")
    node = cache.nodes.info(cache.nodes.row_of("c")).node
    assert node is not None
    assert node.status.allocatable["nvidia.com/gpu"] == "8"
