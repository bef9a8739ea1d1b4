"""What selectors answer where Go's own arithmetic shows; the expected values are those of apimachinery 0.36.3."""

import pytest

from kscheduler.api.devices import Device
from kscheduler.cel.kubernetes.quantities import parse
from kscheduler.devices.selectors import Release, SelectorCompiler, SelectorRuntimeError

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
