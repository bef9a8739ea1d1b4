"""In a cluster in which nothing stays, no table grows: what is kept of the dead has an end, or a bound.

Nobody lists the tables here: the census finds them all, so one that is added next year is judged, too.
"""

import gc
from collections.abc import Iterator, Sequence
from functools import lru_cache

import pytest

from benchmarks.churn import census
from benchmarks.churn.census import Census
from benchmarks.churn.play import Churn
from benchmarks.churn.week import Interval, verdict
from benchmarks.churn.world import Size
from kscheduler.aio.clock import VirtualClock
from kscheduler.bounded import RecentlyUsed
from kscheduler.client.events import series as event_series
from kscheduler.framework.nodes import amount_numbers, per_taint_set
from kscheduler.framework.pods import affinity_terms, requests
from kscheduler.informers import shared
from kscheduler.plugins.default_preemption import remembered
from kscheduler.plugins.pod_topology_spread import default_selector, layout
from kscheduler.scheduling.classes import class_columns, class_engine, pod_templates
from kscheduler.scheduling.pod_log import recent_attempts
from kscheduler.state.storage import attached_volumes
from kscheduler.state.topology import counters as topology
from kscheduler.state.topology import groups as topology_groups

PLAYED = pytest.mark.slow("plays a cluster in which 3,600 pods come and go")

PODS_PER_LOOK, WARM_UP, LOOKS = 200, 6, 12
# Slow, so that series of Events end within the run.
PODS_PER_SECOND = 2.0
# Calls that are remembered without a limit: there are as many as classes, or as versions of Kubernetes.
REMEMBERED_BY_CLASS = {"decode._fields()", "template._decoder()", "feature_gates.gates_of()"}
# Of what has no end of its own. They are made small, so that they are reached within the test.
BOUNDS = (
    (affinity_terms._known, "most"),
    (amount_numbers, "_KEPT"),
    (attached_volumes, "_MAX_UNASKED"),
    (class_columns, "_KEPT_AMOUNTS"),
    (default_selector, "_LEAST_SWEPT"),
    (event_series, "FINISH_SECONDS"),
    (layout, "_MOST"),
    (per_taint_set, "KEPT_TABLES"),
    (pod_templates, "_KEPT_DRAWERS"),
    (recent_attempts, "MAX_ATTEMPTS"),
    (recent_attempts, "MAX_PREEMPTIONS"),
    (remembered, "_MAX_SEEN"),
    (requests._sums, "most"),
    (shared, "_LEAST_SWEPT"),
    (topology, "_LEAST_QUERIES"),
    (topology_groups, "_KEPT_FLAT"),
)


@pytest.fixture
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for holder, name in BOUNDS:
        assert getattr(holder, name) >= 32
        monkeypatch.setattr(holder, name, 32)
        if isinstance(holder, RecentlyUsed):
            holder.clear()  # other tests have filled it
    monkeypatch.setattr(class_engine, "_LEAST_BYTES", 100_000)
    monkeypatch.setattr(class_engine, "_BYTES_PER_NODE", 2048)
    monkeypatch.setattr(class_engine, "_BYTES_PER_POD", 128)


async def played(size: Size) -> list[Census]:
    """What was counted at some moments of the run, once it was warm."""
    churn, found = Churn(size, clock=VirtualClock()), []
    async with churn.running(collects=False):
        await churn.begin()
        for _ in range(WARM_UP + LOOKS):
            until = churn.world.created + PODS_PER_LOOK
            while churn.world.created < until:
                await churn.pass_time(await churn.step() / PODS_PER_SECOND)
            found.append(churn.census())
        assert churn.problems() == []
        sizes = churn.sizes()
        assert sizes["nodes"] == size.nodes
        assert sizes["pods"] > size.pods * 3 // 4
    return found[WARM_UP:]


def most(looks: Sequence[Census]) -> dict[str, int]:
    """The most that each table, and each class of objects, ever had. Bytes of arrays are left out."""
    found: dict[str, int] = {}
    for one in looks:
        named = (*one.tables.items(), *((f"objects {name}", count) for name, count in one.objects.items()))
        for name, count in named:
            if not name.endswith("(bytes)"):
                found[name] = max(found.get(name, 0), count)
    return found


def grown(looks: Sequence[Census]) -> Iterator[str]:
    """The tables that had more in the second half than in the first. Some waver by chance."""
    half, limits = len(looks) // 2, looks[-1].limits
    before, after = most(looks[:half]), most(looks[half:])
    for name, count in sorted(after.items()):
        allowed = before.get(name, 0) * 1.3 + 100
        if count > max(allowed, limits.get(name, 0)):  # what is remembered by `lru_cache` forgets by itself
            yield f"{name}: at most {before.get(name, 0)} in the first half, {count} in the second"


@PLAYED
@pytest.mark.usefixtures("_small_bounds")
async def test_no_table_grows_while_releases_jobs_nodes_and_taints_come_and_go() -> None:
    looks = await played(Size(nodes=20, pods=120))
    last = looks[-1]
    assert len(last.tables) > 150, "the census has lost its way"
    assert not list(grown(looks))
    assert last.tables["Interned._values"] < 20 * 4, "taint sets of all nodes at one time, and some of a change"
    endless = {name for name, limit in last.limits.items() if limit < 0 and last.tables[name] != looks[0].tables[name]}
    assert endless <= REMEMBERED_BY_CLASS, "other tests' caches may be there, but nothing here fills them"


async def test_what_is_gone_leaves_no_reference_cycles() -> None:
    """Whatever survives a full collection is set aside, and cycles among that wait for a walk twice a day."""
    churn = Churn(Size(nodes=20, pods=120), clock=VirtualClock())
    async with churn.running(collects=False):
        await churn.begin()
        gc.collect()
        gc.disable()
        try:
            before = churn.world.created
            while churn.world.created < before + 300:
                await churn.pass_time(await churn.step() / PODS_PER_SECOND)
            assert gc.collect() < 30, "pods or nodes that have gone were kept alive by a cycle"
        finally:
            gc.enable()


@PLAYED
def test_a_census_finds_every_table_and_each_once() -> None:
    module = __name__.partition(".")[0]
    found = census.take(_Holder(), package=module)
    assert found.tables["_Holder.names"] == 2
    assert found.tables["_Inner.counts"] == 3
    assert found.tables["_Holder.listed"] == 2
    assert (found.objects["_Holder"], found.objects["_Inner"]) == (1, 2)
    assert found.tables["test_churn._remembered()"] == 0
    _remembered(1)
    again = census.take(_Holder(), package=module)
    assert (again.tables["test_churn._remembered()"], again.limits["test_churn._remembered()"]) == (1, 4)


@lru_cache(maxsize=4)
def _remembered(number: int) -> int:
    return number


class _Inner:
    __slots__ = ("counts",)

    def __init__(self, *counts: int) -> None:
        self.counts = set(counts)


class _Holder:
    def __init__(self) -> None:
        first = _Inner(1, 2)
        self.names = {"a": first, "b": first}
        self.listed = [first, _Inner(7)]


def interval(mib: float, *, lag: float = 10.0, cpu: float = 1.0, columns: int = 50) -> Interval:
    return Interval(0.0, 100, mib, columns, 100, 5, 1.0, lag, lag, 1.0, cpu, cpu, {})


@pytest.mark.parametrize(
    ("intervals", "is_real", "bad"),
    [
        pytest.param([interval(100.0)] * 4, True, "", id="nothing grows"),
        pytest.param([interval(90.0), interval(100.0), interval(102.0), interval(104.0)], True, "memory", id="memory"),
        pytest.param([interval(100.0)] * 3 + [interval(100.0, lag=60.0)], True, "lag", id="lag in real time"),
        pytest.param([interval(100.0)] * 3 + [interval(100.0, lag=60.0)], False, "", id="lag at full speed"),
        pytest.param([interval(100.0)] * 3 + [interval(100.0, cpu=1.2)], True, "CPU", id="CPU"),
        pytest.param([interval(100.0)] * 3 + [interval(100.0, columns=101)], True, "columns", id="columns"),
    ],
)
def test_the_verdict_names_what_is_bad(intervals: list[Interval], is_real: bool, bad: str) -> None:
    wrong = [one.text for one in verdict(intervals, [], is_real=is_real) if not one.is_good]
    assert len(wrong) == bool(bad)
    assert all(bad in text for text in wrong)


def test_a_handler_that_failed_is_no_good_run() -> None:
    assert not verdict([interval(100.0)] * 4, ["3 events could not be handled"], is_real=True)[-1].is_good
