"""Selectors: what each operator says of a present, a missing and an unparsable label."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import LabelSelector, NodeSelectorTerm
from kscheduler.api.selectors import (
    EVERYTHING,
    NOTHING,
    is_label_key,
    is_label_value,
    parse_int64,
    parse_label_selector,
    parse_node_selector_map,
    parse_node_term,
)


def label_selector(**tree: Any) -> LabelSelector:
    """A selector from its fields in the API's spelling."""
    return convert(tree, LabelSelector)


def expression(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    """One requirement as JSON."""
    return {"key": key, "operator": operator, "values": list(values)}


def node_term(*expressions: dict[str, Any], fields: tuple[dict[str, Any], ...] = ()) -> NodeSelectorTerm:
    """A node selector term."""
    return convert({"matchExpressions": list(expressions), "matchFields": list(fields)}, NodeSelectorTerm)


@pytest.mark.parametrize(
    ("operator", "values", "of_a", "of_other", "of_empty", "of_missing"),
    [
        ("In", ("a", "b"), True, False, False, False),
        ("In", ("",), False, False, True, False),
        ("NotIn", ("a", "b"), False, True, True, True),
        ("NotIn", ("",), True, True, False, True),
        ("Exists", (), True, True, True, False),
        ("DoesNotExist", (), False, False, False, True),
    ],
)
def test_operators_of_label_and_node_selectors(
    operator: str, values: tuple[str, ...], of_a: bool, of_other: bool, of_empty: bool, of_missing: bool
) -> None:
    """A missing label satisfies NotIn and DoesNotExist, and nothing else."""
    one = expression(operator, *values)
    selector = parse_label_selector(label_selector(matchExpressions=[one]))
    term = parse_node_term(node_term(one))
    for labels, wanted in (
        ({"zone": "a"}, of_a),
        ({"zone": "c"}, of_other),
        ({"zone": ""}, of_empty),
        ({"other": "a"}, of_missing),
    ):
        assert selector.matches(labels) is wanted
        assert term.matches(labels, "node") is wanted


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("In", ()),
        ("NotIn", ()),
        ("Exists", ("a",)),
        ("DoesNotExist", ("a",)),
        ("in", ("a",)),
        ("", ("a",)),
        ("Equals", ("a",)),
        ("Gt", ("1",)),
        ("Lt", ("1",)),
        ("NotIn", ("b c",)),
        ("NotIn", ("b", "_c")),
    ],
)
def test_a_label_selector_that_the_api_would_refuse_selects_nothing(operator: str, values: tuple[str, ...]) -> None:
    selector = parse_label_selector(label_selector(matchExpressions=[expression(operator, *values)]))
    assert selector == NOTHING
    assert not selector.matches({"zone": "a"})
    assert not selector.matches({})


@pytest.mark.parametrize("labels", [{"zone": "a b"}, {"zone ": "a"}], ids=["value", "key"])
def test_a_label_selector_for_labels_that_cannot_be_selects_nothing(labels: dict[str, str]) -> None:
    assert parse_label_selector(label_selector(matchLabels=labels)) == NOTHING


@pytest.mark.parametrize(
    ("text", "is_key", "is_value"),
    [
        ("", False, True),
        ("a", True, True),
        ("A-b_c.9", True, True),
        ("9", True, True),
        ("-a", False, False),
        ("a.", False, False),
        ("_", False, False),
        ("a b", False, False),
        ("a\n", False, False),
        ("é", False, False),
        ("a" * 63, True, True),
        ("a" * 64, False, False),
        ("example.com/a", True, False),
        ("example.com/" + "a" * 63, True, False),
        ("a" * 253 + "/a", True, False),
        ("a" * 254 + "/a", False, False),
        ("/a", False, False),
        ("a/", False, False),
        ("a/b/c", False, False),
        ("Example.com/a", False, False),
        ("example..com/a", False, False),
        ("-example/a", False, False),
    ],
    ids=lambda value: repr(value[:16]) if isinstance(value, str) else "",
)
def test_keys_and_values_of_labels(text: str, is_key: bool, is_value: bool) -> None:
    assert (is_label_key(text), is_label_value(text)) == (is_key, is_value)


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert parse_label_selector(None) == NOTHING
    assert parse_label_selector(LabelSelector()) == EVERYTHING
    assert EVERYTHING.matches({})
    assert not NOTHING.matches({})


def test_all_parts_of_a_label_selector_must_hold() -> None:
    selector = parse_label_selector(
        label_selector(matchLabels={"app": "web"}, matchExpressions=[expression("NotIn", "a")])
    )
    assert selector.matches({"app": "web", "zone": "b"})
    assert not selector.matches({"app": "web", "zone": "a"})
    assert not selector.matches({"app": "db", "zone": "b"})


def test_selectors_that_say_the_same_are_equal_whatever_their_order() -> None:
    """Counters and classes are kept per selector: two spellings of one must be one."""
    one, other = expression("In", "a", "b"), expression("Exists", key="app")
    turned = expression("In", "b", "a")
    first = parse_label_selector(label_selector(matchLabels={"x": "1", "y": "2"}, matchExpressions=[one, other]))
    second = parse_label_selector(label_selector(matchLabels={"y": "2", "x": "1"}, matchExpressions=[other, turned]))
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize(
    ("operator", "bound", "label", "matches"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Gt", "5", "+6", True),
        ("Gt", "5", "006", True),
        ("Lt", "5", "-1", True),
        ("Gt", "5", "6.0", False),
        ("Gt", "5", "six", False),
        ("Lt", "5", "", False),
        ("Lt", "5", None, False),
        ("Gt", "5", None, False),
        ("Gt", "5", "9223372036854775807", True),
        ("Gt", "5", "9223372036854775808", False),
        ("Lt", "5", "1_0", False),
        ("Lt", "5", " 1", False),
        ("Lt", "5", "٣", False),
    ],
)
def test_gt_and_lt_compare_int64_and_nothing_else(operator: str, bound: str, label: str | None, matches: bool) -> None:
    term = parse_node_term(node_term(expression(operator, bound)))
    assert term.matches({} if label is None else {"zone": label}, "node") is matches


@pytest.mark.parametrize(
    "broken",
    [
        expression("Gt"),
        expression("Gt", "1", "2"),
        expression("Lt", "x"),
        expression("Lt", "9223372036854775808"),
        expression("In"),
        expression("Exists", "a"),
        expression("Unheard"),
        expression("In", "a", "b c"),
        expression("NotIn", "-a"),
        expression("NotIn", "a" * 64),
        expression("In", "a\n"),
        expression("Gt", "-1"),
        expression("Lt", "+1"),
        expression("Gt", " 1"),
        expression("Exists", key="a b"),
        expression("DoesNotExist", key=""),
        expression("NotIn", "a", key="Example.com/x"),
    ],
    ids=str,
)
def test_one_unparsable_requirement_makes_its_term_match_nothing(broken: dict[str, Any]) -> None:
    term = parse_node_term(node_term(expression("DoesNotExist", key="absent"), broken))
    assert term.nothing
    assert not term.matches({"zone": "1"}, "node")


def test_an_empty_term_matches_no_node() -> None:
    assert not parse_node_term(NodeSelectorTerm()).matches({"zone": "a"}, "node")


@pytest.mark.parametrize(
    ("one", "on_a", "on_b"),
    [
        (expression("In", "a", key="metadata.name"), True, False),
        (expression("NotIn", "a", key="metadata.name"), False, True),
        (expression("In", "a", "b", key="metadata.name"), False, False),
        (expression("In", key="metadata.name"), False, False),
        (expression("Exists", key="metadata.name"), False, False),
        (expression("Gt", "1", key="metadata.name"), False, False),
        (expression("In", "a", key="metadata.uid"), False, False),
    ],
    ids=str,
)
def test_fields_know_the_name_with_one_value_only(one: dict[str, Any], on_a: bool, on_b: bool) -> None:
    term = parse_node_term(node_term(fields=(one,)))
    assert (term.matches({}, "a"), term.matches({}, "b")) == (on_a, on_b)


def test_a_node_selector_map_asks_for_each_value() -> None:
    term = parse_node_selector_map({"disk": "ssd", "zone": ""})
    assert term.matches({"disk": "ssd", "zone": ""}, "node")
    assert not term.matches({"disk": "ssd"}, "node")
    assert not term.matches({"disk": "hdd", "zone": ""}, "node")


def test_a_node_selector_map_is_not_validated() -> None:
    """As upstream: a value that no label can have finds no node, and says no more than that."""
    assert parse_node_selector_map({"disk": "an ssd"}).matches({"disk": "an ssd"}, "node")
    assert not parse_node_selector_map({"disk": "an ssd"}).matches({"disk": "ssd"}, "node")


@given(st.text(alphabet="0123456789+-_. e٣", max_size=24))
def test_parse_int64_reads_what_go_reads(text: str) -> None:
    """A sign and ASCII digits within int64; Python's int() takes underscores, blanks and foreign digits besides."""
    body = text[1:] if text[:1] in {"+", "-"} else text
    plain = bool(body) and body.isascii() and body.isdigit()
    wanted = int(text) if plain and -(2**63) <= int(text) < 2**63 else None
    assert parse_int64(text) == wanted


operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Odd", ""])
words = st.sampled_from(["", "a", "b", "5", "-5", "x"])


@given(st.lists(st.tuples(operators, st.lists(words, max_size=3)), max_size=3), st.none() | words)
def test_parsing_and_matching_never_raise(parts: list[tuple[str, list[str]]], label: str | None) -> None:
    expressions = [expression(operator, *values) for operator, values in parts]
    labels = {} if label is None else {"zone": label}
    selected = parse_label_selector(label_selector(matchExpressions=expressions)).matches(labels)
    matched = parse_node_term(node_term(*expressions)).matches(labels, "node")
    if expressions and not any(operator in {"Gt", "Lt"} for operator, _ in parts):
        assert selected is matched
