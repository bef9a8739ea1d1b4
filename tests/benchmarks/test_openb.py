"""`python -m benchmarks.openb`: the files of the experiment's programs."""

import gzip
import re
from pathlib import Path

import msgspec
import pytest

from benchmarks.openb.run_files import as_line, read_run
from kscheduler.sweep.trace.openb import TraceError
from tests.plugins.packing.naive import random_run


def test_a_run_is_read_plain_or_packed(tmp_path: Path) -> None:
    run, plain, packed = random_run(1), tmp_path / "run.json", tmp_path / "run.json.gz"
    plain.write_bytes(msgspec.json.encode(run))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_run(plain) == read_run(packed) == run


@pytest.mark.parametrize("content", [None, b"{}", b"{", b"\x1f\x8b\x08"], ids=["missing", "empty", "half", "cut"])
def test_a_file_that_is_no_run_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TraceError, match=re.escape(str(path))):
        read_run(path)


def test_a_line_names_the_node_without_its_rank_and_the_devices() -> None:
    assert as_line("t1", "0003-node-a", "0,2") == '{"task": "t1", "node": "node-a", "gpus": [0, 2]}'
    assert as_line("t2", "", "") == '{"task": "t2", "node": null, "gpus": []}'
