"""Each scenario in a fresh process: its memory is its own, and no scenario warms caches for the next."""

import asyncio
import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final

from kscheduler import logs
from kscheduler.simulation.benchmarks.figures import Figures
from kscheduler.simulation.benchmarks.player import play
from kscheduler.simulation.benchmarks.scenario import Scenario
from kscheduler.simulation.benchmarks.template import ScenarioError

_QUIET: Final = 0


def play_apart(scenarios: Iterable[Scenario]) -> Iterator[Figures]:
    """The figures of each, one after the other. Raises `ScenarioError`, also where a process ends without a word."""
    for scenario in scenarios:
        fresh = multiprocessing.get_context("spawn")  # forked, it would begin with all that this process holds
        with ProcessPoolExecutor(1, mp_context=fresh) as executor:
            try:
                yield executor.submit(play_here, scenario).result()
            except BrokenProcessPool:
                raise ScenarioError(f"{scenario.name}: its process was killed; was there too little memory?") from None


def play_here(scenario: Scenario) -> Figures:
    """Play it in this process, which logs nothing below warnings."""
    logs.configure(verbosity=_QUIET)
    return asyncio.run(play(scenario))
