"""Six schedulers in the way of the scripts that people publish: watch, choose, bind.

Written by us, after the shape that most of them share: a watch of the pods of one namespace, a list of nodes for each
pod, a choice of a line or two, a Binding, and `except: pass`. What they do not do is the point; do not repair them.

    python -m benchmarks.hand_made.scripts cheapest http://127.0.0.1:8001 [http://source]
"""

import json
import random
import sys
from collections.abc import Callable
from itertools import count
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

Object = dict[str, Any]
Choose = Callable[[Object, list[Object]], Object]

TURN = count()
API = SOURCE = ""


def get(url: str) -> Any:
    with urlopen(url) as answer:
        return json.load(answer)


def ready_nodes() -> list[Object]:
    nodes: list[Object] = get(f"{API}/api/v1/nodes")["items"]
    return [
        node
        for node in nodes
        if any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])
    ]


def any_one(pod: Object, nodes: list[Object]) -> Object:
    return random.choice(nodes)


def in_turn(pod: Object, nodes: list[Object]) -> Object:
    return nodes[next(TURN) % len(nodes)]


def cheapest(pod: Object, nodes: list[Object]) -> Object:
    """Adds up CPU by listing all pods, as the best known of these scripts does."""
    used: dict[str, float] = {}
    for other in get(f"{API}/api/v1/pods")["items"]:
        name = other["spec"].get("nodeName", "")
        used[name] = used.get(name, 0.0) + cpu_of(other)
    fitting = [
        node
        for node in nodes
        if float(node["status"]["allocatable"]["cpu"]) - used.get(node["metadata"]["name"], 0.0) >= cpu_of(pod)
    ]
    priced = [node for node in fitting if "hightower.com/cost" in node["metadata"].get("annotations", {})]
    return min(priced, key=lambda node: float(node["metadata"]["annotations"]["hightower.com/cost"]), default=nodes[0])


def cpu_of(pod: Object) -> float:
    text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def matching(pod: Object, nodes: list[Object]) -> Object:
    wanted = pod["metadata"].get("annotations", {}).get("cluster.type")
    fitting = [node for node in nodes if node["metadata"]["labels"].get("cluster.type") == wanted]
    return random.choice(fitting or nodes)


def least_used(pod: Object, nodes: list[Object]) -> Object:
    result = get(f"{SOURCE}/api/v1/query?query={quote('memory')}")["data"]["result"]
    used = {one["metric"]["node"]: float(one["value"][1]) for one in result}
    return min(nodes, key=lambda node: used.get(node["metadata"]["name"], 1.0))


def best_number(pod: Object, nodes: list[Object]) -> Object:
    numbers = get(f"{SOURCE}/scores")
    return max(nodes, key=lambda node: numbers.get(node["metadata"]["name"], 0.0))


SCRIPTS: dict[str, Choose] = {
    "random": any_one,
    "round-robin": in_turn,
    "cheapest": cheapest,
    "annotation-match": matching,
    "load-aware": least_used,
    "external": best_number,
}


def run(name: str) -> None:
    choose = SCRIPTS[name]
    with urlopen(f"{API}/api/v1/namespaces/default/pods?watch=1") as events:
        for line in events:
            pod = json.loads(line)["object"]
            if pod["status"].get("phase") == "Pending" and pod["spec"]["schedulerName"] == name:
                try:
                    bind(pod, choose(pod, ready_nodes()))
                except (URLError, IndexError):
                    pass


def bind(pod: Object, node: Object) -> None:
    name = pod["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    url = f"{API}/api/v1/namespaces/default/pods/{name}/binding"
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request) as answer:
        answer.read()


if __name__ == "__main__":
    API, SOURCE = sys.argv[2], (sys.argv[3:] or [""])[0]
    run(sys.argv[1])
