"""A page of metrics is read as dashboards read it, and two pages that differ are told apart."""

import pytest

from tests.e2e.parity.metrics_page import Page, Shape, number_differences, read, shape_differences

PAGE = """\
# HELP x_attempts_total Attempts.
# TYPE x_attempts_total counter
x_attempts_total{profile="p",result="scheduled"} 3
x_attempts_total{profile="p",result="error"} 1
# HELP x_pods Pods.
# TYPE x_pods gauge
x_pods 7
# HELP x_seconds Time.
# TYPE x_seconds histogram
x_seconds_bucket{point="a",le="0.1"} 1
x_seconds_bucket{point="a",le="+Inf"} 2
x_seconds_sum{point="a"} 5
x_seconds_count{point="a"} 2
# HELP other_total Something else.
# TYPE other_total counter
other_total 1
"""


@pytest.fixture
def page() -> Page:
    return read(PAGE, "x_")


def test_a_page_has_the_shape_and_the_numbers_of_its_series(page: Page) -> None:
    assert page.shapes == {
        "x_attempts_total": Shape("counter", frozenset({"profile", "result"})),
        "x_pods": Shape("gauge", frozenset()),
        "x_seconds": Shape("histogram", frozenset({"point"}), ("0.1", "+Inf")),
    }
    assert page.total("x_attempts_total", profile="p") == 4
    assert page.total("x_seconds") == 2
    assert page.values_of("x_attempts_total", "result") == {"scheduled", "error"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{profile="p",result="error"} 1', '{who="p",result="error"} 1'),
        ('le="0.1"', 'le="0.2"'),
        ("x_pods gauge", "x_pods counter"),
        ("x_pods", "x_things"),
    ],
    ids=["label", "bound", "type", "name"],
)
def test_another_shape_is_reported(page: Page, old: str, new: str) -> None:
    assert len(shape_differences(page, read(PAGE.replace(old, new), "x_"))) == 1


def test_a_series_that_is_said_to_be_absent_must_be(page: Page) -> None:
    assert shape_differences(page, page) == []
    assert shape_differences(page, page, {"x_pods"}) == ["x_pods is listed as unknown to us, and is there"]


def test_other_numbers_are_reported_with_both(page: Page) -> None:
    other = read(PAGE.replace('"error"} 1', '"unschedulable"} 1'), "x_")
    both = number_differences(page, other, "x_attempts_total")
    assert sorted(both.values()) == [(0, 1), (1, 0)]
    assert number_differences(page, page, "x_seconds") == {}
