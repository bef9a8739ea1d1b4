"""Error output of the command line."""

import argparse
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Final

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

# Packages of the extras, and the extra.
_OPTIONAL: Final[Mapping[str, str]] = {
    **dict.fromkeys(("jsonpatch", "jsonpointer", "rich"), "simulation"),
    "pyarrow": "sweep",
    **dict.fromkeys(("dask", "distributed"), "dask"),
}


def say(text: str) -> None:
    """Print a line on stderr: the answer is on stdout."""
    from kscheduler.text import printable

    print(f"kscheduler: {printable(text)}", file=sys.stderr, flush=True)


def refuse(message: object) -> int:
    """Print the problems on stderr, a line each, and return the exit code for them."""
    from kscheduler.config.errors import escaped

    for line in str(message).split("\n"):
        print(f"kscheduler: {escaped(line)}", file=sys.stderr)
    return BAD_INPUT


def missing_extra(verb: str, error: ModuleNotFoundError) -> int:
    """Print what to install and return the exit code. Raises `error` again if the package is not optional."""
    package = (error.name or "").partition(".")[0]
    extra = _OPTIONAL.get(package)
    if extra is None:
        raise error
    # No package index has our name from us: anyone who registers it there would be installed.
    how = (
        f"in a checkout pip install '.[{extra}]', "
        f"from a wheel pip install 'kscheduler-VERSION-py3-none-any.whl[{extra}]'"
    )
    return refuse(f"`kscheduler {verb}` needs the package {package}, which is not installed: {how}")


def refusing(answer: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    """The exit code of an answer; a problem is told on standard error."""
    from kscheduler.api.codec import UndecodableError
    from kscheduler.client.errors import ClientError, ConfigurationError
    from kscheduler.config.errors import ConfigError
    from kscheduler.scenario.errors import ScenarioError

    try:
        return answer(args)
    except (ScenarioError, ConfigError, ConfigurationError) as problem:
        return _complain(str(problem), BAD_INPUT)
    except (ClientError, UndecodableError) as problem:
        return _complain(str(problem), FAILED)


def _complain(problem: str, code: int) -> int:
    from kscheduler.text import printable_lines

    refuse(printable_lines(problem))
    return code


# What to say of a word that is no verb: its name in the other program, or the verb that was meant.
#
# The same questions have two names: `kscheduler explain` and `simulate` are `kubectl kscheduler why` and `whatif`.

# By verb of the kubectl plugin, what `kscheduler` says instead.
OF_KSCHEDULER: Final[Mapping[str, str]] = {
    "why": "`kscheduler explain` (or `kubectl kscheduler why`)",
    "whatif": "`kscheduler simulate` (or `kubectl kscheduler whatif`)",
    "top": "`kubectl kscheduler top`",
    "nodes": "`kubectl kscheduler nodes`",
}
OF_KUBECTL: Final[Mapping[str, str]] = {
    "explain": "`kubectl kscheduler why` (or `kscheduler explain`)",
    "simulate": "`kubectl kscheduler whatif` (or `kscheduler simulate`)",
}
_ALIKE: Final = 0.6


def unknown_verb(word: str, verbs: Collection[str], elsewhere: Mapping[str, str]) -> str:
    """What is wrong with the word, and what was meant as far as that can be guessed. `elsewhere`: by verb the words."""
    if word in elsewhere:
        return f"there is no {word} here: it is {elsewhere[word]}"
    from difflib import get_close_matches

    near = get_close_matches(word, verbs, n=1, cutoff=_ALIKE)
    return f"there is no {word!r}" + (f": did you mean {near[0]}?" if near else "")
