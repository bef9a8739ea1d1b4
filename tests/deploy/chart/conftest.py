"""Settings of the tests of the chart."""

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # A run that is terminated stops what it has started, as one that is interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A watch that is cut, and a connection of a thread that has ended, are closed by the garbage collector.
    config.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")
