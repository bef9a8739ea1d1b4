"""Requests and mappings of the claim behind extended resources, by containers that end, that stay, and sidecars."""

from kscheduler.api.core import Container, Pod, PodSpec, ResourceList, ResourceRequirements
from kscheduler.devices.extended_resources import requests_of

GPU, NIC = "example.com/gpu", "example.com/nic"


def container(name: str, *, sidecar: bool = False, **amounts: str) -> Container:
    """A container that requests `gpu`, `nic` and others by keyword."""
    names = {"gpu": GPU, "nic": NIC}
    requests: ResourceList = {names.get(key, key): amount for key, amount in amounts.items()}
    return Container(
        name=name,
        resources=ResourceRequirements(requests=requests),
        restart_policy="Always" if sidecar else None,
    )


def queried(*containers: Container, inits: tuple[Container, ...] = (), **classes: str) -> list[tuple[str, str, int]]:
    """(name, class, count) of each request."""
    found = requests_of(Pod(spec=PodSpec(containers=containers, init_containers=inits)), by_resource(classes))
    exact = [(each.name, each.exactly) for each in found.requests]
    return [(name, of.device_class_name, of.count) for name, of in exact if of is not None]


def used(*containers: Container, inits: tuple[Container, ...] = (), **classes: str) -> list[tuple[str, str, str]]:
    """(container, resource, request) of each mapping."""
    found = requests_of(Pod(spec=PodSpec(containers=containers, init_containers=inits)), by_resource(classes))
    return [(each.container_name, each.resource_name, each.request_name) for each in found.mappings]


def by_resource(classes: dict[str, str]) -> dict[str, str]:
    return {{"gpu": GPU, "nic": NIC}[key]: name for key, name in classes.items()}


def test_only_resources_with_a_class_are_requested_and_numbered_among_all_of_the_container() -> None:
    both = container("main", cpu="1", gpu="1", nic="2")
    assert queried(both, gpu="g") == [("container-0-request-1", "g", 1)]
    assert queried(both, gpu="g", nic="n") == [("container-0-request-1", "g", 1), ("container-0-request-2", "n", 2)]
    assert queried(both) == []
    assert queried(container("main", gpu="0"), gpu="g") == []


def test_each_container_that_stays_has_a_request_of_its_own() -> None:
    pair = container("one", gpu="1"), container("two", gpu="3")
    assert queried(*pair, gpu="g") == [("container-0-request-0", "g", 1), ("container-1-request-0", "g", 3)]
    assert used(*pair, gpu="g") == [("one", GPU, "container-0-request-0"), ("two", GPU, "container-1-request-0")]


def test_an_init_container_uses_what_later_containers_have() -> None:
    main, init = container("main", gpu="4"), container("init", gpu="2")
    assert queried(main, inits=(init,), gpu="g") == [("container-1-request-0", "g", 4)]
    assert used(main, inits=(init,), gpu="g") == [
        ("main", GPU, "container-1-request-0"),
        ("init", GPU, "container-1-request-0"),
    ]


def test_of_what_init_containers_need_beyond_that_only_the_most_is_requested_and_all_use_it() -> None:
    inits = container("a", gpu="2"), container("b", gpu="5"), container("c", gpu="3")
    main = container("main", gpu="1")
    assert queried(main, inits=inits, gpu="g") == [("container-1-request-0", "g", 4), ("container-3-request-0", "g", 1)]
    assert used(main, inits=inits, gpu="g") == [
        ("main", GPU, "container-3-request-0"),
        ("a", GPU, "container-3-request-0"),
        ("a", GPU, "container-1-request-0"),
        ("b", GPU, "container-3-request-0"),
        ("b", GPU, "container-1-request-0"),
        ("c", GPU, "container-3-request-0"),
        ("c", GPU, "container-1-request-0"),
    ]


def test_the_first_of_equally_needy_init_containers_names_the_request() -> None:
    inits = container("a", gpu="2"), container("b", gpu="2")
    assert queried(container("main"), inits=inits, gpu="g") == [("container-0-request-0", "g", 2)]
    assert [request for _, _, request in used(container("main"), inits=inits, gpu="g")] == ["container-0-request-0"] * 2


def test_a_sidecar_stays_and_lends_its_devices_only_to_init_containers_before_it() -> None:
    inits = container("before", gpu="1"), container("side", sidecar=True, gpu="1"), container("after", gpu="2")
    main = container("main")
    assert queried(main, inits=inits, gpu="g") == [("container-1-request-0", "g", 1), ("container-2-request-0", "g", 2)]
    assert used(main, inits=inits, gpu="g") == [
        ("side", GPU, "container-1-request-0"),
        ("before", GPU, "container-1-request-0"),
        ("after", GPU, "container-2-request-0"),
    ]


def test_requests_are_sorted_by_name_as_text() -> None:
    many = tuple(container(f"c{index}", gpu="1") for index in range(11))
    names = [name for name, _, _ in queried(*many, gpu="g")]
    assert names == sorted(names)
    assert names[:3] == ["container-0-request-0", "container-1-request-0", "container-10-request-0"]


def test_an_init_container_stops_using_requests_when_it_has_enough() -> None:
    mains = container("one", gpu="1"), container("two", gpu="1"), container("three", gpu="1")
    init = container("init", gpu="2")
    assert [request for name, _, request in used(*mains, inits=(init,), gpu="g") if name == "init"] == [
        "container-1-request-0",
        "container-2-request-0",
    ]
