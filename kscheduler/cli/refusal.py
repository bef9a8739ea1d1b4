"""Error output of the command line."""

import argparse
import sys
from collections.abc import Callable
from typing import Final

FAILED, BAD_INPUT = 1, 2

_OPTIONAL: Final = frozenset({"jsonpatch", "jsonpointer", "rich"})
"""Packages of the extra `simulation`."""
INSTALL_SIMULATION: Final = (
    "in a checkout pip install '.[simulation]', "
    "from a wheel pip install 'kscheduler-VERSION-py3-none-any.whl[simulation]'"
)
"""No package index has this name from us: whoever registers it there would be installed."""


def refuse(message: object) -> int:
    """Print the problems on stderr, a line each, and return the exit code for them."""
    from kscheduler.config.escaping import escaped

    for line in str(message).split("\n"):
        print(f"kscheduler: {escaped(line)}", file=sys.stderr)
    return 2


def missing_extra(verb: str, error: ModuleNotFoundError) -> int:
    """Print what to install and return the exit code. Raises `error` again if the package is not optional."""
    package = (error.name or "").partition(".")[0]
    if package not in _OPTIONAL:
        raise error
    return refuse(f"`kscheduler {verb}` needs the package {package}, which is not installed: {INSTALL_SIMULATION}")


def refusing(answer: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """The exit code of an answer; a problem is told on standard error."""
    from kscheduler.api.codec import UndecodableError
    from kscheduler.client.errors import ClientError, ConfigurationError  # whose package brings aiohttp
    from kscheduler.config.errors import ConfigError
    from kscheduler.whatif.files import ScenarioError

    try:
        return answer(args)
    except (ScenarioError, ConfigError, ConfigurationError) as problem:
        return _complain(str(problem), BAD_INPUT)
    except (ClientError, UndecodableError) as problem:
        return _complain(str(problem), FAILED)


def _complain(problem: str, code: int) -> int:
    from kscheduler.explain.text.printable import printable_lines

    refuse(printable_lines(problem))
    return code
