"""`/simulate` of a running service with a configuration that follows more kinds than the service does."""

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.library.test_topologies import GANG, configuration, members, nodes
from tests.service.asking.test_questions import simulated, until_true
from tests.service.running import put, running


async def test_levels_that_the_service_does_not_read_are_waited_for() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        for tree in nodes():
            put(server, "nodes", tree)
        await until_true(lambda: app.http_app.is_scheduling)
        objects = [GANG, *members()]
        own = await simulated(app, objects=objects, config=configuration("topologyLevels"))
        assert sorted(each["node"] for each in own["placed"]) == ["b", "c"]
        tree = await simulated(app, objects=objects, config=configuration("volcano"))
    why = "waits for hypernodes.topology.volcano.sh of topologyAPIs: this service does not read them"
    assert [why in each["message"] for each in tree["pending"]] == [True, True]
