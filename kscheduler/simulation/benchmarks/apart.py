"""Each scenario in a fresh process: its memory is its own, and no scenario warms caches for the next."""

import asyncio
import multiprocessing
import signal
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Final

from kscheduler import logs
from kscheduler.simulation.benchmarks.figures import Figures
from kscheduler.simulation.benchmarks.player import play
from kscheduler.simulation.benchmarks.scenario import BenchmarkScenario
from kscheduler.simulation.benchmarks.template import TemplateError

_ONLY_WARNINGS: Final = logs.WARNINGS


def play_apart(scenarios: Iterable[BenchmarkScenario]) -> Iterator[Figures]:
    """The figures of each, one after the other. Raises `TemplateError`, also where a process ends without a word."""
    for scenario in scenarios:
        yield _in_a_process(scenario)


def _in_a_process(scenario: BenchmarkScenario) -> Figures:
    fresh = multiprocessing.get_context("spawn")  # forked, it would begin with all that this process holds
    receiver, sender = fresh.Pipe(duplex=False)
    process = fresh.Process(target=_play_and_send, args=(scenario, sender), name=f"bench {scenario.name}", daemon=True)
    process.start()
    sender.close()
    try:
        answer: Figures | TemplateError = receiver.recv()
    except EOFError:
        raise TemplateError(
            f"{scenario.name}: its process ended without a word; was there too little memory?"
        ) from None
    finally:
        process.kill()  # whoever interrupts this process ends that one too
        process.join()
        receiver.close()
    if isinstance(answer, TemplateError):
        raise answer
    return answer


def _play_and_send(scenario: BenchmarkScenario, sender: Connection) -> None:
    """What the process does. An interrupt from the terminal is for its parent, which ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logs.configure(verbosity=_ONLY_WARNINGS)
    try:
        sender.send(asyncio.run(play(scenario)))
    except TemplateError as error:
        sender.send(error)
