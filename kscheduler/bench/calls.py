"""What one more pod calls: a measure of cost that neither the machine's speed nor its other work moves.

A scenario is played with a fifth of its measured pods and with all of them; the difference of the two counts, divided
by the difference of the pods, is what one more pod calls. What is done once per process, node or class falls out: each
of the two runs has a process of its own (`bench.apart`), so that caches are as empty for one as for the other. Counted
is from the creation of the first measured pod to the binding of the last, in virtual time (`bench.attempt_clock`) and
without garbage collections. `bench.call_counts` tells which calls are the scheduler's.

Limits: a call in numpy over 5,000 nodes counts as much as `len`. Python's minor versions and other releases of numpy
call differently, so counts are compared on the versions that they were taken with.
"""

import asyncio
import gc
import platform
from collections.abc import Iterable, Mapping, Sequence
from cProfile import Profile
from typing import Final

import msgspec
import numpy as np

from kscheduler.bench.call_counts import BUILTIN, counted
from kscheduler.bench.player import Player
from kscheduler.bench.scenario import BenchmarkScenario
from kscheduler.bench.template import TemplateError

DEFAULT_NODES: Final = 1000
DEFAULT_PODS: Final = 5000
_FEWER: Final = 5
"""Which part of the pods the smaller of the two runs has."""
_LEAST_PODS: Final = 50
_LEAST_CALLS: Final = 0.05
"""Fewer calls a pod are of no function's own line."""
_TOP: Final = 40


class CallsPerPod(msgspec.Struct, frozen=True):
    """What one more pod of a scenario calls."""

    scenario: str
    nodes: int
    pods: int
    """Measured pods of the larger run."""
    fewer_pods: int
    """Measured pods of the smaller run."""
    python: str
    """Python's minor version."""
    numpy: str
    python_calls_per_pod: float
    """Calls of functions written in Python."""
    builtin_calls_per_pod: float
    """Calls of functions written in C."""
    by_function: dict[str, float]
    """Calls by function, the most frequent first: `file:function`, or `builtin:function`."""


def with_fewer_pods(scenario: BenchmarkScenario) -> BenchmarkScenario:
    """The scenario to compare with. Raises `TemplateError` if there are too few pods to tell what one more calls."""
    if scenario.pods < _LEAST_PODS:
        raise TemplateError(
            f"{scenario.name}: {scenario.pods} measured pods are too few to count what one more calls; "
            f"with --nodes and --pods it must have {_LEAST_PODS} that have room"
        )
    return scenario.resized(pods=scenario.pods // _FEWER)


def counted_calls(scenario: BenchmarkScenario, plugins: Sequence[str] = ()) -> dict[str, float]:
    """The calls by function of a run in this process, which should be fresh: what is done once is in each run.

    `plugins`: as of `--plugin`. Raises `TemplateError` if a pod finds no node.
    """
    profile = Profile()
    collects = gc.isenabled()
    gc.disable()
    try:
        figures = asyncio.run(Player(scenario, plugins, profile=profile).play())
    finally:
        if collects:
            gc.enable()
    if not figures.is_complete:
        raise TemplateError(f"{scenario.name}: {figures.pods - figures.bound} of {figures.pods} pods found no node")
    return counted(profile)


def calls_per_pod(
    smaller: BenchmarkScenario, few: Mapping[str, float], larger: BenchmarkScenario, many: Mapping[str, float]
) -> CallsPerPod:
    """From the calls by function of the two runs."""
    more = larger.pods - smaller.pods
    by_function = {name: (many.get(name, 0.0) - few.get(name, 0.0)) / more for name in sorted({*few, *many})}
    builtin = sum(calls for name, calls in by_function.items() if name.startswith(BUILTIN))
    return CallsPerPod(
        scenario=larger.name,
        nodes=larger.nodes,
        pods=larger.pods,
        fewer_pods=smaller.pods,
        python=python_version(),
        numpy=".".join(np.__version__.split(".")[:2]),
        python_calls_per_pod=round(sum(by_function.values()) - builtin, 2),
        builtin_calls_per_pod=round(builtin, 2),
        by_function=at_least(_LEAST_CALLS, by_function),
    )


def python_version() -> str:
    """The minor version of this process's Python."""
    return ".".join(platform.python_version_tuple()[:2])


def at_least(least: float, by_function: Mapping[str, float]) -> dict[str, float]:
    """The functions with at least so many calls per pod, the most frequent first."""
    some = {name: round(calls, 2) for name, calls in by_function.items() if abs(calls) >= least}
    return dict(sorted(some.items(), key=lambda one: (-one[1], one[0])))


def differences(before: Mapping[str, float], now: Mapping[str, float], least: float) -> dict[str, float]:
    """By how many calls a pod each function has more or fewer, if at least `least`; the largest first."""
    moved = {name: round(now.get(name, 0.0) - before.get(name, 0.0), 2) for name in {*before, *now}}
    some = ((name, calls) for name, calls in moved.items() if abs(calls) >= least)
    return dict(sorted(some, key=lambda one: (-abs(one[1]), one[0])))


# --- as text and JSON -------------------------------------------------------------------------------------------------

COUNTED: Final = """\
Calls that one more pod costs: the scenario with all its pods less that with a fifth of them. Counted are calls of
functions from the creation of the first measured pod to the binding of the last: kscheduler's own, and those of
libraries and builtin functions as far as kscheduler calls them. Left out are the stand-in for API server, controllers
and kubelets with what only it calls, comprehensions, and constructors of types."""


def as_text(calls: CallsPerPod) -> str:
    """The two sums and the most frequent functions."""
    one = calls
    lines = [
        f"{one.scenario}: {one.nodes:,} nodes, {one.fewer_pods:,} and {one.pods:,} pods, Python {one.python}",
        _line(one.python_calls_per_pod, "Python calls per pod"),
        _line(one.builtin_calls_per_pod, "calls of builtin functions per pod"),
    ]
    lines += [f"  {_line(number, name)}" for name, number in list(one.by_function.items())[:_TOP]]
    if len(one.by_function) > _TOP:
        lines.append(f"  and {len(one.by_function) - _TOP} functions more: --json has all")
    return "\n".join(lines)


def as_difference(before: CallsPerPod, now: CallsPerPod) -> str:
    """What costs more and less than before."""
    lines = [f"{now.scenario}: {now.nodes:,} nodes, {now.fewer_pods:,} and {now.pods:,} pods, Python {now.python}"]
    if not is_comparable(before, now):
        return f"{as_text(now)}\nIt is not comparable with what was counted before{_conditions(before)}."
    for old, new, name in (
        (before.python_calls_per_pod, now.python_calls_per_pod, "Python calls per pod"),
        (before.builtin_calls_per_pod, now.builtin_calls_per_pod, "calls of builtin functions per pod"),
    ):
        lines.append(f"{_line(new, name)} ({new - old:+.2f})")
    moved = differences(before.by_function, now.by_function, _LEAST_CALLS * 2)
    lines += [f"  {calls:>+9.2f}  {name}" for name, calls in moved.items()] or ["  no function is called more or less"]
    return "\n".join(lines)


def is_comparable(before: CallsPerPod, now: CallsPerPod) -> bool:
    """Whether both are of the same scenario, size and versions."""
    return _compared(before) == _compared(now)


def _compared(one: CallsPerPod) -> tuple[object, ...]:
    return one.scenario, one.nodes, one.pods, one.fewer_pods, one.python


def _conditions(one: CallsPerPod) -> str:
    return f": {one.nodes:,} nodes, {one.fewer_pods:,} and {one.pods:,} pods, Python {one.python}"


def _line(calls: float, name: str) -> str:
    return f"{calls:>9.2f}  {name}"


def as_json(calls: Iterable[CallsPerPod]) -> str:
    """All results as a JSON array."""
    return msgspec.json.format(msgspec.json.encode(list(calls)), indent=2).decode()


def from_json(text: bytes) -> dict[str, CallsPerPod]:
    """What `as_json` has written, by scenario. Raises `msgspec.DecodeError`."""
    return {one.scenario: one for one in msgspec.json.decode(text, type=list[CallsPerPod])}
