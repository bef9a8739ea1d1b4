"""On uvloop nobody closes a descriptor that has become somebody else's."""

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Iterator

import pytest

from kscheduler.aio import event_loop

uvloop = pytest.importorskip("uvloop")
# Most rounds catch the instant; on a busy machine it takes some.
ROUNDS, ENOUGH = 1000, 20
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture
def resetting_server() -> Iterator[tuple[str, int]]:
    """Accepts connections and resets each at once."""

    def serve() -> None:
        while not ended.is_set():
            accepted, _ = listening.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            accepted.close()

    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        yield listening.getsockname()
        ended.set()
        socket.create_connection(listening.getsockname()).close()
        serving.join()


def test_the_service_runs_on_uvloop_where_it_is_installed() -> None:
    loop = event_loop.new_event_loop()
    assert isinstance(loop, uvloop.Loop)
    loop.close()


@pytest.mark.parametrize("tls", [True, False])
def test_a_socket_is_given_up_with_the_connection_that_was_reset(
    resetting_server: tuple[str, int], *, tls: bool
) -> None:
    context, name = (ssl.create_default_context(), "localhost") if tls else (None, None)
    descriptors: list[int] = []

    async def connect() -> None:
        loop = asyncio.get_running_loop()
        opened = socket.socket()
        opened.settimeout(0)
        try:
            await loop.sock_connect(opened, resetting_server)
        except OSError:
            opened.close()
            return
        try:
            transport, _ = await loop.create_connection(
                asyncio.Protocol, sock=opened, ssl=context, server_hostname=name
            )
        except OSError:
            descriptors.append(opened.fileno())
            return
        if transport.is_closing():
            descriptors.append(opened.fileno())
        transport.abort()

    async def main() -> None:
        for _ in range(ROUNDS):
            await asyncio.gather(*[connect() for _ in range(20)])
            if len(descriptors) >= ENOUGH:
                return

    event_loop.run(main())
    assert descriptors, "no connection was reset in the instant between connecting and handing over"
    assert set(descriptors) == {-1}
