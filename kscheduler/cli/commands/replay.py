"""`kscheduler replay`: decide again what `kscheduler run --record` has recorded.

    replay DIR                          every decision again, compared bit for bit
    replay DIR --until TIME             cache and queue as they were then
    replay DIR --pod shop/web-0         what was decided about one pod, and when
    replay DIR --config other.yaml      what another configuration would have made of it

docs/recorder.md describes what is recorded and what cannot be decided again.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kscheduler.cli.named_config import (
    add_feature_gates,
    add_plugin_flags,
    configuration_reader,
    feature_gates,
    misspelt_in,
)
from kscheduler.cli.parser import StoreText
from kscheduler.cli.refusal import BAD_INPUT, refuse

if TYPE_CHECKING:
    from kscheduler.assembly.configured import Configured
    from kscheduler.config.feature_gates import FeatureGates
    from kscheduler.recorder.alternatives.comparing import RecordedRun
    from kscheduler.recorder.replaying.replay import Replay

_EQUAL, _DIFFERENT = 0, 1

_DESCRIPTION = """\
Decide a recording again with the same configuration and the same code, and compare each decision: node, victims,
message. Reads files only: no cluster is asked, and nothing is written."""
_EPILOG = """\
Exit codes: 0 every decision came out as recorded, or --until, --pod or --config has been answered; 1 some did not, the
recording has a part that is damaged or cannot be replayed, or no decision about --pod; 2 flags or files that cannot be
used."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "replay",
        help="replay a recording and compare the decisions; or show the state at a time",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "recording", metavar="FILE|DIR", nargs="?", help="a directory of --record with all its runs, or one file of it"
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="show cache and queue as they were at this time: 2026-11-24T15:30:00Z, or +10m after the beginning",
    )
    parser.add_argument(
        "--pod",
        action=StoreText,
        metavar="NAMESPACE/NAME",
        default="",
        help="show what was decided about this pod, and when: read, not decided again; a NAME is one of any namespace",
    )
    parser.add_argument(
        "--each-segment",
        action="store_true",
        help="begin each file with its own snapshot instead of going on from the file before",
    )
    other = parser.add_argument_group(
        "what would have been different",
        "both configurations decide for themselves while everything else happens as recorded",
    )
    other.add_argument("--config", action=StoreText, metavar="FILE", default="", help="another configuration")
    add_plugin_flags(other)
    add_feature_gates(other, "the recorded one; the recorded gates hold too, unless --feature-gates gives others")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: one object")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of -o json and exit")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the answer and return the exit code; a problem is a line on standard error."""
    from kscheduler.config.errors import ConfigError
    from kscheduler.recorder.blocks import SegmentError
    from kscheduler.recorder.replaying.replay import RecordingError

    if args.schema:
        return _print_schema()
    if args.recording is None:
        return refuse("FILE|DIR: which recording? Give the directory of --record, or one file of it")
    try:
        return _run(args)
    except (RecordingError, SegmentError, ConfigError) as problem:
        refuse(str(problem))
    except ValueError as problem:
        refuse(f"--until: {problem}")
    except BrokenPipeError:
        raise  # the reader of our output has gone: no file of the recording is to blame
    except OSError as problem:
        refuse(f"{problem.filename or args.recording}: {problem.strerror or problem}")
    return BAD_INPUT


def _print_schema() -> int:
    from kscheduler.recorder.report.answers import schema_text

    sys.stdout.write(schema_text())
    return _EQUAL


def _run(args: argparse.Namespace) -> int:
    from kscheduler.recorder.report.of_replay import replay_answer, replay_text
    from kscheduler.recorder.report.state import replayed_state, state_text
    from kscheduler.text import json_line, style_of

    if args.pod and (args.config or args.plugin or args.each_segment):
        return refuse("--pod shows what was recorded; it goes with --until alone")
    if args.config or args.plugin:
        return _compare(args)
    if args.feature_gates or args.emulated_version:
        return refuse(
            "--feature-gates and --emulated-version are of the other configuration: give --config or --plugin"
        )
    if args.pod:
        return _of_pod(args)
    replay = _replayed(args)
    style, is_json = style_of(sys.stdout), args.output == "json"
    if not replay.report.first and not replay.is_over:
        return refuse(f"{args.recording}: nothing can be replayed: {'; '.join(replay.report.stopped)}")
    if args.until is None:
        report = replay.report
        answer = replay_answer(report, args.recording)
        print(json_line(answer) if is_json else replay_text(answer, style))
        return _EQUAL if report.is_equal else _DIFFERENT
    if replay.scheduler is None:
        return refuse(_why_no_state(replay, args))
    for text in dict.fromkeys((*replay.report.notes, *replay.report.stopped)):
        print(f"kscheduler: {text}", file=sys.stderr)
    if not replay.is_over:
        _say_that_it_ends_before(args.until, replay.report.last)
    state = replayed_state(replay.scheduler.assembly, replay.scheduler.clock.micros)
    print(json_line(state) if is_json else state_text(state, style))
    return _EQUAL


def _of_pod(args: argparse.Namespace) -> int:
    """Raises `RecordingError`, `SegmentError`, `ValueError`, `OSError`."""
    from kscheduler.recorder.replaying.pod_decisions import PodDecisions
    from kscheduler.recorder.replaying.replay import runs_of
    from kscheduler.recorder.report.of_pod import pod_decisions_answer, pod_decisions_text
    from kscheduler.recorder.report.times import time_text
    from kscheduler.text import json_line, printable, style_of

    until = _until(args)
    read = PodDecisions(args.pod, until)
    for run_of_process in runs_of(Path(args.recording)):
        read.read(run_of_process)
    for text in read.problems:
        print(f"kscheduler: {printable(text)}", file=sys.stderr)
    if until is not None and read.last and not read.is_over:
        _say_that_it_ends_before(args.until, read.last)
    answer = pod_decisions_answer(read, args.recording)
    if args.output == "json":
        print(json_line(answer))
    elif read.found:
        print(pod_decisions_text(answer, style_of(sys.stdout)))
    if read.found:
        return _EQUAL
    span = f" from {time_text(read.first)} to {time_text(read.last)}" if read.last else ""
    refuse(f"--pod: nothing was decided about a pod {printable(args.pod)}{span}")
    return _DIFFERENT


def _say_that_it_ends_before(until: str, last: int) -> None:
    from kscheduler.recorder.report.times import time_text

    print(f"kscheduler: --until {until}: the recording ends at {time_text(last)}, which is shown", file=sys.stderr)


def _why_no_state(replay: "Replay", args: argparse.Namespace) -> str:
    from kscheduler.recorder.replaying.replay import beginning_of, runs_of
    from kscheduler.recorder.report.times import time_text

    if replay.report.astray:
        return "--until: there is no state to show at this time: the replay could not go on before it"
    begun = time_text(beginning_of(next(runs_of(Path(args.recording)))))
    return f"--until: there is no state to show at this time: the recording begins at {begun}"


def _compare(args: argparse.Namespace) -> int:
    """Raises as `_replayed`."""
    from kscheduler.assembly.configuration_checks import profile_problems
    from kscheduler.config.errors import ConfigError
    from kscheduler.recorder.alternatives.comparing import RecordedRun, compared
    from kscheduler.recorder.replaying.recorded_configuration import configured_with
    from kscheduler.recorder.replaying.replay import RecordingError, last_run_of
    from kscheduler.recorder.report.other_policy import comparison_answer, comparison_text
    from kscheduler.text import json_line, style_of

    if args.until is not None:
        raise RecordingError("--until shows what was recorded; it does not go with --config or --plugin")
    recorded = RecordedRun(last_run_of(Path(args.recording)))
    own = _recorded_configuration(recorded, args)
    gates = _gates_of_other(args, recorded.description.feature_gates)
    if args.config:
        other = configuration_reader(args, gates).read_file(args.config)
    else:
        other = configured_with(recorded.description, gates, args.plugin, args.plugin_directory)
    problems = profile_problems(other.config, other.registry)  # found here, they have the file
    if problems:
        raise ConfigError(problems, args.config)
    for reported in misspelt_in(other):
        print(f"kscheduler: {reported}", file=sys.stderr)
    answer = comparison_answer(compared(recorded, other, own), args.recording)
    print(json_line(answer) if args.output == "json" else comparison_text(answer, style_of(sys.stdout)))
    return _EQUAL


def _recorded_configuration(recorded: "RecordedRun", args: argparse.Namespace) -> "Configured":
    """With the plugins of `--plugin` in place of those that cannot be loaded any more. Raises `RecordingError`."""
    from kscheduler.assembly.configuration_checks import profile_problems
    from kscheduler.config.errors import ConfigError
    from kscheduler.recorder.replaying.recorded_configuration import (
        changed_plugins,
        configured_as,
        configured_instead,
        not_as_recorded,
    )
    from kscheduler.recorder.replaying.replay import RecordingError

    described, first = recorded.description, ""
    ways: list[Callable[[], Configured]] = [partial(configured_as, described)]
    if args.plugin:
        ways.append(partial(configured_instead, described, args.plugin, args.plugin_directory))
    for way in ways:
        try:
            own = way()
        except ConfigError as problem:
            first = first or str(problem)
            continue
        problems = profile_problems(own.config, own.registry)
        if problems:
            first = first or str(ConfigError(problems))
            continue
        if first:
            recorded.notes.append(f"--plugin stands for plugins of the recorded configuration, too: {first}")
            recorded.notes += changed_plugins(described, own.origins)
        return own
    raise RecordingError(not_as_recorded(first))


def _gates_of_other(args: argparse.Namespace, recorded: "FeatureGates") -> "FeatureGates":
    """The recorded version and gates, each but where a flag gives another. Raises `ConfigError`."""
    from kscheduler.config.feature_gates import parse_feature_gates

    version = args.emulated_version or recorded.version
    if args.feature_gates:
        gates = feature_gates(args, version)
        for warning in gates.warnings:
            print(f"kscheduler: --feature-gates: {warning}", file=sys.stderr)
        return gates
    if version == recorded.version:
        return recorded
    text = ",".join(f"{name}={str(value).lower()}" for name, value in recorded.chosen.items())
    return parse_feature_gates(text, "the recorded gates, in place of which --feature-gates may give others", version)


def _replayed(args: argparse.Namespace) -> "Replay":
    """Raises `RecordingError`, `SegmentError`, `ConfigError`, `ValueError`, `OSError`."""
    from kscheduler.recorder.replaying.replay import Replay, runs_of

    replay = Replay(until=_until(args), each_segment=args.each_segment)
    for run_of_process in runs_of(Path(args.recording)):
        replay.run(run_of_process)
        if replay.is_over:
            break
    return replay


def _until(args: argparse.Namespace) -> int | None:
    from kscheduler.recorder.replaying.replay import beginning_of, runs_of
    from kscheduler.recorder.report.times import parse_time

    if args.until is None:
        return None
    is_relative, micros = parse_time(args.until)
    return micros + beginning_of(next(runs_of(Path(args.recording)))) if is_relative else micros
