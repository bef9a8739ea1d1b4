"""Levels by module: klog's rules for patterns, and what they raise."""

import io
import json
import logging

import pytest

from kscheduler.telemetry.logs import get_logger, verbose
from kscheduler.telemetry.logs.modules import ModuleLevel, ModuleLevels, glob, parse_modules
from kscheduler.telemetry.logs.pipeline import configure


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("abc", "abc", True),
        ("*", "abc", True),
        ("*c", "abc", True),
        ("a*", "a", True),
        ("a*", "ab/c", False),
        ("a*b*c*d*e*", "axbxcxdxe", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("ab[c]", "abc", True),
        ("ab[b-d]", "abc", True),
        ("ab[e-g]", "abc", False),
        ("ab[^c]", "abc", False),
        ("ab[^b-d]", "abc", False),
        ("ab[^e-g]", "abc", True),
        ("ab[!c]", "ab!", True),
        ("a\\*b", "a*b", True),
        ("a\\*b", "ab", False),
        ("[\\]a]", "]", True),
        ("[\\-]", "-", True),
        ("[x\\-]", "x", True),
        ("[z-a]", "b", False),
        ("a.c", "abc", False),
    ],
)
def test_a_pattern_matches_as_gos_filepath_match(pattern: str, name: str, is_match: bool) -> None:
    compiled = glob(pattern)
    assert compiled is not None
    assert (compiled.fullmatch(name) is not None) is is_match


@pytest.mark.parametrize("pattern", ["[", "[^", "[]a]", "[-]", "[x-]", "[-x]", "[a-b-c]", "[\\", "a[", "\\"])
def test_a_malformed_pattern_matches_nothing(pattern: str) -> None:
    assert glob(pattern) is None
    assert not ModuleLevel(pattern, 3).matches("a")


def test_the_module_is_the_last_part_of_a_loggers_name() -> None:
    levels = ModuleLevels(1, parse_modules("reflector=4,pods=0,aiohttp.*=5,re*=9"))
    assert levels.of("kscheduler.informers.reflector") == 4, "the first that matches"
    assert levels.of("kscheduler.client.events.recorder") == 9
    assert levels.of("kscheduler.pods") == 1, "0 has no effect"
    assert levels.of("aiohttp.client") == 5
    assert levels.of("aiohttp") == 1
    assert levels.most == 9


def test_a_level_is_raised_and_never_lowered() -> None:
    assert ModuleLevels(5, parse_modules("reflector=2")).of("reflector") == 5


def messages(stream: io.StringIO) -> list[str]:
    return [json.loads(line)["msg"] for line in stream.getvalue().splitlines()]


def test_debugging_lines_come_from_the_modules_that_are_named() -> None:
    stream = io.StringIO()
    configure(stream=stream, modules=parse_modules("reflector=4"))
    get_logger("kscheduler.informers.reflector").debug("wanted")
    get_logger("kscheduler.informers.factory").debug("unwanted")
    get_logger("kscheduler.informers.factory").info("as always")
    assert messages(stream) == ["wanted", "as always"]
    assert not verbose(1), "lines about pods are another module"


def test_lines_about_pods_are_a_module() -> None:
    configure(stream=io.StringIO(), modules=parse_modules("pods=5"))
    assert verbose(5)
    assert not verbose(6)


def test_libraries_too_are_modules() -> None:
    stream = io.StringIO()
    configure(stream=stream, modules=parse_modules("mylib.*=4,other=2"))
    for name in ("mylib.wire", "other", "third"):
        logger = logging.getLogger(name)
        logger.debug("%s debug", name)
        logger.info("%s info", name)
        logger.warning("%s warning", name)
    assert messages(stream) == [
        *("mylib.wire debug", "mylib.wire info", "mylib.wire warning"),
        *("other info", "other warning"),
        "third warning",
    ]
