"""The file: whatever is cut or damaged, the reader gives back what was whole, and says where it stopped."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.recorder.blocks import HEADER, MAGIC, BlockPacker, BlockReader, SegmentError
from kscheduler.recorder.segments import is_writable, make_room, name_of, new_run, segment_path, segments_in

DATA = st.lists(st.binary(max_size=200), max_size=8)


def packed(blocks: list[bytes]) -> tuple[bytes, list[int]]:
    """A segment, and where each block ends."""
    packer, data, ends = BlockPacker(), HEADER, [len(HEADER)]
    for block in blocks:
        data += packer.pack(block)
        ends.append(len(data))
    return data, ends


def read(data: bytes) -> tuple[list[bytes], BlockReader]:
    reader = BlockReader(io.BytesIO(data))
    return list(reader), reader


@given(DATA)
def test_what_was_packed_is_read(blocks: list[bytes]) -> None:
    found, reader = read(packed(blocks)[0])
    assert found == blocks
    assert reader.stopped == ""


@given(DATA, st.data())
def test_of_a_cut_segment_all_whole_blocks_are_read_and_the_cut_is_reported(
    blocks: list[bytes], data: st.DataObject
) -> None:
    whole, ends = packed(blocks)
    cut = data.draw(st.integers(0, len(whole) - 1))
    found, reader = read(whole[:cut])
    are_whole = sum(end <= cut for end in ends[1:])
    assert found == blocks[:are_whole]
    assert bool(reader.stopped) == (cut not in ends)
    assert reader.position == max([end for end in ends if end <= cut], default=0)


@given(DATA.filter(len), st.data())
def test_a_wrong_byte_ends_the_reading_before_its_block(blocks: list[bytes], data: st.DataObject) -> None:
    whole, ends = packed(blocks)
    at = data.draw(st.integers(len(HEADER), len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    found, reader = read(bytes(damaged))
    first_bad = next(number for number, end in enumerate(ends[1:]) if at < end)
    assert found == blocks[:first_bad]
    assert reader.stopped


@given(st.binary(min_size=1, max_size=40))
def test_another_file_is_refused_or_is_the_beginning_of_a_header(data: bytes) -> None:
    if HEADER.startswith(data) or data.startswith(HEADER):
        return
    with pytest.raises(SegmentError):
        BlockReader(io.BytesIO(data))


def test_another_version_of_the_format_is_named() -> None:
    with pytest.raises(SegmentError, match="version 7"):
        BlockReader(io.BytesIO(MAGIC + b"\x07\x00"))


def test_names_of_segments_report_run_and_number(tmp_path: Path) -> None:
    run = new_run(1_790_000_000.0, 4711)
    path = segment_path(tmp_path, run, 12)
    found = name_of(path)
    assert found is not None
    assert (found.run, found.number) == (run, 12)
    assert name_of(tmp_path / "notes.txt") is None


def test_the_oldest_segments_go_but_never_the_one_being_written(tmp_path: Path) -> None:
    runs = new_run(1_790_000_000.0, 1), new_run(1_790_000_100.0, 2)
    for run in runs:
        for number in (1, 2):
            segment_path(tmp_path, run, number).write_bytes(bytes(100))
    (tmp_path / "notes.txt").write_text("stays")
    written = segment_path(tmp_path, runs[0], 1)
    assert make_room(tmp_path, 250, written) == [segment_path(tmp_path, runs[0], 2), segment_path(tmp_path, runs[1], 1)]
    assert [name.path for name in segments_in(tmp_path)] == [written, segment_path(tmp_path, runs[1], 2)]
    assert (tmp_path / "notes.txt").exists()


def test_a_directory_whose_parent_is_missing_is_named(tmp_path: Path) -> None:
    assert is_writable(tmp_path / "new") == ""
    (tmp_path / "file").touch()
    assert is_writable(tmp_path / "file") == f"{tmp_path / 'file'}: is not a directory"
    there = tmp_path / "not" / "there"
    assert is_writable(there) == f"{there}: it cannot be made: there is no directory {there.parent}"


def test_a_directory_that_cannot_be_made_says_so() -> None:
    assert is_writable(Path("/proc/foo")) == "/proc/foo: it cannot be made there: No such file or directory"
