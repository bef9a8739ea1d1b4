"""Quantities: exact where Go is exact, saturated where Go wraps around."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.quantity import MAX_INT64, QuantityError, exact_value, milli_value, nano_value, value

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
numbers = st.from_regex(r"\+?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})", fullmatch=True)
exponents = st.integers(-40, 40).flatmap(lambda power: st.sampled_from([f"e{power}", f"E{power}", f"e{power:+d}"]))


def saturated(exact: Fraction) -> int:
    """Rounded up, at most int64's largest."""
    return min(math.ceil(exact), MAX_INT64)


def exact_number(text: str) -> Fraction:
    """What the digits say; Fraction knows no number that ends in a point."""
    return Fraction(text.lstrip("+").rstrip(".") if text.endswith(".") else text.lstrip("+"))


@given(numbers, st.sampled_from(sorted(SUFFIXES)))
def test_a_number_with_a_suffix_is_its_exact_value_rounded_up(number: str, suffix: str) -> None:
    exact = exact_number(number) * SUFFIXES[suffix]
    assert value(number + suffix) == saturated(exact)
    assert milli_value(number + suffix) == saturated(exact * 1000)
    assert nano_value(number + suffix) == min(math.ceil(exact * 10**9), MAX_INT64 * 10**9)


@given(numbers, exponents)
def test_a_number_with_an_exponent_is_its_exact_value_rounded_up(number: str, exponent: str) -> None:
    exact = exact_number(number) * Fraction(10) ** int(exponent[1:])
    assert value(number + exponent) == saturated(exact)
    assert milli_value(number + exponent) == saturated(exact * 1000)


@given(st.integers(0, 2**70))
def test_a_json_integer_is_the_number_itself(number: int) -> None:
    assert value(number) == value(str(number)) == min(number, MAX_INT64)


@pytest.mark.parametrize(
    ("text", "units", "thousandths"),
    [
        ("0.5m", 1, 1),
        ("500m", 1, 500),
        ("1.0000000001", 2, 1001),
        ("1E", 10**18, MAX_INT64),
        ("1E3", 1000, 10**6),
        ("1e3", 1000, 10**6),
        ("80e-1", 8, 8000),
        ("0Ei", 0, 0),
        ("8Ei", MAX_INT64, MAX_INT64),
        ("7Ei", 7 * 2**60, MAX_INT64),
        ("1e30", MAX_INT64, MAX_INT64),
        ("9223372036854775807", MAX_INT64, MAX_INT64),
        ("9223372036854775808", MAX_INT64, MAX_INT64),
        ("1e2147483647", MAX_INT64, MAX_INT64),
        ("1e-2147483647", 1, 1),
        ("2e4294967296", 2, 2000),
        ("2e4294967299", 2000, 2000_000),
        ("2e-4294967295", 20, 20_000),
        ("1e0000000000000000000000003", 1000, 1000_000),
        ("0e999999999999999999", 0, 0),
        ("9" * 400, MAX_INT64, MAX_INT64),
        ("0." + "0" * 200 + "1", 1, 1),
        (0.1, 1, 100),
        (1e21, MAX_INT64, MAX_INT64),
    ],
    ids=str,
)
def test_the_awkward_ones(text: str | float, units: int, thousandths: int) -> None:
    assert (value(text), milli_value(text)) == (units, thousandths)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "m", "Ki", "+", "-", ".", "1K", "1ki", "1KI", "1 Ki", " 1", "1 ", "1\n", "1e", "1ee3", "1e3i"),
        *("1e3Ki", "1.2.3", "--1", "1_000", "0x10", "1,5", "١", "1i", "nan", "inf", "Infinity", "1Zi"),
        *("1e9223372036854775808", "1e2147483648", "1e-2147483648", "0e2147483648"),
    ],
    ids=repr,
)
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    for reads in (value, milli_value, nano_value):
        with pytest.raises(QuantityError, match="is not a number"):
            reads(text)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_numbers_that_json_does_not_know_are_refused(number: float) -> None:
    with pytest.raises(QuantityError):
        value(number)


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    try:
        number = value(text)
    except QuantityError:
        return
    assert -MAX_INT64 <= number <= MAX_INT64
    assert text.isascii()


@given(numbers, st.sampled_from(sorted(SUFFIXES)))
def test_a_negative_quantity_never_makes_anything_larger(number: str, suffix: str) -> None:
    negative = "-" + number.lstrip("+") + suffix
    assert -MAX_INT64 <= value(negative) <= 0
    assert -MAX_INT64 <= milli_value(negative) <= 0


@pytest.mark.parametrize(
    ("less", "more"),
    [("10E", "20E"), ("1e30", "1.0000000001e30"), ("8Ei", "10E"), ("1500m", "2")],
)
def test_exact_values_compare_beyond_int64(less: str, more: str) -> None:
    assert exact_value(less) < exact_value(more)


def test_a_binary_suffix_ends_at_int64_as_in_go() -> None:
    assert exact_value("8Ei") == exact_value("9Ei") == exact_value(str(MAX_INT64))
