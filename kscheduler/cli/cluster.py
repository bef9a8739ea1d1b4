"""`kscheduler cluster`: the embedded cluster, for kubectl, for a scheduler, for you."""

import argparse
import asyncio
import sys
from typing import Any

from kscheduler.cli.interruption import signals_as_usual
from kscheduler.cli.missing_extra import missing_extra
from kscheduler.cli.refusal import refuse

_INTERRUPTED = 130
_DESCRIPTION = """\
Serve a whole cluster from one process: an API server that kubectl can talk to, nodes of mixed sizes in three zones, and
hollow kubelets that run pods and reject what does not fit. Nothing is stored; Ctrl-C ends it."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the flags."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "cluster", help="serve an embedded cluster with hollow nodes", description=_DESCRIPTION
    )
    parser.add_argument("--nodes", type=int, default=100, metavar="N", help="hollow nodes (default %(default)s)")
    parser.add_argument("--port", type=int, default=8001, help="0 takes a free one (default %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", metavar="IP", help="address to listen on (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="makes nodes, UIDs and run times repeatable")
    parser.add_argument("--no-kubelets", action="store_true", help="bound pods stay Pending; nobody rejects anything")
    parser.add_argument("--heartbeats", action="store_true", help="renew a lease per node every 10 s, as kubelets do")
    parser.add_argument("--enable-faults", action="store_true", help="serve POST /_faults, to make things go wrong")
    parser.add_argument("--kubeconfig", metavar="FILE", default="", help="where to write it (default: a temporary one)")
    parser.add_argument("-v", "--v", type=int, default=0, metavar="LEVEL", help="log verbosity, as klog (default 0)")
    return parser


def run(args: argparse.Namespace) -> int:
    """Serve until a signal. 0: ended by one; 2: cannot be served; 130: a signal came before it was ready."""
    from kscheduler import logs

    try:
        from kscheduler.simulation.demo.cluster import ClusterOptions, serve_cluster
    except ModuleNotFoundError as error:
        return missing_extra("cluster", error)
    signals_as_usual()  # all is imported: from here on there is something to end in order
    logs.configure(verbosity=args.v)
    options = ClusterOptions(
        nodes=max(0, args.nodes),
        host=args.host,
        port=args.port,
        seed=args.seed,
        kubelets=not args.no_kubelets,
        heartbeats=args.heartbeats,
        faults=args.enable_faults,
        kubeconfig=args.kubeconfig,
    )
    try:
        asyncio.run(serve_cluster(options, sys.stdout))
    except asyncio.CancelledError:
        return _INTERRUPTED
    except OSError as error:
        where = error.filename or f"--host {args.host} --port {args.port}"
        return refuse(f"cannot serve the cluster: {where}: {error.strerror or error}")
    return 0
