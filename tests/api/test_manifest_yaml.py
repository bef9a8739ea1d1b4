"""YAML of manifests: scalars as Go's library reads them, in linear time, and nothing that grows."""

import time
from typing import Any

import pytest
import yaml

from kscheduler.api.manifest_yaml import load_document, load_documents

THOUSAND_NAMES = ",".join(["x"] * 1_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("1:59:59.5", "1:59:59.5"),
        ("2024-01-02", "2024-01-02"),
        ("012", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("1e3", 1000.0),
        ("100m", "100m"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("on", True),
        ("off", False),
        ("~", None),
        ('"1"', "1"),
        ("'on'", "on"),
        ("!!str 12", "12"),
        ("v1", "v1"),
    ],
)
def test_a_scalar_is_what_go_reads(text: str, value: Any) -> None:
    """A plain scalar has the value that kubectl sends; quotes and the tag `!!str` make it text."""
    read = load_document(f"a: {text}".encode())["a"]
    assert (read, type(read)) == (value, type(value))


LONG_SCALARS = {
    "base-60": "1" + ":59" * 300_000,
    "base-60-float": "1" + ":59" * 300_000 + ".5",
    "decimal": "9" * 900_000,
    "underscores": "1_" * 450_000 + "1",
    "hexadecimal": "0x" + "f" * 900_000,
    "fraction": "1." + "9" * 900_000,
    "exponent": "1e" + "9" * 900_000,
    "zeros": "0" * 900_000,
    "dashes": "-" * 900_000,
}


@pytest.mark.parametrize("scalar", LONG_SCALARS.values(), ids=LONG_SCALARS.keys())
def test_a_scalar_of_a_megabyte_takes_linear_time(scalar: str) -> None:
    """No scalar keeps the reader busy: at most half a second of CPU for 0.9 MB, where base 60 took 20 s."""
    began = time.thread_time()
    load_document(f"a: {scalar}".encode())
    assert time.thread_time() - began < 0.5


def test_a_number_that_json_does_not_know_is_refused_with_its_line() -> None:
    with pytest.raises(yaml.MarkedYAMLError, match="not a number that JSON knows") as refused:
        load_document(b"a: 1\nb: .nan")
    assert refused.value.problem_mark is not None
    assert refused.value.problem_mark.line == 1


def test_aliases_and_merge_keys_of_usual_size_are_read() -> None:
    """What kubectl reads is read: anchors for repeated parts, and merge keys."""
    text = b"base: &base {a: 1, b: 2}\nown: {<<: *base, b: 3}\nagain: [*base, *base]"
    assert load_document(text) == {
        "base": {"a": 1, "b": 2},
        "own": {"a": 1, "b": 3},
        "again": [{"a": 1, "b": 2}] * 2,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a: &a [{THOUSAND_NAMES}]\nb: &b [{','.join(['*a'] * 1000)}]\nc: [{','.join(['*b'] * 1000)}]", "aliases"),
        (f"a: &a {{k: [{THOUSAND_NAMES}]}}\nb: &b [{','.join(['*a'] * 1000)}]", "aliases"),
        ("a: &a [*a]", "in itself"),
        ("a: &a {b: {c: *a}}", "in itself"),
        (
            f"a: &a {{{','.join(f'k{number}: 1' for number in range(1000))}}}\nb: {{<<: [{','.join(['*a'] * 1000)}]}}",
            "merge keys",
        ),
    ],
    ids=["lists-of-lists", "list-of-maps", "itself", "itself-deeper", "merge-keys"],
)
def test_growth_is_refused_before_anybody_walks_it(text: str, message: str) -> None:
    """A few kilobytes never become more than the text's bytes and 100,000 values."""
    with pytest.raises((ValueError, yaml.YAMLError), match=message):
        list(load_documents(text.encode()))
