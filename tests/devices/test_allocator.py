"""The allocator by groups of rules: which devices, in which order, and what is said of them.

The groups are those of the table that upstream has for all its allocators; the cases are our own.
"""

from typing import Final

import pytest

from tests.devices.building import (
    ALL,
    DRIVER,
    OTHER,
    Json,
    answer,
    chosen,
    claim,
    color,
    device,
    first_of,
    piece,
    wants,
    wants_all,
)
from tests.devices.problems import Explanation

# --- counts and order -------------------------------------------------------------------------------------------------


@ALL
def test_devices_come_in_the_order_of_drivers_pools_slices_and_lists(version: str) -> None:
    slices = (
        piece("s2", device("d1"), device("d0"), pool="q", count=2),
        piece("s1", device("d3"), pool="q", count=2),
        piece("s0", device("d4"), driver=OTHER, pool="a"),
        piece("s9", device("d5"), pool="p"),
    )
    got = answer([claim(wants("r", 5))], *slices, version=version)
    assert chosen(got) == [["r=d5", "r=d3", "r=d1", "r=d0", "r=d4"]]


@ALL
def test_claims_and_requests_do_not_get_the_same_device(version: str) -> None:
    claims = [claim(wants("r0"), wants("r1")), claim(wants("r2"), name="c1")]
    devices = [device(f"d{number}") for number in range(4)]
    assert chosen(answer(claims, piece("s", *devices), version=version)) == [["r0=d0", "r1=d1"], ["r2=d2"]]
    assert chosen(answer(claims, piece("s", *devices[:2]), version=version)) is None
    assert chosen(answer(claims, piece("s", *devices), version=version, taken=["d0"])) == [
        ["r0=d1", "r1=d2"],
        ["r2=d3"],
    ]


@ALL
def test_a_choice_that_leaves_too_little_is_undone(version: str) -> None:
    red = [{"cel": {"expression": 'device.attributes["a.example.com"].?color.orValue("") == "red"'}}]
    claims = [claim(wants("any"), wants("red", selectors=red))]
    assert chosen(answer(claims, piece("s", color("d0"), color("d1", "blue")), version=version)) == [
        ["any=d1", "red=d0"]
    ]


def test_a_pod_without_claims_gets_nothing_and_fits() -> None:
    assert answer([], piece("s", device("d"))) == Explanation([])


# --- how many ---------------------------------------------------------------------------------------------------------


def test_more_devices_than_a_status_can_list_are_an_error() -> None:
    too_many = [claim(wants("r0", 20), wants("r1", 13))]
    text = "claim ns/c, request r1: adding 13 devices exceeds the claim limit of 32, with 20 already accounted for"
    assert answer(too_many).error == text
    assert (
        answer(too_many, version="1.36").error
        == "claim ns/c: number of requested devices 33 exceeds the claim limit of 32"
    )


@ALL
def test_an_alternative_that_would_be_too_many_is_skipped(version: str) -> None:
    devices = [device(f"d{number:02}") for number in range(40)]
    requests = (wants("r0", 30), first_of("r1", wants("much", 3), wants("little", 2)))
    [got] = chosen(answer([claim(*requests)], piece("s", *devices), version=version)) or [[]]
    assert len(got) == 32
    assert got[-1] == "r1/little=d31"


def test_three_claims_of_32_devices_need_no_stack() -> None:
    devices = [device(f"d{number:03}") for number in range(128)]
    claims = [claim(*(wants(f"r{number}") for number in range(32)), name=f"c{number}") for number in range(3)]
    got = chosen(answer(claims, piece("s", *devices)))
    assert got is not None
    assert [len(one) for one in got] == [32, 32, 32]


# --- all devices ------------------------------------------------------------------------------------------------------


@ALL
def test_all_means_each_device_that_is_selected_used_or_not(version: str) -> None:
    slices = piece("s", device("d0"), device("d1"))
    assert chosen(answer([claim(wants_all())], slices, version=version)) == [["r=d0", "r=d1"]]
    assert chosen(answer([claim(wants_all())], slices, version=version, taken=["d1"])) is None
    assert chosen(answer([claim(wants_all())], version=version)) is None


@ALL
def test_all_is_an_error_while_any_pool_is_incomplete(version: str) -> None:
    got = answer([claim(wants_all())], piece("s", device("d"), count=2), version=version)
    assert (
        got.error
        == f"claim ns/c, request r: asks for all devices, but resource pool {DRIVER}/p is currently being updated"
    )


@ALL
def test_all_that_cannot_go_together_is_an_error(version: str) -> None:
    claims = [claim(wants_all(), constraints=[{"matchAttribute": f"{DRIVER}/color"}])]
    got = answer(claims, piece("s", color("d0"), color("d1", "blue")), version=version)
    why = "because a claim constraint would not be satisfied"
    assert got.error == f"claim ns/c, request r: cannot add device {DRIVER}/p/d1 {why}"


# --- pools ------------------------------------------------------------------------------------------------------------


@ALL
def test_an_incomplete_pool_gives_nothing_and_is_no_error(version: str) -> None:
    assert chosen(answer([claim(wants())], piece("s", device("d"), count=2), version=version)) is None


@ALL
def test_only_the_newest_generation_counts_wherever_it_is(version: str) -> None:
    old = piece("s0", device("old"))
    new = piece("s1", device("new"), generation=2)
    assert chosen(answer([claim(wants())], old, new, version=version)) == [["r=new"]]
    elsewhere = piece("s1", device("new"), generation=2, nodeName="another")
    # A pool that is whole on the node is not looked for anywhere else.
    assert chosen(answer([claim(wants())], old, elsewhere, version=version)) == [["r=old"]]
    half = piece("s0", device("old"), count=2)
    assert chosen(answer([claim(wants())], half, elsewhere, version=version)) is None


@ALL
def test_a_pool_with_a_name_twice_is_a_failure_of_the_node_if_nothing_else_does(version: str) -> None:
    twice = piece("s", device("d"), device("d"))
    got = answer([claim(wants())], twice, version=version)
    assert got == Explanation(error="invalid resource pools were encountered", is_for_node=True)
    sound = piece("t", device("e"), pool="q")
    assert chosen(answer([claim(wants())], twice, sound, version=version)) == [["r=e"]]


# --- nodes ------------------------------------------------------------------------------------------------------------

ZONE: Final[Json] = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]}
HERE: Final[Json] = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
}


@ALL
@pytest.mark.parametrize(
    ("choice", "selector"),
    [
        pytest.param({"nodeName": "n"}, HERE, id="one node"),
        pytest.param({"nodeSelector": ZONE}, ZONE, id="a selector"),
        pytest.param({"allNodes": True}, None, id="all nodes"),
    ],
)
def test_an_allocation_says_which_nodes_reach_it(choice: Json, selector: Json | None, version: str) -> None:
    for slices in (
        piece("s", device("d"), **choice),
        piece("s", device("e", nodeName="another"), device("d", **choice), perDeviceNodeSelection=True),
    ):
        got = answer([claim(wants())], slices, version=version)
        assert chosen(got) == [["r=d"]]
        assert got.results is not None
        assert got.results[0].get("nodeSelector") == selector


def test_a_device_that_binds_to_its_node_is_for_that_node_only() -> None:
    got = answer([claim(wants())], piece("s", device("d", bindsToNode=True), allNodes=True))
    assert got.results is not None
    assert got.results[0]["nodeSelector"] == HERE


def test_a_slice_with_two_terms_is_refused() -> None:
    two = {"nodeSelectorTerms": [*ZONE["nodeSelectorTerms"], *HERE["nodeSelectorTerms"]]}
    got = answer([claim(wants())], piece("s", device("d"), nodeSelector=two))
    assert got.error == "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms"


# --- constraints ------------------------------------------------------------------------------------------------------


@ALL
def test_devices_match_in_an_attribute_or_are_not_taken(version: str) -> None:
    match = [{"matchAttribute": f"{DRIVER}/color"}]
    devices = (color("d0"), color("d1", "blue"), device("d2"), color("d3", {"int": 1}), color("d4", "blue"))
    assert chosen(answer([claim(wants("r", 2), constraints=match)], piece("s", *devices), version=version)) == [
        ["r=d1", "r=d4"]
    ]


def test_all_devices_of_a_request_are_distinct_but_in_136_only_neighbours_are() -> None:
    distinct = [{"distinctAttribute": f"{DRIVER}/color"}]
    devices = (color("d0"), color("d1", "blue"), color("d2"))
    claims = [claim(wants("r", 3), constraints=distinct)]
    assert chosen(answer(claims, piece("s", *devices))) is None
    assert chosen(answer(claims, piece("s", *devices), version="1.36")) == [["r=d0", "r=d1", "r=d2"]]


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_an_attribute_of_an_unknown_type_may_be_the_only_one(version: str) -> None:
    lists = (color("d0", {"strings": ["red"]}), color("d1", {"strings": ["red"]}))
    for kind in ("matchAttribute", "distinctAttribute"):
        constraints = [{kind: f"{DRIVER}/color"}]
        one = [claim(wants(), constraints=constraints)]
        assert chosen(answer(one, piece("s", *lists), version=version)) == [["r=d0"]]
        two = [claim(wants("r", 2), constraints=constraints)]
        assert chosen(answer(two, piece("s", *lists), version=version)) is None


@ALL
def test_lists_match_where_they_meet_and_are_distinct_where_they_do_not(version: str) -> None:
    lists = (color("d0", {"strings": ["red", "blue"]}), color("d1", {"strings": ["blue"]}), color("d2", "green"))

    def with_lists(kind: str) -> list[list[str]] | None:
        claims = [claim(wants("r", 2), constraints=[{kind: f"{DRIVER}/color"}])]
        return chosen(answer(claims, piece("s", *lists), version=version, more=["DRAListTypeAttributes"]))

    assert with_lists("matchAttribute") == [["r=d0", "r=d1"]]
    assert with_lists("distinctAttribute") == [["r=d0", "r=d2"]]


def test_what_lists_have_in_common_is_wider_again_after_a_choice_is_undone() -> None:
    lists = (
        color("d0", {"strings": ["red", "blue"]}),
        color("d1", {"strings": ["red"]}),
        color("d2", {"strings": ["blue"]}),
        color("d3", {"strings": ["blue"]}),
    )
    claims = [claim(wants("r", 3), constraints=[{"matchAttribute": f"{DRIVER}/color"}])]
    more = ["DRAListTypeAttributes"]
    assert chosen(answer(claims, piece("s", *lists), more=more)) == [["r=d0", "r=d2", "r=d3"]]
    assert chosen(answer(claims, piece("s", *lists), more=more, version="1.36")) is None


def test_a_constraint_of_no_known_kind_is_an_error() -> None:
    got = answer([claim(wants(), constraints=[{}])], piece("s", device("d")))
    assert got.error == "claim ns/c, constraint #0: empty constraint (unsupported constraint type?)"


# --- administrators, alternatives, taints, conditions -----------------------------------------------------------------


@ALL
def test_administrators_get_used_devices_each_once_per_claim(version: str) -> None:
    admin = wants("r", 2, adminAccess=True)
    slices = piece("s", device("d0"), device("d1"))
    assert chosen(answer([claim(admin)], slices, version=version, taken=["d0"])) == [["r=d0", "r=d1"]]
    assert chosen(answer([claim(admin | {"name": "r0"}), claim(admin, name="c1")], slices, version=version)) == [
        ["r0=d0", "r0=d1"],
        ["r=d0", "r=d1"],
    ]
    assert chosen(answer([claim(wants("r0", adminAccess=True), admin)], slices, version=version)) is None
    got = answer([claim(admin)], slices, version=version, without=["DRAAdminAccess"])
    assert got.error == "claim ns/c, request r: admin access is requested, but the feature is disabled"


@ALL
def test_the_first_alternative_that_lets_all_others_have_theirs_wins(version: str) -> None:
    slices = piece("s", *(device(f"d{number}") for number in range(3)))
    choice = first_of("r0", wants("two", 2), wants("one", 1))
    assert chosen(answer([claim(choice)], slices, version=version)) == [["r0/two=d0", "r0/two=d1"]]
    assert chosen(answer([claim(choice, wants("r1", 2))], slices, version=version)) == [["r0/one=d0", "r1=d1", "r1=d2"]]


@ALL
@pytest.mark.parametrize(
    ("effect", "tolerations", "is_taken"),
    [
        pytest.param("NoSchedule", [], False, id="not tolerated"),
        pytest.param("NoExecute", [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], False, id="effect"),
        pytest.param("NoExecute", [{"key": "k", "operator": "Equal", "value": "v"}], True, id="equal"),
        pytest.param("NoSchedule", [{"key": "k"}], False, id="no value"),
        pytest.param("NoSchedule", [{"operator": "Exists"}], True, id="exists"),
        pytest.param("None", [], True, id="no effect"),
        pytest.param("Later", [], True, id="unknown effect"),
    ],
)
def test_taints_are_tolerated(effect: str, tolerations: list[Json], *, is_taken: bool, version: str) -> None:
    tainted = device("d", taints=[{"key": "k", "value": "v", "effect": effect}])
    claims = [claim(wants(tolerations=tolerations))]
    assert chosen(answer(claims, piece("s", tainted), version=version)) == ([["r=d"]] if is_taken else None)
    off = answer(claims, piece("s", tainted), version=version, without=["DRADeviceTaints"])
    assert chosen(off) == [["r=d"]]


@ALL
def test_pools_with_devices_to_be_made_ready_come_last(version: str) -> None:
    waiting = piece("s0", device("d0", bindingConditions=["ready"], bindingFailureConditions=["failed"]), pool="a")
    slices = (waiting, piece("s1", device("d1"), pool="b"))
    got = answer([claim(wants("r", 2))], *slices, version=version)
    assert chosen(got) == [["r=d1", "r=d0"]]
    assert got.results is not None
    assert got.results[0]["devices"]["results"][1]["bindingConditions"] == ["ready"]
    off = answer([claim(wants("r", 2))], *slices, version=version, without=["DRADeviceBindingConditions"])
    assert chosen(off) is None


# --- configuration ----------------------------------------------------------------------------------------------------


def test_configuration_of_classes_and_claims_names_its_requests() -> None:
    opaque = {"driver": DRIVER, "parameters": {"x": 1}}
    config = [{"requests": ["r0", "r1/s"], "opaque": opaque}, {"requests": ["r1/t"], "opaque": opaque}]
    claims = [claim(wants("r0"), first_of("r1", wants("s")), wants("r2"), config=config)]
    slices = piece("s", *(device(f"d{number}") for number in range(3)))

    def configured(version: str) -> list[Json]:
        got = answer(claims, slices, version=version, class_spec={"config": [{"opaque": opaque}]})
        assert got.results is not None
        return list(got.results[0]["devices"]["config"])

    of_claim = {"source": "FromClaim", "requests": ["r0", "r1/s"], "opaque": opaque}
    # For all requests: none is listed. In 1.36 they are, and what names two of them is there twice.
    assert configured("1.37") == [{"source": "FromClass", "opaque": opaque}, of_claim]
    assert configured("1.36") == [
        {"source": "FromClass", "requests": ["r0", "r1/s", "r2"], "opaque": opaque},
        of_claim,
        of_claim,
    ]
