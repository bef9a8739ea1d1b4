"""What a namespace's user may create on a real API server, at its limits: others are bound meanwhile."""

import pytest

from tests.e2e.audit import condition_text
from tests.e2e.devices import DevicesRoom
from tests.e2e.scenario import Scenario
from tests.e2e.servers import RealServer

pytestmark = pytest.mark.usefixtures("only_kscheduler")
# 0.9 MB of a pod, which the API server takes.
KEYS = 70_000
# kube-apiserver itself takes a second to validate it; for twenty of twice the depth, which 10,240 characters have room
# for, a minute.
LISTS_IN_LISTS = "&&".join([f"{'[' * 120}{']' * 120}==[]"] * 4)
SOUND_SECONDS = 10.0


def test_a_pod_of_seventy_thousand_keys_and_a_selector_that_is_hard_to_compile_delay_nobody(
    scenario: Scenario, devices: DevicesRoom
) -> None:
    if not isinstance(scenario.server, RealServer):
        pytest.skip("tests/hostile plays them without a server; this shows that a real one takes them")
    devices.publish("node-0", "gpu-0")
    scenario.start_scheduler(wait_started=True)
    scenario.add_pod("first")
    scenario.wait_bound("first")
    scenario.add_pod("keys", nodeSelector={f"k{key}": "v" for key in range(KEYS)})
    devices.add_claim("lists", selector=LISTS_IN_LISTS)
    devices.add_pod("lists", "lists")
    scenario.add_pods(20, "sound")
    scenario.wait_bound(*[f"sound-{number}" for number in range(20)], seconds=SOUND_SECONDS)
    scenario.wait_rejected("keys", f"spec.nodeSelector has {KEYS:,} entries", reason="SchedulerError")
    scenario.wait("lists is answered", lambda: "claim" in condition_text(scenario.pod("lists")))
    assert [process.running for process in scenario.processes] == [True]
    for name in ("keys", "lists"):
        scenario.delete_pod(name)
