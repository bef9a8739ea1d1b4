"""`explain --from` tells of a held pod in the words that its condition and its Event have."""

from kscheduler.explain.as_json import decision_tree
from kscheduler.explain.text.as_text import decision_text
from kscheduler.whatif.decide import decide
from kscheduler.whatif.scenario import parse_scenario
from tests.builders import Tree
from tests.explain.scenarios import node_tree, pod_tree, scenario_line

CONFIGURATION: Tree = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "extenders": [{"urlPrefix": "http://me:secret@gpu.example.com/v1", "filterVerb": "filter"}],
}
HELD = (
    "pod is held because kscheduler has not built extenders yet (extender http://gpu.example.com/v1 filters its nodes)"
)


def test_a_held_pod_is_explained_with_the_extender_s_name() -> None:
    line = scenario_line(pod_tree(), nodes=[node_tree("a")], config=CONFIGURATION)
    decision = decide(parse_scenario(line, "here"))
    assert decision_tree(decision)["message"] == f"0/1 nodes are available: {HELD}."
    text = " ".join(decision_text(decision).split())  # as if it were not wrapped
    assert f"Extender: {HELD}" in text
    assert "secret" not in text
