"""What a comparison comes to: case by case."""

import pytest

from kscheduler.shadow.comparison import (
    KSCHEDULER,
    KUBE_SCHEDULER,
    Comparison,
    DifferenceKind,
    Facts,
    FollowedScheduler,
    Order,
    kind_of,
    sample_size,
)
from kscheduler.shadow.sums import Sums

REJECTED = Facts(is_feasible=False, feasible=3, searched=5)
EQUAL = Facts(is_feasible=True, behind=0, feasible=5, better=0, searched=5)
BEHIND = Facts(is_feasible=True, behind=7, feasible=5, better=2, searched=5)
BEHIND_OF_MANY = Facts(is_feasible=True, behind=7, feasible=1000, better=2, searched=1000)
EXPLAINED = Order(sooner=("shop/web-1",), tries=1)
ALL_NODES = FollowedScheduler("kube-scheduler", ties_by_chance=True, percentage=100)

CASES = [
    pytest.param(REJECTED, KUBE_SCHEDULER, None, DifferenceKind.NOT_FEASIBLE, id="rejected"),
    pytest.param(REJECTED, KUBE_SCHEDULER, EXPLAINED, DifferenceKind.ORDER, id="rejected-in-this-order-only"),
    pytest.param(EQUAL, KUBE_SCHEDULER, None, DifferenceKind.TIE, id="equal-by-chance"),
    pytest.param(EQUAL, KUBE_SCHEDULER, EXPLAINED, DifferenceKind.TIE, id="chance-needs-no-order"),
    pytest.param(EQUAL, KSCHEDULER, None, DifferenceKind.TIE, id="equal-against-a-fixed-rule"),
    pytest.param(EQUAL, KSCHEDULER, EXPLAINED, DifferenceKind.ORDER, id="a-fixed-rule-in-another-order"),
    pytest.param(BEHIND, KUBE_SCHEDULER, None, DifferenceKind.DIFFERENT_SCORE, id="few-nodes-are-all-looked-at"),
    pytest.param(BEHIND_OF_MANY, KUBE_SCHEDULER, None, DifferenceKind.SAMPLED, id="the-better-ones-not-in-the-sample"),
    pytest.param(BEHIND_OF_MANY, KSCHEDULER, None, DifferenceKind.DIFFERENT_SCORE, id="kscheduler-takes-no-sample"),
    pytest.param(BEHIND_OF_MANY, ALL_NODES, None, DifferenceKind.DIFFERENT_SCORE, id="a-sample-of-all"),
    pytest.param(
        Facts(is_feasible=True, behind=1, feasible=430, better=20, searched=1000),
        KUBE_SCHEDULER,
        None,
        DifferenceKind.DIFFERENT_SCORE,
        id="any-sample-must-have-held-a-better-one",
    ),
    pytest.param(BEHIND_OF_MANY, KUBE_SCHEDULER, EXPLAINED, DifferenceKind.ORDER, id="evidence-before-possibility"),
]


@pytest.mark.parametrize(("facts", "followed", "order", "kind"), CASES)
def test_a_comparison_is_called_what_it_is(
    facts: Facts, followed: FollowedScheduler, order: Order | None, kind: DifferenceKind
) -> None:
    assert kind_of(facts, followed, order) is kind


@pytest.mark.parametrize(
    ("percentage", "nodes", "found"),
    [(0, 80, 80), (0, 100, 100), (0, 200, 100), (0, 1000, 420), (0, 5000, 500), (0, 6000, 300), (1, 1000, 100)],
)
def test_the_sample_is_as_large_as_kube_schedulers(percentage: int, nodes: int, found: int) -> None:
    assert sample_size(percentage, nodes) == found


def comparison(kind: DifferenceKind, reason: str = "", pod: str = "shop/web") -> Comparison:
    return Comparison(pod, f"uid-of-{pod}", "kscheduler", "a", "b", kind, reason)


@pytest.mark.parametrize(
    ("followed", "real"), [pytest.param(KUBE_SCHEDULER, 2, id="chance"), pytest.param(KSCHEDULER, 4, id="fixed-rules")]
)
def test_what_is_a_difference_depends_on_who_decides(followed: FollowedScheduler, real: int) -> None:
    sums = Sums(followed)
    for kind in DifferenceKind:
        sums.add(comparison(kind))
    assert sums.judged == len(DifferenceKind)
    assert sums.real_differences == real
    assert sums.agreement == pytest.approx(1 - real / (len(DifferenceKind) - 1)), "an unknown rule counts for no side"


def test_an_unknown_rule_is_neither_agreement_nor_difference() -> None:
    sums = Sums(KUBE_SCHEDULER)
    sums.add(comparison(DifferenceKind.UNKNOWN_RULE))
    assert (sums.real_differences, sums.agreement) == (0, None)


def test_reasons_are_counted_and_bounded() -> None:
    sums = Sums(KUBE_SCHEDULER)
    for number in range(2000):
        sums.add(comparison(DifferenceKind.NOT_FEASIBLE, f"NodePorts: reason {number % 700}", f"shop/web-{number}"))
    for number in range(50):
        sums.add(
            comparison(DifferenceKind.DIFFERENT_SCORE, "ImageLocality gives our node more points", f"shop/b-{number}")
        )
    first, *others = sums.reasons(1000)
    assert (first.reason, first.count, [*first.pods]) == (
        "ImageLocality gives our node more points",
        50,
        ["shop/b-47", "shop/b-48", "shop/b-49"],
    )
    assert len(others) < 500
    assert len(sums.examples(DifferenceKind.NOT_FEASIBLE)) == 20


def test_an_order_names_three_of_each_kind() -> None:
    order = Order(sooner=tuple(f"shop/p{number}" for number in range(5)), unseen=("end of shop/q",), tries=2)
    assert order.text == "already decided: shop/p0, shop/p1, shop/p2 and 2 more; unseen: end of shop/q"
