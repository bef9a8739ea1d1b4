"""The scenario of Kubernetes' own test of extenders (test/integration/scheduler/extender), played again.

Five machines; a pod that wants an extended resource that no machine has. The first extender leaves machines 1 to 3 and
prefers the second; the second manages the resource (which the scheduler ignores), leaves 2, 3 and 5, prefers the third,
and binds; the third is sent names only, leaves 1 to 3 and prefers the second. Weights 3, 4 and 10 times those of the
extenders themselves (1, 1, 5) decide for machine 2.
"""

from pathlib import Path

import pytest

from tests.e2e.extenders.stage import deciding
from tests.e2e.scenario import Scenario
from tests.e2e.servers import RealServer
from tests.extender_program import Explanation, Tree, extender_program, leaves

RESOURCE = "foo.com/bar"
MACHINES = [f"machine{number}" for number in range(1, 6)]


def prefers_by(name: str, weight: int) -> Explanation:
    """Ten points for one machine and one for the others, times a weight: more than the protocol's ten."""

    def answer(tree: Tree) -> list[Tree]:
        queried = tree["NodeNames"]
        if queried is None:
            queried = [node["metadata"]["name"] for node in tree["Nodes"]["items"]]
        return [{"Host": each, "Score": weight * (10 if each == name else 1)} for each in queried]

    return answer


@pytest.mark.usefixtures("only_kscheduler")
@pytest.mark.parametrize("scheduler", ["kscheduler", "kube-scheduler"])
def test_three_extenders_agree_on_a_machine(scenario: Scenario, tmp_path: Path, scheduler: str) -> None:
    if scheduler == "kube-scheduler" and not isinstance(scenario.server, RealServer):
        pytest.skip("the original is tried on the real API server")
    bound: list[str] = []

    def bind(tree: Tree) -> Tree:
        metadata = {"name": tree["PodName"], "namespace": tree["PodNamespace"], "uid": tree["PodUID"]}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata}
        path = f"/api/v1/namespaces/{tree['PodNamespace']}/pods/{tree['PodName']}/binding"
        scenario.api.create(path, binding | {"target": {"kind": "Node", "name": tree["Node"]}})
        bound.append(tree["Node"])
        return {"Error": ""}

    for name in MACHINES:
        scenario.add_node(name, pods="32")
    first = {"filter": leaves("machine1", "machine2", "machine3"), "prioritize": prefers_by("machine2", 1)}
    second = {"filter": leaves("machine2", "machine3", "machine5"), "prioritize": prefers_by("machine3", 1)}
    third = {"filter": leaves("machine1", "machine2", "machine3"), "prioritize": prefers_by("machine2", 5)}
    with (
        extender_program(first) as one,
        extender_program(second | {"bind": bind}) as two,
        extender_program(third) as three,
    ):
        managed = {"managedResources": [{"name": RESOURCE, "ignoredByScheduler": True}]}
        extenders = [
            one.settings(weight=3),
            two.settings(weight=4, **managed),
            three.settings(weight=10, nodeCacheCapable=True),
        ]
        with deciding(scenario, scheduler, extenders, tmp_path / scheduler):
            resources = {"limits": {RESOURCE: "1"}, "requests": {RESOURCE: "1"}}
            container = {"name": "container", "image": "registry.example/pause:1", "resources": resources}
            scenario.add_pod("extender-test-pod", containers=[container])
            scenario.wait_bound("extender-test-pod")
            assert scenario.node_of("extender-test-pod") == "machine2"
            scenario.delete_pod("extender-test-pod")
        assert bound == ["machine2"]
        assert [verb for verb, _ in two.queried] == ["filter", "prioritize", "bind"]
        filtered = dict(three.queried)["filter"]
        assert sorted(filtered["NodeNames"]) == ["machine2", "machine3"]
