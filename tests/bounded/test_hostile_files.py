"""Files that are made to cost much: each is read or refused at the price of its length, by its name."""

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kscheduler.bounded import yaml_objects
from kscheduler.client.access.kubeconfig import read_kubeconfig
from kscheduler.client.errors import ConfigurationError
from kscheduler.simulation.apiserver.bodies.formats import YAML, decode
from kscheduler.simulation.kinds.api_errors import ApiError
from kscheduler.whatif import scenario
from kscheduler.whatif.scenario import Document, ScenarioError, read_source

POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    a: "
MEGABYTE = 900_000
ALIASES = "".join(f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 10) if n else 'x'}]\n" for n in range(12))
MERGES = "".join(
    f"m{n}: &m{n}\n  <<: [{','.join([f'*m{n - 1}'] * 10)}]\n" if n else "m0: &m0 {a: b}\n" for n in range(9)
)
HOSTILE = {
    "an integer of base 60": POD + "1" + ":59" * (MEGABYTE // 3),
    "a float of base 60": POD + "1" + ":59" * (MEGABYTE // 3) + ".5",
    "a million digits": POD + "9" * MEGABYTE,
    "a million digits with underscores": POD + "1_000" * (MEGABYTE // 5),
    "a million hexadecimal digits": POD + "0x" + "f" * MEGABYTE,
    "a million binary digits": POD + "0b" + "1" * MEGABYTE,
    "a million octal digits": POD + "0" + "7" * MEGABYTE,
    "a long fraction": POD + "0." + "1" * MEGABYTE,
    "a tagged integer": POD + "!!int '" + "9" * MEGABYTE + "'",
    "aliases of aliases": POD + "x\n" + ALIASES,
    "merged merges": POD + "x\n" + MERGES,
    "nested brackets": POD + "[" * 100_000,
    "nested lists": POD + "\n      " + "- " * 50_000 + "x",
    "nested keys": POD + "\n      " + "? " * 50_000 + "x",
    "indentation": POD + "x\n" + "".join(f"{' ' * n}k:\n" for n in range(1_200)),
}


def from_file(text: str, folder: Path) -> None:
    path = folder / "dump.yaml"
    path.write_text(text)
    for found in read_source(str(path)):
        assert isinstance(found, Document)
        json.dumps(found.tree)


def posted(text: str, _folder: Path) -> None:
    json.dumps(decode(text.encode(), YAML))


def kubeconfig(text: str, folder: Path) -> None:
    path = folder / "config"
    path.write_text(text)
    read_kubeconfig([str(path)])


@pytest.mark.parametrize("read", [from_file, posted, kubeconfig], ids=["from", "posted", "kubeconfig"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_megabyte_of_yaml_costs_what_a_megabyte_costs(
    read: Callable[[str, Path], None], text: str, tmp_path: Path
) -> None:
    began = time.thread_time()
    try:
        read(text, tmp_path)
    except (ScenarioError, ApiError, ConfigurationError) as error:
        message = str(error)
        assert len(message) < 500
    assert time.thread_time() - began < 4.0


def test_numbers_of_yaml_are_those_of_json() -> None:
    found = yaml_objects.document(b"{a: 1, b: 0x10, c: 1.5, d: 1:30, f: -7, g: 2001-12-14, h: '1:30', j: 1:30.5}")
    assert found == {"a": 1, "b": 16, "c": 1.5, "d": "1:30", "f": -7, "g": "2001-12-14", "h": "1:30", "j": "1:30.5"}


def test_aliases_and_merge_keys_of_a_sane_size_are_read() -> None:
    assert yaml_objects.document(b"a: &a {x: 1}\nb: *a\nc:\n  <<: *a\n  y: 2\n") == {
        "a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2},
    }  # fmt: skip


@pytest.mark.parametrize("name", ["dump.yaml.gz", "dump.json.gz", "dump.jsonl.gz"])
def test_a_gzipped_file_is_unpacked_as_far_as_a_bound_that_the_error_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenario, "MOST_UNPACKED_BYTES", 1_000_000)
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"kind: " + b" " * 2_000_000))
    with pytest.raises(ScenarioError, match=r"dump.*: more than 1,000,000 bytes when unpacked"):
        list(read_source(str(path)))


def test_all_lines_of_a_gzipped_file_together_may_be_longer_than_one_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenario, "MOST_UNPACKED_BYTES", 1_000)
    path = tmp_path / "dump.jsonl.gz"
    line = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}\n'
    path.write_bytes(gzip.compress(line * 100))
    assert len(list(read_source(str(path)))) == 100
