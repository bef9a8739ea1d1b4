"""Pods and nodes of plugins' tests: a keyword that means nothing is an error, with what may be meant."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from kscheduler import ClusterError
from kscheduler.api.meta import KubeObject
from kscheduler.state.cache import Cache
from kscheduler.testing import Cluster, make_node, make_pod

GPU = "nvidia.com/gpu"
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_pod("x", requests={"cpu": "-1"}), "make_pod: requests: cpu='-1' is less than nothing"),
        (lambda: make_pod("x", requests={"cpu": "much"}), "make_pod: requests: cpu='much' is no amount of a resource"),
        (
            lambda: make_pod("x", initContainers=[{"name": "i", "resources": {"requests": {GPU: "-2"}}}]),
            "make_pod: initContainers[0]: nvidia.com/gpu='-2' is less than nothing",
        ),
        (lambda: make_pod("x", overhead={"cpu": "-1m"}), "make_pod: overhead: cpu='-1m' is less than nothing"),
        (lambda: make_node("x", cpu="-4"), "make_node: cpu='-4' is less than nothing"),
        (lambda: make_pod("x", priority="high"), "make_pod: Expected `int | null`, got `str` - at `$.spec.priority`"),
    ],
    ids=["negative", "no-quantity", "init-container", "overhead", "node", "wrong-type"],
)
def test_a_mistake_in_an_object_is_an_error_of_the_library_and_a_type_error(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ClusterError, match=f"^{re.escape(message)}$") as caught:
        make()
    assert isinstance(caught.value, TypeError)


def test_names_of_rows_have_no_empty_ones_where_a_node_has_gone() -> None:
    cache = Cache()
    for name in ("a", "b", "c"):
        cache.add_node(make_node(name, **GPUS))
    cache.remove_node("b")
    assert cache.nodes.names(cache.nodes.rows()) == ("a", "c")
    node = cache.nodes.info(cache.nodes.row_of("c")).node
    assert node is not None
    assert node.status.allocatable["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    "taint", [{"key": "a", "effekt": "NoSchedule"}, {"key": "a"}, {"effect": "NoSchedule"}], ids=["word", "none", "key"]
)
def test_a_taint_that_no_node_can_have_is_refused(taint: dict[str, str]) -> None:
    with pytest.raises(TypeError, match=r"taints\[0\]"):
        make_node("a", taints=[taint])


def test_requests_beside_containers_would_be_passed_over() -> None:
    with pytest.raises(TypeError, match="containers"):
        make_pod("web", requests={"cpu": "1"}, containers=[{"name": "main"}])


@pytest.mark.parametrize("odd", ["web", KubeObject()], ids=["text", "own-kind"])
def test_what_is_no_node_and_no_pod_is_refused_where_it_is_added(odd: Any) -> None:
    with pytest.raises(TypeError, match="add_own"):
        Cluster(make_node("a"), odd)


def test_a_default_plugin_that_does_not_exist_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="NodeResourceFit"):
        Cluster(make_node("a")).disable("NodeResourceFit")


async def test_a_pod_that_was_never_added_waits_nowhere() -> None:
    pod = make_pod("wbe")
    async with Cluster(make_node("a")).running() as running:
        for ask in (running.place_of, running.node_of, running.message_of):
            with pytest.raises(KeyError, match="never added"):
                ask(pod)
        with pytest.raises(KeyError, match="never added"):
            await running.delete(pod)
