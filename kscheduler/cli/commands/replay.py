"""`kscheduler replay`: decide again what `kscheduler run --record` has recorded.

    replay DIR                          every decision again, compared bit for bit
    replay DIR --until TIME             cache and queue as they were then

docs/recorder.md describes what is recorded and what cannot be decided again.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kscheduler.cli.flags import add_plugin_flags
from kscheduler.cli.refusal import refuse

if TYPE_CHECKING:
    from kscheduler.recorder.replaying.replay import Replay

_EQUAL, _DIFFERENT, _BAD_INPUT = 0, 1, 2

_DESCRIPTION = """\
Decide a recording again with the same configuration and the same code, and compare each decision: node, victims,
message. Reads files only: no cluster is asked, and nothing is written."""
_EPILOG = """\
Exit codes: 0 every decision came out as recorded; 1 some did not, or the recording has a part that cannot be followed;
2 flags or files that cannot be used."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "replay",
        help="decide a recording again, and compare; or show the state at a time",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "recording", metavar="FILE|DIR", help="a directory of --record with all its runs, or one file of it"
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="show cache and queue as they were at this time: 2026-11-24T15:30:00Z, or +10m after the beginning",
    )
    parser.add_argument(
        "--each-segment",
        action="store_true",
        help="begin each file with its own snapshot instead of going on from the file before",
    )
    add_plugin_flags(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: one object")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the answer and return the exit code; a problem is a line on standard error."""
    from kscheduler.config.errors import ConfigError
    from kscheduler.recorder.file.blocks import SegmentError
    from kscheduler.recorder.replaying.replay import RecordingError

    try:
        return _run(args)
    except (RecordingError, SegmentError, ConfigError) as problem:
        refuse(str(problem))
    except ValueError as problem:
        refuse(f"--until: {problem}")
    except OSError as problem:
        refuse(f"{problem.filename or args.recording}: {problem.strerror or problem}")
    return _BAD_INPUT


def _run(args: argparse.Namespace) -> int:
    from kscheduler.explain.as_json import json_line
    from kscheduler.explain.recordings.in_json import replay_tree
    from kscheduler.explain.recordings.in_text import replay_text, state_text
    from kscheduler.explain.recordings.state import state_tree
    from kscheduler.explain.text.layout import style_of

    replay = _replayed(args)
    style, is_json = style_of(sys.stdout), args.output == "json"
    if args.until is None:
        report = replay.report
        print(json_line(replay_tree(report, args.recording)) if is_json else replay_text(report, style))
        return _EQUAL if report.is_equal else _DIFFERENT
    if replay.scheduler is None:
        return refuse("--until: there is no state to show at this time: the replay is astray there")
    for text in dict.fromkeys((*replay.report.notes, *replay.report.stopped)):
        print(f"kscheduler: {text}", file=sys.stderr)
    tree = state_tree(replay.scheduler.assembly, replay.scheduler.clock.micros)
    print(json_line(tree) if is_json else state_text(tree, style))
    return _EQUAL


def _replayed(args: argparse.Namespace) -> "Replay":
    """Raises `RecordingError`, `SegmentError`, `ConfigError`, `ValueError`, `OSError`."""
    from kscheduler.recorder.replaying.described import Described, configured_as
    from kscheduler.recorder.replaying.replay import Replay, runs_of

    plugins, until = tuple(args.plugin), _until(args)

    def configure(recorded: Described) -> object:
        return configured_as(recorded, plugins)

    replay = Replay(configure, until=until, each_segment=args.each_segment)  # type: ignore[arg-type]
    for run_of_process in runs_of(Path(args.recording)):
        replay.run(run_of_process)
        if replay.is_over:
            break
    return replay


def _until(args: argparse.Namespace) -> int | None:
    from kscheduler.explain.recordings.times import parse_time
    from kscheduler.recorder.replaying.replay import beginning_of, runs_of

    if args.until is None:
        return None
    is_relative, micros = parse_time(args.until)
    return micros + beginning_of(next(runs_of(Path(args.recording)))) if is_relative else micros
