"""Logs that nobody has configured, whatever another test has done."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def unconfigured() -> Iterator[None]:
    before, was_configured = structlog.get_config(), structlog.is_configured()
    structlog.reset_defaults()
    try:
        yield
    finally:
        structlog.reset_defaults()
        if was_configured:
            structlog.configure(**before)
