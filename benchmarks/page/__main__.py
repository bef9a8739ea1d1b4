"""What the status page costs: its first view in Chromium, and the service's CPU and loop lag while browsers follow.

    python -m benchmarks.page [--nodes 5000] [--pods 50000] [--browsers 10] [--seconds 30] [--rate 20]

A kscheduler process on an embedded API server whose nodes hold all pods but those that wait. The first view is the
process's very first (it imports and compiles the templates then), the next ones are a median of fresh profiles; times
are the browser's own, from the navigation's start. Then pods come at a steady rate, first with no browser, then with
all of them open on the overview, in turn: the difference in CPU, from the kernel's clocks, is what the page takes, the
copies that look for changes included. The loop's lag is what the service says itself, a heartbeat every 20 ms.
Chromium, the API server and the service share the machine, so a lag is also what the service waits for a core.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import pod_tree
from tests.e2e.status_page import shop
from tests.e2e.status_page.browser import chromium, looking
from tests.e2e.status_page.watched import Watched, created, watched

LAG: Final = "kscheduler_loop_lag_seconds"
VIEWS: Final = 5
ROUNDS: Final = 3
_TIMES: Final = """() => {
    const [page] = performance.getEntriesByType("navigation");
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    return {answer: page.responseEnd, ready: page.domContentLoadedEventEnd, paint: paint ? paint.startTime : null};
}"""


@dataclass(frozen=True)
class ColumnFilters:
    """Some time with so many browsers."""

    cpu_percent: float
    """Of one core, by the service."""
    worst_lag: float
    """Milliseconds: the upper bound of the fullest bucket that was reached."""
    p99_lag: float


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--browsers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=20.0, help="pods that come per second meanwhile")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kscheduler-page-") as folder, chromium() as browser:
        nodes, pods = shop.nodes(args.nodes), shop.running_pods(args.pods, args.nodes)
        with watched(Path(folder), nodes, pods) as scene:
            scene.cluster.put("pods", shop.waiting_pods())
            time.sleep(5)
            print(f"{args.nodes} nodes, {args.pods} pods")
            print_views(browser, scene)
            print_stretches(browser, scene, args)


def print_views(browser: Browser, scene: Watched) -> None:
    first = view(browser, f"{scene.url}/ui/")
    print(f"first view of the process: {shown(first)}")
    later = [view(browser, f"{scene.url}/ui/") for _ in range(VIEWS)]
    middle = {key: statistics.median(each[key] for each in later) for key in first}
    print(f"later views, median of {VIEWS}:  {shown(middle)}")


def view(browser: Browser, url: str) -> dict[str, float]:
    """Milliseconds of one view in a fresh profile."""
    with looking(browser) as (page, complaints):
        page.goto(url)
        # Not wait_for_function: it evaluates a text within the page, which the page's policy forbids.
        while (times := page.evaluate(_TIMES))["paint"] is None:
            page.wait_for_timeout(20)
        assert not complaints, complaints
        found: dict[str, float] = times
        return found


def shown(times: dict[str, float]) -> str:
    return (
        f"answer {times['answer']:.0f} ms, DOMContentLoaded {times['ready']:.0f} ms, "
        f"first contentful paint {times['paint']:.0f} ms"
    )


def print_stretches(browser: Browser, scene: Watched, args: argparse.Namespace) -> None:
    coming = coming_pods()
    found: dict[int, list[ColumnFilters]] = {0: [], args.browsers: []}
    for _ in range(ROUNDS):
        for count, stretches in found.items():
            with following(browser, scene, count):
                stretches.append(stretch(scene, args, coming))
    for count, stretches in found.items():
        cpu = statistics.median(each.cpu_percent for each in stretches)
        p99, worst = (max(getattr(each, name) for each in stretches) for name in ("p99_lag", "worst_lag"))
        print(f"{count:2} browsers: {cpu:5.2f} % of a core, loop lag p99 <= {p99:g} ms, worst <= {worst:g} ms")
    none, all_of_them = (statistics.median(each.cpu_percent for each in stretches) for stretches in found.values())
    print(f"the page takes {all_of_them - none:.2f} % of a core, {(all_of_them / none - 1):.1%} of the service's CPU")


@contextmanager
def following(browser: Browser, scene: Watched, count: int) -> Iterator[list[Page]]:
    """So many browsers on the overview, each with a profile of its own."""
    with ExitStack() as open_ones:
        pages = [open_ones.enter_context(looking(browser))[0] for _ in range(count)]
        for page in pages:
            page.goto(f"{scene.url}/ui/")
        time.sleep(3)
        yield pages


def stretch(scene: Watched, args: argparse.Namespace, coming: Iterator[dict[str, Any]]) -> ColumnFilters:
    """Pods come for some seconds."""
    before, cpu, began = lag_buckets(scene), cpu_seconds(scene), time.monotonic()
    while (passed := time.monotonic() - began) < args.seconds:
        scene.cluster.put("pods", islice(coming, max(int(args.rate / 4), 1)))
        time.sleep(max(0.25 - (time.monotonic() - began - passed), 0))
    used, seconds = cpu_seconds(scene) - cpu, time.monotonic() - began
    counts = {bound: count - before.get(bound, 0) for bound, count in lag_buckets(scene).items()}
    return ColumnFilters(100 * used / seconds, bound_of(counts, 1.0), bound_of(counts, 0.99))


def coming_pods() -> Iterator[dict[str, Any]]:
    number = 0
    while True:
        number += 1
        metadata = {"creationTimestamp": created(0)}
        yield pod_tree(
            f"coming-{number}", namespace="shop", uid=f"uid-c{number}", requests={"cpu": "1m"}, metadata=metadata
        )


def cpu_seconds(scene: Watched) -> float:
    """CPU time of the service: all threads, user and system, and its copies that answer questions, living or ended."""
    process = scene.process.pid
    copies = Path(f"/proc/{process}/task").glob("*/children")
    living = (_ticks(int(child))[0] for listed in copies for child in listed.read_text(encoding="ascii").split())
    ended = _ticks(process)[1]
    return time.clock_gettime((~process << 3) | 2) + (ended + sum(living)) / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> tuple[int, int]:
    """Of a process, and of its children that have ended (/proc/<pid>/stat, fields 14 to 17); none, once it has gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0, 0
    return int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])


def lag_buckets(scene: Watched) -> dict[float, float]:
    """Heartbeats by the upper bound of their lag, in seconds; not cumulated."""
    for family in text_string_to_metric_families(scene.page("/metrics")):
        if family.name == LAG:
            bounds = [(float(each.labels["le"]), each.value) for each in family.samples if each.name == f"{LAG}_bucket"]
            return {bound: count - last for (_, last), (bound, count) in pairwise([(0.0, 0.0), *sorted(bounds)])}
    raise SystemExit(f"/metrics has no {LAG}")


def bound_of(counts: dict[float, float], part: float) -> float:
    """Milliseconds that this part of the heartbeats did not exceed."""
    left = part * sum(counts.values())
    for bound, count in sorted(counts.items()):
        left -= count
        if left <= 1e-9:
            return bound * 1e3
    return float("inf")


if __name__ == "__main__":
    main()
