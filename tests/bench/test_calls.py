"""What one more pod calls: whose calls are counted, that the count repeats, and that an added call is found."""

import asyncio
import inspect
import os
import subprocess
import sys
from cProfile import Profile
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import kscheduler
from kscheduler.bench.apart import count_apart, counting_process
from kscheduler.bench.attempt_clock import AttemptClock
from kscheduler.bench.call_counts import counted
from kscheduler.bench.calls import (
    DEFAULT_NODES,
    DEFAULT_PODS,
    CallsPerPod,
    as_difference,
    as_json,
    as_text,
    calls_per_pod,
    counted_calls,
    differences,
    from_json,
    with_fewer_pods,
)
from kscheduler.bench.catalogue import SCENARIOS
from kscheduler.bench.scenario import BenchmarkScenario
from kscheduler.bench.template import TemplateError
from kscheduler.scheduling.attempt.attempt import Scheduler

ROOT = Path(kscheduler.__file__).parent
NODES_20, PODS_100 = 20, 100


def of_file(file: str, text: str, **known: Any) -> dict[str, Any]:
    """The functions of `text` as if they stood in a file of kscheduler."""
    names: dict[str, Any] = dict(known)
    exec(compile(text, str(ROOT / file), "exec"), names)
    return names


def profiled(function: FunctionType, times: int = 1) -> dict[str, float]:
    profile = Profile()
    profile.enable()
    for _ in range(times):
        function()
    profile.disable()
    return counted(profile)


# --- whose calls they are ---------------------------------------------------------------------------------------------

KEY = of_file("api/objects.py", "def key(text): return text.upper()")
LISTER = of_file("scheduling/lister.py", "def listed(): return key('a')", key=KEY["key"])
STAND_IN = of_file("bench/player.py", "def play():\n listed()\n for _ in range(9): key('b')\n ''.join(())", **LISTER)


def test_calls_of_the_scheduler_count_whoever_makes_them_and_those_of_the_stand_in_never() -> None:
    found = profiled(STAND_IN["play"])
    assert found["scheduling/lister.py:listed"] == 1
    assert not [name for name in found if "bench/" in name]
    assert "builtin:str.join" not in found


def test_of_a_library_function_that_both_call_the_scheduler_s_calls_count_with_what_they_call() -> None:
    found = profiled(STAND_IN["play"], times=3)
    assert found["api/objects.py:key"] == pytest.approx(3)
    assert found["builtin:str.upper"] == pytest.approx(3)


def test_a_library_function_that_calls_itself_counts_each_time() -> None:
    deep = of_file("api/deep.py", "def deep(n):\n if n: deep(n - 1)")
    caller = of_file("scheduling/caller.py", "def call(): deep(5)", deep=deep["deep"])
    assert profiled(caller["call"])["api/deep.py:deep"] == pytest.approx(6)


def test_comprehensions_are_not_counted_and_what_they_call_is() -> None:
    """They are functions in Python 3.11 and none in 3.12."""
    made = of_file("scheduling/made.py", "def made(): return [key(text) for text in ('a', 'b')]", key=KEY["key"])
    found = profiled(made["made"])
    assert found["api/objects.py:key"] == 2
    assert not [name for name in found if "listcomp" in name]


def test_readings_of_the_virtual_clock_are_builtin_calls_as_in_the_service() -> None:
    clock = AttemptClock()
    reads = of_file("scheduling/reads.py", "def read(): clock.monotonic(), clock.time(), clock.time()", clock=clock)
    found = profiled(reads["read"])
    assert (found["builtin:time.monotonic"], found["builtin:time.time"]) == (1, 2)


# --- time -------------------------------------------------------------------------------------------------------------


async def test_time_passes_by_what_is_done_and_wakes_who_sleeps() -> None:
    clock = AttemptClock()
    sleeps = asyncio.create_task(clock.sleep(1.0))
    await asyncio.sleep(0)
    clock.passes(0.9)
    await asyncio.sleep(0)
    assert (clock.monotonic(), sleeps.done()) == (0.9, False)
    clock.passes(0.2)
    await sleeps
    assert clock.monotonic() == pytest.approx(1.1)


# --- a scenario's count -----------------------------------------------------------------------------------------------


def count_calls(scenario: BenchmarkScenario) -> CallsPerPod:
    """In this process."""
    smaller = with_fewer_pods(scenario)
    return calls_per_pod(smaller, counted_calls(smaller), scenario, counted_calls(scenario))


def small(name: str) -> BenchmarkScenario:
    return SCENARIOS[name].resized(NODES_20, PODS_100)


@pytest.mark.slow("plays scenarios in processes")
@pytest.mark.parametrize("name", ["PreemptionAsync", "StatefulSetsWithClaims"])
def test_a_count_repeats(name: str) -> None:
    (one,), (other,) = count_apart([small(name)]), count_apart([small(name)])
    assert one.python_calls_per_pod > one.builtin_calls_per_pod > 50
    assert differences(one.by_function, other.by_function, least=0.1) == {}


@pytest.mark.slow("starts processes")
def test_hashes_are_the_same_in_each_count_and_modules_are_this_process_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    with counting_process("hash", partial(hash, "text")) as hashed:
        found = hashed()
    code = [sys.executable, "-c", "print(hash('text'))"]
    asked = subprocess.run(code, env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True)
    assert str(found) == asked.stdout.strip()
    assert os.environ["PYTHONHASHSEED"] == "1"
    with counting_process("file", partial(inspect.getfile, Scheduler)) as file:
        assert file() == inspect.getfile(Scheduler)


def test_a_call_that_is_added_to_each_pod_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    count_calls(small("SchedulingBasic"))  # caches of the process are full afterwards
    before = count_calls(small("SchedulingBasic"))
    must_wait = Scheduler.must_wait
    added = of_file(
        "scheduling/added.py",
        "def added(): len(())\ndef must_wait(self, attempt):\n added()\n return before(self, attempt)",
        before=must_wait,
    )
    monkeypatch.setattr(Scheduler, "must_wait", added["must_wait"])
    now = count_calls(small("SchedulingBasic"))
    assert now.python_calls_per_pod - before.python_calls_per_pod == pytest.approx(2, abs=0.1)
    assert now.builtin_calls_per_pod - before.builtin_calls_per_pod == pytest.approx(1, abs=0.1)
    moved = differences(before.by_function, now.by_function, least=0.5)
    assert moved.keys() == {"scheduling/added.py:added", "scheduling/added.py:must_wait", "builtin:len"}
    text = as_difference(before, now)
    assert "+1.00  scheduling/added.py:added" in text
    assert "(+2.0" in text


def test_the_stand_in_is_not_in_the_count() -> None:
    found = count_calls(small("SchedulingBasic")).by_function
    assert not [name for name in found if name.startswith(("bench/", "in_memory/", "asyncio/"))]
    # The player decodes each pod from a template with a regular expression, and puts it into the store by its key.
    assert not [name for name in found if "re.Pattern" in name or "crc32" in name or "api/codec" in name]


def test_a_scenario_with_too_few_pods_says_so() -> None:
    with pytest.raises(TemplateError, match=r"PreemptionBasic: 20 measured pods are too few .* must have 50"):
        count_calls(SCENARIOS["PreemptionBasic"].resized(20, 100))


def test_every_scenario_has_two_sizes_to_compare() -> None:
    for scenario in SCENARIOS.values():
        sized = scenario.resized(DEFAULT_NODES, DEFAULT_PODS)
        assert with_fewer_pods(sized).pods <= sized.pods / 4, scenario.name


# --- text and JSON ----------------------------------------------------------------------------------------------------

BEFORE = CallsPerPod("Basic", 10, 100, 20, "3.11", "2.4", 30.0, 20.0, {"a.py:f": 20.0, "builtin:len": 20.0})
NOW = CallsPerPod("Basic", 10, 100, 20, "3.11", "2.4", 31.5, 19.0, {"a.py:f": 21.5, "builtin:len": 19.0})


def test_what_was_written_as_json_can_be_read() -> None:
    assert from_json(as_json([BEFORE]).encode()) == {"Basic": BEFORE}


def test_the_text_has_both_sums_and_the_functions() -> None:
    assert as_text(BEFORE).splitlines() == [
        "Basic: 10 nodes, 20 and 100 pods, Python 3.11",
        "    30.00  Python calls per pod",
        "    20.00  calls of builtin functions per pod",
        "      20.00  a.py:f",
        "      20.00  builtin:len",
    ]


def test_a_difference_names_what_is_called_more_and_less() -> None:
    assert as_difference(BEFORE, NOW).splitlines()[1:] == [
        "    31.50  Python calls per pod (+1.50)",
        "    19.00  calls of builtin functions per pod (-1.00)",
        "      +1.50  a.py:f",
        "      -1.00  builtin:len",
    ]
    assert "no function is called more or less" in as_difference(BEFORE, BEFORE)


def test_counts_of_another_python_are_not_compared() -> None:
    other = CallsPerPod("Basic", 10, 100, 20, "3.13", "2.4", 28.0, 20.0, {})
    assert "not comparable" in as_difference(other, NOW)
