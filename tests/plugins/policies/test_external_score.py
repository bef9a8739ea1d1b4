"""ExternalScore: numbers of somebody else, fetched in the background, and what happens when they stay away."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.config.errors import ConfigError
from kscheduler.framework.plugin import RefreshError
from kscheduler.plugins.policies.external_score import parsed_numbers
from kscheduler.testing import make_node, make_pod
from tests.effort import example_count
from tests.plugins.policies.servers import http_server, vector
from tests.plugins.policies.worlds import PolicyWorld

NO_LISTENER = "http://127.0.0.1:1"


def world(*names: str, **args: Any) -> PolicyWorld:
    return PolicyWorld("ExternalScore", *map(make_node, names or "abc"), args={"url": NO_LISTENER, **args})


def report(cluster: PolicyWorld, numbers: Mapping[str, float]) -> None:
    """As after a good answer."""
    cluster.policy._fetched_at = cluster.clock.monotonic()
    cluster.policy._take_over(dict(numbers), fails=False)


async def test_json_of_any_http_server() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.path_qs == "/scores?team=a"
        return web.json_response({"data": {"scores": {"a": 1, "b": 3.5, "c": "none", "gone": 9}}})

    async with http_server(answer) as url:
        cluster = world(url=f"{url}/scores?team=a", path="data.scores", missingScore=7)
        await cluster.policy.refresh()
    assert cluster.points(make_pod("web")) == {"a": 0, "b": 100, "c": 7}


async def test_a_prometheus_query() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert (request.path, request.query["query"]) == ("/api/v1/query", "watts")
        return web.json_response(vector({"a:9100": 100, "b:9100": 300, "c:9100": 200}, label="instance"))

    async with http_server(answer) as url:
        cluster = world(url=url, query="watts", nodeLabel="instance", lowerIsBetter=True)
        await cluster.policy.refresh()
    assert cluster.points(make_pod("web")) == {"a": 100, "b": 0, "c": 49}


@pytest.mark.parametrize(
    ("sent", "reported"),
    [({}, "no number among 0 values"), ({"zzz": 1}, "names none of the 3 nodes; it names 'zzz', for example")],
)
async def test_a_source_that_knows_none_of_our_nodes_is_away(sent: dict[str, int], reported: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(sent)

    async with http_server(answer) as url:
        cluster = world(url=url, whenStale="Fail")
        with pytest.raises(RefreshError, match=reported):
            await cluster.policy.refresh()
    assert "3 node(s) had no current number" in cluster.decide(make_pod("web")).message


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a\xff": 1}'])
async def test_an_answer_that_cannot_be_read_is_an_outage(body: bytes) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    async with http_server(answer) as url:
        cluster = world(url=url, whenStale="Fail")
        with pytest.raises(RefreshError):
            await cluster.policy.refresh()
    assert "3 node(s) had no current number" in cluster.decide(make_pod("web")).message


def test_a_scale_beyond_float64_is_clipped() -> None:
    cluster = world("a", "b", worst=0.0, best=1e-320)
    report(cluster, {"a": 1e308, "b": -1.0})
    assert cluster.points(make_pod("web")) == {"a": 100, "b": 0}


def test_a_fixed_scale_knows_the_worst_and_the_best() -> None:
    cluster = world("a", "b", "c", "d", worst=300, best=100, missingScore=50)
    report(cluster, {"a": 50, "b": 150, "c": 1000})
    assert cluster.points(make_pod("web")) == {"a": 100, "b": 75, "c": 0, "d": 50}


@pytest.mark.parametrize(
    ("mode", "after", "later"),
    [
        ("Neutral", {"a": 30, "b": 30}, {"a": 30, "b": 30}),
        ("Keep", {"a": 100, "b": 0}, {"a": 100, "b": 0}),
        ("Fail", {}, {}),
    ],
)
async def test_stale_numbers(mode: str, after: dict[str, int], later: dict[str, int]) -> None:
    cluster = world("a", "b", whenStale=mode, missingScore=30, staleAfter="60s")
    report(cluster, {"a": 2, "b": 1})
    for seconds, expected in ((59.0, {"a": 100, "b": 0}), (1.0, after), (600.0, later)):
        cluster.clock._now += seconds
        with pytest.raises(RefreshError, match="127"):
            await cluster.policy.refresh()
        if expected:
            assert cluster.points(make_pod("web")) == expected
        else:
            message = cluster.decide(make_pod("web")).message
            assert "2 node(s) had no current number from the external source of their scores" in message
    report(cluster, {"a": 1, "b": 2})
    assert cluster.points(make_pod("web")) == {"a": 0, "b": 100}


@pytest.mark.parametrize(("mode", "fits"), [("Neutral", True), ("Keep", True), ("Fail", False)])
async def test_before_the_first_answer_nothing_is_known(mode: str, fits: bool) -> None:
    cluster = world(whenStale=mode)
    assert bool(cluster.decide(make_pod("web")).node_name) is fits
    with suppress(RefreshError):
        await cluster.policy.refresh()
    assert bool(cluster.decide(make_pod("web")).node_name) is fits
    cluster.cache.add_node(make_node("new"))
    assert bool(cluster.decide(make_pod("web")).node_name) is fits


def test_a_number_that_changes_on_one_node_asks_about_one_row() -> None:
    cluster = world("a", "b", "c")
    report(cluster, {"a": 1, "b": 2, "c": 3})
    cluster.decide(make_pod("one"))
    report(cluster, {"a": 1, "b": 2, "c": 3})
    assert cluster.place(make_pod("two")) == "c"
    assert cluster.queried == [["a", "b", "c"]]
    report(cluster, {"a": 1, "b": 9, "c": 3})
    assert cluster.decide(make_pod("three")).node_name == "b"
    report(cluster, {"a": 1, "c": 3, "unknown": 5})
    assert cluster.decide(make_pod("four")).node_name == "c"
    assert cluster.queried[1:] == [["b"], ["b"]]


numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5).map(float)


@settings(max_examples=example_count(100))
@given(st.dictionaries(st.sampled_from("abcde"), numbers), st.booleans())
def test_points_equal_the_rule_node_by_node(reported: dict[str, float], lower: bool) -> None:
    cluster = world(*"abcde", lowerIsBetter=lower, missingScore=11)
    report(cluster, reported)
    points = cluster.points(make_pod("web"))
    best = (min if lower else max)(reported.values(), default=0.0)
    for name in "abcde":
        if name not in reported:
            assert points[name] == 11
        elif reported[name] == best:
            assert points[name] == 100
        else:
            assert 0 <= points[name] <= 99
    ranked = sorted(reported, key=reported.__getitem__, reverse=not lower)
    assert [points[name] for name in ranked] == sorted((points[name] for name in ranked), reverse=True)


@pytest.mark.parametrize(
    ("tree", "path", "text"),
    [
        ({"a": {"b": 1}}, "a.c", "has no a.c"),
        ({"a": 1}, "a.b", "has no a.b"),
        ([1], "", "the answer is no object"),
        ({"data": [1]}, "data", "the answer's data is no object"),
        ({"a": True, "b": "1", "c": None}, "", "no number among 3 values"),
        ({"a": 10**400}, "", "no number among 1 values"),
    ],
)
def test_what_is_no_object_of_numbers_is_reported(tree: Any, path: str, text: str) -> None:
    with pytest.raises(RefreshError, match=text):
        parsed_numbers(json.dumps(tree).encode(), path)
    with pytest.raises(RefreshError, match="no JSON"):
        parsed_numbers(b"<html>", path)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"url": ""}, "url: Required value"),
        ({"query": "q", "path": "a"}, "path: Forbidden"),
        ({"query": "q", "nodeLabel": ""}, "nodeLabel: Required value"),
        ({"best": 1}, "worst: Required value"),
        ({"best": 1, "worst": 1}, "best: Invalid value"),
        ({"best": 1, "worst": 0, "lowerIsBetter": True}, "lowerIsBetter: Forbidden"),
        ({"missingScore": 200}, "missingScore: Invalid value"),
        ({"staleAfter": "10s"}, "staleAfter: Invalid value"),
        ({"whenStale": "Panic"}, "whenStale: Unsupported value"),
        ({"refreshInterval": "1h"}, "refreshInterval: Invalid value"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(args: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        world(**args)
    assert f"profiles[0].pluginConfig[0].args.{text}" in str(caught.value)
