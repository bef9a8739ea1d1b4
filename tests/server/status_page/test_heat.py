"""The heat map: every node is one cell, a cell's letter says how full it is, and changes make one map of another."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.server.status_page.drawing import drawn
from kscheduler.server.status_page.facts.heat import BY, LEVELS, MAX_ZONES, HeatMap, changes
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod
from tests.plugins.dynamic_resources.stage import Stage, allocation, claim, device_class, devices_of

OF_CLASS = "deviceclass.resource.kubernetes.io/gpu"

ZONES = st.sampled_from(["", "a", "b", "c", *(f"z{number}" for number in range(MAX_ZONES + 5))])


def cluster(zones: list[str]) -> tuple[Cache, HeatMap]:
    cache = Cache()
    for number, zone in enumerate(zones):
        labels = {"topology.kubernetes.io/zone": zone} if zone else {}
        cache.add_node(make_node(f"n{number}", labels=labels, cpu="10", memory="10Gi"))
    return cache, HeatMap(cache.nodes)


@given(st.lists(ZONES, max_size=80))
def test_each_node_is_one_cell_of_a_bounded_number_of_blocks(zones: list[str]) -> None:
    _, heat = cluster(zones)
    cells = heat.cells()
    assert sorted(cells.names) == sorted(f"n{number}" for number in range(len(zones)))
    assert sum(zone.count for zone in cells.zones) == len(zones)
    assert len(cells.zones) <= MAX_ZONES + 1
    for block in cells.zones:
        inside = cells.names[block.first : block.first + block.count]
        assert list(inside) == sorted(inside)
        if not block.is_rest:
            assert {zones[int(name[1:])] for name in inside} == {block.name}


@given(st.lists(ZONES, min_size=1, max_size=40), st.data())
def test_the_picture_has_a_square_for_each_cell_under_its_letter(zones: list[str], data: st.DataObject) -> None:
    _, heat = cluster(zones)
    letters = "".join(data.draw(st.lists(st.sampled_from(LEVELS), min_size=len(zones), max_size=len(zones))))
    blocks = drawn(heat.cells(), letters)
    counted = dict.fromkeys(LEVELS, 0)
    for block in blocks:
        places = [place for _, path in block.paths for place in re.findall(r"M(\d+) (\d+)", path)]
        assert len(places) == len(set(places)) == block.count
        assert all(int(x) < block.width and int(y) < block.height for x, y in places)
        for letter, path in block.paths:
            counted[letter] += path.count("M")
    assert counted == {letter: letters.count(letter) for letter in LEVELS}


@given(st.integers(1, 60).flatmap(lambda size: st.tuples(*[st.text(LEVELS, min_size=size, max_size=size)] * 2)))
def test_what_has_changed_makes_the_new_letters_of_the_old(pair: tuple[str, str]) -> None:
    before, after = pair
    made = list(before)
    for at, letter in changes(before, after):
        assert made[at] != letter
        made[at] = letter
    assert "".join(made) == after


def test_letters_are_tenths_rounded_up_and_name_what_is_over_and_what_is_cordoned() -> None:
    cache, heat = cluster(["a"] * 6)
    for number, cpu in enumerate(("0", "1m", "1", "9500m", "11")):
        if cpu != "0":
            pod = make_pod(f"p{number}", node=f"n{number}", requests={"cpu": cpu})
            cache.assume_pod(PodInfo(pod), f"n{number}")
    cache.update_node(make_node("n5", labels={"topology.kubernetes.io/zone": "a"}, spec={"unschedulable": True}))
    assert heat.letters("cpu") == "011aoc"
    assert heat.letters("memory") == "00000c"


def test_an_extended_resource_has_a_picture_of_its_own_and_nodes_without_it_have_none() -> None:
    cache, heat = cluster(["a", "a"])
    for number, gpus in enumerate(("4", "4", "8"), start=2):
        cache.add_node(make_node(f"n{number}", cpu="10", **{"nvidia.com/gpu": gpus}))
    cache.assume_pod(PodInfo(make_pod("p", requests={"nvidia.com/gpu": "3"})), "n2")
    assert heat.choices() == BY | {"nvidia.com/gpu": "nvidia.com/gpu"}
    assert heat.letters("nvidia.com/gpu") == "nn800"
    assert heat.letters("cpu") == "00000"
    for number in (2, 3, 4):
        cache.remove_node(f"n{number}")
    assert "nvidia.com/gpu" not in heat.choices()
    assert heat.letters("nvidia.com/gpu") == "nn"


def test_what_an_int64_cannot_hold_is_requested_and_there() -> None:
    cache, heat = cluster(["a"])
    for number in range(2):
        cache.add_node(make_node(f"g{number}", **{"a.b/c": "8E"}))
        cache.add_pod(make_pod(f"p{number}", node=f"g{number}", uid=f"p{number}", requests={"a.b/c": "9E"}))
    (found,) = heat.extended()
    assert (found.requested, found.there) == (18 * 10**18, 16 * 10**18)


def test_a_class_of_devices_has_a_picture_of_its_own() -> None:
    stage = Stage(device_class(), devices_of("n0", "a", "b"), devices_of("n1", "a"), nodes=3)
    stage.put(claim(allocated=allocation("n0", "a")))
    devices = ClassDevices(stage.cache, lambda: stage.plugin)
    heat = HeatMap(stage.cache.nodes, devices)
    assert heat.choices() == BY, "nobody has counted them yet"
    for _ in devices.follow():
        pass
    assert heat.choices() == BY | {OF_CLASS: "class gpu"}
    assert heat.letters(OF_CLASS) == "50n"
    stage.put(claim("c1", allocated=allocation("n1", "a")))
    for _ in devices.follow():
        pass
    assert heat.letters(OF_CLASS) == "5an"


def test_a_pod_that_comes_moves_no_cell_and_a_node_that_comes_does() -> None:
    cache, heat = cluster(["b", "a"])
    before = heat.cells()
    cache.assume_pod(PodInfo(make_pod("p", requests={"cpu": "5"})), "n0")
    assert heat.cells() is before
    cache.add_node(make_node("n2", labels={"topology.kubernetes.io/zone": "a"}))
    assert heat.cells().version > before.version
    assert heat.cells().names == ("n1", "n2", "n0")


def test_every_view_has_a_letter_for_each_of_no_nodes_and_of_nodes_that_have_nothing() -> None:
    cache, heat = cluster([])
    assert {by: heat.letters(by) for by in BY} == dict.fromkeys(BY, "")
    cache.add_node(make_node("bare", cpu="0", memory="0", pods="0"))
    with np.errstate(all="raise"):
        assert {heat.letters(by) for by in BY} == {"0"}
