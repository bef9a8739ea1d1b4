"""`kscheduler version`: what is installed, and the Kubernetes whose rules it follows."""

import argparse
import json
import platform
from typing import Any


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the flag."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "version", help="print the version, and the Kubernetes whose rules are followed", description=__doc__
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default %(default)s)")
    return parser


def run(args: argparse.Namespace) -> int:
    from kscheduler import __version__
    from kscheduler.api.releases import NEWEST_SERVER, OLDEST_SERVER, RELEASE

    found = {
        "version": __version__,
        "rules": RELEASE,
        "apiServers": f"{OLDEST_SERVER} to {NEWEST_SERVER}",
        "python": platform.python_version(),
    }
    if args.output == "json":
        print(json.dumps(found))
        return 0
    print(f"kscheduler {__version__} (Python {found['python']})")
    print(f"decides as kube-scheduler {RELEASE}; run against API servers {found['apiServers']}")
    return 0
