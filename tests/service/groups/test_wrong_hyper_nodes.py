"""A HyperNode with something wrong is told to operators before any group asks for a topology."""

import json
from typing import Final

from msgspec.structs import replace

from kscheduler.api.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from kscheduler.api.topologies import HYPER_NODES
from kscheduler.config.overrides import with_settings
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.builders import Tree, node_tree
from tests.service.groups.test_pod_groups import GangCluster
from tests.service.log.reading import log_at
from tests.service.preemption_stage import options
from tests.service.running import SECONDS, answer, put, running

_NAMES: Final = {"kind": "HyperNode", "listKind": "HyperNodeList", "plural": "hypernodes", "singular": "hypernode"}
_SCHEMA: Final = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def definition() -> Tree:
    """The kind, as Volcano installs it, without its schema."""
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": _SCHEMA}
    spec = {"group": HYPER_NODES.group, "scope": "Cluster", "names": _NAMES, "versions": [version]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": HYPER_NODES.resource}, "spec": spec}


async def test_without_a_group_that_asks() -> None:
    wrong = {"type": "Node", "selector": {"regexMatch": {"pattern": "n("}}}
    head = {"apiVersion": HYPER_NODES.group_version, "kind": "HyperNode"}
    body = {**head, "metadata": {"name": "rack"}, "spec": {"tier": 1, "members": [wrong]}}
    chosen = options()
    chosen = replace(chosen, config=with_settings(chosen.config, {"topologyAPIs": ["volcano"]}, "test"))
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            server.registry.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition())
            put(server, "nodes", node_tree("n0"))
            async with running(server, chosen) as (app, _, _):
                await app.parts.informers.wait_for_sync(SECONDS)
                await app.parts.client.post(HYPER_NODES.path, json.dumps(body).encode())
                store = app.parts.informers.informer(HYPER_NODES).store
                await GangCluster(server, app).until(lambda: store.get("rack") is not None)
                for _ in range(3):  # as the log's task does each second
                    await app.parts.topology_reports.look()
                _, ready = await answer(app, "/readyz?verbose")
        (line,) = log.named("topology_object_wrong")
    assert (line["resource"], line["object"]) == (HYPER_NODES.resource, "rack")
    assert 'spec.members[0].selector.regexMatch.pattern "n(" is no regular expression of RE2' in line["reason"]
    assert f"{HYPER_NODES.resource} rack: spec.members[0]" in ready
