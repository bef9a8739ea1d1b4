"""Every call of a plugin is in the runtime, and a plugin that fails costs its own pod something and nobody else."""

import ast
from functools import cache
from pathlib import Path

import pytest
import structlog

import kscheduler
from kscheduler.framework import plugin_contract
from kscheduler.framework.plugin import Point
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime import points
from kscheduler.scheduling.runtime.guard import FailureOutcome, PluginCall
from tests.builders import make_pod
from tests.scheduling.runtime.hostile_plugin import VICTIM, hostile
from tests.scheduling.runtime.plugin_cluster import PluginCluster

SOURCES = Path(kscheduler.__file__).parent
RUNTIME = "scheduling/runtime"
BELOW_THE_SERVICE = ("framework", "state", "scheduling", "scenario", "simulate", "shadow", "explain")
# What plugins are called for; `status`, an attribute of much else, is looked for by its argument.
METHODS = (plugin_contract._PARAMETERS.keys() | {"details"}) - {"status"}
# Calls of the same name on other things.
NO_PLUGINS = {
    "cache.add_pod": "a pod in the cache",
    "cache.remove_pod": "a pod in the cache",
    "view.add_pod": "the cache of a what-if",
    "self.add_pod": "the cache itself",
    "info.add_pod": "a node's pods",
    "info.remove_pod": "a node's pods",
    "nodes.add_pod": "a row's pods",
    "nodes.remove_pod": "a row's pods",
    "fork.add_pod": "a row's pods",
    "volumes.add_pod": "the volumes in use",
    "volumes.remove_pod": "the volumes in use",
    "policy.pre_enqueue": "the profile's plugins, guarded",
    "pods.bind": "the API server",
    "scheduler.bind": "an attempt, all of it",
    "self.pre_bind": "a step of the attempt",
    "signature.bind": "of a function, in `inspect`",
    "value.close": "a coroutine",
    "column.judge": "kept answers",
    "column.refresh": "kept answers",
    "group.refresh": "kept answers",
    "known.refresh": "kept answers",
    "extenders.bind": "HTTP extenders",
    "binder.bind": "an HTTP extender",
    "group_cycle.reserve": "all plugins of a profile, guarded",
    "group_cycle.unreserve": "all plugins of a profile, guarded",
    "storage.reserve": "a claim to devices, in the API server",
    "caller.close": "the connections to an HTTP extender",
    "extender_set.close": "the connections to HTTP extenders",
    "signature(function).bind": "of a function, in `inspect`",
}


@cache
def parsed(*folders: str) -> list[tuple[str, ast.AST]]:
    """Every call, attribute and handler in the source files of these folders, with the file."""
    paths = [path for folder in folders for path in sorted((SOURCES / folder).rglob("*.py"))]
    return [
        (str(path.relative_to(SOURCES)), node)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call | ast.Attribute | ast.ExceptHandler)
    ]


def receiver_of(call: ast.Attribute) -> str:
    """`cache.add_pod` for `self._around.cache.add_pod(...)`."""
    return f"{ast.unparse(call.value).rpartition('.')[2].lstrip('_')}.{call.attr}"


def test_nobody_but_the_runtime_calls_a_method_of_an_extension_point() -> None:
    found = set()
    for path, node in parsed(*BELOW_THE_SERVICE):
        if path.startswith(RUNTIME) or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        is_status_text = node.func.attr == "status" and bool(node.args)
        if (node.func.attr in METHODS or is_status_text) and receiver_of(node.func) not in NO_PLUGINS:
            found.add(f"{path}:{node.lineno}: {ast.unparse(node.func)}")
    assert found == set()


def test_every_method_of_the_contract_is_called_in_the_runtime() -> None:
    attributes = {node.attr for path, node in parsed(RUNTIME) if isinstance(node, ast.Attribute)}
    assert METHODS | {"status"} <= attributes


BROAD_HANDLERS = {
    "framework/cluster/device_amounts.py": "what an ended decision has left half counted is counted anew; raised again",
    "framework/per_node.py": "says which node a user's function was asked about, and raises to the runtime",
    "framework/plugin_results.py": "a value of a plugin's own class is shown in the text about it",
    "scheduling/attempt/attempt.py": "a bug of ours: what is reserved is given back, and it is raised again",
    "scheduling/work/workers.py": "one pod must never end a worker",
    "scheduling/eviction/evictions.py": "an eviction that fails ends none of the others",
    "scheduling/attempt/group_attempt.py": "a bug of ours ends the attempt with one group: its pods are tried again",
    "scheduling/groups/group_status_writer.py": "a bug about one group's condition ends the writing of no other's",
    "scheduling/claims/claim_commits.py": "a bug about one claim is that pod's failure, and what it took is given back",
    "scheduling/overcommit/incidents.py": "a bug about one node ends the look at none of the others",
    "scheduling/runtime/guard.py": "the three guards: in a cycle, anywhere else, around a coroutine",
    "scheduling/runtime/timing.py": "what is thrown into a coroutine is the coroutine's",
    "scheduling/drift/drift_check.py": "an event handler, at one object",
    "shadow/follower.py": "a change of one object costs a shadow one comparison",
    "scenario/listed_kinds.py": "a plugin that is told of an object: a note of the explanation says so",
    "scheduling/background/volume_counts.py": "what cannot be counted ahead is counted by the next query, which raises",
    "state/queue/heap.py": "an order that raises leaves the heap as it was, and it is raised again",
}


def test_nobody_but_the_runtime_catches_what_a_plugin_raises() -> None:
    broad = {
        path
        for path, node in parsed(*BELOW_THE_SERVICE)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or {"Exception", "BaseException"} & set(ast.unparse(node.type).strip("()").split(", ")))
    }
    assert broad == BROAD_HANDLERS.keys()


def test_what_a_plugin_is_is_looked_up_in_its_traits_alone() -> None:
    found = set()
    for path, node in parsed(*BELOW_THE_SERVICE):
        if path in {"framework/traits.py", "framework/plugin_contract.py"}:
            continue  # the latter looks at what may be no plugin at all
        looks_at_class = isinstance(node, ast.Attribute) and node.attr == "__mro__"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            queried = node.args[1] if node.func.id == "getattr" and len(node.args) > 1 else None
            name = queried.value if isinstance(queried, ast.Constant) else None
            looks_at_class |= node.func.id == "hasattr" or name in METHODS | set(PluginTraits.__struct_fields__)
        if looks_at_class:
            found.add(f"{path}:{node.lineno}")  # type: ignore[attr-defined]  # both kinds have a line
    assert found == set()


# --- the table --------------------------------------------------------------------------------------------------------

CALLS = {name: call for name, call in vars(points).items() if isinstance(call, PluginCall)}


def test_every_extension_point_has_a_row_and_every_fate_is_somebody_s() -> None:
    labels = {call.label for call in CALLS.values()}
    assert {point.label for point in Point} <= labels
    assert {call.outcome for call in CALLS.values()} == set(FailureOutcome)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_failure_is_worded_with_the_plugin_s_name_and_what_it_raised(call: PluginCall[object]) -> None:
    def raises(*_: object) -> None:
        raise LookupError("boom")

    with pytest.raises(Exception, match="boom") as caught:
        call.call("Mine", raises)
    assert isinstance(caught.value.__cause__, LookupError)
    if call.outcome is not FailureOutcome.SAID_INSTEAD:  # its text is part of a longer one
        assert "Mine" in str(caught.value)


# --- a plugin that fails, at each of the twelve extension points ------------------------------------------------------

# What it answers where nothing else is wrong; else an `object()`.
NONSENSE = {Point.POST_BIND: "coroutine"}
PLACED_BY_THE_OTHERS = (Point.PRE_SCORE, Point.SCORE)
BOUND_ALL_THE_SAME = (Point.QUEUE_SORT, Point.POST_BIND, *PLACED_BY_THE_OTHERS)
CASES = [(point, way) for point in Point for way in ("raises", NONSENSE.get(point, "garbage"))]


@pytest.mark.parametrize(("point", "way"), CASES, ids=[f"{point.key}-{way}" for point, way in CASES])
async def test_a_plugin_that_fails_fails_one_pod_by_name_and_stops_nothing(point: Point, way: str) -> None:
    cluster = PluginCluster(hostile(point.method, way), sorts=point is Point.QUEUE_SORT)
    requests = {"cpu": "100"} if point is Point.POST_FILTER else {"cpu": "100m"}
    with structlog.testing.capture_logs() as lines:
        async with cluster.at_work():
            cluster.add(make_pod("before"), make_pod(VICTIM, requests=requests), make_pod("after"))
            await cluster.settle()
            said = [*cluster.reported.notes, *cluster.recorded.notes]
            if point not in PLACED_BY_THE_OTHERS:
                assert any("Hostile" in text for text in said), "the pod is failed with the plugin's name"
            assert (cluster.place_of(VICTIM) == "bound") is (point in BOUND_ALL_THE_SAME)
            cluster.add(make_pod("later"))
            await cluster.settle()
            assert {cluster.place_of(name) for name in ("before", "after", "later")} == {"bound"}, "nothing else stops"
    failures = cluster.observations.plugin_failures["Hostile", point.label]
    assert failures >= 1, "the metric moves"
    assert {(one["plugin"], one["extension_point"]) for one in lines if one["event"] == "plugin_failed"} == {
        ("Hostile", point.label)
    }
