"""A plugin of one profile misbehaves: what the pods of another profile notice before, during and after its quarantine.

    python -m benchmarks.bad_plugins [--seconds 4] [--rate 500] [--nodes 500] [--on-failure Fail] [--rounds 7]

In process, with the real queue, cache, cycle, workers and quarantine; the API server is a function that takes 2 ms.
Pods of two profiles arrive evenly, four of `theirs` (in-tree plugins) for one of `mine` (these, and a score plugin),
those of `mine` in three namespaces in turn:

    before    the plugin is sound
    during    it misbehaves, until it has answered nobody for three pods of two namespaces or more
    after     it is called no more, but for a trial now and then; its profile's pods arrive as before, and fail as the
              policy says

The figures are of `theirs` alone: from `on_add` to the sent Binding. The columns p50 and p99 are wall time, of all pods
of a stretch in all rounds: what they show of a busy machine is mostly the machine.

The comparison is made so that the machine does not decide it. Compared is CPU time of the thread, which is all that a
pod waits for here while no plugin sleeps: another process that is run in between does not count. Of a stretch the usual
p99 counts, the median over blocks of 100 pods of their p99, so that a burst spoils the blocks that it meets and no
others. The stories are short and many: each round plays every way once, beginning with another one each time, and
`sound`, in which nothing happens, is one of them. So is `gone`, in which `mine` has no pods any more in the last
stretch: a scheduler that decides less often finds its caches colder, and each of its decisions costs more. A profile
that fails decides nothing either, so `beside gone` is what its pods cost the others, and `beside sound` is that and the
colder caches. Both are the change divided by the change of those stories, the blocks of all rounds put together. In
brackets: the middle 90 % of what comes out if rounds are drawn again at random. Where they are wide, the machine was
too busy to tell: play more rounds.

With `--calls` function calls (Python's and C's) of the thread are compared instead of CPU time: what of our code runs
while a pod waits, on a machine as busy as you like. It tells nothing of caches. Counting makes the process ten times
slower, so let pods come slowly, or they wait for each other: `--calls --rate 100 --seconds 25 --rounds 1`.
"""

import argparse
import asyncio
import logging
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import structlog

from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.aio.collector import LongLived
from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.assembly import Assembly
from kscheduler.assembly.ports import NoEviction, NoStatuses
from kscheduler.bench.cluster import CountedEvents
from kscheduler.config.loader import from_tree
from kscheduler.framework.plugin import Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo, placed
from kscheduler.in_memory.at_work import workers_over
from kscheduler.in_memory.cluster import APIRequest, InMemoryCluster
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.supervision.circuit_breaker import CircuitState

API_SECONDS: Final = 0.002
WORKERS: Final = 16
THEIRS_PER_MINE: Final = 4
LONGEST_DURING_SECONDS: Final = 30.0
# Pods.
BLOCK: Final = 100
DRAWINGS: Final = 100
STRETCHES: Final = ("before", "during", "after")
SOUND: Final = "sound"
GONE: Final = "gone"
CONTROLS: Final = (SOUND, GONE)


def _sound(rows: Any) -> Any:
    return np.full(len(rows), 50, dtype=np.int64)


def _sleeps(rows: Any) -> Any:
    time.sleep(5.0)
    return _sound(rows)


def _loops(rows: Any) -> Any:
    end = time.perf_counter() + 5.0
    while time.perf_counter() < end:
        pass
    return _sound(rows)


def _raises(rows: Any) -> Any:
    raise ValueError(f"no points for {len(rows)} nodes")


WAYS: Final[dict[str, Callable[[Any], Any]]] = {
    SOUND: _sound,
    GONE: _sound,
    "sleeps": _sleeps,
    "loops": _loops,
    "raises": _raises,
    "nan": lambda rows: np.full(len(rows), np.nan),
    "wrong shape": lambda rows: np.zeros(len(rows) + 1, dtype=np.int64),
    "out of range": lambda rows: np.full(len(rows), 1000, dtype=np.int64),
}


class Moody(Plugin):
    """A score plugin that is sound until it is told to be otherwise."""

    name = "Moody"
    depends_on = (Source.ANYTHING,)

    def __init__(self) -> None:
        self.answer: Callable[[Any], Any] = _sound

    def score(self, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        """Answer as it is told to."""
        del cycle, pod, nodes
        return self.answer(rows)


class CallCounter:
    """A clock that function calls move: one second for a million. Counts what is called after it was made."""

    def __init__(self) -> None:
        self._calls = 0
        sys.setprofile(self._count)

    def _count(self, _frame: Any, event: str, _arg: Any) -> None:
        self._calls += event in ("call", "c_call")

    def __call__(self) -> float:
        """Seconds, so that a thousandth of them is a thousand calls."""
        return self._calls / 1e6


@dataclass(frozen=True)
class ColumnFilters:
    """What pods waited in a stretch of time, in milliseconds."""

    latencies: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """The same pods', in CPU time of the thread, or in thousands of calls."""

    def __str__(self) -> str:
        if not self.latencies:
            return f"{'-':>8}{'-':>8}"
        return f"{self.quantile(50):8.2f}{self.quantile(99):8.2f}"

    def quantile(self, percent: float) -> float:
        """Milliseconds."""
        return float(np.percentile(self.latencies, percent))

    def blocks(self) -> list[float]:
        """The p99 of each block of successive pods, in milliseconds of CPU."""
        blocks = np.array_split(self.cpu, max(1, len(self.cpu) // BLOCK))
        return [float(np.percentile(block, 99)) for block in blocks]


class Cluster(InMemoryCluster):
    """The scheduler, and an API server that takes its time."""

    def __init__(self, nodes: int, on_failure: str, cost: Callable[[], float] = time.thread_time) -> None:
        """`cost`: CPU time of the thread, in seconds; or what stands for it."""
        super().__init__()
        self.before = self._take
        self.cost = cost
        self.plugin = Moody()
        self.arrived: dict[str, tuple[float, float]] = {}
        """By pod: wall time and CPU time of the thread, in seconds."""
        self.seen = ColumnFilters()
        """Of the pods of `theirs`, since the stretch began."""
        self.bound_of_mine = self.added = 0
        known = registry()
        known.register(Moody.name, lambda *_: self.plugin)
        plugins = {"score": {"enabled": [{"name": Moody.name}]}}
        limits = {"name": Moody.name, "onFailure": on_failure}
        mine = {"schedulerName": "mine", "plugins": plugins, "pluginConfig": [limits]}
        header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        config = from_tree({**header, "profiles": [mine, {"schedulerName": "theirs"}]}, "benchmark")
        events = CountedEvents()
        ports = self.ports(evictor=NoEviction(), statuses=NoStatuses(), events=events)
        self.assembly = Assembly(config, known, ports, REAL_CLOCK, on_quarantine=self._quarantine_soon)
        self.assembly.listen_to(self.listeners)
        for number in range(nodes):
            name = f"node-{number:05}"
            metadata = {"name": name, "uid": name}
            status = {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "10000"}}
            self.put(NODES, convert({"metadata": metadata, "status": status}, Node), initial=True)
        self.workers = workers_over(self.assembly, self, WORKERS)

    def _quarantine_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._quarantine)
        self.workers.end_slice()

    def _quarantine(self) -> None:
        """As `app.parts` does it."""
        compiled = self.assembly.draft_quarantines()
        if compiled is not None:
            self.assembly.apply(compiled, self.listed)
            self.workers.wake()

    async def _take(self, _request: APIRequest, pod: Pod) -> None:
        """A Binding takes its time."""
        if pod.spec.scheduler_name == "theirs":
            wall, cpu = self.arrived.pop(pod.key)
            self.seen.latencies.append(1000 * (time.perf_counter() - wall))
            self.seen.cpu.append(1000 * (self.cost() - cpu))
        else:
            self.bound_of_mine += 1
        await asyncio.sleep(API_SECONDS)

    def apply_binding(self, pod: Pod, node_name: str) -> None:
        """The pod is shown on its node and gone at once: later stretches find an equal cluster."""
        asyncio.get_running_loop().call_later(API_SECONDS, self._run_and_go, placed(pod, node_name))

    def _run_and_go(self, bound: Pod) -> None:
        self.put(PODS, bound)
        self.remove(PODS, bound.key)

    def add(self, profile: str) -> None:
        """A new pod."""
        self.added += 1
        name = f"{profile}-{self.added}"
        container = {"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
        metadata = {
            "name": name,
            "namespace": f"namespace-{self.added % 3}",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
        }
        pod = convert({"metadata": metadata, "spec": {"schedulerName": profile, "containers": [container]}}, Pod)
        if profile == "theirs":
            self.arrived[pod.key] = time.perf_counter(), self.cost()
        self.put(PODS, pod)

    async def arrivals(
        self, seconds: float, rate: float, until: Callable[[], bool] = lambda: False, *, mine: bool = True
    ) -> ColumnFilters:
        """Pods arrive one by one; returns what was seen of `theirs`, once all of these are bound.

        Without `mine` nobody comes in their turns.

        After a pause of the machine nothing is made up for: a burst of pods would wait for each other.
        """
        self.seen = ColumnFilters()
        began, number = time.perf_counter(), 0
        while time.perf_counter() - began < seconds and not until():
            profile = "theirs" if number % (THEIRS_PER_MINE + 1) else "mine"
            if mine or profile == "theirs":
                self.add(profile)
            number += 1
            await asyncio.sleep(1 / rate)
        while self.arrived:  # noqa: ASYNC110  a stretch is long
            await asyncio.sleep(0.01)
        return self.seen


async def play(way: str, options: argparse.Namespace) -> tuple[dict[str, ColumnFilters], str]:
    """One story: latencies by stretch, and what was counted."""
    cluster = Cluster(options.nodes, options.on_failure, CallCounter() if options.calls else time.thread_time)
    supervisor = cluster.assembly.profiles["mine"].supervisor
    if supervisor is None:
        raise SystemExit("the plugin is not supervised")
    parts = (cluster.workers.run, cluster.workers.keep_flushing, LongLived(REAL_CLOCK).run)
    working = [asyncio.ensure_future(part()) for part in parts]
    await cluster.arrivals(2.0, options.rate)  # to warm up
    stretches = {"before": await cluster.arrivals(options.seconds, options.rate)}
    cluster.plugin.answer = WAYS[way]
    began = time.perf_counter()
    quarantines = cluster.assembly.circuits.quarantines
    longest = LONGEST_DURING_SECONDS if way not in CONTROLS else options.seconds
    stretches["during"] = await cluster.arrivals(longest, options.rate, until=lambda: bool(quarantines()))
    seconds = time.perf_counter() - began
    stretches["after"] = await cluster.arrivals(options.seconds, options.rate, mine=way != GONE)
    for task in working:
        task.cancel()
    await asyncio.wait(working)
    point = "".join(found.extension_point for found in quarantines()) or "not quarantined"
    opened = cluster.assembly.ports.observations.plugin_circuit_changes[Moody.name, "mine", CircuitState.OPEN.value]
    return stretches, f"opened {opened} times, first after {seconds:.2f} s ({point})"


@dataclass
class Rounds:
    """The stories of one way, one per round."""

    stories: list[dict[str, ColumnFilters]] = field(default_factory=list)
    counted: str = ""
    """Of the last story."""

    def together(self, name: str) -> ColumnFilters:
        """The latencies of a stretch in all rounds."""
        return ColumnFilters([latency for story in self.stories for latency in story[name].latencies])

    def change(self, chosen: Sequence[int]) -> float:
        """The usual p99 after as a share of that before, in the chosen rounds."""
        usual = [
            statistics.median(p99 for number in chosen for p99 in self.stories[number][name].blocks())
            for name in ("after", "before")
        ]
        return usual[0] / usual[1]


def compared(change: Callable[[Sequence[int]], float], rounds: int) -> str:
    """A change over all rounds in percent, and between what it lies if rounds are drawn again (5th and 95th of 100)."""
    drawn = random.Random(0)
    drawings = [drawn.choices(range(rounds), k=rounds) for _ in range(DRAWINGS)]
    low, high = np.percentile([100 * (change(one) - 1) for one in drawings], [5, 95])
    return f"{100 * (change(range(rounds)) - 1):+6.1f} % [{low:+6.1f},{high:+6.1f}]"


def _in_background(rounds: Rounds, control: Rounds, chosen: Sequence[int]) -> float:
    return rounds.change(chosen) / control.change(chosen)


def line_of(way: str, rounds: Rounds, controls: Sequence[Rounds]) -> str:
    """A line of the table."""
    together = "".join(str(rounds.together(name)) for name in STRETCHES)
    own = compared(rounds.change, len(rounds.stories))
    beside = "   ".join(compared(partial(_in_background, rounds, control), len(rounds.stories)) for control in controls)
    return f"{way:14}{together}   {own}   {beside}   {rounds.counted}"


def main() -> None:
    """Play every way in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each stretch")
    parser.add_argument("--rate", type=float, default=500.0, help="pods a second at most, of both profiles")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7, help="stories of each way")
    parser.add_argument("--calls", action="store_true", help="compare function calls instead of CPU time")
    parser.add_argument("--on-failure", choices=["Fail", "Ignore", "Fallback"], default="Fail")
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=list(WAYS))
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    ways = list(dict.fromkeys((*CONTROLS, *options.ways)))
    rounds = {way: Rounds() for way in ways}
    for number in range(options.rounds):
        first = number % len(ways)
        for way in (*ways[first:], *ways[:first]):
            stretches, rounds[way].counted = asyncio.run(play(way, options))
            rounds[way].stories.append(stretches)
    cost = "function calls" if options.calls else "CPU"
    print(f"p50 and p99 of the other profile in ms; then the usual p99 of {cost}, after compared with before")
    print(
        f"{'':14}"
        + "".join(f"{name:>16}" for name in STRETCHES)
        + f"   {'after':25}   {'beside sound':25}   {'beside gone':25}"
    )
    controls = [rounds[way] for way in CONTROLS]
    for way in ways:
        print(line_of(way, rounds[way], controls))


if __name__ == "__main__":
    main()
