"""The YAML reader, with libyaml and without: scalars as kube-scheduler's library takes them, and no way to hurt."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.manifest_yaml import LOADER
from kscheduler.config.errors import ConfigError
from kscheduler.config.reading.yaml_tree import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Tree
from kscheduler.config.reading.yaml_tree import parse_yaml as parse

PROCESSES = pytest.mark.slow("starts kscheduler as a process, without libyaml")

LOADERS = {
    "libyaml": pytest.param(
        getattr(yaml, "CSafeLoader", None),
        marks=pytest.mark.skipif(not yaml.__with_libyaml__, reason="this PyYAML was built without libyaml"),
    ),
    "pure Python": yaml.SafeLoader,
}


@pytest.fixture(params=list(LOADERS.values()), ids=list(LOADERS))
def loader(request: pytest.FixtureRequest) -> Any:
    return request.param


def parse_yaml(data: bytes, loader: Any, where: str = "") -> Tree:
    return parse(data, where, loader=loader)


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
def test_a_plain_scalar_is_read_as_go_reads_yaml_1_1(loader: Any, text: str, value: object) -> None:
    read = parse_yaml(f"a: {text}\n".encode() if text != "-" else b"a:\n- \n", loader)["a"]
    assert (type(read), read) == (type(value), value)


def test_a_number_of_a_million_digits_is_no_work(loader: Any) -> None:
    assert parse_yaml(b"a: " + b"9" * 1_000_000, loader) == {"a": "9" * 1_000_000}


def test_boolean_and_number_keys_become_text_as_in_json(loader: Any) -> None:
    assert parse_yaml(b"on: 1\n16: 2\n", loader) == {"true": 1, "16": 2}


def test_json_is_yaml(loader: Any) -> None:
    assert parse_yaml(b'{"a": [1, {"b": null}], "c":"d"}', loader) == {"a": [1, {"b": None}], "c": "d"}


def test_a_byte_order_mark_and_a_trailing_separator_are_harmless(loader: Any) -> None:
    assert parse_yaml(b"\xef\xbb\xbf---\na: 1\n---\n", loader) == {"a": 1}


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
        (
            b'a:\n- b: "c\n- d: 1\n\n',
            "column 1: not YAML: found unexpected end of stream while scanning a quoted scalar that begins in line 2",
        ),
        (b"a: 'b", "not YAML: found unexpected end of stream"),
        (b"a: \x01", "not YAML"),
        (b"\t- a", "not YAML"),
        (b'"\\ud800"', "line 1, column "),
        (b'"\\U00110000"', "not YAML"),
        (b'"\\UFFFFFFFF"', "not YAML"),
        (b"%YAML 1." + b"1" * 5000 + b"\n---\na: 1", "not YAML"),
        (b"a: \xff\xfe", "not UTF-8 text"),
        (b"[" * (MAX_DEPTH + 1), "nested more than 50 deep"),
        (b"a: " + b"[" * 1_000_000, "nested more than 50 deep"),
        (b"- 1\n" * (MAX_VALUES + 1), "more than 20,000 values"),
        (b"---\n" * (MAX_VALUES + 1), "more than 20,000 values"),
        (b"a" * (MAX_BYTES + 1), "larger than 1 MiB"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_what_a_configuration_has_no_use_for_is_refused_with_its_place(loader: Any, text: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, loader, "f.yaml")
    assert str(caught.value).startswith("f.yaml: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_says_how_a_file_is_written(loader: Any, encoding: str) -> None:
    """As Go's library reads it: PowerShell writes UTF-16 with a mark."""
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    assert parse_yaml(f"{mark}a: \u00fc".encode(encoding), loader, "f.yaml") == {"a": "\u00fc"}


def test_an_alias_bomb_is_refused_at_its_first_anchor(loader: Any) -> None:
    levels = [f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]" for level in range(1, 20)]
    with pytest.raises(ConfigError, match="line 1, column 5: anchors and aliases"):
        parse_yaml("\n".join(["l0: &l0 [x]", *levels]).encode(), loader)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_config_error(data: bytes) -> None:
    for loader in {LOADER, yaml.SafeLoader}:
        with suppress(ConfigError):
            parse_yaml(data, loader)


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%?, \n\t0.~<\\U8", max_size=60))
def test_no_text_near_yaml_raises_anything_but_config_error(text: str) -> None:
    for loader in {LOADER, yaml.SafeLoader}:
        with suppress(ConfigError):
            parse_yaml(text.encode(), loader)


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
WITHOUT_LIBYAML = """
import sys
sys.modules["yaml._yaml"] = None  # what an import finds where PyYAML was built without libyaml
import yaml
assert not hasattr(yaml, "CSafeLoader")
from kscheduler.cli import main
sys.exit(main(sys.argv[1:]))
"""


@PROCESSES
@pytest.mark.parametrize(
    ("command", "content", "status", "output"),
    [
        (["config", "check"], HEAD + "profiles: [{schedulerName: x}]", 0, "it schedules for x"),
        (["config", "check"], HEAD + "profiles: *x", 2, "anchors and aliases"),
        (["explain", "--from"], "kind: Pod\napiVersion: v1\nmetadata: {name: w}\nspec: {}", 0, "default/w"),
    ],
    ids=["configuration", "with an alias", "manifests"],
)
def test_the_commands_run_without_libyaml(
    tmp_path: Path, command: list[str], content: str, status: int, output: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(content)
    called = [sys.executable, "-c", WITHOUT_LIBYAML, *command, str(file)]
    ended = subprocess.run(called, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, "Traceback" in ended.stderr) == (status, False), ended.stderr
    assert output in ended.stdout + ended.stderr
