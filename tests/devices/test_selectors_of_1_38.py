"""Where selectors of Kubernetes 1.38 answer, fail or cost otherwise than those of 1.37.

Expected values are what cel-go 0.29 and 0.33, and the packages `cel` and `api` of dynamic-resource-allocation 0.37 and
0.38, say when they are read.
"""

from typing import Any

import pytest

from kscheduler.api.device_selectors import Release, SelectorCompiler
from kscheduler.api.devices import Device, DeviceAttribute, DeviceCapacity
from kscheduler.api.selector_errors import SelectorCompileError, SelectorRuntimeError
from kscheduler.cel.kubernetes import quantities, wide_quantities

DRIVER = "gpu.example.com"
HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)
BAD = "attribute v: value is invalid or its type is not supported by this version"
BARE = Device(name="bare")
BROKEN = Device(
    name="broken",
    attributes={"v": DeviceAttribute(version_value="1.2"), "index": DeviceAttribute(int_value=3)},
)


def answer(version: Release, expression: str, device: Device = BARE) -> tuple[Any, int | None]:
    """The value or the error, and the cost."""
    try:
        return SelectorCompiler(version).compile(expression).evaluate(DRIVER, device)
    except SelectorRuntimeError as error:
        return str(error), error.cost


# DR1, DR2: attributes.


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", True),
        (f"device.attributes['{DRIVER}'].index == 3", True),
        (f"device.attributes['{DRIVER}'].v == semver('1.2.0')", BAD),
        (f"has(device.attributes['{DRIVER}'].v)", BAD),
        (f"device.attributes['{DRIVER}'].?v.hasValue()", BAD),
        (f"'v' in device.attributes['{DRIVER}']", False),
        (f"size(device.attributes['{DRIVER}']) == 2", True),
        (f"device.attributes['{DRIVER}'].exists(name, name == 'v')", True),
        (f"device.attributes['{DRIVER}'].exists(name, value, name == 'v' && value == 1)", BAD),
        ("device.attributes == device.attributes", BAD),
        ("device.attributes != device.attributes", True),
        (f"dyn({{'index': 3, 'v': 1}}) == device.attributes['{DRIVER}']", False),
        (f"device.attributes['{DRIVER}'] == dyn({{'index': 3, 'v': 1}})", BAD),
    ],
)
def test_a_bad_version_fails_only_what_reads_it(expression: str, expected: bool | str) -> None:
    assert answer("1.38", expression, BROKEN)[0] == expected
    assert answer("1.37", expression, BROKEN) == (
        "attribute v: parse semantic version: No Major.Minor.Patch elements found",
        None,
    )


def test_an_empty_list_is_a_bad_value() -> None:
    device = Device(name="gpu", attributes={"v": DeviceAttribute(string_values=())})
    assert answer("1.38", f"device.attributes['{DRIVER}'].v.size() == 0", device)[0] == BAD
    assert answer("1.37", f"device.attributes['{DRIVER}'].v.size() == 0", device)[0] is True


@pytest.mark.parametrize("qualified_first", [True, False])
def test_a_qualified_name_hides_the_plain_one(qualified_first: bool) -> None:
    names = {f"{DRIVER}/model": "qualified", "model": "plain"}
    order = list(names) if qualified_first else list(reversed(names))
    device = Device(
        name="gpu",
        attributes={name: DeviceAttribute(string_value=names[name]) for name in order},
        capacity={name: DeviceCapacity(value="1" if name == "model" else "2") for name in order},
    )
    expression = (
        f"device.attributes['{DRIVER}'].model == 'qualified' && "
        f"device.capacity['{DRIVER}'].model == quantity('2') && size(device.attributes['{DRIVER}']) == 1"
    )
    assert answer("1.38", expression, device)[0] is True
    assert answer("1.37", expression, device)[0] is not qualified_first


def test_keys_that_are_no_text_are_looked_up_by_their_text() -> None:
    device = Device(name="gpu", attributes={"1/model": DeviceAttribute(string_value="a")})
    assert answer("1.38", "dyn(device.attributes)[1].model == 'a'", device)[0] is True
    assert answer("1.37", "dyn(device.attributes)[1].model == 'a'", device)[0] == f"no such key: model{HINT}"
    assert answer("1.38", "dyn([]) in device.attributes", device)[0] is False


# DR11: the engine.


@pytest.mark.parametrize(
    ("expression", "costs"),
    [
        # The left side fails: neither the right side nor the sum cost anything; == still does.
        ("1/0 + size('a') == 2", (4, 2)),
        ("size([1/0]) == 1", (13, 2)),
        ("1 == 1/0", (2, 2)),
        ("!(1/0 == 1)", (3, 3)),
        ("'a'.contains(string(1/0))", (3, 1)),
        ("[1].slice(-1, 0).size() == 1", (14, 12)),
        ("['a'].map(x, 1/0).size() == 1", (16, 4)),
        ("optional.of({'a': [1]}).?a[dyn('b')].hasValue()", (4, 4)),
    ],
)
def test_what_fails_costs_less(expression: str, costs: tuple[int, int]) -> None:
    assert (answer("1.37", expression)[1], answer("1.38", expression)[1]) == costs


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_nan_has_no_place_in_an_order(operator: str) -> None:
    for left, right in (("0.0/0.0", "1.0"), ("dyn(1)", "0.0/0.0"), ("0.0/0.0", "0.0/0.0")):
        assert answer("1.38", f"{left} {operator} {right}")[0] is False
        assert answer("1.37", f"{left} {operator} {right}")[0] == "NaN values cannot be ordered"
    assert answer("1.38", f"dyn('a') {operator} 0.0/0.0")[0] is False
    assert answer("1.38", f"dyn([]) {operator} 0.0/0.0")[0] == f"no such overload: _{operator}_"


def test_a_comprehension_may_go_through_an_empty_text() -> None:
    assert answer("1.38", "dyn('').all(x, x == 1)")[0] is True
    assert answer("1.38", "dyn(b'').exists(i, x, x == 1)")[0] is False
    assert answer("1.37", "dyn('').all(x, x == 1)")[0] == "got 'types.String', expected iterable type"
    assert answer("1.38", "dyn('a').all(x, x == 1)")[0] == "got 'types.String', expected iterable type"


def test_sorting_by_what_fails_is_its_error() -> None:
    assert answer("1.38", "[2, 1].sortBy(x, 1 / 0) == []")[0] == "division by zero"
    assert str(answer("1.37", "[2, 1].sortBy(x, 1 / 0) == []")[0]).startswith("internal error: ")


def test_a_list_that_is_bound_does_not_change() -> None:
    expression = "cel.bind(a, [], (a + [1]).size() == 1 && (a + [1]).size() == 1)"
    assert answer("1.38", expression)[0] is True
    assert answer("1.37", expression)[0] is False


def test_networks_tell_whether_they_are_masks() -> None:
    assert answer("1.38", "cidr('10.0.0.0/8').isMask() && !cidr('10.0.0.1/8').isMask()") == (True, 5)
    with pytest.raises(SelectorCompileError, match="undeclared reference to 'isMask'"):
        SelectorCompiler("1.37").compile("cidr('10.0.0.0/8').isMask()")


@pytest.mark.parametrize(
    ("expression", "name", "suggested"),
    [
        ("devise.driver == 'a'", "devise", " (did you mean 'device'?)"),
        ("dev", "dev", " (did you mean 'device'?)"),
        ("gpu", "gpu", ""),
        ("setz.contains([1], [1])", "setz.contains", " (did you mean 'sets.contains'?)"),
        ("sets.contain == 1", "sets.contain", " (did you mean 'sets.contains'?)"),
        ("[1].existsOne(x)", "existsOne", ""),
        ("'a'.substr(1) == ''", "substr", " (did you mean 'substring'?)"),
        ("'a'.substrin(1) == ''", "substrin", " (did you mean 'substring'?)"),
        ("1.isGreatherThan(2)", "isGreatherThan", " (did you mean 'isGreaterThan'?)"),
        ("'a'.getHos() == 'b'", "getHos", " (did you mean 'getHost'?)"),
        ("'a'.isC('b')", "isC", " (did you mean 'isCIDR'?)"),
        ("'a'.isSem('b')", "isSem", " (did you mean 'isSemver'?)"),
        ("'a'.get('b')", "get", " (did you mean 'getDate' or 'getHost'?)"),
    ],
)
def test_undeclared_names_come_with_those_that_may_be_meant(expression: str, name: str, suggested: str) -> None:
    with pytest.raises(SelectorCompileError) as failed:
        SelectorCompiler("1.38").compile(expression)
    assert f"undeclared reference to '{name}'{suggested}\n" in str(failed.value)
    with pytest.raises(SelectorCompileError) as failed:
        SelectorCompiler("1.37").compile(expression)
    assert "(in container '')" in str(failed.value)
    assert "did you mean" not in str(failed.value)


def test_suggestions_are_part_of_the_work_that_a_compilation_may_be() -> None:
    expression = " + ".join(f"unknown_name_number_{at}" for at in range(400))
    with pytest.raises(SelectorCompileError):
        SelectorCompiler("1.38").compile_again(expression, most_steps=20_000)


# D16, in selectors.


@pytest.mark.parametrize(
    ("expression", "before", "after"),
    [
        ("quantity('9223372036854775807').isInteger()", False, True),
        ("quantity('-9223372036854775808').isInteger()", False, True),
        ("quantity('9223372036854775808').isInteger()", False, False),
        ("quantity('-9223372036854775809').isInteger()", False, False),
        ("isQuantity('1e20000')", True, True),
        ("isQuantity('1.0000000000000000000000000000001e20000')", False, True),
        ("quantity('12345678901234567890123456789').compareTo(quantity('12345678901234567890123456790')) == 0", 0, 0),
        ("quantity('123456789012345678901234567891') == quantity('123456789012345678901234567900')", False, True),
        (
            "quantity('99999999999999999999e2000').isGreaterThan(quantity('1.00000000000000000001e2000'))",
            "unreadable",
            True,
        ),
        ("quantity('0e400').asApproximateFloat() == 0.0", False, True),
    ],
)
def test_quantities_of_many_digits(expression: str, before: bool | str, after: bool) -> None:
    assert answer("1.38", expression)[0] == after
    if before != "unreadable":
        assert answer("1.37", expression)[0] == before


@pytest.mark.parametrize(
    ("text", "said", "said_before"),
    [
        ("1000E", "1e21", "1"),
        ("1180591620717411303424Ki", "9223372036854775807", "9223372036854775807"),
        ("9223372036854775807", "9223372036854775807", "9223372036854775807"),
        ("0.5Ki", "512", "512"),
        ("1e-30", "1e-9", "1e-9"),
        ("1234567890123456789012345678912", "1234567890123456789012345679k", "1234567890123456789012345678912"),
    ],
)
def test_quantities_are_said_as_they_are(text: str, said: str, said_before: str) -> None:
    assert (wide_quantities.parse(text).text(), quantities.parse(text).text()) == (said, said_before)


@pytest.mark.parametrize(("exponent", "scale"), [(20, -9), (21, -8)])
def test_what_is_smaller_by_more_than_29_powers_of_ten_is_rounded_up(exponent: int, scale: int) -> None:
    huge, tiny = wide_quantities.parse(f"10000000000000000000e{exponent}"), wide_quantities.parse("1n")
    assert huge.plus(tiny, sign=1, shared=False).amount() == (10**48 + 1, scale)
    assert tiny.plus(huge, sign=-1, shared=False).amount() == (1 - 10**48, scale)


def test_comparing_changes_nothing() -> None:
    for parse, left in ((quantities.parse, None), (wide_quantities.parse, 1)):
        one = parse("1")
        assert one.compare(parse("10000000000000000000000")) == -1
        assert one.as_integer() == left


@pytest.mark.parametrize("text", ["1e2147483648", "1.00000000000000000000e2147483648"])
def test_an_exponent_beyond_32_bits_is_refused(text: str) -> None:
    with pytest.raises(quantities.QuantityTextError):
        wide_quantities.parse(text)


@pytest.mark.parametrize("version", ["1.36", "1.37", "1.38"])
@pytest.mark.parametrize(
    "change",
    ["{}.compareTo(quantity('1e40'))", "{}.add(quantity('1e40'))", "{}.sub(1)", "{}.isLessThan(quantity('1e40'))"],
)
def test_no_evaluation_changes_what_the_next_one_sees(version: Release, change: str) -> None:
    memory = f"device.capacity['{DRIVER}'].memory"
    compiler = SelectorCompiler(version)
    device = Device(name="big", capacity={"memory": DeviceCapacity(value="80Gi")})
    changing = compiler.compile(f"[{change.format(memory)}].size() == 1")
    later = compiler.compile(f"{memory}.isInteger() && {memory} == quantity('80Gi')")
    before = later.evaluate(DRIVER, device)
    assert before[0]
    assert changing.evaluate(DRIVER, device)[0]
    assert later.evaluate(DRIVER, device) == before


def test_a_device_of_1_38_is_prepared_once_for_all_evaluations() -> None:
    device = Device(name="big", capacity={"memory": DeviceCapacity(value="80Gi")})
    for version, is_shared in (("1.37", False), ("1.38", True)):
        prepared = SelectorCompiler(version).prepared(DRIVER, device)  # type: ignore[arg-type]
        assert (prepared.variable() is prepared.variable()) is is_shared
