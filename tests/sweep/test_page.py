"""The page of a sweep: whole, escaped, without anything from elsewhere."""

from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from kscheduler.cli import main
from kscheduler.sweep.page import sweep_page
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.running import empty_row
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
