"""The straight line: pods that name the scheduler get a node, and others are left alone."""

from tests.e2e.scenario import Scenario


def test_all_pods_are_bound_and_run(scenario: Scenario) -> None:
    for number in range(3):
        scenario.add_node(f"node-{number}")
    scenario.add_pods(30)
    scenario.start_scheduler()
    scenario.wait_bound()
    scenario.wait("all run", lambda: {pod["status"]["phase"] for pod in scenario.pods()} == {"Running"})


def test_a_bound_pod_carries_the_condition_and_the_event(scenario: Scenario) -> None:
    scenario.add_node("node-0")
    scenario.add_pod("web")
    scenario.start_scheduler()
    scenario.wait_bound("web")
    conditions = {c["type"]: c["status"] for c in scenario.pod("web")["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"
    scenario.wait("the Event", lambda: scenario.events("web", "Scheduled"))
    event = scenario.events("web", "Scheduled")[0]
    assert event.get("message") == f"Successfully assigned {scenario.namespace}/web to node-0"
    assert event["reportingComponent"] == "kscheduler"


def test_pods_of_another_scheduler_are_left_alone(scenario: Scenario) -> None:
    scenario.add_node("node-0")
    scenario.add_pod("foreign", schedulerName="another-scheduler")
    scenario.start_scheduler()
    scenario.add_pod("own")
    scenario.wait_bound("own")
    assert scenario.pending() == ["foreign"]


def test_a_full_cluster_is_filled_to_the_last_cpu_and_no_further(scenario: Scenario) -> None:
    for number in range(4):
        scenario.add_node(f"node-{number}", cpu="10")
    scenario.add_pods(45, cpu="1")
    scenario.start_scheduler()
    scenario.recorder.wait_for_binds(40, 30)
    scenario.wait_rejected(scenario.pending()[0], "0/4 nodes are available: 4 Insufficient cpu")
    assert len(scenario.pending()) == 5


def test_pods_and_nodes_that_come_while_it_runs_are_used(scenario: Scenario) -> None:
    scenario.start_scheduler()
    for number in range(5):
        scenario.add_node(f"node-{number}", pods="4")
        scenario.add_pods(4, prefix=f"wave-{number}")
        scenario.wait_bound()
    on_nodes = {scenario.node_of(f"wave-4-{number}") for number in range(4)}
    assert on_nodes == {"node-4"}
