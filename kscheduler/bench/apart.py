"""Each scenario in a fresh process: its memory is its own, and no scenario warms caches for the next."""

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import TypeVar

from kscheduler.bench.calls import CallsPerPod, calls_per_pod, counted_calls, with_fewer_pods
from kscheduler.bench.figures import Figures
from kscheduler.bench.player import play
from kscheduler.bench.scenario import BenchmarkScenario
from kscheduler.bench.template import TemplateError
from kscheduler.telemetry.logs import pipeline
from kscheduler.telemetry.logs.verbosity import WARNINGS

T = TypeVar("T")


def play_apart(scenarios: Iterable[BenchmarkScenario], plugins: Sequence[str] = ()) -> Iterator[Figures]:
    """`plugins`: as of `--plugin`; they are loaded in each process.

    Yields the figures of each scenario. Raises `TemplateError`, also if a process dies without a result.
    """
    fresh = multiprocessing.get_context("spawn")  # a forked process would start with this process's memory
    for scenario in scenarios:
        with _process(fresh, scenario.name, partial(_played, scenario, plugins)) as played:
            figures = played()
        yield figures


def count_apart(scenarios: Iterable[BenchmarkScenario], plugins: Sequence[str] = ()) -> Iterator[CallsPerPod]:
    """As `play_apart`: the calls of each scenario."""
    for scenario in scenarios:
        smaller = with_fewer_pods(scenario)
        with (
            counting_process(scenario.name, partial(counted_calls, smaller, plugins)) as few,
            counting_process(scenario.name, partial(counted_calls, scenario, plugins)) as many,
        ):
            counted = calls_per_pod(smaller, few(), scenario, many())
        yield counted


@contextmanager
def counting_process(name: str, work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """A process in which sets have the same order each time; the function waits for its result.

    It is a fork of one that has imported this module, and in which nothing else has happened: that costs a tenth of a
    new interpreter's start. Raises `TemplateError`.
    """
    imported = multiprocessing.get_context("forkserver")
    imported.set_forkserver_preload([__name__])
    with _environment(_equal_everywhere()), _process(imported, name, work) as result:
        yield result


def _played(scenario: BenchmarkScenario, plugins: Sequence[str]) -> Figures:
    return asyncio.run(play(scenario, plugins))


def _equal_everywhere() -> dict[str, str]:
    """The environment in which sets have one order, and modules come from where this process has them."""
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
    return {"PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1", "PYTHONPATH": path}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """For processes that start meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextmanager
def _process(start: ForkServerContext | SpawnContext, name: str, work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """A process that does the work; the function waits for its result. Raises `TemplateError`."""
    receiver, sender = start.Pipe(duplex=False)
    process = start.Process(target=_work_and_send, args=(work, sender), name=f"bench {name}", daemon=True)
    process.start()
    sender.close()

    def result() -> T:
        try:
            answer: T | TemplateError = receiver.recv()
        except EOFError:
            raise TemplateError(f"{name}: its process ended without a word; was there too little memory?") from None
        if isinstance(answer, TemplateError):
            raise answer
        return answer

    try:
        yield result
    finally:
        process.kill()  # an interrupt of this process ends the child too
        process.join()
        receiver.close()


def _work_and_send(work: Callable[[], object], sender: Connection) -> None:
    """The child's main function. Ignores interrupts from the terminal: the parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipeline.configure(verbosity=WARNINGS)
    try:
        sender.send(work())
    except TemplateError as error:
        sender.send(error)
