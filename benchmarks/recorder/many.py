"""Very many decisions with random cluster events, recorded and decided again.

    python -m benchmarks.recorder.many 100000 DIR            record and replay
    python -m benchmarks.recorder.many --replay DIR          replay only: on another machine, with another Python
    python -m benchmarks.recorder.many 100000 DIR --seed 7   another story: ten of them make a million decisions

Prints the number of decisions, the bytes of each, and the hash, which is the same wherever the recording is replayed.
"""

import argparse
import asyncio
import os
import platform
import sys
import time
from pathlib import Path

from benchmarks.recorder.random_cluster import QuickClock, RandomCluster
from kscheduler.config.loader import default_configuration
from kscheduler.recorder.building import flight_recorder
from kscheduler.recorder.flight_recorder import RecordSettings
from kscheduler.recorder.replaying.replay import Replay, runs_of
from kscheduler.telemetry.logs import pipeline

TURNS_AT_A_TIME = 1000
# So that a story has several segments, and each snapshot is put back once.
SEGMENT_BYTES = 1 << 20
# With the pods of `RandomCluster`: most find a node, some must preempt, some fit nowhere.
ROOMY_NODES = 40


async def record(directory: Path, decisions: int, seed: int, redaction_key: bytes) -> None:
    """Play until so many decisions are made."""
    settings = RecordSettings(directory, 4 << 30, SEGMENT_BYTES, redaction_key=redaction_key)
    cluster = RandomCluster(
        default_configuration(),
        seed,
        clock=QuickClock(60.0),
        recorder=lambda clock: flight_recorder(settings, clock),
        nodes=ROOMY_NODES,
        most_pods=ROOMY_NODES * 4,
    )
    recorder = cluster.recorder
    assert recorder is not None

    def is_enough(turn: int) -> bool:
        if turn % TURNS_AT_A_TIME == 0:
            recorder.tend()
        return recorder.statistics().decisions >= decisions

    began = time.process_time()
    await cluster.play(sys.maxsize, is_enough)
    found, seconds = recorder.statistics(), time.process_time() - began
    each = found.thread.written_bytes / max(found.decisions, 1)
    preemptions, segments = cluster.assembly.evictions.begun, found.thread.segments
    print(f"recorded {found.decisions:,} decisions, {found.entries:,} entries, {preemptions:,} preemptions,", end=" ")
    print(f"in {segments} segments and {seconds:.0f} s of CPU; {each:.0f} bytes a decision")
    print(f"lost: {found.lost}; failures: {found.thread.failures}", flush=True)


def replay(directory: Path, *, each_segment: bool) -> bool:
    """Decide it again; whether all came out."""
    began = time.process_time()
    report = None
    for run in runs_of(directory):
        again = Replay(each_segment=each_segment)
        again.run(run)
        report = again.report
    if report is None:
        return False
    how = "each segment alone" if each_segment else "one after the other"
    print(f"replayed {report.decisions:,} ({how}, Python {platform.python_version()}) in", end=" ")
    print(f"{time.process_time() - began:.0f} s of CPU: {report.differing} differ, hash {report.digest}", end=" ")
    print(f"({report.digests - report.wrong_digests} of {report.digests} blocks agree)", flush=True)
    for difference in report.differences[:5]:
        print(" ", difference)
    for text in (*report.astray, *report.stopped, *dict.fromkeys(report.notes)):
        print(" ", text)
    return report.is_equal and not report.wrong_digests


def main() -> int:
    """1 if anything came out otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("decisions", type=int, nargs="?", default=100_000)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--replay", action="store_true", help="do not record")
    parser.add_argument("--in-order-only", action="store_true", help="do not replay each segment alone as well")
    parser.add_argument("--redact", action="store_true", help="record without names")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:  # each refused Binding is a line
        pipeline.configure(verbosity=0, stream=nowhere, information=nowhere)
        if not args.replay:
            key = os.urandom(32) if args.redact else b""
            asyncio.run(record(args.directory, args.decisions, args.seed, key))
        ways = (False,) if args.in_order_only else (False, True)
        are_equal = [replay(args.directory, each_segment=each) for each in ways]
    return 0 if all(are_equal) else 1


if __name__ == "__main__":
    sys.exit(main())
