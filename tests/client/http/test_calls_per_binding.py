"""What one Binding calls on its way from the writer to the socket and back: counted, since no clock tells it on CI."""

from cProfile import Profile
from pathlib import Path

import kscheduler
from kscheduler.client.access.connection import Connection
from kscheduler.client.access.credentials import FixedCredentials
from kscheduler.client.pod_writes import PodWriter
from kscheduler.client.rest import APIClient
from tests.client.http.raw_server import Peer, raw_server

BODY = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
ANSWER = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 6b3c7d0e\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 6b3c7d0e\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 6b3c7d0e\r\nDate: Sat, 21 Nov 2026 17:00:00 GMT\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
# Each time that a coroutine is resumed counts, too. With seven header fields; it was 63 when the way had seven layers.
MOST_CALLS = 43
BINDINGS = 50


async def _bind_all(peer: Peer) -> None:
    while True:
        await peer.request()
        peer.say(ANSWER)


async def test_a_binding_calls_few_functions() -> None:
    async with raw_server(_bind_all) as server:
        connection = Connection(server.url, "x", FixedCredentials("Bearer t"))
        async with APIClient(connection) as client:
            pods = PodWriter(client)
            await pods.bind("ns", "pod", "uid", "node")
            profile = Profile()
            with profile:
                for _ in range(BINDINGS):
                    await pods.bind("ns", "pod", "uid", "node")
    folder = str(Path(kscheduler.__file__).parent)
    files = [("" if isinstance(one.code, str) else one.code.co_filename, one.callcount) for one in profile.getstats()]
    calls = sum(count for file, count in files if file.startswith(folder)) / BINDINGS
    assert calls <= MOST_CALLS
    assert server.requests == BINDINGS + 1
