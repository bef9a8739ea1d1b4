"""What is deleted while it is being scheduled."""

from tests.e2e.scenario import Scenario


def test_a_pod_deleted_while_pending_is_forgotten_and_its_name_can_come_back(scenario: Scenario) -> None:
    scenario.add_node("node-0", cpu="2")
    scenario.start_scheduler()
    scenario.add_pod("phoenix", cpu="3")
    scenario.wait_rejected("phoenix", "1 Insufficient cpu")
    scenario.delete_pod("phoenix")
    scenario.add_pod("phoenix", cpu="1")
    scenario.wait_bound("phoenix")


def test_pods_deleted_in_the_middle_of_binding_leave_room_for_the_others(scenario: Scenario) -> None:
    for number in range(4):
        scenario.add_node(f"node-{number}", pods="25")
    scenario.add_pods(150)
    scenario.start_scheduler()
    scenario.recorder.wait_for_binds(10, 30)
    for number in range(149, 99, -1):
        scenario.delete_pod(f"pod-{number}")
    scenario.wait_bound()


def test_a_node_deleted_while_binding_takes_no_more_pods(scenario: Scenario) -> None:
    for number in range(5):
        scenario.add_node(f"node-{number}", cpu="32", pods="80")
    scenario.add_pods(200)
    scenario.start_scheduler()
    scenario.recorder.wait_for_binds(20, 30)
    scenario.remove_node("node-2")
    scenario.wait_bound()
    scenario.add_pods(20, prefix="after")
    scenario.wait_bound()
    after = {scenario.node_of(f"after-{number}") for number in range(20)}
    assert after <= {"node-0", "node-1", "node-3", "node-4"}
