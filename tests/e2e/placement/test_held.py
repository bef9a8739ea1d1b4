"""A pod that needs a rule which is not built yet is held, not bound, and says which rule it waits for.

When a rule is built, its case moves from here to `test_requirements.py` or `test_placement.py`.
"""

from typing import Any

import pytest

from tests.e2e.scenario import Scenario

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
