"""NodeName: what is said of a pod that names its node."""

import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.plugins.node_name import NodeName
from tests.plugins.made import HANDLE, info, node, table


@pytest.mark.parametrize(
    ("name", "text", "exists"),
    [
        ("node-1", "spec.nodeName asks for node-1", True),
        ("ghost", "spec.nodeName asks for ghost, which does not exist", False),
    ],
)
def test_the_detail_names_the_node_and_says_whether_it_exists(name: str, text: str, exists: bool) -> None:
    nodes = table(node("node-1"), node("node-2"))
    (detail,) = NodeName(None, HANDLE).details(CycleState(), info(nodeName=name), nodes, nodes.rows())
    assert detail.text == text
    assert detail.facts == {"nodeName": name, "exists": exists}
