"""The YAML reader: scalars as kube-scheduler's library takes them, and nothing that could hurt."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.config.errors import ConfigError
from kscheduler.config.yaml_tree import MAX_BYTES, MAX_DEPTH, parse_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", True),
        ("Yes", True),
        ("y", True),
        ("off", False),
        ("N", False),
        ("oN", "oN"),
        ('"on"', "on"),
        ("'true'", "true"),
        ("~", None),
        ("null", None),
        ("", None),
        ('""', ""),
        ("16", 16),
        ("-16", -16),
        ("1_000", 1000),
        ("010", 8),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("09", 9.0),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("2026-11-21", "2026-11-21"),
        ("15s", "15s"),
        ("1.2.3", "1.2.3"),
        ("-", [None]),
        ("9223372036854775808", 2**63),
        ("18446744073709551616", float(2**64)),
        ("1e999", "1e999"),
        ("0" * 79 + "7", 7),
        ("0" * 80 + "7", 7.0),
    ],
)
def test_a_plain_scalar_is_read_as_go_reads_yaml_1_1(text: str, value: object) -> None:
    read = parse_yaml(f"a: {text}\n".encode() if text != "-" else b"a:\n- \n")["a"]
    assert (type(read), read) == (type(value), value)


def test_a_number_of_a_million_digits_is_no_work() -> None:
    assert parse_yaml(b"a: " + b"9" * 1_000_000) == {"a": "9" * 1_000_000}


def test_boolean_and_number_keys_become_text_as_in_json() -> None:
    assert parse_yaml(b"on: 1\n16: 2\n") == {"true": 1, "16": 2}


def test_json_is_yaml() -> None:
    assert parse_yaml(b'{"a": [1, {"b": null}], "c":"d"}') == {"a": [1, {"b": None}], "c": "d"}


def test_a_byte_order_mark_and_a_trailing_separator_are_harmless() -> None:
    assert parse_yaml(b"\xef\xbb\xbf---\na: 1\n---\n") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: &x 1", "line 1, column 4: anchors and aliases"),
        (b"a: 1\nb: *x", "line 2, column 4: anchors and aliases"),
        (b"a: 1\nb: 2\na: 3", "line 3, column 1: the field 'a' is given twice"),
        (b"on: 1\ntrue: 3", "the field 'true' is given twice"),
        (b"a: !!python/object/apply:os.system [x]", "line 1, column 4: the tag"),
        (b"a: !mine 1", "the tag !mine is not allowed"),
        (b"a: !!binary eA==", "the tag"),
        (b"<<: {a: 1}", "merge keys"),
        (b"? [a]\n: 1", "a field's name must be text"),
        (b"~: 1", "a field's name must be text"),
        (b"a: 1\n---\nb: 2", "line 2, column 1: a second document"),
        (b"a: .inf", "not a number that JSON knows"),
        (b"a: -.NaN", "not a number that JSON knows"),
        (b"a: [1", "not YAML"),
        (b"a: \x01", "not YAML"),
        (b"\t- a", "not YAML"),
        (b"a: \xff\xfe", "not UTF-8 text"),
        (b"[" * (MAX_DEPTH + 1), "nested more than 50 deep"),
        (b"a: " + b"[" * 1_000_000, "nested more than 50 deep"),
        (b"a" * (MAX_BYTES + 1), "larger than 1 MiB"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_what_a_configuration_has_no_use_for_is_refused_with_its_place(text: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "f.yaml")
    assert str(caught.value).startswith("f.yaml: ")
    assert message in str(caught.value)


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    levels = [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 20)]
    with pytest.raises(ConfigError, match="line 1, column 5: anchors and aliases"):
        parse_yaml("\n".join(["l0: &l0 [x]", *levels]).encode())


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_config_error(data: bytes) -> None:
    with suppress(ConfigError):
        parse_yaml(data)


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%?, \n\t0.~<", max_size=60))
def test_no_text_near_yaml_raises_anything_but_config_error(text: str) -> None:
    with suppress(ConfigError):
        parse_yaml(text.encode())
