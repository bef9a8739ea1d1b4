"""How the command line says no."""

import sys


def refuse(message: object) -> int:
    """Say what cannot be done in one line (or one per problem) on stderr, and return the exit code for it."""
    from kscheduler.config.escaping import escaped

    for line in str(message).split("\n"):
        print(f"kscheduler: {escaped(line)}", file=sys.stderr)
    return 2
