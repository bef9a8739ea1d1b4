"""A pod that needs a rule which is not built yet is held, not bound, and says which rule it waits for.

When a rule is built, its case moves from here to `test_requirements.py` or `test_placement.py`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME

CLAIM: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}

HELD: dict[str, tuple[dict[str, Any], str]] = {
    "resource-claim": (CLAIM, "DynamicResources"),
}


@pytest.mark.usefixtures("only_kscheduler")
@pytest.mark.parametrize(("needs", "rule"), HELD.values(), ids=HELD.keys())
def test_a_pod_that_needs_an_unbuilt_rule_is_held_with_the_name_of_the_rule(
    scenario: Scenario, needs: dict[str, Any], rule: str
) -> None:
    scenario.add_node("node-0", labels={"zone": "a"})
    scenario.start_scheduler()
    scenario.add_pod("special", **needs)
    scenario.add_pod("plain")
    scenario.wait_bound("plain")
    scenario.wait_rejected("special", rule)
    scenario.wait("the Event", lambda: scenario.events("special", "FailedScheduling"))
    assert rule in scenario.events("special", "FailedScheduling")[0]["message"]


GPU = "example.com/gpu"
EXTENDER: dict[str, Any] = {
    "urlPrefix": "http://me:secret@127.0.0.1:1/scheduler",
    "filterVerb": "filter",
    "managedResources": [{"name": GPU}],
}
CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "profiles": [{"schedulerName": NAME}],
    "extenders": [EXTENDER],
}


@pytest.mark.usefixtures("only_kscheduler")
def test_a_pod_that_an_extender_would_be_asked_about_is_held_with_its_name(scenario: Scenario, tmp_path: Path) -> None:
    configuration = tmp_path / "scheduler.json"
    # With --config the flag --kubeconfig is passed over, as kube-scheduler does it.
    connection = {"clientConnection": {"kubeconfig": str(scenario.server.admin_kubeconfig)}}
    configuration.write_text(json.dumps(CONFIGURATION | connection))
    scenario.add_node("node-0")
    scenario.set_allocatable("node-0", **{GPU: "4"})
    process = scenario.start_scheduler("--config", str(configuration))
    limits = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    scenario.add_pod("special", containers=[{"name": "main", "image": "registry.example/app:1", "resources": limits}])
    scenario.add_pod("plain")
    scenario.wait_bound("plain")
    told = "(extender http://127.0.0.1:1/scheduler filters its nodes)"
    scenario.wait_rejected("special", told)
    scenario.wait("the Event", lambda: scenario.events("special", "FailedScheduling"))
    assert told in scenario.events("special", "FailedScheduling")[0]["message"]
    assert "pods that request or limit example.com/gpu are held (http://127.0.0.1:1/scheduler)" in process.text()
    assert "secret" not in process.text()
    # There is room for it: without this the audit would rightly call it forgotten.
    scenario.delete_pod("special")
