"""Names that are made of other names are names that the API server takes."""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.names import LONGEST_NAME, event_name, generated_name, indexed_base

NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NOW = 1_800_000_000_000_000_000


@given(st.from_regex(r"\A[a-z0-9][-a-z0-9.]{0,251}[a-z0-9]\Z"), st.integers(NOW, NOW * 4))
def test_an_events_name_is_always_one_that_the_api_server_takes(regarding: str, nanoseconds: int) -> None:
    name = event_name(regarding, nanoseconds)
    assert NAME.fullmatch(name)
    assert len(name) <= LONGEST_NAME
    if len(regarding) <= 236 and NAME.fullmatch(regarding):
        assert name.startswith(f"{regarding}.")  # it tells what it is about wherever that is possible
    else:
        assert str(uuid.UUID(name)) == name


def test_two_events_of_a_long_name_have_two_names() -> None:
    assert event_name("p" * 253, NOW) != event_name("p" * 253, NOW)


@pytest.mark.parametrize(
    ("base", "made"),
    [
        pytest.param("web-", "web-abcde", id="short"),
        pytest.param("w" * 58, "w" * 58 + "abcde", id="the longest that is kept"),
        pytest.param("w" * 200 + "-", "w" * 58 + "abcde", id="cut, as the API server does"),
    ],
)
def test_the_api_server_cuts_what_it_makes_a_name_of(base: str, made: str) -> None:
    assert generated_name(base, "abcde") == made


@pytest.mark.parametrize(
    ("job", "base"),
    [
        pytest.param("train", "train-7-", id="short"),
        pytest.param("t" * 55, "t" * 55 + "-7-", id="exactly as long"),
        pytest.param("t" * 56, "t" * 55 + "-7-", id="one more"),
        pytest.param("t" * 200, "t" * 55 + "-7-", id="long"),
    ],
)
def test_the_index_of_a_jobs_pod_is_never_cut(job: str, base: str) -> None:
    assert indexed_base(job, 7) == base
    assert generated_name(indexed_base(job, 7), "abcde") == f"{base}abcde"
