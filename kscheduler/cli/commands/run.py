"""`kscheduler run`: the service."""

import argparse
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kscheduler import __version__
from kscheduler.aio import event_loop
from kscheduler.cli.debugging import DEBUGGED, debuggers_in_service, prompt_problem
from kscheduler.cli.flags import Resolved, add_flags, read_again, resolve
from kscheduler.cli.log_flags import add_log_flags, configure_logs, size
from kscheduler.cli.named_config import check_built, feature_gates, mistakes_in_file
from kscheduler.cli.parser import StoreText, boolean, duration
from kscheduler.cli.quick_imports import collector_pauses
from kscheduler.cli.record_flags import RedactionKeyError, add_record_flags, lacking_key, record_settings
from kscheduler.cli.refusal import refuse
from kscheduler.cli.serving_flags import why_not_listening
from kscheduler.config.durations import seconds

if TYPE_CHECKING:
    from kscheduler.assembly.configured import Configured
    from kscheduler.service import ConfigSource
    from kscheduler.service.options import ReadUnder

LEAST_ALARM_BYTES = 1 << 20

_DESCRIPTION = """\
Schedule the pods that name this scheduler, until SIGTERM or Ctrl-C.

  kscheduler run                                  the cluster of your kubeconfig, or of this pod
  kscheduler run --context staging                another context of it
  kscheduler run --config config.yaml             a KubeSchedulerConfiguration, as kube-scheduler has them
  kscheduler run --master http://127.0.0.1:8001   `kubectl proxy`, or `kscheduler cluster`

kube-scheduler's own flags are accepted; one that has no effect here says so at the start."""


# How long the process waits, after the service has ended, for tasks that go on.
END_SECONDS: Final = 2.0


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the flags: kube-scheduler's, and a few of our own."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        help="schedule the pods that name this scheduler",
        description=_DESCRIPTION,
        usage="%(prog)s [FLAG ...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_flags(parser)
    parser.add_argument("--version", action="version", version=f"kscheduler {__version__}")
    parser.add_argument(
        "--write-config-to",
        action=StoreText,
        metavar="FILE",
        default="",
        help="write the complete configuration to this file and exit",
    )
    parser.add_argument(
        "--permit-token-file",
        action=StoreText,
        metavar="FILE",
        default="",
        help="the token in this file gives access to /waiting-pods, where pods that wait for Permit are allowed or "
        "rejected, and to /configz, besides whom the API server allows",
    )
    parser.add_argument(
        "--cache-check-period",
        type=duration,
        metavar="DURATION",
        default=seconds(60),
        help="how often the cache is compared with the informers' stores; 0: only on SIGUSR2 (default %(default)s)",
    )
    parser.add_argument(
        "--store-audit-period",
        type=duration,
        metavar="DURATION",
        default=seconds(300),
        help="how often the informers' stores are compared with the API server; 0: only on the cache check's request "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--memory-alarm",
        type=memory_size,
        metavar="SIZE",
        default=None,
        help="warn when the process takes 80%% of this (500Mi, 2Gi), and again at 90%%, naming the plugins not "
        "in-tree; the memory limit of the container does the same (default: that limit only)",
    )
    parser.add_argument(
        "--answer-questions",
        nargs="?",
        const=True,
        type=boolean,
        metavar="BOOL",
        default=True,
        help="serve /explain, /nodes and /simulate, which a short-lived copy of the process answers (default true)",
    )
    parser.add_argument(
        "--repair-overfilled-nodes",
        nargs="?",
        const=True,
        type=boolean,
        metavar="BOOL",
        default=False,
        help="where another scheduler has filled a node beyond its allocatable, evict a pod of ours there that has not "
        "started and that a controller makes again; needs the right to create pods/eviction (default false: it is "
        "reported only)",
    )
    parser.add_argument(
        "--scheduled-events",
        choices=("all", "sampled", "summed", "none"),
        default="all",
        help="Events of pods that were bound; those of failures are always sent. all: one for each; sampled: of the "
        "pods of one owner the first in a minute and then each hundredth, of a namespace at most 60 a minute; summed: "
        "one for each owner (ReplicaSet, Job, ...), which counts pods and nodes, at most a minute later; none "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--pipeline-depth",
        type=int,
        choices=(1, 2, 4, 8, 16),
        default=1,
        help="in a storm, let up to so many Bindings (or Events) of a namespace leave together, one after the other "
        "on one connection (HTTP/1.1 pipelining): less CPU where this process is the limit, more where the API server "
        "is. What breaks is settled as ever. Given up for ten minutes where the server, or what stands before it, does "
        "not take them. 1: each leaves alone (default %(default)s)",
    )
    parser.add_argument(
        "--config-reload",
        choices=("auto", "signal", "off"),
        default="auto",
        help="when the file of --config is reloaded. auto: when it has changed, and on SIGHUP; signal: at SIGHUP "
        "only; off: never (default %(default)s)",
    )
    add_record_flags(parser)
    add_log_flags(parser)
    parser.set_defaults(further_mistakes=lambda args: mistakes_in_file(args, args.config))
    return parser


def memory_size(text: str) -> int:
    """Bytes of a process's memory; 0: none. Raises `ArgumentTypeError`, also for `500m`, which is half a byte."""
    found = size(text)
    if 0 < found < LEAST_ALARM_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is less than any process takes; write 500Mi for 500 MiB")
    return found


def run(args: argparse.Namespace) -> int:
    """Run until a signal; 1 for a lost lease, 2 for a command line or configuration that cannot be used."""
    with debuggers_in_service(args):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from kscheduler.client.errors import ConfigurationError
    from kscheduler.config.errors import ConfigError, Mistakes

    mistakes = Mistakes()
    mistakes.of(lambda: configure_logs(args))
    resolved = mistakes.of(lambda: resolve(args))
    if mistakes and resolved is not None:
        mistakes.of(lambda: check_built(resolved.configured))
    of_recording = "" if args.write_config_to else lacking_key(args)
    if mistakes or resolved is None:
        return refuse("\n".join([str(mistakes.error()), *([of_recording] if of_recording else [])]))
    _warn(resolved, args)
    if args.write_config_to:
        return _write_config(resolved, args.write_config_to)
    try:
        return _serve(resolved, args)
    except (ConfigError, ConfigurationError, RedactionKeyError) as failure:
        return refuse(_all_at_once(resolved, failure))


def _all_at_once(resolved: Resolved, failure: Exception) -> Exception:
    """All that `kscheduler config check` finds, where the start has ended at the first profile that cannot be built, or
    at the extenders.
    """
    from kscheduler.assembly.configuration_checks import unusable
    from kscheduler.config.errors import ConfigError

    if not isinstance(failure, ConfigError):
        return failure
    return unusable(resolved.config, resolved.configured.registry) or failure


def _warn(resolved: Resolved, args: argparse.Namespace) -> None:
    from kscheduler.telemetry.logs import get_logger

    log = get_logger(__name__)
    for warning in resolved.warnings:
        log.warning("flag_not_honoured", flag=warning.flag, reason=warning.reason)
    if args.debug_plugins:
        problem = prompt_problem()
        log.warning("plugins_are_debugged", advice=DEBUGGED, **({"prompt": problem} if problem else {}))


def _write_config(resolved: Resolved, path: str) -> int:
    from kscheduler.config.loader import dump

    try:
        Path(path).write_text(dump(resolved.config.configuration), encoding="utf-8")
    except OSError as failure:
        return refuse(f"--write-config-to {path}: {failure.strerror or failure}")
    return 0


def _serve(resolved: Resolved, args: argparse.Namespace) -> int:
    with collector_pauses():
        from kscheduler import service
        from kscheduler.election import LeaseLostError
        from kscheduler.scheduling.drift.drift_check import Periods
        from kscheduler.server.listener import CannotListenError

    options = service.Options(
        config=resolved.config,
        master=args.master,
        context=args.context,
        kubeconfig_named_by=_who_names_kubeconfig(args, resolved),
        serving=resolved.serving,
        flags=resolved.flags,
        source=_source(args, resolved),
        read_under=None if args.emulated_version else _read_under(args, resolved),
        registry=resolved.configured.registry,
        origins=resolved.configured.origins,
        permit_token_file=args.permit_token_file,
        memory_alarm=args.memory_alarm or None,
        repairs_overcommitted_nodes=args.repair_overfilled_nodes,
        serves_queries=args.answer_questions and not args.debug_plugins,  # copies would stop at breakpoints, too
        scheduled_events=args.scheduled_events,
        pipeline_depth=args.pipeline_depth,
        record=record_settings(args),
        periods=Periods(args.cache_check_period.seconds, args.store_audit_period.seconds),
    )
    try:
        event_loop.run(_served(service.run(options)))
    except LeaseLostError:
        return 1  # the log says why; a fresh process becomes a follower
    except OSError as failure:
        if isinstance(failure, CannotListenError):
            return refuse(why_not_listening(failure, "port" if "port" in args else "secure-port"))
        where = f"{failure.filename}: " if failure.filename else ""
        return refuse(f"{where}{failure.strerror or failure}")
    return 0


def _who_names_kubeconfig(args: argparse.Namespace, resolved: Resolved) -> str:
    """The flag, or a field of the file; a flag that is passed over has had its warning."""
    in_force = resolved.config.configuration.client_connection.kubeconfig
    is_flags = not args.config or getattr(args, "kubeconfig", "") == in_force
    return "--kubeconfig" if is_flags else f"clientConnection.kubeconfig of {args.config}"


async def _served(service: Coroutine[Any, Any, None]) -> None:
    """Run the service to its end. A task that ignores its cancellation, a plugin's, does not keep the process alive."""
    from kscheduler.aio.tasks import end_others
    from kscheduler.telemetry.logs import get_logger, pipeline

    code = 1
    try:
        await service
        code = 0
    finally:
        deaf = await end_others(END_SECONDS)
        if deaf:
            get_logger("kscheduler").warning("tasks_not_ended", tasks=deaf, seconds=END_SECONDS, exit_code=code)
            pipeline.flush()
            os._exit(code)


def _read_under(args: argparse.Namespace, resolved: Resolved) -> "ReadUnder":
    """Reads the configuration as another version of Kubernetes has it."""

    def read_under(version: str, data: bytes) -> "Configured":
        reader = resolved.reader.under(feature_gates(args, version), rereads=args.config_reload != "off")
        return read_again(args, reader)(data)

    return read_under


def _source(args: argparse.Namespace, resolved: Resolved) -> "ConfigSource | None":
    """The files to be read again. Standard input has ended; without `--config` and `--plugin` there are none."""
    from kscheduler.service import ConfigSource

    if args.config == "-" or not (args.config or args.plugin) or args.config_reload == "off":
        return None
    if args.config and not Path(args.config).is_file():
        return None  # a pipe, as `--config <(helm template ...)` gives, has nothing to be read again
    reader = resolved.reader
    is_watched = args.config_reload == "auto"
    return ConfigSource(
        args.config,
        read_again(args, reader),
        is_watched,
        lambda: reader.paths,
        reader.follow,
        lambda: reader.being_loaded,
        lambda: reader.stands_at,
    )
