"""Fixtures of the embedded API server: a registry under a fixed clock, a running server, an HTTP client for it."""

from collections.abc import AsyncIterator
from random import Random

import aiohttp
import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.objects.registry import ObjectRegistry
from kscheduler.embedded.objects.store import ObjectStore
from tests.embedded.cluster_client import Client, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(clock: Clock) -> ObjectRegistry:
    return ObjectRegistry(ObjectStore(), clock, Random(1))


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedAPIServer]:
    async with EmbeddedAPIServer(seed=1, admin=True) as running:
        yield running


@pytest.fixture
async def client(server: EmbeddedAPIServer) -> AsyncIterator[Client]:
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield Client(session, server.url)
