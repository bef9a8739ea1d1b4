"""Flags for logs, by kube-scheduler's names and meaning; `--log-format` is ours.

-v 2, -v2, -v=2, --v 2, --v=2     all the same; the default is 0, as in kube-scheduler
--vmodule pattern=N,...           other levels by module (`logs.modules`)
--log-format json|text            without it: text on a terminal, JSON elsewhere
--logging-format json|text        kube-scheduler's name for --log-format; its default there is text
--log-FORMAT-split-stream         information to standard output, warnings and errors to standard error
--log-FORMAT-info-buffer-size     with split streams: buffer the information
--log-flush-frequency             ... for at most so long

As in kube-scheduler, flags of the format that is not chosen are checked and have no effect (which is warned about), and
feature gates guard some: LoggingAlphaOptions the split streams, LoggingBetaOptions JSON.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kscheduler.cli.named_config import by_first_that_takes_it, feature_gates
from kscheduler.cli.parser import COMMAND_LINE, boolean, duration
from kscheduler.cli.standard_streams import standard_output
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.feature_gates import FeatureGates

if TYPE_CHECKING:
    from kscheduler.telemetry.logs.modules import ModuleLevel
    from kscheduler.telemetry.logs.streams import SplitStream

FORMATS: Final = ("json", "text")
# klog's levels are int32.
MOST: Final = 2**31 - 1
ALPHA, BETA = "LoggingAlphaOptions", "LoggingBetaOptions"
# The modules that log by themselves. A pattern may also mean those of libraries and of users' plugins.
OWN_MODULES: Final = (
    *("api-server", "assembled", "attempt", "audit", "catch_up", "claim_commits", "config", "dump", "election"),
    *("event_handlers", "evictions", "extenders", "factory", "overfill", "foreign_bindings"),
    *("failure_handler", "informer", "kscheduler", "log_flags", "loop_lag", "plugin_reports", "pods", "recorder"),
    *("reflector", "retired_plugins", "run", "server", "status_writer", "drift_check", "workers"),
    *("node_cost", "plugin_listers", "refreshed_plugins", "group_attempt", "group_status_writer"),
    *("long_waits", "plugin_circuits", "shadow", "follower", "flight_recorder", "segment_thread"),
    *("quarantined_profiles", "rereading", "rest", "topology_reports", "volume_counts", "writes"),
)


def verbosity(text: str) -> int:
    """A whole number from 0, as in klog. Raises `ArgumentTypeError`."""
    if not (text.isascii() and text.isdecimal()) or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 (0: the service; 2: pods; 10: points)")
    return int(text)


def modules(text: str) -> "tuple[ModuleLevel, ...]":
    """Patterns and levels. Raises `ArgumentTypeError`."""
    from kscheduler.telemetry.logs.modules import parse_modules

    try:
        return parse_modules(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def size(text: str) -> int:
    """Bytes, as a Kubernetes quantity: `512`, `64k`, `1Mi`. Raises `ArgumentTypeError`."""
    from kscheduler.api import quantity

    try:
        found = quantity.value(text)
    except quantity.QuantityError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return found


def seconds_above_zero(text: str) -> float:
    """A duration above zero. Raises `ArgumentTypeError`."""
    found = duration(text).seconds
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be greater than zero")
    return found


def add_log_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    group = parser.add_argument_group("logs", "which line comes at which level: docs/logs.md")
    group.add_argument(
        "-v",
        "--v",
        type=verbosity,
        default=0,
        metavar="LEVEL",
        help="as in klog: 0 the service, warnings, errors (default); 2 a pod's outcome; 4 what wakes pods; 10 scores",
    )
    group.add_argument(
        "--vmodule",
        type=modules,
        default=(),
        metavar="PATTERN=LEVEL,...",
        help="higher levels by module, the last part of a line's `logger`: pods=4,reflector=4,aiohttp.*=4",
    )
    group.add_argument("--log-format", choices=FORMATS, help="default: text on a terminal, json elsewhere")
    group.add_argument("--logging-format", choices=FORMATS, help="the same by kube-scheduler's name")
    group.add_argument(
        "--log-flush-frequency",
        type=seconds_above_zero,
        metavar="DURATION",
        help="how long a buffered line may wait (default 5s)",
    )
    for name in FORMATS:
        _add_streams(group, name)


def _add_streams(group: Any, name: str) -> None:
    group.add_argument(
        f"--log-{name}-split-stream",
        nargs="?",
        const=True,
        type=boolean,
        default=False,
        metavar="BOOL",
        help=f"in {name}: information to standard output, warnings and errors to standard error; needs "
        f"--feature-gates={ALPHA}=true",
    )
    group.add_argument(
        f"--log-{name}-info-buffer-size",
        type=size,
        default=0,
        metavar="BYTES",
        help="with split streams: buffer the information, as 64k or 1Mi (default 0: not buffered)",
    )


def configure_logs(args: argparse.Namespace) -> None:
    """Set up logging. Raises `ConfigError` if flags contradict each other, or if a gate that they need is off."""
    from kscheduler.telemetry.logs import pipeline

    try:
        gates = by_first_that_takes_it(args, lambda version: feature_gates(args, version))
    except ConfigError:
        pipeline.configure()
        raise
    problems = _problems(args, gates)
    if problems:
        pipeline.configure()
        raise ConfigError(problems, COMMAND_LINE)
    chosen = args.log_format or args.logging_format or ("" if gates.enabled(BETA) else "text")
    as_json = None if not chosen else chosen == "json"
    if as_json is None:
        as_json = not pipeline.is_on_terminal()
    split = _split(args, "json" if as_json else "text")
    information = None if split is None else standard_output()
    pipeline.configure(information=information, verbosity=args.v, json=as_json, modules=args.vmodule, split=split)
    _warn(args, "json" if as_json else "text")


def _problems(args: argparse.Namespace, gates: FeatureGates) -> Sequence[Problem]:
    problems: list[Problem] = []
    log_format, logging_format = args.log_format, args.logging_format
    if log_format and logging_format and log_format != logging_format:
        message = f"--log-format {log_format} and --logging-format {logging_format} mean the same: give one"
        problems.append(Problem("", message))
    if "json" in (log_format, logging_format) and not gates.enabled(BETA):
        problems.append(Problem("", f"log format json is disabled: feature gate {BETA} is off"))
    if not gates.enabled(ALPHA):
        names = [name for kind in FORMATS for name in _stream_flags(args, kind)]
        problems += [Problem("", f"{name} needs --feature-gates={ALPHA}=true") for name in names]
    return problems


def _stream_flags(args: argparse.Namespace, kind: str) -> list[str]:
    """The flags about streams of this format that are not as by default."""
    names = (f"log_{kind}_split_stream", f"log_{kind}_info_buffer_size")
    return [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)]


def _split(args: argparse.Namespace, kind: str) -> "SplitStream | None":
    from kscheduler.telemetry.logs.streams import DEFAULT_FLUSH_SECONDS, SplitStream

    if not getattr(args, f"log_{kind}_split_stream"):
        return None
    buffer_bytes: int = getattr(args, f"log_{kind}_info_buffer_size")
    return SplitStream(buffer_bytes, args.log_flush_frequency or DEFAULT_FLUSH_SECONDS)


def without_effect(args: argparse.Namespace, kind: str = "json") -> dict[str, str]:
    """The flags that change nothing where logs are written as `kind`, each with the reason."""
    other = "text" if kind == "json" else "json"
    found = dict.fromkeys(_stream_flags(args, other), f"logs are written as {kind}")
    is_split, size_of_buffer = (getattr(args, f"log_{kind}_{name}") for name in ("split_stream", "info_buffer_size"))
    if size_of_buffer and not is_split:
        found[f"--log-{kind}-info-buffer-size"] = f"only split streams are buffered: --log-{kind}-split-stream"
    if args.log_flush_frequency and not (is_split and size_of_buffer):
        found["--log-flush-frequency"] = "each line is written at once"
    return {flag: f"has no effect: {reason}" for flag, reason in found.items()}


def _warn(args: argparse.Namespace, kind: str) -> None:
    """Name the flags that change nothing."""
    from kscheduler.telemetry.logs import get_logger

    log = get_logger(__name__)
    for flag, reason in without_effect(args, kind).items():
        log.warning("flag_not_honoured", flag=flag, reason=reason)
    unknown = [entry.pattern for entry in args.vmodule if "." not in entry.pattern and not _is_known(entry)]
    if unknown:
        reason = "no module of kscheduler has such a name; loggers of libraries and of plugins may"
        log.warning("flag_not_honoured", flag="--vmodule", patterns=unknown, modules=OWN_MODULES, reason=reason)


def _is_known(entry: "ModuleLevel") -> bool:
    return any(map(entry.matches, OWN_MODULES))
