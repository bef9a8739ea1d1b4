"""`python -m benchmarks.gangs FILE...`: play gangs in virtual time, and print waves, seconds, occupancy and nodes."""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from benchmarks.gangs.play import GangPlay, lines_of
from benchmarks.gangs.trace import read_traces
from kscheduler.telemetry.logs.pipeline import configure


def main() -> None:
    """Play each file, and each of its variants."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gangs", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="nodes and gangs (JSON)")
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for each trace, with the nodes of all gangs"
    )
    args = parser.parse_args()
    configure(verbosity=0)
    for path in args.files:
        for trace in read_traces(path):
            played = asyncio.run(GangPlay(trace).run())
            text = msgspec.json.encode(played).decode() if args.json else "\n".join(lines_of(played))
            print(text)
            sys.stdout.flush()


main()
