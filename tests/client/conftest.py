"""The client's tests run on asyncio's own loop and on uvloop: their transports differ where it matters here."""

import asyncio
import importlib.util
from collections.abc import Callable, Mapping

import pytest

from kscheduler.aio.event_loop import new_event_loop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if importlib.util.find_spec("uvloop") is None:
        return factories
    return factories | {"uvloop": new_event_loop}
