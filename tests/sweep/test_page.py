"""The page of a sweep: whole, escaped, without anything from elsewhere."""

from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from kscheduler.cli import main
from kscheduler.sweep.page import sweep_page
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.running import empty_row
from kscheduler.sweep.search import Finalist, SearchResult
from tests.sweep.sweeps import DEFAULT, SHOP, TINY, spec, write

HOSTILE = '<script>alert("x")</script>&'
VOID = frozenset(("meta", "line", "circle"))


class Checked(HTMLParser):
    """Elements that are closed in order, and their text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {name for name, _ in attrs} & {"src", "href", "onclick"}
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(page: str) -> Checked:
    found = Checked()
    found.feed(page)
    assert found.open == []
    assert "script" not in found.seen
    return found


def rows() -> list[SweepRow]:
    return [
        msgspec.structs.replace(
            empty_row(spec(msgspec.structs.replace(DEFAULT, name=name), workload, seed)),
            pods=10,
            placed=9,
            waiting=1,
            gpus_unusable=unusable + seed,
            price=1.0,
        )
        for workload in (TINY, SHOP)
        for name, unusable in (("good", 1.0), (HOSTILE, 5.0))
        for seed in (1, 2)
    ]


def test_it_says_which_policy_left_the_fewest_unusable_gpus() -> None:
    found = checked(sweep_page(rows(), "A sweep"))
    text = "".join(found.text)
    assert f"Fewest GPUs that no pod could use: good with 2.5; most: {HOSTILE} with 6.5." in text
    assert "2.5 ±0.7" in text
    assert found.seen.count("svg") == 2, "a plot for each workload, of the one column that differs"
    assert found.seen.count("circle") == 2 * 4


def test_names_and_errors_are_escaped() -> None:
    failed = msgspec.structs.replace(rows()[0], error=HOSTILE)
    page = sweep_page([*rows(), failed], HOSTILE)
    assert HOSTILE not in page
    assert "".join(checked(page).text).count(HOSTILE) > 3


def test_a_page_of_nothing_but_failures_is_a_page() -> None:
    checked(sweep_page([empty_row(spec(), "broken")], "A sweep"))


def of_policy(name: str, seeds: tuple[int, ...], unusable: float = 0.0) -> list[SweepRow]:
    policy = msgspec.structs.replace(DEFAULT, name=name)
    return [
        msgspec.structs.replace(
            empty_row(spec(policy, SHOP, seed)),
            pods=10,
            placed=10,
            waiting=0,
            gpus_unusable=unusable + seed,
            queue_seconds_mean=float(seed),
            queue_seconds_p99=0.0,
        )
        for seed in seeds
    ]


def test_means_are_compared_over_the_seeds_that_all_policies_have() -> None:
    """Over its own seeds, the policy with one run looks better than it is."""
    page = sweep_page([*of_policy("short", (1,), 0.5), *of_policy("long", (1, 2, 3))], "A sweep")
    text = "".join(checked(page).text)
    assert "Of the seed that all of these policies have: 1." in text
    assert "could use: long with 1.0; most: short with 1.5." in text


def test_policies_without_a_common_seed_are_not_called_better() -> None:
    text = "".join(checked(sweep_page([*of_policy("a", (1,)), *of_policy("b", (2,))], "A sweep")).text)
    assert "no seed in common" in text
    assert "Fewest GPUs" not in text


def test_after_a_search_only_the_finalists_are_compared_by_its_loss() -> None:
    found = SearchResult(
        goal="waiting",
        policy="base",
        winner="base[A=1]",
        weights={"A": 1},
        confidence=None,
        improvement=0.5,
        improvement_low=None,
        improvement_high=None,
        samples=2,
        rounds=(),
        finalists=(Finalist("base[A=1]", 0.5, is_base=False), Finalist("base", 1.0, is_base=True)),
    )
    rows = [*of_policy("base[A=0]", (1,)), *of_policy("base[A=1]", (1, 2, 8, 9)), *of_policy("base", (8, 9))]
    text = "".join(checked(sweep_page(rows, "A search", found)).text)
    assert "1 other candidates were dropped" in text
    assert "base[A=0]" not in text
    assert "Of the seeds that all of these policies have: 8, 9." in text
    assert "waiting: loss" in text
    assert "8.50 ±0.71" in text


def test_labels_of_plots_keep_what_differs() -> None:
    names = [f"fragmentation-aware[FragmentationAware={weight},BestFit=0]" for weight in (1, 10, 101)]
    rows = [row for index, name in enumerate(names) for row in of_policy(name, (1, 2), index)]
    text = "".join(checked(sweep_page(rows, "A sweep")).text)
    for weight in (1, 10, 101):
        assert f"…FragmentationAware={weight},BestFit=0]" in text
    other = "a" * 60
    rows = [*of_policy("b" * 60 + "=1", (1, 2)), *of_policy(other + "=2", (1, 2), 2.0)]
    text = "".join(checked(sweep_page(rows, "A sweep")).text)
    assert f"{'a' * 11}…{'a' * 20}=2" in text


def test_notes_are_on_the_page_and_few() -> None:
    rows = [
        msgspec.structs.replace(row, notes=f"note {number}")
        for number, row in enumerate(of_policy("a", (1, 2, 3, 4, 5)))
    ]
    text = "".join(checked(sweep_page(rows, "A sweep")).text)
    assert "shop: note 2" in text
    assert "note 3" not in text
    assert "shop: 2 other notes are in the column `notes` of results.parquet" in text


@pytest.mark.slow("starts worker processes")
def test_a_search_prints_what_it_found_and_puts_it_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "workloads: [{name: tiny, synthetic: {scale: 0.004}}]\npolicies: [{name: default}]\nseeds: [1, 2]\n"
        "search: {policy: default, weights: {NodeResourcesFit: [0, 1], ImageLocality: [0, 1]}, keep: 2}\n"
    )
    path = write(tmp_path / "s.yaml", text)
    assert main(["sweep", str(path), "--search", "--workers", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("packing: NodeResourcesFit ")
    assert "round 1: 4 candidates, 1 seeds each, 2 stay" in out
    page = (tmp_path / "s.results" / "index.html").read_text()
    assert out.splitlines()[0] in "".join(checked(page).text)
    assert err.endswith("index.html\n")
