"""A new version of a pod takes over what the old one took of its node, only where working it out gives the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.pods.pod_info import PodInfo, WholeResizePodInfo
from tests.builders import Tree, make_pod, pod_info

AMOUNTS = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["1", "2"])})
GIVEN = st.fixed_dictionaries({}, optional={"requests": AMOUNTS})
CONDITIONS = st.lists(
    st.sampled_from(
        [
            {"type": "PodScheduled", "status": "True"},
            {"type": "PodResizePending", "status": "True", "reason": "Deferred"},
            {"type": "PodResizePending", "status": "True", "reason": "Infeasible"},
        ]
    ),
    max_size=2,
)


def statuses(name: str) -> st.SearchStrategy[list[Tree]]:
    """What the kubelet says of a container of this name, if anything."""
    fields = {"resources": st.one_of(st.none(), GIVEN), "allocatedResources": AMOUNTS}
    return st.lists(st.fixed_dictionaries({"name": st.just(name)}, optional=fields), max_size=1)


STATUS = st.fixed_dictionaries(
    {},
    optional={
        "containerStatuses": statuses("main"),
        "initContainerStatuses": statuses("side"),
        "resources": GIVEN,
        "allocatedResources": AMOUNTS,
        "conditions": CONDITIONS,
    },
)
CONTAINER = st.fixed_dictionaries(
    {"name": st.just("main"), "resources": GIVEN},
    optional={"ports": st.sampled_from([[{"containerPort": 80}], [{"containerPort": 80, "hostPort": 80}]])},
)
SIDECAR = st.fixed_dictionaries({"name": st.just("side"), "restartPolicy": st.just("Always"), "resources": GIVEN})
SPEC = st.fixed_dictionaries(
    {"containers": CONTAINER.map(lambda container: [container])},
    optional={
        "initContainers": SIDECAR.map(lambda container: [container]),
        "resources": GIVEN,
        "overhead": AMOUNTS,
        "nodeName": st.just("a"),
    },
)


def taken(pod: PodInfo) -> tuple[object, ...]:
    """What it takes of its node."""
    return dict(pod.accounted), pod.nonzero_accounted, pod.host_ports


@given(SPEC, STATUS, st.one_of(st.none(), SPEC), st.one_of(st.none(), STATUS))
def test_what_is_taken_over_is_what_it_would_be(
    spec: Tree, status: Tree, new_spec: Tree | None, new_status: Tree | None
) -> None:
    """`None` for a part that stays."""
    after: dict[str, Any] = spec if new_spec is None else new_spec
    status_after = status if new_status is None else new_status
    for counted in (PodInfo, WholeResizePodInfo):
        old, new = counted(make_pod(status=status, **spec)), counted(make_pod(status=status_after, **after))
        if new.take_sums(old):
            assert taken(new) == taken(counted(make_pod(status=status_after, **after)))


def test_a_first_report_of_what_the_spec_asks_for_takes_over() -> None:
    requests = {"cpu": "1"}
    report = {"name": "main", "resources": {"requests": requests}, "allocatedResources": requests}
    running = {"containerStatuses": [report]}
    resized = {"containerStatuses": [{**report, "resources": {"requests": {"cpu": "2"}}}]}
    for counted in (PodInfo, WholeResizePodInfo):
        old = counted(make_pod(requests=requests))
        assert counted(make_pod(requests=requests, status=running)).take_sums(old)
        assert not counted(make_pod(requests=requests, status=resized)).take_sums(old)


def test_a_binding_and_a_heartbeat_take_over_a_resize_that_is_put_off_does_not() -> None:
    running = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    put_off = {**running, "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
    assert pod_info(node="a").take_sums(pod_info())
    assert pod_info(status=running).take_sums(pod_info(status=running))
    assert not pod_info(status=put_off).take_sums(pod_info(status=running))


@pytest.mark.parametrize("namespace", ["default", ""], ids=["in a namespace", "as written in a file, without one"])
def test_a_pod_has_one_key_whoever_asks(namespace: str) -> None:
    info = pod_info("p", namespace=namespace)
    assert info.key == info.pod.key == ("default/p" if namespace else "p")
