"""Error output of the command line."""

import sys


def refuse(message: object) -> int:
    """Print the problems on stderr, a line each, and return the exit code for them."""
    from kscheduler.config.escaping import escaped

    for line in str(message).split("\n"):
        print(f"kscheduler: {escaped(line)}", file=sys.stderr)
    return 2
