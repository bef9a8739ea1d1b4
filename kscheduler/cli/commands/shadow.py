"""`kscheduler shadow`: how this configuration would have decided, in a live cluster where another scheduler decides.

    shadow --config new.yaml                          pods of the profiles' names; kube-scheduler decides
    shadow --follow-scheduler default-scheduler       the default plugins, on kube-scheduler's own pods
    shadow --config new.yaml --followed kscheduler    another kscheduler decides

docs/shadow.md describes what is compared, and what cannot be.
"""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kscheduler.aio import event_loop
from kscheduler.cli.cluster_flags import (
    add_cluster,
    add_scheduler,
    address_of,
    choose_cluster,
    served_as_the_service,
    serving_of,
)
from kscheduler.cli.debugging import debuggers_in_service
from kscheduler.cli.log_flags import add_log_flags, configure_logs
from kscheduler.cli.named_config import add_feature_gates, mistakes_in_file, with_mistakes_in_file
from kscheduler.cli.parser import duration, port, text
from kscheduler.cli.refusal import refuse, say
from kscheduler.cli.serving_flags import address_and_port, why_not_listening
from kscheduler.config.durations import seconds
from kscheduler.server.serving import HTTPServing

if TYPE_CHECKING:
    from kscheduler.service.shadowing import ShadowOptions
    from kscheduler.shadow.comparison import FollowedScheduler
    from kscheduler.shadow.report import ShadowReport

DEFAULT_PORT: Final = 10262
_NOTHING_READ: Final = 1
_DESCRIPTION = """\
Follow a live cluster in which another scheduler decides, and say how this configuration would have decided: for each
binding, on the cluster as it was just before it, and in total. Nothing is written to the cluster, and no pod is ever
bound or evicted: the client cannot send a write. SIGUSR1 prints the report; SIGTERM and Ctrl-C print it and end."""
_EPILOG = """\
Exit codes: 0 ended by a signal or after --duration, whatever the differences; 1 the cluster could not be read within
--duration; 2 flags, files or credentials that cannot be used."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "shadow",
        help="report how this configuration would have decided in a cluster that another scheduler serves",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add_scheduler(parser.add_argument_group("what is tried"), "the KubeSchedulerConfiguration that is tried")
    add_feature_gates(parser, "the newest that is not newer than the API server")
    _add_followed(parser.add_argument_group("what is followed"))
    add_cluster(parser.add_argument_group("the live cluster"))
    _add_answer(parser.add_argument_group("the answer"))
    add_log_flags(parser)
    parser.set_defaults(further_mistakes=lambda args: mistakes_in_file(args, args.config or ""))
    return parser


def _add_followed(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--follow-scheduler",
        type=text,
        action="append",
        default=[],
        metavar="NAME",
        help="compare pods whose spec.schedulerName is this; may be repeated (default: the names of the profiles). A "
        "configuration with one profile decides for each name",
    )
    group.add_argument(
        "--followed",
        choices=("kube-scheduler", "kscheduler"),
        default="kube-scheduler",
        help="which program decides: kube-scheduler takes any of the best nodes and evaluates a sample of the nodes of "
        "a large cluster; kscheduler does neither, so no difference is excused by it (default %(default)s)",
    )
    group.add_argument(
        "--followed-percentage",
        type=_percentage,
        metavar="N",
        default=None,
        help="its percentageOfNodesToScore; 0: as kube-scheduler adapts it, 100: all (default: 0, for kscheduler 100)",
    )
    group.add_argument(
        "--settle",
        type=duration,
        metavar="DURATION",
        default=seconds(2),
        help="how long a change waits before it is compared, so that the bindings in flight at that time are known; "
        "choose it longer where the API server is slow (default %(default)s)",
    )
    group.add_argument(
        "--grace",
        type=duration,
        metavar="DURATION",
        default=seconds(30),
        help="how long the other scheduler may leave a pod pending that this configuration would place, before the pod "
        "is reported (default %(default)s)",
    )


def _add_answer(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("-o", "--output", choices=("text", "json"), default="text", help="of the report")
    group.add_argument(
        "--duration",
        type=duration,
        metavar="DURATION",
        default=None,
        help="end this long after all kinds have been listed (default: end at a signal)",
    )
    group.add_argument(
        "--insecure-port",
        type=_port_or_off,
        metavar="PORT",
        default=DEFAULT_PORT,
        help="plain HTTP on 127.0.0.1: /shadow, /shadow.json, /metrics, health; 0: any free port, off: none "
        "(default %(default)s)",
    )
    group.add_argument(
        "--metrics-bind-address",
        type=address_and_port,
        metavar="IP:PORT",
        default=None,
        help="plain HTTP for health and metrics only; for a pod's probes and for Prometheus (default: none)",
    )


def _percentage(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 100):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 100")
    return int(text)


def _port_or_off(text: str) -> int | None:
    return None if text == "off" else port(text)


def run(args: argparse.Namespace) -> int:
    """Follow, and return the exit code."""
    with debuggers_in_service(args):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from kscheduler.client.errors import ConfigurationError
    from kscheduler.config.errors import ConfigError
    from kscheduler.server.listener import CannotListenError

    try:
        try:
            configure_logs(args)
        except ConfigError as failure:
            raise with_mistakes_in_file(failure, args, args.config or "") from None
        has_followed = event_loop.run(_follow(args))
    except (ConfigError, ConfigurationError) as problem:
        return refuse(problem)
    except OSError as failure:
        if isinstance(failure, CannotListenError):
            return refuse(why_not_listening(failure, "port"))
        where = f"{failure.filename}: " if failure.filename else ""
        return refuse(f"{where}{failure.strerror or failure}")
    return 0 if has_followed else _NOTHING_READ


async def _follow(args: argparse.Namespace) -> bool:
    from kscheduler.client.access.connection import load_connection
    from kscheduler.client.rest import ReadingClient
    from kscheduler.service.shadowing import run_shadow

    served = serving_of(args)  # a mistake in a file is told before anything is asked
    choose_cluster(args, served)
    connection = await load_connection(**address_of(args))
    async with ReadingClient(connection) as client:
        served = await served_as_the_service(client, args, served)
    if served.is_other_version:
        say(served.rules)
    return await run_shadow(_options(args, served), connection)


def _options(args: argparse.Namespace, served: Any) -> "ShadowOptions":
    from kscheduler.service.shadowing.options import ShadowOptions, following

    return ShadowOptions(
        config=following(served.config, tuple(args.follow_scheduler)),
        followed=_followed(args),
        settle_seconds=args.settle.seconds,
        grace_seconds=args.grace.seconds,
        seconds=None if args.duration is None else args.duration.seconds,
        report=partial(_show, args.output),
        say=say,
        serving=HTTPServing(
            secure_port=None, insecure_port=args.insecure_port, metrics_address=args.metrics_bind_address
        ),
        **({} if served.registry is None else {"registry": served.registry}),
    )


def _followed(args: argparse.Namespace) -> "FollowedScheduler":
    from dataclasses import replace

    from kscheduler.shadow.comparison import KSCHEDULER, KUBE_SCHEDULER

    followed = KSCHEDULER if args.followed == "kscheduler" else KUBE_SCHEDULER
    given = args.followed_percentage
    if given is None:
        return followed
    return replace(followed, percentage=None if given == 100 else given)


def _show(output: str, report: "ShadowReport") -> None:
    from kscheduler.shadow.as_text import shadow_text
    from kscheduler.text import style_of

    is_json = output == "json"
    print(msgspec.json.encode(report).decode() if is_json else shadow_text(report, style_of(sys.stdout)), flush=True)
