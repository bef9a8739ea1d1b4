"""An HTTP extender in one file: all four verbs, with nothing but Python's standard library.

    python extender.py --port 8888 --api-server http://127.0.0.1:8001     # the latter is `kubectl proxy`

It keeps pods off nodes with the label `example.com/maintenance`, likes nodes that need less power (the label
`example.com/watts`), protects pods with the annotation `example.com/do-not-evict`, and binds. A copy of it with other
rules is an extender of yours: each verb is a function from the tree of the request to that of the answer.

kscheduler (or kube-scheduler) is told of it in its configuration: see config.yaml beside this file. With
`nodeCacheCapable: false` whole nodes are sent, so it needs no list of its own. An extender for thousands of nodes
watches them itself, says `nodeCacheCapable: true`, and is sent names.
"""

import argparse
import json
import logging
import sys
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_log = logging.getLogger("extender")

Tree = dict[str, Any]
MAX_SCORE = 10
"""An extender gives 0 to 10 points; the scheduler multiplies them by 10 and by the extender's weight."""
SECONDS = 5.0
"""How long a Binding may take: less than `httpTimeout`, so that the scheduler hears of a failure."""


def filter_nodes(queried: Tree) -> Tree:
    """Which of the nodes the pod may go to; for each other one a reason, which stands in the pod's condition."""
    left: list[Tree] = []
    failed: dict[str, str] = {}
    hopeless: dict[str, str] = {}
    for node in queried["Nodes"]["items"]:
        name, state = node["metadata"]["name"], _labels(node).get("example.com/maintenance", "")
        if state == "forever":
            hopeless[name] = "node(s) were retired"  # to evict pods there would not help
        elif state:
            failed[name] = "node(s) were in maintenance"
        else:
            left.append({"metadata": {"name": name}})  # of a node in an answer only the name counts
    return {"Nodes": {"items": left}, "FailedNodes": failed, "FailedAndUnresolvableNodes": hopeless, "Error": ""}


def prioritize(queried: Tree) -> list[Tree]:
    """Points from 0 to 10 for each node: ten for one that needs no power, none from 1000 watts on."""
    return [{"Host": node["metadata"]["name"], "Score": _score(node)} for node in queried["Nodes"]["items"]]


def _score(node: Tree) -> int:
    try:
        watts = int(_labels(node)["example.com/watts"])
    except (KeyError, ValueError):
        return 0
    return max(0, MAX_SCORE - watts // 100)


def preempt(queried: Tree) -> Tree:
    """Which of the nodes may be made room on: those whose victims are not protected."""
    left = {}
    for node, victims in queried["NodeNameToVictims"].items():
        if any("example.com/do-not-evict" in (pod["metadata"].get("annotations") or {}) for pod in victims["Pods"]):
            continue
        uids = [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]]
        left[node] = {"Pods": uids, "NumPDBViolations": victims["NumPDBViolations"]}
    return {"NodeNameToMetaVictims": left}


def binder(api_server: str) -> Callable[[Tree], Tree]:
    """The verb that binds: whatever must happen before a pod starts (a device, a licence), and then the Binding."""

    def bind(queried: Tree) -> Tree:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": queried["PodName"], "namespace": queried["PodNamespace"], "uid": queried["PodUID"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": queried["Node"]},
        }
        url = f"{api_server}/api/v1/namespaces/{queried['PodNamespace']}/pods/{queried['PodName']}/binding"
        request = urllib.request.Request(url, json.dumps(binding).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS):
            return {"Error": ""}

    return bind


def _labels(tree: Tree) -> dict[str, str]:
    return tree["metadata"].get("labels") or {}


# --- HTTP -------------------------------------------------------------------------------------------------------------


class ExtenderHandler(BaseHTTPRequestHandler):
    """Answers POST of a verb with JSON."""

    protocol_version = "HTTP/1.1"  # connections stay open: a question costs no handshake
    disable_nagle_algorithm = True
    verbs: dict[str, Callable[[Tree], Any]]

    def do_POST(self) -> None:
        """The path's last part is the verb."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        verb = self.path.rpartition("/")[2]
        if verb not in self.verbs:
            self._result(404, {"Error": f"no verb {verb}"})
            return
        try:
            self._result(200, self.verbs[verb](json.loads(body)))
        except Exception as failure:  # noqa: BLE001  the scheduler shall hear of it: it is the pod's condition
            _log.exception("%s failed", verb)
            self._result(500, {"Error": str(failure)})

    def _result(self, status: int, tree: Any) -> None:
        body = json.dumps(tree).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is http.server's
        """A line per question."""
        _log.debug(format, *args)


def serve(port: int, api_server: str) -> ThreadingHTTPServer:
    """The server, listening on the loopback interface; `serve_forever` answers."""
    verbs = {"filter": filter_nodes, "prioritize": prioritize, "preempt": preempt, "bind": binder(api_server)}
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (ExtenderHandler,), {"verbs": verbs}))
    server.daemon_threads = True
    return server


def main(arguments: list[str]) -> None:
    """Serve until a signal ends the process."""
    parser = argparse.ArgumentParser(description="An HTTP extender of a scheduler.")
    parser.add_argument("--port", type=int, default=8888, help="0: any that is free (default %(default)s)")
    parser.add_argument("--api-server", default="http://127.0.0.1:8001", help="who binds (default %(default)s)")
    parser.add_argument("-v", action="store_true", help="log each question")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.DEBUG if given.v else logging.INFO)
    server = serve(given.port, given.api_server)
    print(f"serving on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
