"""Where lines go: one stream or two, at once or from a buffer, whole in any case."""

import io
import json
import threading

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.pipeline import configure
from kscheduler.telemetry.logs.streams import BufferedLogStream, LogStream, SplitStream, lost_lines, outlets_over
from tests.telemetry.logs.logging_left_alone import logging_left_alone

FOR_EVER = 3600.0


class Writes(io.StringIO):
    """Keeps what each write was."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.written = threading.Event()

    def write(self, text: str) -> int:
        self.parts.append(text)
        self.written.set()
        return len(text)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12)), st.integers(1, 40))
def test_no_line_is_cut_lost_or_put_out_of_order(lines: list[str], most: int) -> None:
    target = Writes()
    stream = BufferedLogStream(target, SplitStream(most, FOR_EVER))
    for line in lines:
        stream.write(line)
        assert sum(len(text.encode()) for text in stream._waiting) <= most
    stream.close()
    assert "".join(target.parts) == "".join(f"{line}\n" for line in lines)
    assert all(part.endswith("\n") for part in target.parts)


def test_a_full_buffer_is_written_before_a_line_that_does_not_fit() -> None:
    target = Writes()
    stream = BufferedLogStream(target, SplitStream(8, FOR_EVER))
    for line in ("abc", "def", "g", "much too long"):
        stream.write(line)
    assert target.parts == ["abc\ndef\n", "g\n", "much too long\n"]
    stream.close()


def test_a_line_waits_no_longer_than_it_may() -> None:
    target = Writes()
    stream = BufferedLogStream(target, SplitStream(1000, 0.01))
    stream.write("told")
    assert target.written.wait(20)
    assert target.parts == ["told\n"]
    stream.close()


def test_closing_twice_and_writing_afterwards_do_no_harm() -> None:
    target = Writes()
    stream = BufferedLogStream(target, SplitStream(1000, FOR_EVER))
    stream.close()
    stream.write("late")
    stream.close()
    assert target.parts == ["late\n"]


def test_a_broken_stream_loses_its_lines_and_nothing_else() -> None:
    target = io.StringIO()
    target.close()
    LogStream(target).write("lost")
    stream = BufferedLogStream(target, SplitStream(4, FOR_EVER))
    stream.write("lost, too")
    stream.close()


def test_without_split_streams_all_go_to_standard_error() -> None:
    error, output = io.StringIO(), io.StringIO()
    outlets = outlets_over(error, output, None)
    outlets.information.write("a")
    outlets.trouble.write("b")
    assert (error.getvalue(), output.getvalue()) == ("a\nb\n", "")


def test_split_streams_need_no_buffer() -> None:
    error, output = io.StringIO(), io.StringIO()
    outlets = outlets_over(error, output, SplitStream())
    outlets.information.write("a")
    outlets.trouble.write("b")
    assert (error.getvalue(), output.getvalue()) == ("b\n", "a\n")


def test_a_huge_buffer_is_no_reservation() -> None:
    stream = BufferedLogStream(io.StringIO(), SplitStream(2**62, FOR_EVER))
    assert stream._most == 2**31
    stream.close()


class FullDisk(Writes):
    """Takes nothing while it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().write(text)


def reported(lines: int) -> str:
    return f"{lines} lost"


def test_lost_lines_are_counted_and_reported_once_before_the_first_that_is_written_again() -> None:
    target, before = FullDisk(), lost_lines()
    stream = LogStream(target, reported)
    stream.write("a")
    for target.is_full in (True, True, False, False, True, False):
        stream.write("b")
    assert "".join(target.parts) == "a\n2 lost\nb\nb\n1 lost\nb\n"
    assert lost_lines() == before + 3


def test_lines_of_a_buffer_that_is_lost_are_counted_one_by_one() -> None:
    target, before = FullDisk(), lost_lines()
    stream = BufferedLogStream(target, SplitStream(1000, FOR_EVER), reported)
    target.is_full = True
    for line in "abc":
        stream.write(line)
    stream.flush()
    target.is_full = False
    stream.write("d")
    stream.close()
    assert "".join(target.parts) == "3 lost\nd\n"
    assert lost_lines() == before + 3


def test_the_line_about_lost_lines_is_one_like_all_others() -> None:
    target = FullDisk()
    with logging_left_alone():
        configure(json=True, stream=target)
        target.is_full = True
        get_logger("t").info("gone")
        target.is_full = False
        get_logger("t").info("there")
    lost, there = (json.loads(line) for line in "".join(target.parts).splitlines())
    assert (lost["level"], lost["msg"], lost["lines"], there["msg"]) == ("warning", "log_lines_lost", 1, "there")
