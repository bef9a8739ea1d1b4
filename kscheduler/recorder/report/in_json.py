"""The outcome of a replay for programs."""

from importlib import resources
from typing import Any, Final

from kscheduler.recorder.replaying.replay import Report
from kscheduler.recorder.report.times import time_text

Tree = dict[str, Any]
API_VERSION: Final = "replay.kscheduler.io/v1"
KIND: Final = "Replay"


def replay_schema() -> str:
    """The JSON Schema of all answers of `kscheduler replay -o json`."""
    return resources.files("kscheduler.recorder.report").joinpath("replay.schema.json").read_text("utf-8")


def replay_tree(report: Report, where: str) -> Tree:
    """Always with the same keys."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "recording": where,
        "recordedBy": report.kscheduler,
        "redacted": report.is_redacted,
        "equal": report.is_equal,
        "from": time_text(report.first),
        "until": time_text(report.last),
        "segments": report.segments,
        "entries": report.entries,
        "decisions": report.decisions,
        "followed": dict(report.followed),
        "differing": report.differing,
        "ofPluginsWithOwnData": dict(report.by_plugin),
        "differences": [
            {
                "time": time_text(each.micros),
                "decision": each.decision,
                "pod": each.pod,
                "text": each.text,
                "because": each.because or None,
            }
            for each in report.differences
        ],
        "digest": report.digest,
        "batches": report.digests,
        "batchesWithAnotherDigest": report.wrong_digests,
        "astray": report.astray,
        "lostEntries": report.lost,
        "stopped": report.stopped,
        "notes": report.notes,
    }
