"""`python -m kscheduler` and the console script `kscheduler`."""

from kscheduler.cli.interruption import end_at_once_on_signals


def main() -> int:
    """The whole program; its exit code."""
    end_at_once_on_signals()  # before anything else is imported: that takes long enough for a Ctrl-C
    from kscheduler.cli import main as run_command

    return run_command()


if __name__ == "__main__":
    import sys

    sys.exit(main())
