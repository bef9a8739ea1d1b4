"""How much a pod asks for, by kube-scheduler's rules, case by case."""

from typing import Any

import pytest

from kscheduler.framework.pods.requests import (
    Resizing,
    accounted_requests,
    incoming_requests,
    is_scalar,
    nonzero_accounted,
    nonzero_requests,
)
from tests.builders import Tree, make_pod

MI = 2**20
DEFAULT_CPU, DEFAULT_MEMORY = 100, 200 * MI


def container(name: str = "c", **requests: Any) -> Tree:
    """A container that asks for this."""
    return {"name": name, "resources": {"requests": requests}}


def sidecar(name: str = "s", **requests: Any) -> Tree:
    """An init container that keeps running."""
    return {**container(name, **requests), "restartPolicy": "Always"}


def running(name: str, allocated: Tree, **requests: Any) -> Tree:
    """A container's status: what it runs with, and what the kubelet has allocated."""
    return {"name": name, "resources": {"requests": requests}, "allocatedResources": allocated}


CASES: dict[str, tuple[Tree, dict[str, int]]] = {
    "no container asks for anything": ({"containers": [container()]}, {}),
    "containers add up": ({"containers": [container(cpu="1"), container(cpu="500m")]}, {"cpu": 1500}),
    "sums are rounded once, at the end": ({"containers": [container(cpu="0.5m"), container(cpu="0.5m")]}, {"cpu": 1}),
    "fractions of bytes are rounded up": ({"containers": [container(memory="0.1")]}, {"memory": 1}),
    "an init container needs its own beside nobody": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="3", memory="1Mi")]},
        {"cpu": 3000, "memory": MI},
    ),
    "init containers run one after the other": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="2"), container(cpu="2")]},
        {"cpu": 2000},
    ),
    "a sidecar adds to the containers": (
        {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="2")]},
        {"cpu": 3000},
    ),
    "an init container after a sidecar runs beside it": (
        {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="2"), container(cpu="5")]},
        {"cpu": 7000},
    ),
    "an init container before a sidecar runs alone": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="5"), sidecar(cpu="2")]},
        {"cpu": 5000},
    ),
    "sidecars pile up under later init containers": (
        {
            "containers": [container(cpu="1")],
            "initContainers": [sidecar("a", cpu="1"), container(cpu="1"), sidecar("b", cpu="2"), container(cpu="4")],
        },
        {"cpu": 7000},
    ),
    "the larger of both is taken per resource": (
        {
            "containers": [container(cpu="3", memory="1Mi")],
            "initContainers": [container(cpu="1", memory="8Mi")],
        },
        {"cpu": 3000, "memory": 8 * MI},
    ),
    "overhead comes on top": (
        {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "1Mi"}},
        {"cpu": 1250, "memory": MI},
    ),
    "pod-level requests replace the sum, also with less": (
        {"containers": [container(cpu="3", memory="1Mi")], "resources": {"requests": {"cpu": "2"}}},
        {"cpu": 2000, "memory": MI},
    ),
    "pod-level requests replace init containers too": (
        {
            "containers": [container(cpu="1")],
            "initContainers": [container(cpu="9")],
            "resources": {"requests": {"cpu": "2"}},
        },
        {"cpu": 2000},
    ),
    "overhead comes on top of pod-level requests": (
        {"containers": [container()], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "1"}},
        {"cpu": 3000},
    ),
    "pod-level hugepages count, other pod-level resources do not": (
        {
            "containers": [container(cpu="1")],
            "resources": {"requests": {"hugepages-2Mi": "4Mi", "example.com/gpu": "1", "ephemeral-storage": "1"}},
        },
        {"cpu": 1000, "hugepages-2Mi": 4 * MI},
    ),
    "extended resources and storage count, unknown native names do not": (
        {
            "containers": [
                container(**{"example.com/gpu": "2", "ephemeral-storage": "1k", "storage": "5", "pods": "7", "x": "1"})
            ]
        },
        {"example.com/gpu": 2, "ephemeral-storage": 1000},
    ),
    "huge requests saturate": (
        {"containers": [container(memory="9223372036854775807"), container(memory="9223372036854775807")]},
        {"memory": 2**63 - 1},
    ),
    "a limit is no request": ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "4"}}}]}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_pod_asks_for(case: str) -> None:
    spec, wanted = CASES[case]
    pod = make_pod(**spec)
    assert incoming_requests(pod) == wanted
    for rule in Resizing:
        assert accounted_requests(pod, rule) == wanted, "without a status the pod takes what it asked for"


def resized(reason: str | None, *, spec: str, allocated: str, actual: str) -> Tree:
    """A pod whose one container is being resized."""
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    return {
        "containers": [container("c", cpu=spec)],
        "status": {"containerStatuses": [running("c", {"cpu": allocated}, cpu=actual)], "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        pytest.param(resized(None, spec="1", allocated="2", actual="3"), 3000, id="the most of the three counts"),
        pytest.param(resized(None, spec="5", allocated="2", actual="3"), 5000, id="a resize upwards counts at once"),
        pytest.param(resized("Deferred", spec="5", allocated="2", actual="3"), 5000, id="deferred still counts"),
        pytest.param(resized("Infeasible", spec="5", allocated="2", actual="1"), 2000, id="infeasible does not"),
    ],
)
def test_a_resize_in_flight_is_never_overbooked(fields: Tree, wanted: int) -> None:
    pod = make_pod(**fields)
    for rule in (Resizing.BY_CONTAINER, Resizing.BY_POD):
        assert accounted_requests(pod, rule)["cpu"] == wanted
    assert incoming_requests(pod) == {"cpu": int(fields["containers"][0]["resources"]["requests"]["cpu"]) * 1000}


def test_the_first_resize_condition_decides() -> None:
    conditions = [
        {"type": "PodResizePending", "reason": "Deferred"},
        {"type": "PodResizePending", "reason": "Infeasible"},
    ]
    fields = resized(None, spec="5", allocated="1", actual="1")
    pod = make_pod(**{**fields, "status": {**fields["status"], "conditions": conditions}})
    for rule in (Resizing.BY_CONTAINER, Resizing.BY_POD):
        assert accounted_requests(pod, rule) == {"cpu": 5000}


def test_a_status_without_resources_says_nothing_up_to_1_36() -> None:
    status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}]}
    pod = make_pod(containers=[container("c", cpu="1")], status=status)
    assert accounted_requests(pod, Resizing.BY_CONTAINER) == {"cpu": 1000}
    assert accounted_requests(pod, Resizing.BY_POD) == {"cpu": 9000}


def swapping(*conditions: Tree, **status: Any) -> Tree:
    """Container a grows from 1 to 3 while b shrinks from 3 to 1; the kubelet has done neither."""
    statuses = [running("a", {"cpu": "1"}, cpu="1"), running("b", {"cpu": "3"}, cpu="3")]
    return {
        "containers": [container("a", cpu="3"), container("b", cpu="1")],
        "status": {"containerStatuses": statuses, "conditions": list(conditions), **status},
    }


INFEASIBLE: Tree = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


def test_containers_that_swap_count_twice_up_to_1_36_and_by_their_sums_from_1_37_on() -> None:
    pod = make_pod(**swapping())
    assert accounted_requests(pod, Resizing.BY_CONTAINER) == {"cpu": 6000}
    assert accounted_requests(pod, Resizing.BY_POD) == {"cpu": 4000}
    assert nonzero_accounted(pod, Resizing.BY_POD) == (4000, 2 * DEFAULT_MEMORY)
    assert accounted_requests(pod, Resizing.NOT_COUNTED) == {"cpu": 4000}


def test_by_sums_what_the_kubelet_has_refused_does_not_count() -> None:
    fields = swapping(INFEASIBLE)
    fields["containers"][0] = container("a", cpu="30")
    assert accounted_requests(make_pod(**fields), Resizing.BY_POD) == {"cpu": 4000}


def test_by_sums_a_refused_container_without_a_status_counts_nothing() -> None:
    pod = make_pod(containers=[container("a", cpu="5")], status={"conditions": [INFEASIBLE]})
    assert accounted_requests(pod, Resizing.BY_POD) == {}
    assert accounted_requests(pod, Resizing.BY_CONTAINER) == {"cpu": 5000}


def test_by_sums_what_is_in_force_counts_also_where_less_is_allocated() -> None:
    status = {"containerStatuses": [running("c", {"cpu": "2"}, cpu="7")]}
    assert accounted_requests(make_pod(containers=[container("c", cpu="1")], status=status), Resizing.BY_POD) == {
        "cpu": 7000
    }


def test_by_sums_the_pods_own_status_counts_in_place_of_its_containers() -> None:
    whole = {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "9", "memory": "1"}}
    pod = make_pod(**swapping(**whole))
    assert accounted_requests(pod, Resizing.BY_POD) == {"cpu": 9000, "memory": 1}
    assert accounted_requests(make_pod(**swapping(INFEASIBLE, **whole)), Resizing.BY_POD) == {"cpu": 9000, "memory": 1}
    for missing in whole:
        part = {name: value for name, value in whole.items() if name != missing}
        assert accounted_requests(make_pod(**swapping(**part)), Resizing.BY_POD) == {"cpu": 4000}


def test_by_sums_init_containers_count_with_their_status() -> None:
    pod = make_pod(
        containers=[container("c", cpu="1")],
        initContainers=[sidecar("s", cpu="1"), container("i", cpu="2")],
        status={"initContainerStatuses": [running("s", {}, cpu="4"), running("i", {}, cpu="50")]},
    )
    assert accounted_requests(pod, Resizing.BY_POD) == {"cpu": 54000}, "the init container beside the grown sidecar"


def test_sidecars_count_with_their_status_and_up_to_1_36_ordinary_init_containers_do_not() -> None:
    statuses = [running("s", {}, cpu="4"), running("i", {}, cpu="50")]
    pod = make_pod(
        containers=[container("c", cpu="1")],
        initContainers=[sidecar("s", cpu="1"), container("i", cpu="2")],
        status={"initContainerStatuses": statuses},
    )
    assert accounted_requests(pod, Resizing.BY_CONTAINER) == {"cpu": 6000}, "beside the grown sidecar: 4 + 2"


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        pytest.param({}, 2000, id="without a status the spec counts"),
        pytest.param({"allocatedResources": {"cpu": "9"}}, 2000, id="allocated alone says nothing"),
        pytest.param(
            {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "4"}}, 4000, id="the most counts"
        ),
        pytest.param(
            {
                "resources": {"requests": {"cpu": "1"}},
                "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
            },
            1000,
            id="an infeasible spec does not",
        ),
    ],
)
def test_a_resize_of_the_pod_as_a_whole(status: Tree, wanted: int) -> None:
    pod = make_pod(containers=[container(cpu="7")], resources={"requests": {"cpu": "2"}}, status=status)
    for rule in (Resizing.BY_CONTAINER, Resizing.BY_POD):
        assert accounted_requests(pod, rule) == {"cpu": wanted}


NONZERO: dict[str, tuple[Tree, tuple[int, int]]] = {
    "a container that asks for nothing": ({"containers": [container()]}, (DEFAULT_CPU, DEFAULT_MEMORY)),
    "each container gets its own default": (
        {"containers": [container(), container(cpu="1")]},
        (1000 + DEFAULT_CPU, 2 * DEFAULT_MEMORY),
    ),
    "an explicit zero stays zero": ({"containers": [container(cpu="0", memory="0")]}, (0, 0)),
    "init containers get defaults too": (
        {"containers": [container(cpu="50m", memory="1Mi")], "initContainers": [container()]},
        (DEFAULT_CPU, DEFAULT_MEMORY),
    ),
    "sidecars get defaults too": (
        {"containers": [container()], "initContainers": [sidecar()]},
        (2 * DEFAULT_CPU, 2 * DEFAULT_MEMORY),
    ),
    "overhead is part of it": (
        {"containers": [container()], "overhead": {"cpu": "10m"}},
        (DEFAULT_CPU + 10, DEFAULT_MEMORY),
    ),
    "with a pod-level request, defaults fill in only what the pod leaves open": (
        {"containers": [container(), container()], "resources": {"requests": {"cpu": "1"}}},
        (1000, 2 * DEFAULT_MEMORY),
    ),
    "a container's request closes the resource for its siblings when the pod has requests": (
        {"containers": [container(memory="1Mi"), container()], "resources": {"requests": {"cpu": "1"}}},
        (1000, MI),
    ),
    "unsupported pod-level requests are none": (
        {"containers": [container()], "resources": {"requests": {"example.com/gpu": "1"}}},
        (DEFAULT_CPU, DEFAULT_MEMORY),
    ),
}


@pytest.mark.parametrize("case", NONZERO)
def test_what_scoring_presumes(case: str) -> None:
    spec, wanted = NONZERO[case]
    for rule in Resizing:
        assert nonzero_accounted(make_pod(**spec), rule) == wanted


def test_until_1_37_the_fit_score_leaves_pod_level_requests_out() -> None:
    """Upstream's quirk Q4, imitated."""
    pod = make_pod(containers=[container(cpu="3")], resources={"requests": {"cpu": "1"}})
    assert nonzero_requests(pod, pod_level=False) == {"cpu": 3000, "memory": DEFAULT_MEMORY}
    assert nonzero_requests(pod, pod_level=True) == {"cpu": 1000, "memory": DEFAULT_MEMORY}


def test_from_1_38_the_fit_score_presumes_for_each_container_what_the_pod_leaves_open() -> None:
    """(1.38: D7) Not as the sums of a node, where one container's request closes the resource for the others."""
    pod = make_pod(containers=[container(memory="1Mi"), container()], resources={"requests": {"cpu": "1"}})
    assert nonzero_requests(pod, pod_level=True) == {"cpu": 1000, "memory": MI + DEFAULT_MEMORY}
    assert nonzero_accounted(pod, Resizing.BY_POD) == (1000, MI)


def test_from_1_38_the_fit_score_counts_what_is_in_force_and_overhead() -> None:
    """(1.38: D7)"""
    pod = make_pod(
        containers=[container(cpu="1")],
        overhead={"cpu": "10m"},
        status={"containerStatuses": [running("c", {"cpu": "2"}, cpu="3")]},
    )
    assert nonzero_requests(pod, pod_level=False)["cpu"] == 1010
    assert nonzero_requests(pod, pod_level=True)["cpu"] == 3010


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("example.com/gpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-csi-x", True),
        ("kubernetes.io/thing", True),
        ("sub.kubernetes.io/thing", True),
        ("requests.example.com/gpu", False),
        ("cpu", False),
        ("pods", False),
        ("storage", False),
        ("/gpu", False),
        ("example.com/", False),
        ("example.com/a/b", False),
    ],
)
def test_which_resources_are_counted_besides_the_three(name: str, scalar: bool) -> None:
    assert is_scalar(name) is scalar
