"""What selectors answer where Go's own arithmetic shows; the expected values are those of apimachinery 0.36.3."""

import pytest

from kscheduler.api.device_selectors import Release, SelectorCompiler
from kscheduler.api.devices import Device
from kscheduler.api.selector_errors import SelectorCompileError, SelectorRuntimeError
from kscheduler.cel.kubernetes.quantities import parse

DRIVER, GPU = "gpu.example.com", Device(name="gpu")


@pytest.mark.parametrize(
    ("text", "expected", "said"),
    [
        ("8Pi", 9007199254740992.0, "8Pi"),
        ("9007199254740993k", 9.007199254740992e18, "9007199254740993k"),
        ("123456789.123456789Gi", 1.3256071793860386e17, "132560717938603853806043136n"),
        ("9007199254740993.5", 9007199254740994.0, "9007199254740993500m"),
        ("7.1Ei", 8.185742682708614e18, "8185742682708613529600m"),
        ("1234567890123456789012", 1.234567890123457e21, "1234567890123456789012"),
        ("1234567890123456789e3", 1.234567890123457e21, "1234567890123456789e3"),
        ("0.1Ki", 102.4, "102400m"),
        ("1e300", 1e300, "1e300"),
        ("1e-30", 1e-09, "1e-9"),
        ("99999999999999999999E", 1.0000000000000002e38, "99999999999999999999E"),
        ("12345678901234567890n", 12345678901.234568, "12345678901234567890n"),
    ],
)
def test_an_approximate_float_is_gos_to_the_last_digit(text: str, expected: float, said: str) -> None:
    quantity = parse(text)
    assert (quantity.as_float(), quantity.text()) == (expected, said)


@pytest.mark.parametrize(("version", "most"), [("1.36", 48), ("1.37", 10_000)])
def test_includes_looks_at_48_values_in_1_36_and_at_all_later(version: Release, most: int) -> None:
    def includes(length: int, wanted: int) -> bool:
        compiled = SelectorCompiler(version, list_attributes=True).compile(f"lists.range({length}).includes({wanted})")
        return compiled.matches(DRIVER, GPU)

    assert includes(48, 47)
    assert not includes(48, 48)
    assert includes(200, 47), "found before the end is reached"
    if most < 200:
        for wanted in (48, 150, 300):
            with pytest.raises(SelectorRuntimeError, match="cannot be applied to lists longer than 48 values"):
                includes(200, wanted)
    else:
        assert includes(200, 150)
        assert not includes(200, 300)


@pytest.mark.parametrize(
    ("expression", "place", "problem"),
    [
        ("1 +", "1:4", "unexpected end of the expression, expected a value"),
        ("device.", "1:8", "unexpected end of the expression, expected the name of a field or function"),
        ("device.in", "1:8", "unexpected 'in', expected the name of a field or function"),
        ("device.driver = 'a'", "1:15", "unexpected '=', expected '=='"),
        ("true & false", "1:6", "unexpected '&', expected '&&'"),
        ("true and false", "1:6", "unexpected 'and', expected an operator or the end"),
        ("device.attributes[\n  'a'", "2:6", "unexpected end of the expression, expected ']'"),
        ("{1: 2", "1:6", "unexpected end of the expression, expected '}'"),
        ("has(device.driver", "1:18", "unexpected end of the expression, expected ')'"),
        ("true ? 1", "1:9", "unexpected end of the expression, expected ':'"),
        ("device.driver == 'gpu", "1:18", "a string that does not end, or has an unknown escape"),
        ("device.driver == \u201cgpu\u201d", "1:18", "unexpected '\u201c'"),
        ("", "1:0", "unexpected end of the expression, expected a value"),
    ],
)
def test_a_syntax_error_says_where_what_stands_and_what_should(expression: str, place: str, problem: str) -> None:
    with pytest.raises(SelectorCompileError) as refused:
        SelectorCompiler("1.37", list_attributes=False).compile(expression)
    assert str(refused.value).splitlines()[0] == f"compilation failed: ERROR: <input>:{place}: Syntax error: {problem}"
