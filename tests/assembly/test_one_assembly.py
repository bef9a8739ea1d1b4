"""Cache, queue, profiles and scheduler are joined in one place: all other code uses the assembly with its own ports.

The sources are searched for calls that make a part of it. Any other place that makes one is in a short list, with the
reason: tests of one part by itself.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASSEMBLY = "kscheduler/assembly"

# What the assembly makes, by the name that is called.
PARTS = frozenset(
    (
        "AsyncEvictions",
        "AttemptContext",
        "ClaimCommits",
        "ClaimCommitsAtOnce",
        "FailureHandler",
        "KnownInfeasible",
        "NodeHandler",
        "PluginReports",
        "PodHandler",
        "Reporter",
        "Scheduler",
        "SchedulingQueue",
        "Signatures",
        "handlers_of",
        "Victims",
        "build_profiles",
        "queue_policy",
    )
)

EXCEPTIONS = {
    "tests/service/log/test_logs_page.py": (("PluginReports",), "writes every line that the page names"),
    "tests/state/queue/test_costly_pods.py": (("SchedulingQueue",), "judges the queue alone"),
    "tests/scheduling/eviction/stage.py": (
        ("AsyncEvictions", "Reporter", "Victims"),
        "evictions alone: who counts on which node is in the test's hands",
    ),
    "tests/scheduling/claims/stage.py": (
        ("ClaimCommits", "Reporter"),
        "writing claims alone: answers and the watch are in the test's hands",
    ),
    "tests/scheduling/cycle/test_extenders.py": (("Signatures",), "whether a profile signs pods"),
    "tests/scheduling/failures/test_infeasible.py": (("KnownInfeasible",), "what is kept and forgotten, by itself"),
    "tests/scheduling/test_plugin_contract.py": (("queue_policy",), "what it refuses"),
    "tests/scheduling/test_profiles.py": (("queue_policy",), "what it makes of profiles"),
    "tests/scheduling/classes/test_signatures.py": (("Signatures",), "which pods are alike, by itself"),
    "tests/scheduling/test_incomplete_waits.py": (("SchedulingQueue",), "groups that are not whole, by themselves"),
    "tests/scheduling/test_observers.py": (("Reporter",), "who hears which event"),
    "tests/scheduling/runtime/test_slow_plugins.py": (("PluginReports",), "what is written, by itself"),
    "tests/state/queue/test_queue_against_model.py": (("SchedulingQueue",), "the queue against a naive model"),
    "tests/state/queue/test_groups_against_model.py": (("SchedulingQueue",), "pod groups against a naive model"),
    "tests/state/queue/test_trees_against_model.py": (("SchedulingQueue",), "pod groups against a naive model"),
    "tests/state/queue/test_queue_cases.py": (("SchedulingQueue",), "the queue by itself"),
    "tests/state/queue/test_queue_of_classes.py": (("SchedulingQueue",), "the queue by itself"),
    "tests/state/queue/test_sort_order.py": (("SchedulingQueue",), "the queue with a sort key that fails"),
    "tests/state/queue/test_object_gates.py": (("SchedulingQueue",), "two queues that must agree"),
    "tests/state/queue/test_standing_gates.py": (("SchedulingQueue",), "two queues that must agree"),
}

# Where plugins get their Handle from the assembly alone; a plugin's own test may make one of what the plugin reads.
IN_MEMORY_ONLY = "kscheduler", "benchmarks"


def calls_in(source: str, names: frozenset[str]) -> Iterator[str]:
    """Which of these, imported from the package, a source calls."""
    if not any(name in source for name in names):
        return  # as in most files: parsing all takes ten seconds
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kscheduler.")
        for alias in node.names
        if alias.name in names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in imported:
                yield imported[name]


def makers(names: frozenset[str], *folders: str) -> dict[str, set[str]]:
    """By file outside of the assembly, what it makes."""
    found = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            where = path.relative_to(ROOT).as_posix()
            made = set(calls_in(path.read_text(), names))
            if made and not where.startswith(ASSEMBLY):
                found[where] = made
    return found


def test_nobody_else_makes_a_part() -> None:
    found = makers(PARTS, "kscheduler", "benchmarks", "tests")
    assert found == {where: set(names) for where, (names, _) in EXCEPTIONS.items()}


def test_the_assembly_makes_every_part() -> None:
    made = {name for path in (ROOT / ASSEMBLY).glob("*.py") for name in calls_in(path.read_text(), PARTS)}
    assert made == PARTS


def test_a_handle_is_made_by_the_assembly_alone() -> None:
    assert makers(frozenset(("Handle",)), *IN_MEMORY_ONLY) == {}


@pytest.mark.parametrize(
    "source",
    [
        "from kscheduler.state.queue.scheduling_queue import SchedulingQueue\nSchedulingQueue(1)",
        "from kscheduler.state.queue.scheduling_queue import SchedulingQueue as Queue\nx = [Queue(1)]",
    ],
)
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    assert list(calls_in(source, PARTS)) == ["SchedulingQueue"]
