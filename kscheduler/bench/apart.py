"""Each scenario in a fresh process: its memory is its own, and no scenario warms caches for the next."""

import asyncio
import multiprocessing
import signal
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection

from kscheduler.bench.figures import Figures
from kscheduler.bench.player import play
from kscheduler.bench.scenario import BenchmarkScenario
from kscheduler.bench.template import TemplateError
from kscheduler.telemetry.logs import pipeline
from kscheduler.telemetry.logs.verbosity import WARNINGS


def play_apart(scenarios: Iterable[BenchmarkScenario], plugins: Sequence[str] = ()) -> Iterator[Figures]:
    """`plugins`: as of `--plugin`; they are loaded in each process.

    Yields the figures of each scenario. Raises `TemplateError`, also if a process dies without a result.
    """
    for scenario in scenarios:
        yield _in_a_process(scenario, plugins)


def _in_a_process(scenario: BenchmarkScenario, plugins: Sequence[str]) -> Figures:
    fresh = multiprocessing.get_context("spawn")  # a forked process would start with this process's memory
    receiver, sender = fresh.Pipe(duplex=False)
    process = fresh.Process(
        target=_play_and_send, args=(scenario, plugins, sender), name=f"bench {scenario.name}", daemon=True
    )
    process.start()
    sender.close()
    try:
        answer: Figures | TemplateError = receiver.recv()
    except EOFError:
        raise TemplateError(
            f"{scenario.name}: its process ended without a word; was there too little memory?"
        ) from None
    finally:
        process.kill()  # an interrupt of this process ends the child too
        process.join()
        receiver.close()
    if isinstance(answer, TemplateError):
        raise answer
    return answer


def _play_and_send(scenario: BenchmarkScenario, plugins: Sequence[str], sender: Connection) -> None:
    """The child's main function. Ignores interrupts from the terminal: the parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipeline.configure(verbosity=WARNINGS)
    try:
        sender.send(asyncio.run(play(scenario, plugins)))
    except TemplateError as error:
        sender.send(error)
