"""Tolerations that compare numbers, with the gate TaintTolerationComparisonOperators and without."""

import pytest

from kscheduler.api.core import Taint, Toleration
from kscheduler.framework.rules.node_match import canonical_integer, has_untolerated, tolerates

GREATER, LESS = Toleration("left", "Gt", "10", "NoSchedule"), Toleration("left", "Lt", "10", "NoSchedule")


def left(value: str, effect: str = "NoSchedule") -> Taint:
    return Taint("left", value, effect)


@pytest.mark.parametrize(
    ("toleration", "taint", "covered"),
    [
        (GREATER, left("11"), True),
        (GREATER, left("10"), False),
        (GREATER, left("9"), False),
        (GREATER, left("-11"), False),
        (LESS, left("9"), True),
        (LESS, left("10"), False),
        (LESS, left("-9223372036854775808"), True),
        (LESS, left("-9223372036854775809"), False),
        (GREATER, left("11", "NoExecute"), False),
        (Toleration("other", "Gt", "10"), left("11"), False),
        (Toleration("", "Gt", "10"), left("11"), True),
        (Toleration("left", "Gt", "ten"), left("11"), False),
        (Toleration("left", "Gt", "010"), left("11"), False),
        (GREATER, left(""), False),
        (GREATER, left("x"), False),
        (GREATER, left("+11"), False),
        (Toleration("left", "Ge", "10"), left("11"), False),
    ],
)
def test_a_number_is_compared_only_with_the_gate(toleration: Toleration, taint: Taint, covered: bool) -> None:
    assert tolerates(toleration, taint, compares=True) is covered
    assert not tolerates(toleration, taint)
    if taint.effect == "NoSchedule":
        assert has_untolerated([taint], (toleration,), compares=True) is not covered
        assert has_untolerated([taint], (toleration,))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-1", -1),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-0", None),
        ("00", None),
        ("1_0", None),
        (" 1", None),
        ("1\n", None),
        ("\u0663", None),
        ("9" * 5000, None),
        ("", None),
        ("-", None),
    ],
)
def test_a_number_has_one_spelling(text: str, number: int | None) -> None:
    assert canonical_integer(text) == number
