"""The whole service with a plugin that raises what is no `Exception`: the watch, the workers and the process go on."""

import pytest

from kscheduler.config.loader import LoadedConfig, from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.plugins import in_tree
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options
from tests.builders import Tree
from tests.scheduling.runtime.hostile_plugin import VICTIM, hostile
from tests.service.running import answer, node_of, put, running, until


def configuration() -> LoadedConfig:
    plugins: Tree = {
        "multiPoint": {"enabled": [{"name": "Hostile"}]},
        "bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "Hostile"}, {"name": "DefaultBinder"}]},
    }
    profiles = [{"schedulerName": "kscheduler", "plugins": plugins}]
    off = {"leaderElect": False}
    return from_tree({"apiVersion": API_VERSION, "kind": KIND, "leaderElection": off, "profiles": profiles}, "test")


def pod(name: str) -> Tree:
    container = {"name": "main", "image": "registry.k8s.io/pause", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"schedulerName": "kscheduler", "containers": [container]}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


NODE: Tree = {
    "metadata": {"name": "node", "uid": "uid-node"},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
}


@pytest.mark.parametrize("way", ["is cancelled", "exits", "interrupts", "raises"])
@pytest.mark.parametrize(
    ("method", "point"),
    [("pre_enqueue", "PreEnqueue"), ("filter", "Filter"), ("pre_bind", "PreBind"), ("bind", "Bind")],
)
async def test_the_service_goes_on_and_names_the_plugin(method: str, point: str, way: str) -> None:
    registry = in_tree.registry()
    registry.register("Hostile", lambda *_: hostile(method, way))
    options = Options(configuration(), serving=HTTPServing.plain_on_loopback(), registry=registry)
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", NODE)
        async with running(server, options) as (app, _, _):
            put(server, "pods", pod(VICTIM))

            def is_reported() -> bool:
                record = server.store.get("pods", "default", VICTIM)
                return record is not None and bool((record.value.get("status") or {}).get("conditions"))

            await until(server, is_reported)
            put(server, "pods", pod("good"))  # comes by the watch that the victim came by
            await until(server, lambda: bool(node_of(server, "good")))
            _, page = await answer(app, "/metrics")
            assert f'kscheduler_plugin_failures_total{{extension_point="{point}",plugin="Hostile"}}' in page
            assert app.parts.assembly.cache.statistics().assumed_pods == 0 or node_of(server, VICTIM) == ""
            assert (await answer(app, "/livez"))[0] == 200
