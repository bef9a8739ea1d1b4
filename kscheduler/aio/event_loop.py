"""The service's event loop: uvloop's where it is installed, otherwise asyncio's.

uvloop takes over the socket that `create_connection` is given, and closes its descriptor. If the peer resets the
connection in the same instant (an API server that is being stopped), it has done so before it notes that the socket is
its own (seen with 0.23). The socket would then close the number a second time, when nobody refers to
it any longer: by then another connection may have it. Uvloop refuses the next socket of that number with a
`RuntimeError`, and so on forever, because the number stays free. So a socket that is handed over is given up here.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop that is not running yet."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()

    class UvloopThatOwnsItsSockets(uvloop.Loop):  # type: ignore[misc]  # it has no types
        """See the module's docstring."""

        async def create_connection(
            self, protocol_factory: Callable[[], asyncio.BaseProtocol], *address: Any, **options: Any
        ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
            """As uvloop's. After a failure the socket that was handed over is detached; it has been closed."""
            made: tuple[asyncio.Transport, asyncio.BaseProtocol]
            handed_over = options.get("sock")
            if handed_over is None:
                made = await super().create_connection(protocol_factory, *address, **options)
                return made
            try:
                made = await super().create_connection(protocol_factory, *address, **options)
            except (OSError, asyncio.CancelledError):
                handed_over.detach()
                raise
            except RuntimeError as error:  # its word for "closed before it was open"; then it detaches by itself
                raise ConnectionAbortedError(str(error)) from error
            if made[0].is_closing():
                handed_over.detach()
            return made

    return UvloopThatOwnsItsSockets()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
