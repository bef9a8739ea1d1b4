"""The outcome of a replay, for people and for programs."""

from collections.abc import Iterator
from typing import Final

from kscheduler.recorder.replaying.replay import Report
from kscheduler.recorder.report.answers import ReplayAnswer, ReplayDifference
from kscheduler.recorder.report.times import time_text
from kscheduler.text import BOLD, GREEN, INDENT, PLAIN, RED, YELLOW, Style, printable, wrapped

# Differences that are shown; -o json has more.
_MOST: Final = 10


def replay_answer(report: Report, where: str) -> ReplayAnswer:
    """What came of it. `where`: the recording."""
    return ReplayAnswer(
        recording=where,
        recorded_by=report.kscheduler,
        is_redacted=report.is_redacted,
        is_equal=report.is_equal,
        first=time_text(report.first),
        last=time_text(report.last),
        segments=report.segments,
        entries=report.entries,
        decisions=report.decisions,
        followed=dict(report.followed),
        differing=report.differing,
        by_plugin=dict(report.by_plugin),
        differences=tuple(
            ReplayDifference(time_text(each.micros), each.decision, each.pod, each.text, each.because or None)
            for each in report.differences
        ),
        digest=report.digest,
        batches=report.digests,
        batches_with_another_digest=report.wrong_digests,
        astray=tuple(report.astray),
        lost=report.lost,
        stopped=tuple(report.stopped),
        notes=tuple(report.notes),
    )


def replay_text(answer: ReplayAnswer, style: Style = PLAIN) -> str:
    """Without a final line end."""
    return "\n".join(part.rstrip() for line in _lines(answer, style) for part in wrapped(line, style.width))


def _lines(report: ReplayAnswer, style: Style) -> Iterator[str]:
    span = f"{report.first} to {report.last}"
    lost = f" ({style.paint(f'{report.lost:,} more were lost', YELLOW)})" if report.lost else ""
    size = f"{report.entries:,} entries{lost}, {number_of(report.segments, 'segment')}"
    yield f"{report.decisions:,} decisions, {size}: {span}"
    own = sum(report.by_plugin.values())
    if report.is_equal and not own:
        judged = report.decisions - sum(report.followed.values())
        equal = "all that was recorded came out the same" if report.lost else "all came out as recorded"
        outcome = style.paint(equal, YELLOW if report.lost else GREEN)
        yield f"{outcome} ({judged:,} judged), hash {report.digest}"
    elif report.differing:
        yield f"{style.paint(f'{report.differing:,} came out differently', RED if report.differing - own else YELLOW)}"
    else:
        yield f"{style.paint('none came out differently, but a part could not be replayed', RED)}: see below"
    yield from _differences(report, style)
    for plugin, count in report.by_plugin.items():
        yield f"{count:,} of them cannot be replayed: {plugin} decides from data that are not in the recording"
    for reason, count in report.followed.items():
        yield f"{count:,} were taken from the recording and not judged: {reason}"
    for text in report.astray:
        yield f"{style.paint('not replayed', RED)}: {text}; all is left out from here to the next snapshot"
    if report.lost:
        yield f"{style.paint('gap', YELLOW)}: {report.lost:,} entries are lost; what depends on them is not compared"
    for text in report.stopped:
        yield f"{style.paint('cut', YELLOW)}: {text}; nothing after it is replayed until the next snapshot"
    if report.is_redacted:
        yield "names are hashed in this recording; of the texts of conditions only the numbers are compared"
    for text in dict.fromkeys(report.notes):
        yield f"note: {printable(text)}"


def _differences(report: ReplayAnswer, style: Style) -> Iterator[str]:
    for each in report.differences[:_MOST]:
        when = f"at {each.time}, decision {each.decision:,}"
        yield f"{INDENT}{style.paint(printable(each.pod), BOLD)} {when}"
        yield f"{INDENT}{INDENT}{printable(each.text)}"
    if report.differing > _MOST:
        yield f"{INDENT}and {report.differing - _MOST:,} more"


def number_of(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
