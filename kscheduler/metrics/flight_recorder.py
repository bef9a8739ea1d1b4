"""Series about the flight recorder."""

from collections.abc import Callable, Iterable

from kscheduler.counts.series import MetricSeries
from kscheduler.metrics.samples import Numbers, Sample, Source, gauge
from kscheduler.recorder.flight_recorder import RecorderStatistics

ENTRIES = MetricSeries("kscheduler_recorder_entries_total", "Steps that the flight recorder has kept.")
DECISIONS = MetricSeries("kscheduler_recorder_decisions_total", "Decisions among them.")
LOST = MetricSeries(
    "kscheduler_recorder_lost_entries_total",
    "Steps that could not be kept: the buffer was full, or nothing could be written.",
)
WRITTEN = MetricSeries("kscheduler_recorder_written_bytes_total", "Bytes of blocks that were written.")
SEGMENTS = MetricSeries("kscheduler_recorder_segments_total", "Segments that were begun.")
FAILURES = MetricSeries("kscheduler_recorder_failures_total", "Failures to write.")
IS_RECORDING = MetricSeries("kscheduler_recorder_recording", "1 while the flight recorder writes, 0 while it cannot.")


def recorder_source(statistics: Callable[[], RecorderStatistics]) -> Source:
    """What was kept, written and lost."""

    def copy() -> Iterable[Sample]:
        found = statistics()
        written = found.thread
        return [
            Numbers("counter", ENTRIES, {(): found.entries}),
            Numbers("counter", DECISIONS, {(): found.decisions}),
            Numbers("counter", LOST, {(): found.lost}),
            Numbers("counter", WRITTEN, {(): written.written_bytes}),
            Numbers("counter", SEGMENTS, {(): written.segments}),
            Numbers("counter", FAILURES, {(): written.failures}),
            gauge(IS_RECORDING, {(): 0 if written.problem else 1}),
        ]

    return copy
