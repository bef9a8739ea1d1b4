"""What the metrics page says of pod groups that wait in the queue."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kscheduler.api.codec import convert
from kscheduler.api.groups import POD_GROUPS, KubernetesPodGroup
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.config.overrides import with_settings
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.pages.zpages import description
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options
from tests.builders import node_tree, pod_tree
from tests.service.running import answer, node_of, put, running, until


@pytest.mark.parametrize(("version", "label"), [("1.37", "type"), ("1.38", "entity")])
async def test_members_are_pending_pods_and_their_group_is_one_entity(version: str, label: str) -> None:
    config = default_configuration(gates=parse_feature_gates("GenericWorkload=true", version=version))
    options = Options(
        with_settings(config, {"leaderElection.leaderElect": False}, "test"), serving=HTTPServing.plain_on_loopback()
    )
    async with EmbeddedAPIServer(seed=1) as server, running(server, options) as (app, _, _):
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        group = {"metadata": {"name": "g", "namespace": "default", "uid": "g"}, "spec": spec}
        app.parts.assembly.handlers[POD_GROUPS].on_add(convert(group, KubernetesPodGroup), initial=False)
        put(server, "nodes", node_tree("node"))
        for number in range(2):
            put(server, "pods", pod_tree(f"g-{number}", schedulingGroup={"podGroupName": "g"}))
        put(server, "pods", pod_tree("other", schedulingGroup={"podGroupName": "nobody"}))
        put(server, "pods", pod_tree("single"))
        await until(server, lambda: node_of(server, "single") == "node")  # the pods before it are in the queue
        page = (await app.http_app.exposition.render()).body.decode()
        assert 'scheduler_pending_pods{queue="gated"} 2' in page
        assert 'scheduler_pending_pods{queue="incomplete"} 1' in page
        for kind, count in (("pod", 0), ("podgroup", 1)):
            labels = ",".join(sorted((f'{label}="{kind}"', 'queue="gated"')))
            assert f"scheduler_queued_entities{{{labels}}} {count}" in page
        assert ('"compositepodgroup"' in page) is (label == "entity")
        status, text = await answer(app, "/explain?pod=default/other")
        lacks = (
            "waits for PodGroup default/nobody (podgroups.scheduling.k8s.io), a kind that the API server does not serve"
        )
        assert (status, json.loads(text)["message"]) == (200, lacks)
        status, text = await answer(app, "/explain?podGroup=default/nobody")
        assert (status, json.loads(text)["podGroup"], json.loads(text)["message"]) == (200, "default/nobody", lacks)
        status, text = await answer(app, "/explain?podGroup=default/unknown")
        reported = "the service knows no pod group default/unknown: no pod of namespace default names pod group unknown"
        assert (status, json.loads(text)["message"]) == (404, reported)
        status, text = await answer(app, "/explain?pod=podgroup/nobody")
        reported = "the service knows no pod podgroup/nobody; of a pod group: podGroup=NAMESPACE/nobody"
        assert (status, json.loads(text)["message"]) == (404, reported)
        ended = {"metadata": {"name": "ended", "namespace": "default", "uid": "ended"}, "spec": spec}
        app.parts.assembly.handlers[POD_GROUPS].on_add(convert(ended, KubernetesPodGroup), initial=False)
        status, text = await answer(app, "/explain?podGroup=default/ended")
        reported = "no member waits: its members have ended or been deleted, or are not made yet, and its minimum is 3"
        assert (status, json.loads(text)["message"]) == (200, reported), "the service keeps no pods that have ended"
        assert (await answer(app, "/explain?podGroup=nobody"))[0] == 400
        assert (await answer(app, "/explain?podGroup=default/nobody&pod=default/other"))[0] == 400
        pending = json.loads((await answer(app, "/pending"))[1])
        assert [one["message"] for one in pending["reasons"] if one["queue"] == "incomplete"] == [lacks]
        schema = {"$ref": "#/components/schemas/PendingInQueue", "components": description()["components"]}
        assert [problem.message for problem in Draft202012Validator(schema).iter_errors(pending)] == []
