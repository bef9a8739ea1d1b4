"""What the command line says when an optional package is not installed."""

from kscheduler.cli.refusal import refuse

_OPTIONAL = frozenset({"jsonpatch", "jsonpointer", "rich"})


def missing_extra(verb: str, error: ModuleNotFoundError) -> int:
    """One line that says what to install, and the exit code. Raises `error` again when it is no optional package."""
    package = (error.name or "").partition(".")[0]
    if package not in _OPTIONAL:
        raise error
    install = "pip install 'kscheduler[simulation]'"
    return refuse(f"`kscheduler {verb}` needs the package {package}, which is not installed: {install}")
