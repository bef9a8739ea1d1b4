"""The protocol as JSON: what an extender reads, and how its answers are understood or refused."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.client.extenders import messages
from kscheduler.client.extenders.messages import (
    ExtenderResponseError,
    FilterResponse,
    VictimsOnNode,
    bind_request,
    nodes_request,
    preemption_request,
    read_bind_error,
    read_filter_response,
    read_scores,
    read_victims,
)

POD = msgspec.Raw(b'{"metadata":{"name":"p"}}')
DECODED_POD = {"metadata": {"name": "p"}}


def test_an_extender_that_knows_nodes_gets_names_and_another_gets_whole_nodes() -> None:
    names = msgspec.json.decode(nodes_request(POD, ["a", "b"]))
    assert names == {"Pod": DECODED_POD, "Nodes": None, "NodeNames": ["a", "b"]}
    whole = msgspec.json.decode(nodes_request(POD, ["a"], [msgspec.Raw(b'{"kind":"Node"}')]))
    assert whole == {"Pod": DECODED_POD, "Nodes": {"metadata": {}, "items": [{"kind": "Node"}]}, "NodeNames": None}


def test_victims_are_sent_by_uid_or_whole() -> None:
    victims = {"n": VictimsOnNode(("u1", "u2"), 1)}
    meta = msgspec.json.decode(preemption_request(POD, victims))
    assert meta == {
        "Pod": DECODED_POD,
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1}},
    }
    whole = msgspec.json.decode(preemption_request(POD, victims, lambda uid: msgspec.Raw(f'"{uid}!"'.encode())))
    assert whole["NodeNameToVictims"] == {"n": {"Pods": ["u1!", "u2!"], "NumPDBViolations": 1}}
    assert whole["NodeNameToMetaVictims"] is None


def test_a_binding_names_pod_and_node() -> None:
    sent = msgspec.json.decode(bind_request("space", "p", "u", "n"))
    assert sent == {"PodName": "p", "PodNamespace": "space", "PodUID": "u", "Node": "n"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"NodeNames":["a"]}', FilterResponse(node_names=("a",))),
        ('{"NodeNames":[]}', FilterResponse(node_names=())),
        ('{"nodenames":["a"],"nodes":null}', FilterResponse(node_names=("a",))),
        (
            '{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a","labels":{}}}]}}',
            FilterResponse(nodes=("a",)),
        ),
        ('{"Nodes":{"items":null}}', FilterResponse(nodes=())),
        (
            '{"nodeNames":[],"failedNodes":{"B":"no"},"FailedAndUnresolvableNodes":{"c":"never"}}',
            FilterResponse((), None, {"B": "no"}, {"c": "never"}),
        ),
        ('{"Error":"out of order","FailedNodes":null}', FilterResponse(error="out of order")),
        ("{}", FilterResponse()),
        ("null", FilterResponse()),
        ('{"more":[1,2,{}]}\n', FilterResponse()),
    ],
)
def test_a_filter_answer_is_read_whatever_the_case_of_its_names(body: str, expected: FilterResponse) -> None:
    assert read_filter_response(body.encode()) == expected


def test_points_and_victims_and_errors_are_read() -> None:
    assert read_scores(b'[{"Host":"a","Score":3},{"host":"b","score":-1},{"Host":"c"}]') == (
        ("a", 3),
        ("b", -1),
        ("c", 0),
    )
    assert read_scores(b"null") == ()
    answer = b'{"nodeNameToMetaVictims":{"n":{"pods":[{"uid":"u"}],"NumPDBViolations":2},"m":null,"l":{}}}'
    assert read_victims(answer) == {"n": VictimsOnNode(("u",), 2), "m": VictimsOnNode(()), "l": VictimsOnNode(())}
    assert read_victims(b"{}") == {}
    assert read_bind_error(b'{"error":"full"}') == "full"
    assert read_bind_error(b"{}") == ""


@pytest.mark.parametrize(
    ("read", "body", "words"),
    [
        (read_filter_response, "", "the answer is empty"),
        (read_filter_response, "<html>", "the answer is not JSON"),
        (read_filter_response, '{"NodeNames":["a"', "the answer is not JSON"),
        (read_filter_response, "[" * 100_000, "the answer is not JSON"),
        (read_filter_response, "[]", "the answer is no object"),
        (read_filter_response, '{"NodeNames":"a"}', "NodeNames: Expected `array`"),
        (read_filter_response, '{"NodeNames":[1]}', "NodeNames: Expected `str`"),
        (read_filter_response, '{"Nodes":[]}', "Nodes is no object"),
        (read_filter_response, '{"Nodes":{"items":[{"metadata":7}]}}', "Nodes.items[0].metadata is no object"),
        (read_filter_response, '{"FailedNodes":{"a":1}}', "FailedNodes: Expected `str`"),
        (read_scores, "{}", "the answer: Expected `array`"),
        (read_scores, '[{"Host":"a","Score":1.5}]', "[0].Score: Expected `int`"),
        (read_scores, '[{"Host":"a","Score":99999999999999999999}]', "[0].Score"),
        (read_victims, '{"NodeNameToMetaVictims":[]}', "NodeNameToMetaVictims is no object"),
        (read_victims, '{"NodeNameToMetaVictims":{"n":{"Pods":[5]}}}', "NodeNameToMetaVictims[n].Pods[0] is no object"),
        (read_bind_error, '{"Error":[]}', "Error: Expected `str`"),
    ],
)
def test_what_is_no_answer_is_reported(read: Callable[[bytes], Any], body: str, words: str) -> None:
    with pytest.raises(ExtenderResponseError) as reported:
        read(body.encode())
    assert words in str(reported.value)


TEXTS = st.text(max_size=5)
NAMED = st.one_of(st.none(), st.dictionaries(TEXTS, TEXTS, max_size=3))
ITEMS = st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"name": TEXTS})})
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "NodeNames": st.one_of(st.none(), st.lists(TEXTS, max_size=3)),
        "Nodes": st.one_of(st.none(), st.fixed_dictionaries({"items": st.lists(ITEMS, max_size=3)})),
        "FailedNodes": NAMED,
        "FailedAndUnresolvableNodes": NAMED,
        "Error": TEXTS,
    },
)


@given(FILTERS)
def test_a_filter_answer_as_go_writes_it_means_the_same_member_by_member(answer: dict[str, Any]) -> None:
    body = msgspec.json.encode(answer)
    assert read_filter_response(body) == messages._any_filter_answer(body)


@given(st.lists(st.fixed_dictionaries({"Host": TEXTS, "Score": st.integers(-(2**63), 2**63 - 1)}), max_size=4))
def test_host_priorities_writes_them_mean_the_same_member_by_member(answer: list[dict[str, Any]]) -> None:
    for written in (answer, [{key.lower(): value for key, value in each.items()} for each in answer]):
        body = msgspec.json.encode(written)
        assert read_scores(body) == messages._any_scores(body)
