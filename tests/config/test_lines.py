"""The line of a field, for messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.config.reading.lines import Lines

TEXT = """\
apiVersion: v1
profiles:
- schedulerName: red
  plugins:
    score:
      enabled: [{name: A}, {name: B,
        weight: 3}]
- {schedulerName: green}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("apiVersion", 1),
        ("profiles", 2),
        ("profiles[0]", 3),
        ("profiles[0].schedulerName", 3),
        ("profiles[0].plugins.score.enabled[1]", 6),
        ("profiles[0].plugins.score.enabled[1].weight", 7),
        ("profiles[1].schedulerName", 8),
        ("line 12, column 3", 12),
    ],
)
def test_a_field_is_found(path: str, line: int) -> None:
    assert Lines(TEXT.encode()).of(path) == line


@pytest.mark.parametrize(
    ("path", "line"), [("profiles[1].plugins.score", 8), ("profiles[7].schedulerName", 2), ("apiVersion.x[3]", 1)]
)
def test_of_a_field_that_is_not_there_the_deepest_part_that_is(path: str, line: int) -> None:
    assert Lines(TEXT.encode()).of(path) == line


@pytest.mark.parametrize("path", ["", "parallelism", "[0]", "..."])
def test_the_file_as_a_whole_has_no_line(path: str) -> None:
    assert Lines(TEXT.encode()).of(path) is None


def test_what_is_nested_too_deep_for_the_parser_in_c_has_no_lines() -> None:
    """Libyaml's composer would end the process: no exception tells of a C stack that is full."""
    assert Lines(b"[" * 100_000).of("profiles[0]") is None


@given(st.binary() | st.text().map(str.encode), st.text(max_size=20))
def test_no_file_and_no_path_breaks_it(data: bytes, path: str) -> None:
    Lines(data).of(path)
