"""Series about the flight recorder."""

from collections.abc import Callable, Iterable

from kscheduler.recorder.flight_recorder import RecorderStatistics
from kscheduler.telemetry.samples import Numbers, Sample, Source, gauge
from kscheduler.telemetry.series import MetricSeries

ENTRIES = MetricSeries("kscheduler_recorder_entries_total", "Entries that the flight recorder has taken.")
DECISIONS = MetricSeries("kscheduler_recorder_decisions_total", "Decisions among the entries.")
LOST = MetricSeries(
    "kscheduler_recorder_lost_entries_total",
    "Entries missing from the recording: the buffer was full, or writing failed.",
)
WRITTEN = MetricSeries("kscheduler_recorder_written_bytes_total", "Bytes that the flight recorder has written.")
SEGMENTS = MetricSeries("kscheduler_recorder_segments_total", "Files that the flight recorder has begun.")
FAILURES = MetricSeries("kscheduler_recorder_failures_total", "Failures of the flight recorder to write.")
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
