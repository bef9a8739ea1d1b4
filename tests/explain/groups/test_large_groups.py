"""A group of thousands of members is answered about in seconds: members that are alike are judged as one class."""

from typing import Any, Final

import pytest

from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.explain.queries.explain_query import query_about_group
from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins import in_tree
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving
from kscheduler.state.group_apis import KUBERNETES
from tests.builders import make_node
from tests.scheduling.groups.world import ON, member, pod_group

MEMBERS: Final = 30


@pytest.mark.parametrize("cpu", [pytest.param("30", id="fits"), pytest.param("29", id="does not fit")])
def test_a_filter_is_called_for_few_of_many_members(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filtered, by_plugin = list[str](), NodeAffinity.filter

    def counted(self: NodeAffinity, cycle: Any, pod: PodInfo, nodes: Any, rows: Any) -> Any:
        filtered.append(pod.name)
        return by_plugin(self, cycle, pod, nodes, rows)

    monkeypatch.setattr(NodeAffinity, "filter", counted)
    requests, selector = {"cpu": "1"}, {"disk": "fast"}
    pods = [member(f"g-{number}", "g", requests=requests, nodeSelector=selector) for number in range(MEMBERS)]
    nodes = make_node("a", labels=selector, cpu=cpu), make_node("b")
    config = default_configuration("kscheduler", parse_feature_gates(ON, version="1.37"))
    query = query_about_group(
        GroupKey("scheduling.k8s.io", "default", "g"),
        ClusterObjects(nodes=nodes, pods=tuple(pods)),
        [KUBERNETES.definition_of(pod_group("g", MEMBERS))],
        Serving(config, "test", in_tree.registry()),
        "test",
    )
    decision = query.decide()
    assert isinstance(decision, GroupDecision)
    assert decision.status is not None
    assert decision.status.is_success is (cpu == "30")
    assert len(filtered) < MEMBERS / 2
