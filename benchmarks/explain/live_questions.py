"""What questions to the running service cost it: `python -m benchmarks.explain.live_questions`.

A scheduler in process as the service has it (queue, workers, cache, real time), pods that arrive at a steady rate and
are bound at once, and beside that somebody who asks a question each second, or as soon as the last one is answered.
Each has a copy of the process. Rounds without questions, with explanations (of a pod that fits nowhere, with
suggestions) and with simulations take turns. Latency is from the time at which a pod was to arrive to its binding, so
pods that come while the loop stands still count that, too. On a machine with other work only the ratios within a run
mean anything, and the CPU time and the page faults of the loop more than latencies; `chrt -R -f 1` before the command
keeps the other work away from the loop, and not from the copies.
"""

import argparse
import asyncio
import json
import resource
import time
from collections import deque
from collections.abc import Awaitable, Callable
from statistics import median
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

import numpy as np

from benchmarks.explain.suggestions import cluster, pod_tree
from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.aio.collector import setting_aside
from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.assembly import Assembly
from kscheduler.assembly.ports import NoEviction, NoStatuses
from kscheduler.in_memory.at_work import workers_over
from kscheduler.in_memory.cluster import ShownSoon
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.scenario import parse_scenario
from kscheduler.service.asking import answers_in_copy
from kscheduler.service.asking.live_copies import LiveCopies
from kscheduler.service.asking.query_errors import CopyLimits
from kscheduler.service.parts import Parts

Tree = dict[str, Any]

_WORKERS: Final = 16
# New pods that stay; older ones go, so that nodes never fill up.
_ALIVE: Final = 2_000
_QUERY_SECONDS: Final = 1.0


class Service(ShownSoon):
    """As much of a service as decides."""

    def __init__(self, nodes: int, pods: int) -> None:
        line = json.dumps({"objects": cluster(nodes, pods, cpu="100m"), "pod": pod_tree("x", "1", 1)})
        scenario = parse_scenario(line.encode(), "benchmark:1")
        super().__init__()
        self.latencies: list[float] = []
        self._began: dict[str, float] = {}
        self._alive: deque[str] = deque()
        ports = self.ports(evictor=NoEviction(), statuses=NoStatuses())
        self.assembly = Assembly(scenario.config, registry(), ports, REAL_CLOCK)
        self.assembly.listen_to(self.listeners)
        self.workers = workers_over(self.assembly, self, _WORKERS)
        for node in scenario.objects.nodes:
            self.put(NODES, node, initial=True)
        for pod in scenario.objects.pods:
            self.put(PODS, pod)

    @property
    def parts(self) -> Parts:
        """What the questions read of a service."""
        informers = SimpleNamespace(informer=self._informer)
        own = {"claim_templates": {}, "unserved_groups": lambda: ()}
        return cast("Parts", SimpleNamespace(assembly=self.assembly, informers=informers, clock=REAL_CLOCK, **own))

    def _informer(self, kind: Kind) -> Any:
        return SimpleNamespace(store=self.store(kind))

    def arrive(self, pod: Pod, at: float) -> None:
        """A new pod, which was to arrive at a time of `perf_counter`."""
        self._began[pod.key] = at
        self.put(PODS, pod)
        self._alive.append(pod.key)
        if len(self._alive) > _ALIVE:
            self.remove(PODS, self._alive.popleft())

    def apply_binding(self, pod: Pod, node_name: str) -> None:
        """The Binding succeeds, and the watch shows it."""
        self.latencies.append(time.perf_counter() - self._began.pop(pod.key, time.perf_counter()))
        super().apply_binding(pod, node_name)


def _new_pod(number: int) -> Pod:
    tree = pod_tree(f"new-{number}", "10m", number % 20, schedulerName="default-scheduler")
    return parse_scenario(json.dumps({"pod": tree}).encode(), "benchmark:2").pod


def _body(count: int) -> bytes:
    """A request to rehearse so many pods."""
    tree = pod_tree("rehearsed", "500m", 3, schedulerName="default-scheduler")
    tree["spec"]["containers"][0]["image"] = "shop/rehearsed:1"
    return json.dumps({"objects": [{"apiVersion": "v1", "kind": "Pod", **tree}], "replicas": count}).encode()


Ask = Callable[[], Awaitable[bytes]]


class _Round(NamedTuple):
    """Of the service, in one round."""

    p50: float
    """Of the latencies, in ms."""
    p99: float
    cpu: float
    """us of the loop's CPU per pod."""
    faults: float
    """Page faults of the loop's thread a second."""


async def _round(
    service: Service, seconds: float, rate: float, query: Ask | None, base: int
) -> tuple[_Round, list[float]]:
    """What the service noticed, and how long the questions took in seconds."""
    service.latencies.clear()
    took: list[float] = []
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds

    async def ask() -> None:
        while query is not None and loop.time() < ends:
            began = time.perf_counter()
            answer = await query()
            assert answer.startswith(b"200\n"), answer[:500]
            took.append(time.perf_counter() - began)
            await asyncio.sleep(max(_QUERY_SECONDS - (time.perf_counter() - began), 0.0))

    querying = asyncio.ensure_future(ask())
    pods = [_new_pod(base + number) for number in range(int(seconds * rate))]
    begins, cpu, faults = time.perf_counter(), time.thread_time(), _faults()
    for number, pod in enumerate(pods):
        due = begins + number / rate
        await asyncio.sleep(max(due - time.perf_counter(), 0.0))
        service.arrive(pod, due)
    await asyncio.sleep(0.5)
    cpu, faults = time.thread_time() - cpu, _faults() - faults
    await querying
    p50, p99 = np.percentile(service.latencies, [50, 99]) * 1e3
    return _Round(float(p50), float(p99), cpu / len(pods) * 1e6, faults / seconds), took


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


_EXPLAIN: Final[Tree] = {
    "pod_key": "default/huge",
    "against_node": "",
    "leads": True,
    "as_text": False,
    "with_suggestions": True,
}


async def _play(args: argparse.Namespace) -> None:
    service = Service(args.nodes, args.pods)
    service.put(PODS, parse_scenario(json.dumps({"pod": pod_tree("huge", "900", 1)}).encode(), "benchmark:3").pod)
    live = LiveCopies(limits=CopyLimits(seconds=60.0, waiting_seconds=60.0))
    parts, body = service.parts, _body(args.rehearsed)
    kinds: dict[str, Ask | None] = {
        "no questions": None,
        "explain": lambda: live.ask(lambda: answers_in_copy.explain(parts, REAL_CLOCK.time(), **_EXPLAIN)),
        f"simulate {args.rehearsed} pods": lambda: live.ask(
            lambda: answers_in_copy.simulate(parts, REAL_CLOCK.time(), body=body)
        ),
    }
    service.assembly.queue.begin_scheduling()
    work = [asyncio.ensure_future(each) for each in (service.workers.run(), service.workers.keep_flushing())]
    found: dict[str, list[_Round]] = {name: [] for name in kinds}
    answers: dict[str, list[float]] = {name: [] for name in kinds}
    forks = dict.fromkeys(kinds, 0)
    with setting_aside():
        await _round(service, 3.0, args.rate, None, 10_000_000)  # warms up
        for number in range(args.rounds):
            for position, (name, query) in enumerate(kinds.items()):
                base = (number * len(kinds) + position) * 1_000_000
                before = live.forks
                noticed, took = await _round(service, args.seconds, args.rate, query, base)
                forks[name] += live.forks - before
                found[name].append(noticed)
                answers[name] += took
                print(f"{name:22} p50 {noticed.p50:7.2f} ms  p99 {noticed.p99:7.2f} ms  {len(took)} answers")
    print(f"\nfork: {live.fork_seconds / max(live.forks, 1) * 1e3:.1f} ms of the loop each, {live.forks} forks")
    quiet = median(each.p99 for each in found["no questions"])
    for name, rounds in found.items():
        p50, p99, cpu, faults = (median(values) for values in zip(*rounds, strict=True))
        queried = ""
        if answers[name]:
            middle, late = np.percentile(answers[name], [50, 99]) * 1e3
            often = forks[name] / (args.rounds * args.seconds)
            queried = f"  answer p50 {middle:5.0f} ms, p99 {late:5.0f} ms; {often:.2f} forks a second"
        print(f"{name:22} medians: p50 {p50:6.2f}, p99 {p99:6.2f} ms = {p99 / quiet:.2f} of quiet{queried}")
        print(f"{'':22} CPU {cpu:.0f} us a pod, {faults:.0f} page faults a second")
    await live.aclose()
    for task in work:
        task.cancel()


def main() -> None:
    """Print a line per round, then medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rehearsed", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=200.0, help="pods a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=3)
    asyncio.run(_play(parser.parse_args()))


if __name__ == "__main__":
    main()
