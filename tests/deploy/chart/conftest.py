"""Settings of the tests of the chart."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # A watch that is cut, and a connection of a thread that has ended, are closed by the garbage collector.
    config.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")
