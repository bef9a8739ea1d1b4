"""`kscheduler cluster`: the embedded cluster, for kubectl and schedulers."""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kscheduler.cli.debugging import FLAG
from kscheduler.cli.embedded_flags import taken_port, wrong_count, wrong_place
from kscheduler.cli.interruption import signals_as_usual
from kscheduler.cli.log_flags import add_log_flags, configure_logs
from kscheduler.cli.named_config import (
    add_feature_gates,
    add_plugin_flags,
    by_first_that_takes_it,
    configuration_reader,
    feature_gates,
    mistakes_in_file,
)
from kscheduler.cli.parser import port, text
from kscheduler.cli.record_flags import RedactionKeyError, add_record_flags, redaction_key
from kscheduler.cli.refusal import FAILED, INTERRUPTED, missing_extra, refuse
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import FeatureGates

if TYPE_CHECKING:
    from kscheduler.assembly.configured import Configured
    from kscheduler.embedded.demo.cluster import ClusterOptions

_DESCRIPTION = """\
Serve a whole cluster from one process: an API server that kubectl can talk to, nodes of mixed sizes in three zones, and
hollow kubelets that run pods and reject those that do not fit. Controllers turn Deployments, Jobs and the like into
pods, bind volumes, count disruption budgets and evict. Pods are scheduled only with --schedule, or by a scheduler that
you start. Nothing is stored; Ctrl-C ends it."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the flags."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "cluster", help="serve an embedded cluster with hollow nodes", description=_DESCRIPTION
    )
    parser.add_argument("--nodes", type=int, default=100, metavar="N", help="hollow nodes (default %(default)s)")
    parser.add_argument("--port", type=port, default=8001, help="0 means any free port (default %(default)s)")
    parser.add_argument(
        "--host", type=text, default="127.0.0.1", metavar="IP", help="address to listen on (default %(default)s)"
    )
    parser.add_argument(
        "--accept-hosts",
        type=text,
        action="append",
        default=[],
        metavar="NAME",
        help="a host name by which clients may call it, besides addresses and localhost; may be given more than once",
    )
    parser.add_argument("--seed", type=int, default=0, help="makes nodes, UIDs and run times repeatable")
    parser.add_argument("--no-kubelets", action="store_true", help="bound pods stay Pending, and none is rejected")
    parser.add_argument(
        "--controllers",
        default="*",
        metavar="NAMES",
        help="controllers to run, as kube-controller-manager: * is all of them, -NAME leaves it out, '' runs none "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--gpus",
        type=int,
        default=0,
        metavar="N",
        help="devices on each node that pods can claim (default %(default)s)",
    )
    parser.add_argument("--heartbeats", action="store_true", help="renew a lease per node every 10 s, as kubelets do")
    parser.add_argument("--enable-faults", action="store_true", help="serve POST /_faults, to inject faults")
    parser.add_argument(
        "--kubeconfig",
        type=text,
        metavar="FILE",
        default=None,
        help="where to write the kubeconfig (default: a temporary file)",
    )
    add_feature_gates(parser.add_argument_group("versions", "of the API server and of the scheduler of --schedule"))
    scheduling = parser.add_argument_group("scheduling")
    scheduling.add_argument(
        "--schedule",
        action="store_true",
        help="run kscheduler beside the cluster, for default-scheduler and kscheduler",
    )
    scheduling.add_argument(
        "--scheduler-name",
        type=text,
        metavar="NAME",
        action="append",
        default=[],
        help="with --schedule: for pods with this schedulerName instead; may be given more than once",
    )
    scheduling.add_argument(
        "--config", type=text, metavar="FILE", help="with --schedule: its KubeSchedulerConfiguration"
    )
    add_plugin_flags(scheduling)
    add_record_flags(scheduling, "with --schedule: ")
    add_log_flags(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Serve until a signal.

    0: ended by a signal; 1: its scheduler failed; 2: it cannot be served; 130: a signal came before it was ready.
    """
    scheduling = _Scheduling()
    wrong = [*_wrong(args), *scheduling.wrong(args)]
    if wrong:
        return refuse("\n".join(wrong))
    try:
        from kscheduler.embedded.controllers import catalogue
        from kscheduler.embedded.demo.cluster import serve_cluster
        from kscheduler.embedded.demo.processes import DemoFailedError
    except ModuleNotFoundError as error:
        return missing_extra("cluster", error)
    # Each exit code has its own `return`: 2 for what can be known before the start, 1 and 130 for what happens later.
    signals_as_usual()  # imports are done: from here on the cluster ends in order
    try:
        catalogue.chosen(args.controllers)
    except catalogue.UnknownControllerError as error:
        return refuse(f"--controllers: {error}")
    try:
        configure_logs(args)
    except ConfigError as error:
        return refuse(error)
    try:
        asyncio.run(serve_cluster(_options(args, scheduling), sys.stdout))
    except (asyncio.CancelledError, KeyboardInterrupt):
        return INTERRUPTED
    except DemoFailedError as error:
        print(f"kscheduler cluster: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        where = error.filename or f"--host {args.host} --port {args.port}"
        return refuse(f"cannot serve the cluster: {where}: {error.strerror or error}")
    return 0


def _options(args: argparse.Namespace, scheduling: "_Scheduling") -> "ClusterOptions":
    from kscheduler.embedded.demo.cluster import BOTH_NAMES, ClusterOptions  # an extra may be missing

    gates = scheduling.gates or _gates(args)
    return ClusterOptions(
        nodes=args.nodes,
        gpus=args.gpus,
        version=gates.version,
        gates=gates,
        host=args.host,
        accept_hosts=tuple(args.accept_hosts),
        port=args.port,
        seed=args.seed,
        kubelets=not args.no_kubelets,
        controllers=args.controllers,
        heartbeats=args.heartbeats,
        faults=args.enable_faults,
        kubeconfig=args.kubeconfig or "",
        schedule=args.schedule,
        scheduler_names=scheduling.names or tuple(dict.fromkeys(args.scheduler_name)) or BOTH_NAMES,
        scheduler_config=args.config or "",
        unused_kubeconfig=scheduling.kubeconfig,
        scheduler_flags=(*_gate_flags(args), *_plugin_flags(args)),
        service_flags=(*_log_flags(args), *_record_flags(args), *((FLAG,) if args.debug_plugins else ())),
        schedules_on_terminal=args.debug_plugins,
    )


def _wrong(args: argparse.Namespace) -> Iterator[str]:
    """All that is wrong with the command line, a line each."""
    yield from wrong_count("--nodes", args.nodes, 0)
    yield from wrong_count("--gpus", args.gpus, 0)
    try:
        _gates(args)
    except ConfigError as error:
        yield str(error)
    yield from taken_port(args.host, args.port)
    yield from wrong_place("--kubeconfig", args.kubeconfig)


def _gates(args: argparse.Namespace) -> FeatureGates:
    """Those of the first version that takes them, as of `kscheduler run`: the API server is like that version, so a
    scheduler follows it. Raises `ConfigError`.
    """
    return by_first_that_takes_it(args, lambda version: feature_gates(args, version))


def _gate_flags(args: argparse.Namespace) -> tuple[str, ...]:
    """Gates and version, as the scheduler gets them."""
    gates = (f"--feature-gates={given}" for given in args.feature_gates)
    version = (f"--emulated-version={args.emulated_version}",) if args.emulated_version else ()
    return (*gates, *version)


def _plugin_flags(args: argparse.Namespace) -> tuple[str, ...]:
    """The flags of plugins, as the scheduler gets them; it runs in this directory, too."""
    plugins = [f"--plugin={given}" for given in args.plugin]
    # Without --config, the scheduler gets a file of ours, which names none of them.
    if plugins and (args.enable_plugins or not args.config):
        plugins.append("--enable-plugins")
    return (*plugins, *(f"--plugin-directory={given}" for given in args.plugin_directory))


def _log_flags(args: argparse.Namespace) -> tuple[str, ...]:
    """The log's level, as the scheduler gets it."""
    return (f"-v={args.v}",) if args.v else ()


def _record_flags(args: argparse.Namespace) -> tuple[str, ...]:
    """The flags of the flight recorder, as the scheduler gets them."""
    if not args.record:
        return ()
    redact = ("--record-redact",) if args.record_redact else ()
    key = (f"--record-redact-key={args.record_redact_key}",) if args.record_redact_key else ()
    return (f"--record={args.record}", f"--record-max-size={args.record_max_size}", *redact, *key)


class _Scheduling:
    """What is known of the scheduler before it is started."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        """The scheduler names of `--config`; empty without it."""
        self.kubeconfig = ""
        """The kubeconfig that `--config` names: of another cluster, so it is not used."""
        self.gates: FeatureGates | None = None
        """Those of the first version that takes `--config` and plugins, too; `None` without these."""

    def wrong(self, args: argparse.Namespace) -> Iterator[str]:
        """All that is wrong with its flags and files, a line each."""
        flags = {"--scheduler-name": args.scheduler_name, "--config": args.config}
        flags |= {"--plugin": args.plugin, "--plugin-directory": args.plugin_directory, "--record": args.record}
        flags |= {"--enable-plugins": args.enable_plugins, FLAG: args.debug_plugins}
        flags |= {"--record-redact": args.record_redact, "--record-redact-key": args.record_redact_key}
        if not args.schedule:
            yield from (f"{flag}: needs --schedule" for flag, value in flags.items() if value)
            return
        try:
            redaction_key(args)
        except RedactionKeyError as problem:
            yield str(problem)
        if args.config and args.scheduler_name:
            yield "--scheduler-name: the file of --config names the profiles; give one of the two"
        if not (args.config or args.plugin):
            return
        try:
            _gates(args)
        except ConfigError:  # which is told, and not once more with the file
            of_file = mistakes_in_file(args, args.config or "")
            yield from () if of_file is None else (str(of_file),)
            return
        try:
            configured = by_first_that_takes_it(args, partial(self._configured, args))
        except ConfigError as error:
            yield f"--config {args.config}: {error}" if args.config else str(error)
        else:
            self.gates = configured.config.gates
            if args.config:
                configuration = configured.config.configuration
                self.names = tuple(profile.scheduler_name for profile in configuration.profiles)
                self.kubeconfig = configuration.client_connection.kubeconfig

    @staticmethod
    def _configured(args: argparse.Namespace, version: str) -> "Configured":
        reader = configuration_reader(args, feature_gates(args, version))
        return reader.read_file(args.config) if args.config else reader.default()
