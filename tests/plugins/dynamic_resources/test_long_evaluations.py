"""A selector that takes long is evaluated in a thread: it holds up nobody, and is answered as if it had not."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from kscheduler.api.device_selectors import SelectorCompiler
from kscheduler.api.devices import Device, ResourceClaim
from kscheduler.api.selector_errors import SelectorRuntimeError
from kscheduler.plugins.dynamic_resources import long_evaluations
from kscheduler.plugins.dynamic_resources.long_evaluations import (
    BUDGET_COST,
    MAX_EVALUATIONS,
    LongEvaluations,
    PatientCompiler,
    StillEvaluatingError,
)
from tests.plugins.dynamic_resources.stage import DRIVER, Stage, claim, device_class, devices_of, exactly, user
from tests.plugins.dynamic_resources.test_node_result_cache import left_by

NUMBERS = f"[{','.join(map(str, range(40)))}]"
# True, after more steps than the budget has.
LONG = f"{NUMBERS}.all(a, {NUMBERS}.all(b, a + b < 100)) && device.driver == '{DRIVER}'"
# Costs more than any selector may.
ENDLESS = f"{NUMBERS}.all(a, {NUMBERS}.all(b, {NUMBERS}.all(c, {NUMBERS}.all(d, a + b + c + d >= 0))))"
SHORT = f"device.driver == '{DRIVER}'"
GPU = Device(name="gpu")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No evaluation in a thread begins before this is set; nobody waits for one."""
    opened = threading.Event()
    begin = LongEvaluations._begin

    def held(self: LongEvaluations, evaluate: object) -> "Future[tuple[bool, int]]":
        def after() -> tuple[bool, int]:
            assert opened.wait(60)
            return evaluate()  # type: ignore[operator,no-any-return]

        return begin(self, after)

    monkeypatch.setattr(LongEvaluations, "_begin", held)
    monkeypatch.setattr(long_evaluations, "WAIT_SECONDS", 0.0)
    yield opened
    opened.set()


def answered(compiler: PatientCompiler, expression: str, device: Device = GPU) -> bool:
    """The answer, however long it takes."""
    while True:
        try:
            return compiler.compile(expression).matches(DRIVER, device)
        except StillEvaluatingError as still:
            still.wait(60)


def compiler() -> PatientCompiler:
    return PatientCompiler(SelectorCompiler("1.37"))


def test_what_is_short_is_answered_at_once() -> None:
    selector = compiler().compile(SHORT)
    assert selector.matches(DRIVER, GPU)
    assert not selector.is_long


def test_what_is_long_is_answered_in_the_end_and_known_as_long(gate: threading.Event) -> None:
    selector = compiler().compile(LONG)
    for _ in range(2):
        with pytest.raises(StillEvaluatingError) as still:
            selector.matches(DRIVER, GPU)
        assert not still.value.wait(0)
    gate.set()
    assert still.value.wait(60)
    assert selector.matches(DRIVER, GPU)
    assert selector.is_long


def test_the_answers_are_those_of_the_compiler() -> None:
    plain = SelectorCompiler("1.37").compile(LONG)
    patient = compiler()
    assert plain.evaluate(DRIVER, GPU)[1] > BUDGET_COST
    assert answered(patient, LONG) is plain.matches(DRIVER, GPU)
    with pytest.raises(SelectorRuntimeError, match="actual cost limit exceeded"):
        answered(patient, ENDLESS)


def test_errors_that_cost_little_are_raised_at_once() -> None:
    with pytest.raises(SelectorRuntimeError, match="no such key"):
        compiler().compile("device.attributes['x'].y == 1").matches(DRIVER, GPU)


def test_there_are_only_so_many_threads_and_answers_that_nobody_asks_for_are_forgotten(gate: threading.Event) -> None:
    evaluations, selector = LongEvaluations(), SelectorCompiler("1.37").compile(LONG)
    before, devices = set(threading.enumerate()), [Device(name="another") for _ in range(MAX_EVALUATIONS + 10)]
    for device in devices:
        with pytest.raises(StillEvaluatingError) as still:
            evaluations.matches(selector, DRIVER, device)
    assert len(set(threading.enumerate()) - before) == MAX_EVALUATIONS, "threads of other tests may end meanwhile"
    gate.set()
    assert still.value.wait(60)
    gate.clear()  # however quick a thread is, the next one has not begun
    with pytest.raises(StillEvaluatingError):
        evaluations.matches(selector, DRIVER, devices[-1])
    gate.set()
    assert len(evaluations._queried) <= MAX_EVALUATIONS


def stage(*expressions: str) -> Stage:
    made = Stage(device_class(), devices_of("n0", "a", "b"), devices_of("n1", "c"))
    made.put(selecting("c0", *expressions))
    return made


def selecting(name: str, *expressions: str) -> ResourceClaim:
    return claim(name, exactly(selectors=[{"cel": {"expression": each}} for each in expressions]))


def test_a_cycle_with_patience_leaves_it_and_the_rest_ends_when_the_answers_are_there(gate: threading.Event) -> None:
    made = stage(LONG)
    rest = left_by(made, user("c0"))
    assert rest is not None
    assert not rest.run(0.0)
    assert not rest.run(0.0)
    gate.set()
    deadline = time.monotonic() + 60
    while not rest.run(0.001):
        assert time.monotonic() < deadline
    assert left_by(made, user("c0")) is None
    assert made.judge(user("c0")) == {"n0": "a", "n1": "c"}


def test_a_cycle_without_patience_waits() -> None:
    assert stage(LONG).judge(user("c0")) == {"n0": "a", "n1": "c"}


def test_a_selector_that_costs_too_much_is_the_pods_error() -> None:
    made = stage(ENDLESS)
    with pytest.raises(Exception, match=r"selector #0 on device .*CEL runtime error: .*actual cost limit exceeded"):
        made.judge(user("c0"))
