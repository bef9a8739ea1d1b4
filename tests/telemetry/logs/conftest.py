"""Logging is set up for a process; each test here leaves it as it was."""

from collections.abc import Iterator

import pytest

from tests.telemetry.logs.logging_left_alone import logging_left_alone


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with logging_left_alone():
        yield
