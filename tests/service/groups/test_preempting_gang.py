"""A gang that makes room for itself, in the whole application: its writes go through the API server's own checks."""

import json
from typing import Any

from kscheduler.api.machinery.resources import served_kinds
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.config.overrides import with_settings
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from tests.builders import node_tree, pod_tree
from tests.service.running import node_of, put, running, until

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


GATES = parse_feature_gates("GenericWorkload=true", version="1.37")


def with_groups() -> Options:
    config = default_configuration(gates=GATES)
    unelected = with_settings(config, {"leaderElection.leaderElect": False}, "test")
    return Options(unelected, serving=HTTPServing.plain_on_loopback())


async def read(app: App, path: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(await app.parts.client.get(path))
    return tree


async def create(app: App, path: str, tree: dict[str, Any]) -> None:
    await app.parts.client.post(path, json.dumps(tree).encode())


async def test_a_gang_is_nominated_then_its_victims_go_then_it_is_bound() -> None:
    kinds = served_kinds("1.37", GATES.enabled)
    async with EmbeddedAPIServer(seed=1, kinds=kinds) as server, running(server, with_groups()) as (app, _, _):
        put(server, "nodes", node_tree("node", cpu="2"))
        put(server, "pods", pod_tree("low", node="node", requests={"cpu": "2"}, terminationGracePeriodSeconds=0))
        nominated: list[bool] = []

        def on_change(change: Any) -> None:
            low = server.store.get("pods", "default", "low")
            gang = [server.store.get("pods", "default", f"g-{number}") for number in range(2)]
            if low is None and not nominated:
                nominated.extend(bool(one and one.value["status"].get("nominatedNodeName")) for one in gang)

        server.store.subscribe("pods", on_change)
        await create(app, "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 9})
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high"}
        await create(app, GROUPS, {"metadata": {"name": "g"}, "spec": spec})
        for number in range(2):
            rest: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}, "priority": 9}
            put(server, "pods", pod_tree(f"g-{number}", requests={"cpu": "1"}, **rest))
        await until(server, lambda: all(node_of(server, f"g-{number}") == "node" for number in range(2)))
        assert nominated == [True, True], "before the victim was deleted"
        assert await app.parts.group_status_writer.flush(5.0)
        shown = await read(app, f"{GROUPS}/g")
        (condition,) = shown["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodGroupInitiallyScheduled", "True")
        assert await app.parts.recorder.flush(5.0)
        events = await read(app, "/apis/events.k8s.io/v1/namespaces/default/events")
        (preempted,) = [event for event in events["items"] if event["reason"] == "Preempted"]
        assert preempted["note"] == f"Preempted by podgroup {shown['metadata']['uid']} on node cluster"
        assert preempted["related"]["kind"] == "PodGroup"
        assert preempted["related"]["name"] == "g"
