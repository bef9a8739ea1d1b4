"""The message for an optional package that is not installed."""

from kscheduler.cli.refusal import refuse

_OPTIONAL = frozenset({"jsonpatch", "jsonpointer", "rich"})


def missing_extra(verb: str, error: ModuleNotFoundError) -> int:
    """Print what to install and return the exit code. Raises `error` again if the package is not optional."""
    package = (error.name or "").partition(".")[0]
    if package not in _OPTIONAL:
        raise error
    install = "pip install 'kscheduler[simulation]'"
    return refuse(f"`kscheduler {verb}` needs the package {package}, which is not installed: {install}")
