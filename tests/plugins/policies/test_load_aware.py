"""LoadAware: real usage by its age, requests where it is not known, and no herds."""

import json
from collections import Counter
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import Pod
from kscheduler.client.errors import NetworkError
from kscheduler.config.errors import ConfigError
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.plugin import RefreshError
from kscheduler.plugins.policies.measurements import Measurement, parsed_metrics, samples
from kscheduler.testing import make_node, make_pod
from tests.effort import example_count
from tests.plugins.policies.servers import MetricsServer, http_server, moment, vector
from tests.plugins.policies.worlds import PolicyWorld

GIB = 2**30


def querying(name: str, cpu: str = "1", memory: str = "1Gi") -> Pod:
    return make_pod(name, requests={"cpu": cpu, "memory": memory})


def running(name: str, node: str, started: float | None, cpu: str = "1", memory: str = "1Gi") -> Pod:
    """A pod on a node; the kubelet has seen it at `started`, or not yet."""
    pod = make_pod(name, requests={"cpu": cpu, "memory": memory}, node=node)
    status = msgspec.structs.replace(pod.status, start_time=None if started is None else moment(started))
    return msgspec.structs.replace(pod, status=status)


def world(server: MetricsServer, *nodes: Any, **args: Any) -> PolicyWorld:
    made = PolicyWorld(
        "LoadAware",
        *(nodes or (make_node("a"), make_node("b"))),
        client=cast("ClusterClient", server),
        args=args or None,
    )
    server.at = made.clock.time()
    return made


async def test_usage_counts_and_not_requests() -> None:
    server = MetricsServer({"a": ("3", "6Gi"), "b": ("200m", "1Gi")})
    cluster = world(server)
    now = server.at
    for number in range(3):
        cluster.cache.add_pod(running(f"idle-{number}", "b", now - 600))
    assert cluster.decide(querying("web")).node_name == "a", "by requests"
    await cluster.policy.refresh()
    # b: (4 - 1.2) / 4 = 70 of CPU, (8 - 2) / 8 = 75 of memory
    assert cluster.points(querying("web")) == {"a": (0 + 12) // 2, "b": (70 + 75) // 2}


@settings(max_examples=example_count(40))
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=6), st.integers(0, 4))
def test_without_measurements_the_points_are_those_of_least_allocated(pods: list[tuple[int, int]], cpu: int) -> None:
    nodes = [make_node("a"), make_node("b", cpu="7"), make_node("c", memory="3Gi")]
    policies = PolicyWorld("LoadAware", *nodes), PolicyWorld("NodeResourcesFit", *nodes)
    for number, (amount, where) in enumerate(pods):
        for each in policies:
            each.cache.add_pod(running(f"p{number}", "abc"[where % 3], None, str(amount)))
    ours, theirs = (each.decide(querying("web", str(cpu), "0")) for each in policies)
    assert (ours.totals.tolist(), ours.feasible_names()) == (theirs.totals.tolist(), theirs.feasible_names())


usages = st.tuples(st.integers(0, 5_000), st.integers(0, 9 * GIB))


@settings(max_examples=example_count(40), deadline=None)
@given(
    st.dictionaries(st.sampled_from("abc"), usages),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300) | st.none(), st.integers(0, 3)), max_size=6),
    st.integers(0, 400),
)
async def test_the_columns_equal_the_rule_node_by_node(
    measured: dict[str, tuple[int, int]], pods: list[tuple[str, int | None, int]], age: int
) -> None:
    server = MetricsServer({name: (f"{cpu}m", str(memory)) for name, (cpu, memory) in measured.items()})
    nodes = [make_node(name, cpu="32", memory="64Gi") for name in "abc"]
    cluster = world(server, *nodes)
    now = float(int(server.at))
    server.at = now - age
    for number, (node, since, cpu) in enumerate(pods):
        started = None if since is None else now - since
        cluster.cache.add_pod(running(f"p{number}", node, started, f"{cpu}001m", f"{cpu}001Mi"))
    await cluster.policy.refresh()
    age_now = cluster.clock.time() - server.at
    trust = 20 if age_now <= 60 else max(0, int(20 * (300 - age_now) / 240))
    points = {}
    for name in "abc":
        here = [(since, cpu) for node, since, cpu in pods if node == name]
        requested = [sum(f(cpu) for _, cpu in here) for f in (_milli, _bytes)]
        used = requested
        if name in measured and trust:
            shown_since = age + 15  # the measurement began so many seconds ago
            new = [cpu for since, cpu in here if since is None or since < shown_since]
            unseen = [sum(map(f, new)) for f in (_milli, _bytes)]
            estimate = [of + more for of, more in zip(measured[name], unseen, strict=True)]
            used = [(trust * e + (20 - trust) * r) // 20 for e, r in zip(estimate, requested, strict=True)]
        own = (1_000, GIB)
        left = [max(0, whole - u - o) for whole, u, o in zip((32_000, 64 * GIB), used, own, strict=True)]
        points[name] = (left[0] * 100 // 32_000 + left[1] * 100 // (64 * GIB)) // 2
    decided = cluster.points(querying("web"))
    assert decided == {name: points[name] for name in decided}


def _milli(cpu: int) -> int:
    return int(f"{cpu}001")


def _bytes(cpu: int) -> int:
    return int(f"{cpu}001") * 2**20


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{"name": "memory"}], {"a": 75, "b": 12}),
        (
            [{"name": "memory", "weight": 1}, {"name": "cpu", "weight": 3}],
            {"a": (75 + 3 * 0) // 4, "b": (12 + 3 * 50) // 4},
        ),
    ],
)
async def test_which_resources_count(resources: list[dict[str, Any]], expected: dict[str, int]) -> None:
    cluster = world(MetricsServer({"a": ("3", "1Gi"), "b": ("1", "6Gi")}), resources=resources)
    await cluster.policy.refresh()
    assert cluster.points(querying("web")) == expected


async def test_a_pod_without_requests_counts_with_what_scoring_presumes() -> None:
    server = MetricsServer({"a": ("1", "1Gi"), "b": ("1", "1Gi")})
    cluster = world(server)
    cluster.cache.add_pod(make_pod("bare", node="a"))
    await cluster.policy.refresh()
    points = cluster.points(make_pod("web"))
    assert points["a"] < points["b"]


async def test_an_idle_node_does_not_get_the_whole_herd() -> None:
    """The hand-made rule is the second number: all pods go to the node that was idle when it was measured."""
    names = [f"n{number}" for number in range(5)]
    server = MetricsServer(dict.fromkeys(names, ("1", "1Gi")) | {"n0": ("100m", "200Mi")})
    chosen = []
    for percent in (100, 0):
        cluster = world(server, *map(make_node, names), unseenPodsPercent=percent)
        await cluster.policy.refresh()
        chosen.append(Counter(cluster.place(querying(f"p{number}", "500m", "512Mi")) for number in range(8)))
    guarded, herd = chosen
    assert herd == {"n0": 8}
    assert len(guarded) == 5
    assert guarded["n0"] == max(guarded.values()) <= 4


async def test_a_pod_stops_counting_by_its_requests_once_a_whole_measurement_has_seen_it() -> None:
    server = MetricsServer({"a": ("1", "1Gi"), "b": ("1", "1Gi")}, window="30s")
    cluster = world(server)
    now = server.at
    cluster.cache.add_pod(running("new", "a", now))
    for later, expected in ((15, 43), (29, 43), (30, 62)):
        server.at = now + later
        # the measuring clock is ahead of ours, which is no reason for distrust
        await cluster.policy.refresh()
        assert cluster.points(querying("web", "1", "1Gi"))["a"] == expected, later


async def test_trust_wanes_with_age_and_ends_in_requests() -> None:
    server = MetricsServer({"a": ("4", "8Gi"), "b": ("0", "0")})
    cluster = world(server)
    seen = []
    for _ in range(8):
        with suppress(NetworkError):
            await cluster.policy.refresh()
        server.is_away = True
        points = cluster.points(querying("web"))
        seen.append((points["a"], points["b"]))
        cluster.clock._now += 45.0
    assert [a for a, _ in seen] == sorted(a for a, _ in seen)
    assert seen[0][0] == 0
    assert seen[-1] == (81, 81), "as with no measurement at all"
    assert len(set(seen)) > 4


async def test_an_outage_is_an_error_of_the_refresh_and_what_was_known_stays() -> None:
    server = MetricsServer({"a": ("4", "8Gi"), "b": ("0", "0")})
    cluster = world(server)
    await cluster.policy.refresh()
    server.is_away = True
    with pytest.raises(NetworkError):
        await cluster.policy.refresh()
    assert cluster.decide(querying("web")).node_name == "b"


async def test_usage_that_changes_on_one_node_asks_about_one_row() -> None:
    names = [f"n{number}" for number in range(6)]
    server = MetricsServer(dict.fromkeys(names, ("1", "1Gi")))
    cluster = world(server, *map(make_node, names))
    await cluster.policy.refresh()
    cluster.decide(querying("one"))
    cluster.decide(querying("two"))
    assert cluster.queried == [names]
    await cluster.policy.refresh()
    cluster.decide(querying("three"))
    assert cluster.queried == [names], "nothing has changed"
    server.usage["n3"] = ("100m", "1Gi")
    await cluster.policy.refresh()
    assert cluster.decide(querying("four")).node_name == "n3"
    assert cluster.queried[1:] == [["n3"]]


async def test_a_node_that_is_gone_or_was_never_measured_is_nothing_special() -> None:
    server = MetricsServer({"a": ("1", "1Gi"), "gone": ("1", "1Gi")})
    cluster = world(server)
    await cluster.policy.refresh()
    assert set(cluster.points(querying("web"))) == {"a", "b"}
    assert set(cluster.policy._loads) == set(cluster.policy._estimates) == {"a"}
    server.usage.clear()
    await cluster.policy.refresh()
    assert not cluster.policy._loads
    assert not cluster.policy._estimates


async def test_without_an_api_server_requests_are_all_that_is_known() -> None:
    cluster = PolicyWorld("LoadAware", make_node("a"), make_node("b"))
    with pytest.raises(RefreshError, match="no API server"):
        await cluster.policy.refresh()
    assert cluster.decide(querying("web")).node_name in ("a", "b")


async def test_what_metrics_server_says_is_read_item_by_item() -> None:
    good = {
        "metadata": {"name": "a"},
        "timestamp": "2026-11-23T04:00:20Z",
        "window": "20.5s",
        "usage": {"cpu": "123456789n", "memory": "1024Ki"},
    }
    bad: list[dict[str, Any]] = [
        {"usage": {"cpu": "1"}},
        {"timestamp": "now"},
        {"window": "20"},
        {"usage": {"cpu": "x", "memory": "1"}},
    ]
    items = [good, *({**good, "metadata": {"name": f"bad{i}"}, **wrong} for i, wrong in enumerate(bad))]
    found = await parsed_metrics(json.dumps({"items": items}).encode())
    assert found == {"a": Measurement(124, 2**20, 1795406399.5, 1795406420.0)}
    for body in (b"[]", b"{", b'{"items": [{}]}'):
        with pytest.raises(RefreshError):
            await parsed_metrics(body)
    assert await parsed_metrics(b"{}") == {}


PROMETHEUS = {"cpuQuery": "cpu", "memoryQuery": "memory", "window": "60s"}


async def test_prometheus_says_fractions_of_what_nodes_have() -> None:
    answers = {"cpu": {"a:9100": 0.25, "b:9100": 0.75, "x": 0.1}, "memory": {"a": 0.5, "b": 0.5, "c": 1}}

    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/prom/api/v1/query"
        return web.json_response(vector(answers[request.query["query"]], at=cluster.clock.time()))

    async with http_server(answer) as url:
        args = {"prometheus": {**PROMETHEUS, "url": f"{url}/prom"}}
        cluster = PolicyWorld("LoadAware", make_node("a"), make_node("b"), make_node("c"), args=args)
        await cluster.policy.refresh()
    points = cluster.points(make_pod("web", requests={"cpu": "0.001", "memory": "1"}))
    assert points["a"] == (74 + 49) // 2
    assert points["b"] == (24 + 49) // 2


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"status": "error", "error": "parse error"}, "Prometheus says: parse error"),
        ({"status": "success", "data": {"resultType": "matrix", "result": [{"values": []}]}}, "is a matrix"),
        ({"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}, "is a scalar"),
        (vector({}), "has no series"),
        (vector({"a": 1}, label="instance"), "none with a number and a label node"),
        (vector({"a": "NaN", "b": "+Inf"}), "none with a number"),
        (vector({"a:1": 1, "a:2": 2}), "two series have node=a"),
        ({"status": "success", "data": {"resultType": "vector", "result": 7}}, "no answer of Prometheus"),
        ([], "no answer of Prometheus"),
    ],
)
def test_what_is_no_number_per_node_is_reported(tree: Any, text: str) -> None:
    with pytest.raises(RefreshError, match=text):
        samples(json.dumps(tree).encode(), "node")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"prometheus": {}}, "prometheus.url: Required value"),
        ({"prometheus": {"url": "http://p:9090"}}, "prometheus.cpuQuery: Required value"),
        ({"prometheus": {**PROMETHEUS, "url": "ftp://p"}}, "prometheus.url: Invalid value"),
        ({"prometheus": {**PROMETHEUS, "url": "http://p:port"}}, "prometheus.url: Invalid value"),
        ({"prometheus": {**PROMETHEUS, "url": "http://me:secret@p"}}, "prometheus.url: Invalid value: credentials"),
        ({"prometheus": {**PROMETHEUS, "url": "http://169.254.169.254/"}}, "is link-local"),
        ({"prometheus": {**PROMETHEUS, "url": "http://p", "timeout": "1m"}}, "prometheus.timeout: Invalid value"),
        ({"prometheus": {**PROMETHEUS, "url": "http://p", "nodeLabel": ""}}, "prometheus.nodeLabel: Required"),
        ({"prometheus": {**PROMETHEUS, "url": "http://p", "window": "-1s"}}, "prometheus.window: Invalid"),
        ({"refreshInterval": "100ms"}, "refreshInterval: Invalid value"),
        ({"freshFor": "5m"}, "staleAfter: Invalid value"),
        ({"resources": [{"name": "example.com/gpu"}]}, "resources[0].name: Unsupported value"),
        ({"resources": [{"name": "cpu"}, {"name": "cpu"}]}, "resources[1].name: Duplicate value"),
        ({"unseenPodsPercent": -1}, "unseenPodsPercent: Invalid value"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(args: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PolicyWorld("LoadAware", make_node("a"), args=args)
    assert f"profiles[0].pluginConfig[0].args.{text}" in str(caught.value) or text in str(caught.value)
    assert "secret" not in str(caught.value)
