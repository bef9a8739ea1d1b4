"""What an expression may take is counted: whatever it says, its part on the event loop is short, and all of it ends."""

import time
from contextlib import suppress
from functools import reduce

import pytest

from kscheduler.api.device_selectors import SelectorCompiler
from kscheduler.api.devices import Device
from kscheduler.api.selector_errors import (
    SelectorBudgetError,
    SelectorCompileError,
    SelectorError,
    SelectorRuntimeError,
)
from kscheduler.cel.environment import MAX_STEPS
from kscheduler.plugins.dynamic_resources.long_evaluations import BUDGET_COST, BUDGET_STEPS
from tests.effort import sampled

HOLD_SECONDS = 0.2
DRIVER, GPU = "gpu.example.com", Device(name="gpu")


def nested(opening: str, middle: str, closing: str, depth: int) -> str:
    return opening * depth + middle + closing * depth


def bound(first: str, each: str, times: int, last: str) -> str:
    """`last` with a variable `v` that was made again from itself so many times."""
    return f"cel.bind(v,{first}," + f"cel.bind(v,{each}," * times + last + ")" * (times + 1)


LISTS = nested("[", "", "]", 240)
COMPILED = {
    "lists in lists": "&&".join([f"{LISTS}==[]"] * 20),
    "maps in maps": "&&".join([nested("{1:", "1", "}", 120) + "=={}"] * 18),
    "lists of lists": "[" + ",".join([nested("[", "", "]", 100)] * 45) + "]==[]",
    "a chain of maps": "[1]" + ".map(x, [x, x])" * 240 + "==[]",
    "maps in maps of lists": reduce(lambda inner, _: f"[1].map(x,{inner})", range(200), "x") + "==[]",
    "a type as large as 2 to the power of 200": bound("1", "{v:v}", 200, "v=={}"),
    "the same with a parameter": bound("[]", "{v:v}", 60, "v=={}"),
    "no overload for a large type": bound("1", "[v,{v:v}]", 200, "v+1==2"),
    "copies of copies": "optional.of(1)" + ".optMap(x,x)" * 24 + ".hasValue()",
    "large regular expressions": "||".join([rf"device.driver.matches('(?i)\\pL{{300}}{i}')" for i in range(150)]),
    "many calls of dyn": "[" + ",".join(f"dyn({i})" for i in range(1100)) + "]==[]",
    "a syntax error at the end": "1+" * 5000,
    "signs": "!" * 9000 + "-" * 1000,
    "errors without end": "||".join([f"({nested('[', '', ']', 50)}+1)"] * 90),
}
EVALUATED = {
    "equal lists of shared parts": bound("[1]", "[v,v]", 60, "v==v"),
    "equal maps of shared parts": bound("{1:1}", "{1:v,2:v}", 60, "v==v"),
    "a list that doubles": bound("[1]", "v+v", 60, "size(v)==0"),
    "a string that doubles": bound("'aaaaaaaaaaaaaaaa'", "v+v", 60, "size(v)==0"),
    "a string of shared parts": bound("[1]", "[v,v]", 60, "'%s'.format([v])==''"),
    "shared parts made flat": bound("[1]", "[v,v]", 30, "v.flatten(30)==[]"),
    "a string that is replaced": bound("'aaaaaaaaaa'", "v.replace('a','aaaaaaaaaa')", 20, "v==''"),
    "lists of a million": "[" + ",".join(["lists.range(1000000)"] * 300) + "].size()==0",
    "unlike elements": "lists.range(5000).distinct().size()==0",
    "a sorted list": "lists.range(1000000).sort().size()==0",
    "a regular expression of the device": r"'a'.matches(device.driver + '(?i)\\pL{300}')",
    "a letter at a time": bound("'aaaaaaaaaaaaaaaa'", "v+v", 10, "v.matches('(((a{0,30}){0,30}))y')"),
    "a quantity with a billion zeros": "quantity('1e999999999').isGreaterThan(quantity('1'))",
    "a quantity of 9,000 digits": f"quantity('{'9' * 9000}').isGreaterThan(quantity('1'))",
}


@pytest.mark.parametrize("expression", sampled(COMPILED.values(), 5, "up to a second each"), ids=COMPILED)
def test_what_is_compiled_on_the_event_loop_holds_it_shortly_and_the_whole_ends(expression: str) -> None:
    compiler = SelectorCompiler("1.37")
    assert len(expression) <= 10_240
    took = []
    for _ in range(2):  # a collection of all garbage of this process may fall into one of them
        began = time.thread_time()
        with pytest.raises(SelectorBudgetError):
            compiler.compile_again(expression, BUDGET_STEPS)
        took.append(time.thread_time() - began)
    assert min(took) < HOLD_SECONDS
    began = time.thread_time()
    with suppress(SelectorCompileError):
        compiler.compile_again(expression)
    assert time.thread_time() - began < 4.0


@pytest.mark.parametrize("expression", sampled(EVALUATED.values(), 4, "up to a second each"), ids=EVALUATED)
def test_what_is_evaluated_on_the_event_loop_holds_it_shortly_and_the_whole_ends(expression: str) -> None:
    selector = SelectorCompiler("1.37").compile(expression)
    for limit, most_seconds in ((BUDGET_COST, HOLD_SECONDS), (1_000_000, 8.0)):
        began = time.thread_time()
        with suppress(SelectorRuntimeError):
            selector.evaluate(DRIVER, GPU, limit)
        assert time.thread_time() - began < most_seconds


def test_long_expressions_that_are_only_nested_are_compiled() -> None:
    assert not SelectorCompiler("1.37").compile(COMPILED["lists in lists"]).matches(DRIVER, GPU)


@pytest.mark.parametrize("name", ["copies of copies", "large regular expressions"])
def test_what_takes_too_many_steps_says_so(name: str) -> None:
    with pytest.raises(SelectorCompileError, match=f"the expression takes more than {MAX_STEPS:,} steps to compile"):
        SelectorCompiler("1.37").compile(COMPILED[name])


def test_how_many_steps_an_expression_takes_does_not_depend_on_those_before_it() -> None:
    def fewest(compiler: SelectorCompiler) -> int:
        low, high = 1, MAX_STEPS
        while low < high:
            middle = (low + high) // 2
            try:
                compiler.compile_again("[device.driver, 1 +", middle)
            except SelectorBudgetError:
                low = middle + 1
            except SelectorError:
                high = middle
        return low

    compiler = SelectorCompiler("1.37")
    first = fewest(compiler)
    with pytest.raises(SelectorCompileError):
        compiler.compile("{[device.driver]: (a[1] ? 2, b.c")
    assert fewest(compiler) == first


@pytest.mark.parametrize("number", ["9" * 10_000, "-" + "9" * 5_000, "0x" + "f" * 9_000, "9" * 9_000 + "u"])
def test_a_number_of_thousands_of_digits_is_an_invalid_literal(number: str) -> None:
    with pytest.raises(SelectorCompileError, match=r"invalid u?int literal"):
        SelectorCompiler("1.37").compile(f"{number} == 1")


def test_zeros_before_a_number_do_not_count() -> None:
    assert SelectorCompiler("1.37").compile("0" * 5_000 + "7 == 7").matches(DRIVER, GPU)


def test_what_compilers_keep_is_bounded_by_its_weight() -> None:
    compiler = SelectorCompiler("1.37")
    large = "[" + ",".join(["[1]"] * 2_000) + "].size() == "
    for number in range(12):
        compiler.compile(f"{large}{number}")
    heaviest = compiler.compile(f"{large}0").weight
    assert heaviest > 1_000_000
    assert compiler._compiled.weight <= 32 << 20
