"""A watch that goes on where it was cut: on a machine this busy the API server drops watchers that lag for 50 ms."""

import time
from collections.abc import Callable
from typing import Final

import aiohttp

# So many in a row that tell nothing are taken for a fault of the API server.
EMPTY_WATCHES: Final = 50


async def follow(http: aiohttp.ClientSession, path: str, version: str, see: Callable[[bytes, float], str]) -> None:
    """Feeds `see` until it is cancelled. Raises RuntimeError, or what aiohttp raises, if the API server fails.

    `see` gets each line and when it came, in seconds of the monotonic clock; it returns the line's resourceVersion.
    """
    empty = 0
    while empty < EMPTY_WATCHES:
        newest = await one_watch(http, path, version, see)
        empty = empty + 1 if newest == version else 0
        version = newest
    raise RuntimeError(f"the API server ends each watch on {path}")


async def one_watch(http: aiohttp.ClientSession, path: str, version: str, see: Callable[[bytes, float], str]) -> str:
    """Until the API server ends it. Returns the newest version. Raises RuntimeError if it is refused."""
    async with http.get(path, params={"watch": "1", "resourceVersion": version}) as response:
        if response.status >= 400:
            raise RuntimeError(f"watch on {path}: {response.status} {await response.text()}")
        rest = b""
        async for chunk in response.content.iter_any():
            now = time.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                version = see(line, now)
    return version
