"""`python -m benchmarks.gangs FILE...`: play gangs in virtual time, and print waves, seconds, occupancy and nodes."""

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from benchmarks.gangs.play import GangPlay, lines_of
from benchmarks.gangs.trace import GangFileError, read_traces
from kscheduler.cli.refusal import refuse
from kscheduler.config.errors import ConfigError
from kscheduler.telemetry.logs.pipeline import configure


def main() -> int:
    """Play each file, and each of its variants. Returns the exit code: 2 if a file cannot be played."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gangs", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="nodes and gangs (JSON)")
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for each trace, with the nodes of all gangs"
    )
    args = parser.parse_args()
    configure(verbosity=0)
    try:
        # All of them before the first is played, which may take minutes.
        traces = [(path, trace) for path in args.files for trace in read_traces(path)]
    except GangFileError as problem:
        return refuse(problem)
    for path, trace in traces:
        try:
            play = GangPlay(trace)
        except ConfigError as problem:
            return refuse(f"{path}: levels: {'; '.join(map(str, problem.problems))}")
        played = asyncio.run(play.run())
        text = msgspec.json.encode(played).decode() if args.json else "\n".join(lines_of(played))
        print(text)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
