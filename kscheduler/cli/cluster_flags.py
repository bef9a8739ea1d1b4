"""Flags of commands that ask: who would schedule, and which cluster; and the configuration that follows.

A command whose question the running service answers reads no configuration: what that takes is imported where it is
needed, since it would be most of the command's time.
"""

import argparse
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from kscheduler.api.releases import BEHAVIOURS, VERSION, listed
from kscheduler.cli.named_config import (
    add_feature_gates,
    add_plugin_flags,
    by_first_that_takes_it,
    configuration_reader,
    feature_gates,
    misspelt_in,
    with_mistakes_in_file,
)
from kscheduler.cli.parser import AppendText, StoreText
from kscheduler.cli.refusal import say
from kscheduler.config.errors import ConfigError
from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.files import STANDARD_INPUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kscheduler.assembly.configured import Configured
    from kscheduler.client.rest import APIClient
    from kscheduler.scenario.serving import Serving

EXIT_CODES: Final = "1 the API server did not answer; 2 flags or files that cannot be used."


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    """Who would schedule, by the rules of which version, and which live cluster is read."""
    add_scheduler(parser.add_argument_group("who would schedule"))
    add_feature_gates(parser, f"of a live cluster the newest that is not newer than the API server, else {VERSION}")
    add_cluster(parser.add_argument_group("the live cluster"))


def add_objects_file(query: "argparse._ArgumentGroup") -> None:
    """Objects from a file in place of a live cluster."""
    query.add_argument(
        "--from",
        dest="source",
        action=AppendText,
        metavar="FILE",
        help="not a live cluster: objects as printed by `kubectl get -o json` or -o yaml, or `kubectl cluster-info "
        "dump`; "
        "a file, a folder or a pattern, more than once for one cluster; - is standard input",
    )


def add_scheduler(
    scheduler: "argparse._ArgumentGroup", config: str = "the KubeSchedulerConfiguration that your scheduler runs with"
) -> None:
    """Who would schedule. `config`: the help of `--config`."""
    scheduler.add_argument(
        "--config",
        action=StoreText,
        metavar="FILE",
        help=config,
    )
    scheduler.add_argument(
        "--scheduler-name",
        action=StoreText,
        metavar="NAME",
        help="without --config: the name it serves (default kscheduler)",
    )
    add_plugin_flags(scheduler)


def add_cluster(cluster: "argparse._ArgumentGroup") -> None:
    """Which live cluster is read."""
    cluster.add_argument(
        "--kubeconfig", action=StoreText, metavar="FILE", default="", help="default: as kubectl finds it"
    )
    cluster.add_argument(
        "--context",
        action=StoreText,
        metavar="NAME",
        default="",
        help="of the kubeconfig; default: its current-context",
    )
    cluster.add_argument(
        "--master",
        action=StoreText,
        metavar="URL",
        default="",
        help="the API server, such as http://127.0.0.1:8001",
    )


def refuse_two_clusters(args: argparse.Namespace) -> None:
    """A file brings its own cluster. Raises `ScenarioError`."""
    if args.source is not None and (args.kubeconfig or args.master or args.context):
        raise ScenarioError("--kubeconfig, --context and --master go with a live cluster; --from FILE brings its own")


def refuse_standard_input_twice(args: argparse.Namespace) -> None:
    """Standard input can be read only once. Raises `ScenarioError`."""
    if STANDARD_INPUT in (args.source or ()) and STANDARD_INPUT in args.filename:
        raise ScenarioError("--from and -f cannot both be standard input")


def choose_cluster(args: argparse.Namespace, served: "Serving") -> None:
    """Which live cluster is read: that of an explicit flag, else of the kubeconfig that the file of `--config` names,
    else the one that kubectl finds. `args` has it from now on; where two of them differ, a line says which it is.

    `run` takes the file's before the flag's, as kube-scheduler: there the file says for which cluster it decides. Here
    it says who decides, and somebody at another machine asks.
    """
    from kscheduler.client.access.connection import kubeconfigs_found

    of_file = served.config.configuration.client_connection.kubeconfig
    if not of_file or not args.config:
        return
    field = f"clientConnection.kubeconfig of {args.config}"
    if args.kubeconfig or args.master:
        if args.kubeconfig and _is_same_file(args.kubeconfig, of_file):
            return
        flag = f"--kubeconfig {args.kubeconfig}" if args.kubeconfig else f"--master {args.master}"
        say(f"the cluster is that of {flag}, and not of {of_file}, which {field} names")
        return
    who, found = kubeconfigs_found()
    if found and not (len(found) == 1 and _is_same_file(found[0], of_file)):
        others = f"{who} ({os.pathsep.join(found)})" if who.startswith("$") else who
        say(f"the cluster is that of {of_file}, which {field} names, and not of {others}; --kubeconfig takes another")
    args.kubeconfig, args.kubeconfig_named_by = of_file, field


def _is_same_file(one: str, other: str) -> bool:
    return Path(one).expanduser().absolute() == Path(other).expanduser().absolute()


class ClusterAddress(TypedDict):
    """Where a live cluster is, as `load_connection` and `current_namespace` take it."""

    master: str
    kubeconfig: str
    context: str
    named_by: str


def address_of(args: argparse.Namespace) -> ClusterAddress:
    """Where the live cluster is; after `choose_cluster`."""
    named_by = getattr(args, "kubeconfig_named_by", "--kubeconfig")
    return ClusterAddress(master=args.master, kubeconfig=args.kubeconfig, context=args.context, named_by=named_by)


@asynccontextmanager
async def live_client(args: argparse.Namespace) -> "AsyncIterator[APIClient]":
    """A client of the live cluster; after `choose_cluster`. An error without an answer says which cluster that is."""
    from kscheduler.client.access.connection import load_connection
    from kscheduler.client.errors import NetworkError, NotSentError, StalledError
    from kscheduler.client.rest import APIClient

    connection = await load_connection(**address_of(args))
    try:
        async with APIClient(connection) as client:
            yield client
    except (NotSentError, StalledError) as failure:
        advice = "--kubeconfig, --context or --master takes another"
        raise NetworkError(f"{failure}; the cluster is that of {connection.description}: {advice}") from failure


def namespace_of(args: argparse.Namespace) -> str:
    """The one of the flag, or of the kubeconfig's context."""
    from kscheduler.client.access.connection import current_namespace

    return args.namespace or current_namespace(**address_of(args))


async def served_as_the_service(client: "APIClient", args: argparse.Namespace, served: "Serving") -> "Serving":
    """As the service on this API server would be: by its version as far as the configuration takes it, unless one was
    given.
    """
    from kscheduler.scenario import servers_version
    from kscheduler.scenario.serving import serving

    def read(version: str) -> "Serving":
        return serving(_configured(args, version), args.scheduler_name or "")

    return await servers_version.by_the_servers_version(
        client, served, read, args.emulated_version or "", "--emulated-version"
    )


def serving_of(args: argparse.Namespace) -> "Serving":
    """The configuration that the flags name; warnings go to standard error. Raises `ConfigError`.

    Until an API server has told its version, it is that of the oldest version that takes the configuration.
    """
    from kscheduler.scenario.serving import serving

    configured = by_first_that_takes_it(args, lambda tried: _configured(args, tried))
    for warning in configured.config.gates.warnings:
        print(f"kscheduler: --feature-gates: {warning}", file=sys.stderr)
    for reported in misspelt_in(configured):
        print(f"kscheduler: {reported}", file=sys.stderr)
    for origin in configured.unused:
        print(f"kscheduler: plugin {origin.name} ({origin.origin}) is enabled in no profile", file=sys.stderr)
    served = serving(configured, args.scheduler_name or "")
    if args.emulated_version:
        return served
    why = f", the oldest that takes the configuration; --emulated-version chooses: {listed(BEHAVIOURS, 'or')}"
    return replace(served, why_version=why)


def _configured(args: argparse.Namespace, version: str) -> "Configured":
    try:
        gates = feature_gates(args, version)
    except ConfigError as failure:
        raise with_mistakes_in_file(failure, args, args.config or "", version=version) from None
    reader = configuration_reader(args, gates)
    with reader.telling_of_hangs():
        if args.config:
            return reader.read_file(args.config)
        return reader.default(args.scheduler_name or OWN_SCHEDULER_NAME)
