"""`kscheduler run`: the service."""

import argparse
import asyncio
from typing import Any

from kscheduler.cli.refusal import refuse


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the flags."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run", help="schedule the pods that name this scheduler", description=__doc__
    )
    parser.add_argument("--config", metavar="FILE", help="a KubeSchedulerConfiguration v1 file")
    parser.add_argument(
        "--scheduler-name",
        metavar="NAME",
        default="kscheduler",
        help="without --config: pods whose spec.schedulerName is this are scheduled (default %(default)s)",
    )
    parser.add_argument("--kubeconfig", metavar="FILE", default="", help="default: in-cluster, else $KUBECONFIG")
    parser.add_argument("--master", metavar="URL", default="", help="API server without credentials, as kubectl proxy")
    parser.add_argument(
        "--bind-address", metavar="IP", default="0.0.0.0", help="of the HTTP server (default %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=10259, help="of the HTTP server, 0 for a free one (default %(default)s)"
    )
    parser.add_argument("-v", "--v", type=int, default=2, metavar="LEVEL", help="log verbosity, as klog (default 2)")
    parser.add_argument("--log-format", choices=("json", "text"), help="default: text on a terminal, json elsewhere")
    return parser


def run(args: argparse.Namespace) -> int:
    """Run until a signal; 2 for a configuration that cannot be used."""
    from kscheduler import app, logs
    from kscheduler.client.errors import ConfigurationError
    from kscheduler.config.errors import ConfigError
    from kscheduler.config.loader import default_configuration, load_file

    logs.configure(verbosity=args.v, json=None if args.log_format is None else args.log_format == "json")
    try:
        config = load_file(args.config) if args.config else default_configuration(args.scheduler_name)
        options = app.Options(
            config=config,
            kubeconfig=args.kubeconfig,
            master=args.master,
            bind_address=args.bind_address,
            port=args.port,
        )
        _run_on_the_best_loop(app.run(options))
    except (ConfigError, ConfigurationError) as failure:
        return refuse(failure)
    except OSError as failure:
        return refuse(f"--bind-address {args.bind_address} --port {args.port}: {failure.strerror or failure}")
    return 0


def _run_on_the_best_loop(main: Any) -> None:
    """Run on uvloop where it is installed; asyncio's own loop does the same, slower."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
