"""`topologyLevels` and `topologyAPIs`: what they take, and where a mistake is."""

from typing import Any

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import LoadedConfig, from_tree

ZONE, RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"


def loaded(**fields: Any) -> LoadedConfig:
    tree = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **fields}
    return from_tree(tree, "", parse_feature_gates(""))


def test_lists_of_labels_from_wide_to_narrow() -> None:
    configuration = loaded(topologyLevels=[[ZONE, RACK, HOST], [RACK]], topologyAPIs=["volcano", "kueue"]).configuration
    assert configuration.topology_levels == ((ZONE, RACK, HOST), (RACK,))
    assert configuration.topology_apis == ("volcano", "kueue")
    assert loaded().configuration.topology_levels == ()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"topologyLevels": [[]]}, r"topologyLevels\[0\]: Invalid value", id="empty"),
        pytest.param({"topologyLevels": [["a"] * 17]}, r"topologyLevels\[0\]: Invalid value: 17", id="too many levels"),
        pytest.param({"topologyLevels": [["a"]] * 17}, r"topologyLevels: Invalid value: 17", id="too many lists"),
        pytest.param({"topologyLevels": [[ZONE], ["a b"]]}, r"topologyLevels\[1\]\[0\]: Invalid value", id="no label"),
        pytest.param({"topologyLevels": [[RACK, RACK]]}, r"topologyLevels\[0\]\[1\]: Duplicate", id="twice"),
        pytest.param({"topologyLevels": [[HOST, RACK]]}, r"topologyLevels\[0\]\[0\].*must be the last", id="order"),
        pytest.param(
            {"topologyLevels": [[ZONE, "a", RACK], ["b"], [RACK, "b", ZONE]]},
            rf'topologyLevels\[2\]: Invalid value: \["{RACK}","{ZONE}"\]: topologyLevels\[0\] has them in the opposite',
            id="opposite order",
        ),
        pytest.param({"topologyAPIs": ["kai"]}, r'topologyAPIs\[0\]: Unsupported value: "kai"', id="project"),
        pytest.param({"topologyAPIs": ["kueue", "kueue"]}, r"topologyAPIs\[1\]: Duplicate", id="project twice"),
    ],
)
def test_mistakes_are_named(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        loaded(**fields)
