"""No field forges a line, commands a terminal, fills the disk or tells a secret."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.clean import LONGEST_TEXT, LONGEST_TRACEBACK, MAX_ELEMENTS, clean_event, redacted
from kscheduler.telemetry.logs.pipeline import configure
from kscheduler.telemetry.logs.rendering import LONGEST_LINE

JSON, TEXT = "json", "text"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4) | st.tuples(inner)
    ),
    max_leaves=12,
)


def written(how: str, **fields: Any) -> str:
    stream = io.StringIO()
    configure(stream=stream, json=how == JSON)
    get_logger("t").warning("odd", **fields)
    return stream.getvalue()


@given(VALUES, VALUES)
def test_whatever_a_field_holds_an_event_is_one_line_of_json(pod: Any, err: Any) -> None:
    text = written(JSON, pod=pod, err=err)
    assert text.count("\n") == 1
    text.encode()
    line = json.loads(text)
    assert (line["msg"], line["level"]) == ("odd", "warning")


@given(VALUES)
def test_and_one_line_of_text_that_no_terminal_obeys(pod: Any) -> None:
    text = written(TEXT, pod=pod)
    assert text.count("\n") == 1
    text.encode()
    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in text.rstrip("\n"))


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "\x9b31m", "\u202egnp", "\u2028x", "\udcff", "\x7f"])
def test_neither_renderer_lets_through(text: str) -> None:
    for how in (JSON, TEXT):
        assert text not in written(how, pod=text)


def test_what_is_long_is_cut_and_its_length_reported() -> None:
    event = clean_event({"message": "x" * 10_000, "exception": "y" * 40_000, "nodes": list(range(5000)), "n": 5})
    assert event["message"].startswith("x" * LONGEST_TEXT)
    assert f"[{10_000 - LONGEST_TEXT} characters left out]" in event["message"]
    assert event["exception"].endswith("y" * (LONGEST_TRACEBACK // 2)), "the end of a traceback names the failure"
    assert (len(event["nodes"]), event["nodes"][-1]) == (MAX_ELEMENTS + 1, "... 4000 more")
    assert event["n"] == 5


def test_a_line_is_bounded_however_many_fields_it_has() -> None:
    text = written(JSON, **{f"field_{number}": "z" * 4000 for number in range(60)})
    assert len(text) < LONGEST_LINE
    assert json.loads(text)["cut_bytes"] > LONGEST_LINE


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("401 for Authorization: Bearer abcdef1234567890", "abcdef1234567890"),
        ("proxy https://me:hunter22@proxy:3128 refused", "hunter22"),
        ("got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl back", "eyJhbGciOiJSUzI1NiJ9"),
        ("the plugin says token: k8s-abc123", "k8s-abc123"),
        ('{"access_token": "abc_defgh", "x": 1}', "abc_defgh"),
        ("DB_PASSWORD=hunter22 was wrong", "hunter22"),
    ],
)
def test_what_looks_like_a_credential_is_not_written(text: str, secret: str) -> None:
    assert secret not in redacted(text)
    for how in (JSON, TEXT):
        assert secret not in written(how, err=text)
        assert secret not in written(how, err=ValueError(text))
        assert "odd" in written(how, err=text)


def test_a_field_that_is_called_a_token_is_not_written() -> None:
    assert "abc" not in written(JSON, token="abc", password="abc")


def test_words_that_are_no_secret_stay() -> None:
    text = "basic plan of node https://host:6443/api: bearer is missing; token: expired, secret web-1 not found"
    assert redacted(text) == text
