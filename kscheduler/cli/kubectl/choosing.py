"""Who answers: the running service, or this process from the objects that the user may read. It is said which."""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kscheduler.cli.kubectl.service import (
    DEFAULT_ACCOUNT,
    DEFAULT_SERVICE,
    InvalidQueryError,
    ServiceAddress,
    ServiceProxyClient,
    ServiceQueryError,
    UnknownToServiceError,
    service_address,
)
from kscheduler.cli.refusal import BAD_INPUT, FAILED, refuse, say
from kscheduler.client.access.connection import load_connection
from kscheduler.client.errors import ClientError, ConfigurationError
from kscheduler.text import printable, printable_lines

ENVIRONMENT: Final = "KSCHEDULER_SERVICE"
WHO_DECIDES: Final = "the running service is asked first; where it cannot be asked, this process decides by itself"

# Asks and prints; returns the exit code.
Asks = Callable[[argparse.Namespace, ServiceProxyClient], Awaitable[int]]
Decider = Callable[[argparse.Namespace], int]


def add_choice(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("who answers")
    group.add_argument(
        "--service",
        type=_address,
        metavar="NAMESPACE/NAME:PORT",
        default=None,
        help="query this service through the API server's proxy, and fail if it cannot be reached (default: "
        f"${ENVIRONMENT} or {DEFAULT_SERVICE} if it can be reached, else decide here)",
    )
    group.add_argument(
        "--asker",
        metavar="ACCOUNT",
        default=DEFAULT_ACCOUNT,
        help="the ServiceAccount, in the service's namespace, to query it as (default %(default)s)",
    )
    group.add_argument(
        "--direct",
        action="store_true",
        help="do not query the service: decide here, from the objects that you may read",
    )


def not_of_the_service(args: argparse.Namespace, also: Mapping[str, object]) -> str:
    """Why the service cannot be asked: a flag names another cluster or another scheduler. Empty: it can.

    `also`: by flag the values of those of the verb's own that are not about the service.
    """
    others = {"--from": args.source, **also, "--scheduler-name": args.scheduler_name, "--plugin": args.plugin}
    given = next((flag for flag, value in others.items() if value), "")
    return f"a question with {given} is not about the state of the service" if given else ""


def answer(args: argparse.Namespace, asks: Asks, decides: Decider, why_here: str = "") -> int:
    """Let the service answer, or decide here. `why_here`: why the service cannot be asked this at all."""
    if args.direct and args.service is not None:
        return refuse("--service and --direct contradict each other")
    if args.service is not None and why_here:
        return refuse(f"--service: {why_here}")
    if args.direct or why_here:
        return _decided(args, decides)
    try:
        address = args.service or _default()
    except ValueError as problem:
        return refuse(f"{ENVIRONMENT}: {problem}")
    try:
        code = asyncio.run(_queried(args, asks, address))
    except InvalidQueryError as problem:
        refuse(printable_lines(str(problem)))
        return FAILED if isinstance(problem, UnknownToServiceError) else BAD_INPUT
    except ServiceQueryError as problem:
        if args.service is not None:
            refuse(printable(str(problem)))
            return FAILED
        say(f"decided here, {_without_own_plugins(args)}from the objects that you may read: {problem.short}")
        return _decided(args, decides)
    except (ClientError, ConfigurationError) as problem:
        refuse(printable(str(problem)))
        return BAD_INPUT if isinstance(problem, ConfigurationError) else FAILED
    return code


def _decided(args: argparse.Namespace, decides: Decider) -> int:
    """Decide here: what plugins log and print on the way must not stand in the answer."""
    from kscheduler.cli.standard_streams import plugins_apart  # with the logs' pipeline, which no question needs

    with plugins_apart(are_logs_shown=True):
        return decides(args)


async def _queried(args: argparse.Namespace, asks: Asks, address: ServiceAddress) -> int:
    connection = await load_connection(master=args.master, kubeconfig=args.kubeconfig, context=args.context)
    async with ServiceProxyClient(connection, address, args.asker) as proxy:
        code = await asks(args, proxy)
    say(f"answered by the service {address.text}")
    return code


def _without_own_plugins(args: argparse.Namespace) -> str:
    """The service's configuration is not known here, so neither are plugins of its own: the answer may differ."""
    return "" if getattr(args, "config", None) else "without plugins that only the service has, "


def _default() -> ServiceAddress:
    """Of the environment, if it names one. Raises `ValueError`."""
    return service_address(os.environ.get(ENVIRONMENT) or DEFAULT_SERVICE)


def _address(text: str) -> ServiceAddress:
    try:
        return service_address(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
