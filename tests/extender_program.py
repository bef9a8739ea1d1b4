"""An HTTP extender as people write them: a threaded server, a function per verb, whole JSON bodies.

It runs in threads of this process, so that one and the same program serves a scheduler in this event loop, a scheduler
in another process, and kube-scheduler.
"""

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Tree = dict[str, Any]
# From the request's tree to the answer's.
Explanation = Callable[[Any], Any]


@dataclass
class ExtenderProgram:
    """A running extender."""

    answers: Mapping[str, Explanation]
    url: str = ""
    queried: list[tuple[str, Any]] = field(default_factory=list)
    """Verb and request, in the order of their arrival."""
    opened: threading.Event = field(default_factory=threading.Event)
    """While it is not set, no call is answered."""
    status: int = 200

    def queried_about(self, verb: str) -> list[str]:
        """The names of the pods in the calls of a verb."""
        return [_pod_name(tree) for name, tree in self.queried if name == verb]

    def settings(self, **more: Any) -> Tree:
        """Its entry in a configuration: every verb that it answers."""
        verbs = {f"{verb}Verb": verb for verb in self.answers}
        weight = {"weight": 1} if "prioritize" in self.answers else {}
        return {"urlPrefix": self.url, "httpTimeout": "10s", **verbs, **weight, **more}


def _pod_name(tree: Tree) -> str:
    name: str = tree["PodName"] if "PodName" in tree else tree["Pod"]["metadata"]["name"]
    return name


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    program: ExtenderProgram

    def do_POST(self) -> None:
        verb = self.path.rpartition("/")[2]
        tree = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.program.queried.append((verb, tree))
        self.program.opened.wait()
        body = json.dumps(self.program.answers[verb](tree)).encode()
        self.send_response(self.program.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is http.server's
        """Pass."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no news."""


@contextmanager
def extender_program(
    answers: Mapping[str, Explanation], *, tls: ssl.SSLContext | None = None, is_open: bool = True
) -> Iterator[ExtenderProgram]:
    """Run an extender on a port of the loopback interface."""
    program = ExtenderProgram(answers)
    if is_open:
        program.opened.set()
    handler = type("Handler", (_Handler,), {"program": program})
    server = _Server(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    program.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}/scheduler"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield program
    finally:
        program.opened.set()
        server.shutdown()
        server.server_close()
        thread.join()


# --- answers ----------------------------------------------------------------------------------------------------------


def leaves(*names: str, reason: str = "busy") -> Explanation:
    """Filter: leaves these nodes, whether it was sent names or whole nodes."""

    def answer(tree: Tree) -> Tree:
        queried = _queried_about(tree)
        failed = {"FailedNodes": {name: reason for name in queried if name not in names}}
        if tree.get("NodeNames") is not None:
            return {"NodeNames": [name for name in queried if name in names], **failed}
        left = [node for node in tree["Nodes"]["items"] if node["metadata"]["name"] in names]
        return {"Nodes": {"metadata": {}, "items": left}, **failed}

    return answer


def _queried_about(tree: Tree) -> list[str]:
    names: list[str] | None = tree.get("NodeNames")
    return names if names is not None else [node["metadata"]["name"] for node in tree["Nodes"]["items"]]


def prefers(name: str, score: int = 10) -> Explanation:
    """Prioritize: gives all its points to one node."""

    def answer(tree: Tree) -> list[Tree]:
        return [{"Host": each, "Score": score if each == name else 0} for each in _queried_about(tree)]

    return answer
