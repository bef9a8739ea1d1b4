"""A selector that takes long to compile is compiled in a thread; one that takes too long costs its own pod."""

import threading
import time

import pytest

from kscheduler.api.device_selectors import SelectorCompiler
from kscheduler.api.selector_errors import SelectorCompileError
from kscheduler.plugins.dynamic_resources.long_evaluations import PatientCompiler, StillEvaluatingError
from tests.plugins.dynamic_resources.stage import DRIVER, user
from tests.plugins.dynamic_resources.test_long_evaluations import GPU, SHORT, answered, gate, stage
from tests.plugins.dynamic_resources.test_node_result_cache import left_by

__all__ = ["gate"]

NEST = "[" * 240 + "]" * 240
# True, after more steps than the event loop has for it.
LONG = "||".join([f"{NEST} == []"] * 19) + f" || device.driver == '{DRIVER}'"
ENDLESS = "optional.of(1)" + ".optMap(x, x)" * 24 + ".hasValue()"


def test_what_is_long_is_compiled_in_a_thread(gate: threading.Event) -> None:
    compiler = PatientCompiler(SelectorCompiler("1.37"))
    for _ in range(2):
        with pytest.raises(StillEvaluatingError) as still:
            compiler.compile(LONG)
        assert not still.value.wait(0)
    assert compiler.compile(SHORT).matches(DRIVER, GPU)
    gate.set()
    assert answered(compiler, LONG)
    assert compiler.compile(LONG) is compiler.compile(LONG)


def test_what_could_not_be_compiled_is_not_compiled_again() -> None:
    compiler = PatientCompiler(SelectorCompiler("1.37"))
    with pytest.raises(SelectorCompileError, match="takes more than 2,000,000 steps to compile"):
        answered(compiler, ENDLESS)
    began = time.thread_time()
    for _ in range(100):
        with pytest.raises(SelectorCompileError, match="takes more than 2,000,000 steps to compile"):
            compiler.compile(ENDLESS)
    assert time.thread_time() - began < 0.2


def test_a_cycle_with_patience_leaves_the_compilation_and_is_answered_after_it(gate: threading.Event) -> None:
    made = stage(LONG)
    rest = left_by(made, user("c0"))
    assert rest is not None
    gate.set()
    deadline = time.monotonic() + 60
    while not rest.run(0.001):
        assert time.monotonic() < deadline
    assert made.judge(user("c0")) == {"n0": "a", "n1": "c"}


def test_too_long_a_compilation_is_the_pods_error_and_names_claim_request_and_selector() -> None:
    made = stage(SHORT, ENDLESS)
    wanted = r"claim [a-z]+/c0, request [a-z0-9]+: selector #1: CEL compile error: the expression takes more than"
    with pytest.raises(Exception, match=wanted):
        made.judge(user("c0"))
