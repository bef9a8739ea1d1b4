"""NodeCost: the cheapest node that fits, from a price on the node or in the configuration."""

from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import Node
from kscheduler.config.errors import ConfigError
from kscheduler.plugins.policies.node_cost import parse_price
from kscheduler.testing import make_node, make_pod
from tests.effort import example_count
from tests.plugins.policies.worlds import PolicyWorld

KEY = "hightower.com/cost"
TYPE = "node.kubernetes.io/instance-type"


def priced(name: str, price: str, **fields: Any) -> Node:
    return make_node(name, annotations={KEY: price}, **fields)


def test_the_cheapest_node_that_fits_wins() -> None:
    nodes = [priced("full", "0.01", cpu="1"), priced("cheap", "0.05"), priced("dear", "0.50"), make_node("unknown")]
    world = PolicyWorld("NodeCost", *nodes)
    big = make_pod("web", requests={"cpu": "2"})
    assert world.points(big) == {"cheap": 100, "dear": 0, "unknown": 0}
    assert world.decide(big).node_name == "cheap"
    assert world.points(make_pod("small"))["full"] == 100


def test_only_the_cheapest_has_all_points_however_close_the_others_are() -> None:
    world = PolicyWorld("NodeCost", priced("a", "1.000001"), priced("b", "1"), priced("c", "1000000000"))
    assert world.points(make_pod("web")) == {"a": 98, "b": 100, "c": 0}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, {"annotated": 100, "labelled": 0, "named": 0, "typed": 0, "bare": 0}),
        (
            {"nodePrices": {"named": 3, "annotated": 9}, "labelPrices": [{"label": TYPE, "prices": {"m5": 5}}]},
            {"annotated": 100, "labelled": 74, "named": 49, "typed": 0, "bare": 0},
        ),
        ({"unpricedScore": 40}, {"annotated": 100, "labelled": 0, "named": 40, "typed": 40, "bare": 40}),
    ],
    ids=["own-prices", "price-table", "unpriced"],
)
def test_where_a_price_comes_from(args: dict[str, Any], expected: dict[str, int]) -> None:
    nodes = [
        make_node("annotated", annotations={KEY: "1"}, labels={KEY: "7"}),
        make_node("labelled", labels={KEY: "2"}),
        make_node("named", labels={TYPE: "m5"}),
        make_node("typed", labels={TYPE: "m5"}),
        make_node("bare", labels={TYPE: "x9"}),
    ]
    assert PolicyWorld("NodeCost", *nodes, args=args).points(make_pod("web")) == expected


def test_another_key() -> None:
    nodes = [make_node("a", labels={"acme/price": "2"}), make_node("b", labels={"acme/price": "1", KEY: "9"})]
    assert PolicyWorld("NodeCost", *nodes, args={"key": "acme/price"}).decide(make_pod("web")).node_name == "b"


def test_a_price_that_changes_on_one_node_asks_about_one_row() -> None:
    world = PolicyWorld("NodeCost", *(priced(f"n{number}", f"0.{5 + number}") for number in range(5)))
    assert world.decide(make_pod("one")).node_name == "n0"
    assert world.decide(make_pod("two")).node_name == "n0"
    assert world.queried == [["n0", "n1", "n2", "n3", "n4"]]
    world.cache.update_node(priced("n3", "0.1"))
    assert world.decide(make_pod("three")).node_name == "n3"
    assert world.queried[1:] == [["n3"]]


def test_pods_that_come_and_go_ask_about_no_row() -> None:
    world = PolicyWorld("NodeCost", priced("a", "1"), priced("b", "2"))
    for number in range(5):
        assert world.place(make_pod(f"p{number}")) == "a"
    world.cache.remove_pod("uid-of-default-p0")
    assert world.place(make_pod("last")) == "a"
    assert world.queried == [["a", "b"]]


def test_a_malformed_price_counts_as_none_and_is_warned_about_once() -> None:
    with structlog.testing.capture_logs() as lines:
        world = PolicyWorld("NodeCost", make_node("a", annotations={KEY: "0,5"}, labels={KEY: "0.2"}), priced("b", "1"))
        assert world.decide(make_pod("one")).node_name == "a", "the label still counts"
        world.engine.forget_all()
        world.decide(make_pod("two"))
        world.cache.update_node(priced("a", "free"))
        assert world.points(make_pod("three")) == {"a": 0, "b": 100}
        world.decide(make_pod("four"))
    assert [(line["event"], line["node"], line["value"]) for line in lines] == [
        ("node_price_malformed", "a", "0,5"),
        ("node_price_malformed", "a", "free"),
    ]


@pytest.mark.parametrize(
    ("text", "price"),
    [("0.096", 96_000), ("1", 1_000_000), ("0", 0), ("1000000000", 10**15), ("0.0000004", 0), ("00.5", 500_000)],
)
def test_prices(text: str, price: int) -> None:
    assert parse_price(text) == price


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "-1", "+1", "1,5", "1e3", "inf", "nan", "0x1", "$2", "1_0", "1000000001", "9" * 400, "٣"]
)
def test_what_is_no_price(text: str) -> None:
    assert parse_price(text) is None


@settings(max_examples=example_count(60))
@given(
    st.lists(
        st.none() | st.decimals(0, 10**9, places=6).map(str) | st.sampled_from(["", "1,5", "NaN", "0.3"]),
        min_size=2,
        max_size=8,
    ),
    st.integers(0, 100),
)
def test_points_equal_the_rule_node_by_node(prices: list[str | None], unpriced: int) -> None:
    nodes = [priced(f"n{i}", price) if price is not None else make_node(f"n{i}") for i, price in enumerate(prices)]
    known = [None if price is None else parse_price(price) for price in prices]
    given_ = [price for price in known if price is not None]
    expected = {}
    for number, price in enumerate(known):
        if price is None:
            points = unpriced
        elif price == min(given_):
            points = 100
        else:
            points = 99 * (max(given_) - price) // (max(given_) - min(given_))
        expected[f"n{number}"] = points
    assert PolicyWorld("NodeCost", *nodes, args={"unpricedScore": unpriced}).points(make_pod("web")) == expected


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"key": ""}, "args.key: Required value"),
        ({"key": "a b"}, 'args.key: Invalid value: "a b"'),
        ({"nodePrices": {"a": -1}}, "args.nodePrices[a]: Invalid value: -1"),
        ({"labelPrices": [{"label": "x"}]}, "args.labelPrices[0].prices: Required value"),
        ({"labelPrices": [{"prices": {"m5": 1}}]}, "args.labelPrices[0].label: Required value"),
        ({"labelPrices": [{"label": "x", "prices": {"m5": "1"}}]}, "args.labelPrices[0].prices.m5: expected a number"),
        ({"unpricedScore": 101}, "args.unpricedScore: Invalid value: 101"),
        ({"price": 1}, "args.price: unknown field"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(args: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PolicyWorld("NodeCost", make_node("a"), args=args)
    assert f"profiles[0].pluginConfig[0].{text}" in str(caught.value)
