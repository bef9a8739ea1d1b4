"""Selectors that nobody sane writes: each gives an answer or a clear error, and the process stands."""

import sys
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.device_selectors import SelectorCompiler
from kscheduler.api.devices import Device
from kscheduler.api.selector_errors import SelectorCompileError, SelectorError, SelectorRuntimeError

DEVICE = Device(name="gpu-0")
LONGEST = 10 * 1024
NESTS = {
    "brackets": ("(", "true", ")"),
    "not": ("!(", "true", ")"),
    "list": ("[", "1", "]"),
    "dyn": ("dyn(", "true", ")"),
    "conditional": ("(true ? ", "true", " : false)"),
    "flat conditional": ("false ? true : ", "true", ""),
    "all": ("[1].all(x, ", "true", ")"),
    "and": ("true && ", "true", ""),
    "sum": ("1 + ", "1", " > 0"),
    "equal": ("true == ", "true", ""),
    "member": ("", "device", ".attributes"),
    "optional": ("", "dyn({})", ".?a"),
    "index": ("", "dyn([])", "[0]"),
    "call": ("", "'a'", ".trim()"),
    "minus": ("- ", "1", ""),
    "nonsense": ("([{", "", ""),
    "quotes": ("'", "", ""),
}


@pytest.fixture(params=["1.36", "1.37"])
def release(request: pytest.FixtureRequest) -> Literal["1.36", "1.37"]:
    answer: Literal["1.36", "1.37"] = request.param
    return answer


def ask(release: Literal["1.36", "1.37"], expression: str) -> str:
    """The answer or the error."""
    try:
        value, _ = SelectorCompiler(release).compile(expression).evaluate("gpu.example.com", DEVICE)
    except SelectorError as error:
        return str(error)
    return str(value)


@pytest.mark.parametrize("kind", NESTS)
@pytest.mark.parametrize("depth", [10, 60, 120, 1000])
def test_deep_nests_are_answered(release: Literal["1.36", "1.37"], kind: str, depth: int) -> None:
    before, (opening, middle, closing) = sys.getrecursionlimit(), NESTS[kind]
    assert ask(release, (opening * depth + middle + closing * depth)[:LONGEST])
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("depth", [100, 240])
def test_deep_values_are_compared(release: Literal["1.36", "1.37"], depth: int) -> None:
    nest = "dyn([" * (depth // 2) + "1" + "])" * (depth // 2)
    assert ask(release, f"{nest} == {nest}") == "True"


def test_too_deep_an_expression_is_refused(release: Literal["1.36", "1.37"]) -> None:
    with pytest.raises(SelectorCompileError, match="recursion limit exceeded: 250"):
        SelectorCompiler(release).compile("(" * 1000 + "true" + ")" * 1000)


def test_the_longest_selector_is_answered(release: Literal["1.36", "1.37"]) -> None:
    term = 'device.driver == "gpu.example.com" && '
    assert ask(release, term * (LONGEST // len(term) - 1) + "true") == "True"


def test_an_evaluation_that_costs_too_much_ends(release: Literal["1.36", "1.37"]) -> None:
    numbers = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    nest = "".join(f"{numbers}.all(x{level}, " for level in range(7)) + "true" + ")" * 7
    with pytest.raises(SelectorRuntimeError, match="actual cost limit exceeded"):
        SelectorCompiler(release).compile(nest).matches("gpu.example.com", DEVICE)


PIECES = [
    "device",
    ".",
    "attributes",
    "[",
    "]",
    "(",
    ")",
    "'a'",
    '"',
    "&&",
    "!",
    "1",
    "?",
    ":",
    "{",
    "}",
    ",",
    "all",
    "-",
    " ",
    "\n",
    "é",
    "\\",
    "in",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.sampled_from(["1.36", "1.37"]))
def test_any_text_is_answered_or_refused(expression: str, release: Literal["1.36", "1.37"]) -> None:
    assert ask(release, expression)
