"""What every run of the tests has: Hypothesis' effort, signals as in a terminal, and markers that say their reason."""

import signal

import pytest

from tests.effort import load_profile

# A shell that runs the tests in the background has them ignore it, and the services that they start would inherit that.
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

pytest_plugins = ("tests.set_aside", "tests.specification.tally")

load_profile()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that `make test` leaves out says why: `pytest.mark.slow("starts six processes")`."""
    silent = [item.nodeid for item in items for mark in item.iter_markers("slow") if not mark.args]
    if silent:
        raise pytest.UsageError(f"slow, and no reason given: {', '.join(silent[:5])}")
