"""Figures of `make bench-sizing`: the rules for requests and limits, the table, the page and the chart's defaults."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.runs import Machine
from benchmarks.sizing import table
from benchmarks.sizing.__main__ import SIZES, parse_sizes
from benchmarks.sizing.table import Replica, SizeFigures, SizingRun
from benchmarks.sizing.world import SizingWorld, replaced_per_second
from kscheduler.embedded.apiserver import EmbeddedAPIServer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
SECTION = PAGE.partition("## Sizing\n")[2].partition("\n## ")[0]
VALUES: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "helm" / "kscheduler" / "values.yaml").read_text())
MACHINE = Machine("a CPU", 2, 16, "3.11", "2.2", 0.1, 1000.0)


def replica(peak: float = 100.0, bind_cpu_seconds: float = 1.0) -> Replica:
    return Replica(1.5, 80.0, 90.0, 0.01, bind_cpu_seconds, 95.0, peak)


def size(
    nodes: int = 10, pods: int = 300, peak: float = 100.0, of_follower: float = 50.0, cpu: float = 1.0
) -> SizeFigures:
    return SizeFigures(nodes, pods, 20.0, 500, 50.0, replica(peak, cpu), replica(of_follower))


@pytest.mark.parametrize(
    ("leader", "follower", "request_"),
    [
        pytest.param(100.0, 50.0, 192, id="1.3 times the leader, up to the next 64 MiB"),
        pytest.param(50.0, 100.0, 192, id="or the follower, which may lead tomorrow"),
        pytest.param(49.0, 49.0, 64, id="one step is the least"),
    ],
)
def test_memory_is_queried_for_the_larger_peak_with_room_and_limited_to_twice_that(
    leader: float, follower: float, request_: int
) -> None:
    figures = size(peak=leader, of_follower=follower)
    assert (figures.memory_request, figures.memory_limit) == (request_, 2 * request_)


@pytest.mark.parametrize(
    ("cpu", "request_"),
    [
        pytest.param(0.5, 100, id="no less than a tenth of a core"),
        pytest.param(2.0, 200, id="exactly a step"),
        pytest.param(2.1, 250, id="up to the next step"),
    ],
)
def test_cpu_is_queried_for_what_the_rate_of_pods_took(cpu: float, request_: int) -> None:
    """500 pods at 50 a second are ten seconds."""
    assert size(cpu=cpu).cpu_request == request_


def test_rows_stand_by_size_whatever_was_measured_first() -> None:
    rows = table.markdown([size(5000, 150_000), size(100, 3000)]).splitlines()
    assert [row.split("|")[2].strip() for row in rows[2:]] == ["3,000", "150,000"]
    assert len({row.count("|") for row in rows}) == 1


def test_nothing_is_lost_in_the_file(tmp_path: Path) -> None:
    run = SizingRun(MACHINE, (size(),))
    table.write(run, tmp_path / "sizing.json")
    assert table.read(tmp_path / "sizing.json") == run


def test_a_size_that_was_not_measured_has_no_row() -> None:
    run = SizingRun(MACHINE, (size(),))
    with pytest.raises(LookupError, match="7 nodes with 8 pods were not measured"):
        run.row(7, 8)
    with pytest.raises(LookupError, match="63 MiB"):
        run.largest_within(63)


def test_a_limit_carries_the_largest_size_that_is_content_with_it() -> None:
    run = SizingRun(MACHINE, (size(pods=1), size(pods=3, peak=1000.0), size(pods=2)))
    assert run.largest_within(384).pods == 2


@pytest.mark.parametrize("text", ["5", "0/3", "1/2,x/3"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"at least 1|invalid literal"):
        parse_sizes(text)


async def test_watches_of_the_world_see_what_a_kubelet_does_with_a_pod_that_is_bound() -> None:
    world = SizingWorld(EmbeddedAPIServer(seed=1), nodes=2, pods=6)
    world.fill()
    records = world.server.store.collection("pods").records
    before = set(records)
    world._replace()
    (key,) = set(records) - before
    assert len(records) == 6
    pod = records[key].value
    assert "nodeName" not in pod["spec"] or not pod["spec"]["nodeName"]
    world._put("pods", {**pod, "spec": {**pod["spec"], "nodeName": "n"}})
    assert world.bound == 1
    world._start(key)
    assert records[key].value["status"]["phase"] == "Running"
    assert world.bound == 1


# --- the page and the chart -------------------------------------------------------------------------------------------


def named_size(words: str) -> SizeFigures:
    """The row that the page names after these words."""
    found = re.search(re.escape(words) + r" \*\*([\d,]+) nodes and ([\d,]+) pods\*\*", " ".join(SECTION.split()))
    assert found is not None, f"the page does not say {words!r}"
    nodes, pods = (int(number.replace(",", "")) for number in found.groups())
    return table.read().row(nodes, pods)


def mebibytes(quantity: str) -> int:
    return int(quantity[:-2]) * {"Mi": 1, "Gi": 1024}[quantity[-2:]]


def test_the_page_has_the_table_of_the_file() -> None:
    figures = table.read().figures
    assert table.markdown(figures) in SECTION
    assert [(one.nodes, one.pods) for one in figures] == parse_sizes(SIZES)


def test_the_chart_asks_for_what_the_size_needs_that_the_page_names() -> None:
    carried, requests = named_size("The chart's defaults are enough for"), VALUES["resources"]["requests"]
    assert carried.memory_request <= mebibytes(requests["memory"]) <= 2 * carried.memory_request
    assert int(requests["cpu"].removesuffix("m")) >= carried.cpu_request


def test_the_charts_limit_is_enough_for_the_size_that_the_page_names() -> None:
    limits = VALUES["resources"]["limits"]
    assert set(limits) == {"memory"}
    assert table.read().largest_within(mebibytes(limits["memory"])) == named_size(
        "The chart's default memory limit (2 GiB) is enough for"
    )


def test_the_page_reports_how_many_pods_are_replaced_at_rest() -> None:
    assert replaced_per_second(1000) * 60 == pytest.approx(1)
    assert "of 1,000 pods one is replaced a minute" in " ".join(SECTION.split())
