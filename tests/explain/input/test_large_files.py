"""`--from`: no file, packed or not, takes the memory of the machine or ends in a traceback."""

import gzip
import sys
import time
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from kscheduler.scenario import documents, files
from tests.explain.input.test_files import written
from tests.explain.scenarios import node_tree, scenario_line
from tests.explain.test_command import run

LARGE = pytest.mark.slow("reads files at the bounds of their size")


class _Zeros(RawIOBase):
    """Endless zeros, which count how many were taken."""

    def __init__(self) -> None:
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[:] = bytes(len(buffer))
        self.taken += len(buffer)
        return len(buffer)


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rules with bounds that a test reaches at once."""
    monkeypatch.setattr(documents, "MAX_WHOLE_BYTES", 4 << 20)
    monkeypatch.setattr(documents, "MAX_YAML_BYTES", 1 << 20)
    monkeypatch.setattr(files, "UNPACKED_ANYWAY_BYTES", 1 << 20)


@LARGE
@pytest.mark.parametrize("content", [b"\0", b" ", b"[", b'{"kind":', b"\n", b"a: b\n"], ids=repr)
def test_a_gzip_file_that_grows_out_of_bounds_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small_bounds: None, content: bytes
) -> None:
    """A packed file of some kilobytes is refused with its name when it has unpacked to 200 times its size."""
    bomb = gzip.compress(content * (16 << 20))
    path = written(tmp_path, bomb, "bomb.gz")
    code = run("--from", path)
    errors = capsys.readouterr().err
    assert code == 2
    assert f"{path}: a gzip stream that unpacks to more than 200 times its size" in errors


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe" + ("a: b\n" * 400_000).encode("utf-16-le"), "more than 1 MiB of YAML"),
        (b'{"kind": "x", "apiVersion": "v1"}\n---\n' + b"a: b\n" * 400_000, "more than 1 MiB of YAML"),
        (b'{"a":\n1}\n' * 500_000, "more than 4 MiB in one document"),
        (b'{"a": ' + b"9" * 1_000_000 + b"}\n{}", ":1: "),
        (b"{kind: Pod, a: &a [x, x], b: [" + b"*a," * 30_000 + b"]}\n", ""),
        (b'{"pod": {"a": {' + b",".join(b'"%d": 1' % n for n in range(200_000)) + b', "0": 1}}}', "key '0' twice"),
    ],
    ids=["UTF-16", "YAML behind JSON", "JSON behind JSON", "a long integer", "aliases in flow form", "many keys"],
)
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "packed"])
def test_the_bounds_hold_for_every_form(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    small_bounds: None,
    content: bytes,
    message: str,
    is_packed: bool,
) -> None:
    path = written(tmp_path, gzip.compress(content) if is_packed else content, "dump")
    started = time.thread_time()
    code = run("--from", path)
    errors = capsys.readouterr().err
    assert code == 2
    assert errors.count("\n") == 1
    assert message in errors or "unpacks to more than 200 times its size" in errors
    assert time.thread_time() - started < 5


@LARGE
def test_a_dump_that_packs_well_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects that differ in little pack to a fortieth, which is no reason to refuse them."""
    monkeypatch.setattr(files, "UNPACKED_ANYWAY_BYTES", 1 << 17)
    lines = b"\n".join(scenario_line(nodes=[node_tree(f"node-{n:06}")], name=f"id-{n:06}") for n in range(500))
    packed = gzip.compress(lines)
    assert len(lines) > 1 << 17
    path = written(tmp_path, packed, "scenarios.jsonl.gz")
    code = run("--from", path)
    output = capsys.readouterr().out
    assert code == 0
    assert output.count("goes to") == 500


def test_an_endless_standard_input_ends_at_its_bound(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, small_bounds: None
) -> None:
    """Not more than the longest document is read of a stream without an end."""
    zeros = _Zeros()
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BufferedReader(zeros)))
    code = run("--from", "-")
    errors = capsys.readouterr().err
    assert code == 2
    assert "standard input: a line of more than 4 MiB" in errors
    assert zeros.taken < 6 << 20


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"kind: List\nitems:\n" + b"- a: b\n" * 200_000, "dump.yaml", "more than 1 MiB of YAML: give JSON"),
        (b'{"kind": "List", "items": [\n' + b'{"a": "b"},\n' * 400_000, "dump.json", "more than 4 MiB in one document"),
        (b'{"id": "' + b"x" * (5 << 20) + b'"}', "lines", "a line of more than 4 MiB"),
    ],
    ids=["yaml", "json", "line"],
)
def test_what_is_too_large_is_refused_with_a_way_out(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    small_bounds: None,
    content: bytes,
    name: str,
    message: str,
) -> None:
    path = written(tmp_path, content, name)
    code = run("--from", path)
    errors = capsys.readouterr().err
    assert code == 2
    assert f"{path}: {message}" in errors


def test_want_of_memory_is_reported_with_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(_: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr(documents, "load_documents", lacking)
    path = written(tmp_path, b"kind: Pod\n", "dump.yaml")
    code = run("--from", path)
    errors = capsys.readouterr().err
    assert (code, "needs more memory than there is" in errors) == (2, True)


def test_a_number_of_base_60_takes_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`1:59:59...` is text, as for kubectl, and the answer says what it cannot stand for."""
    path = written(
        tmp_path, b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priority: 1" + b":59" * 300_000 + b"}"
    )
    code = run("--from", path)
    errors = capsys.readouterr().err
    assert code == 2
    assert "priority" in errors
