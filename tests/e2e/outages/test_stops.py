"""The scheduler is stopped, killed and started again; the cluster has just room for all pods, so a miscount shows."""

from tests.e2e.scenario import Scenario

NODES, PODS_PER_NODE = 5, 40
PODS = NODES * PODS_PER_NODE
TOO_MANY = 3


def tight_cluster(scenario: Scenario, pods: int = PODS + TOO_MANY) -> None:
    for number in range(NODES):
        scenario.add_node(f"node-{number}", cpu=str(PODS_PER_NODE))
    scenario.add_pods(pods, cpu="1")


def expect_full(scenario: Scenario) -> None:
    """Every place is taken, and the pods too many wait."""
    scenario.recorder.wait_for_binds(PODS, 60)
    scenario.wait_rejected(scenario.pending()[0], f"{NODES} Insufficient cpu")
    assert len(scenario.pending()) == TOO_MANY


def test_sigterm_during_sync_ends_in_order_and_the_next_run_does_the_work(scenario: Scenario) -> None:
    tight_cluster(scenario)
    scenario.terminate(scenario.start_scheduler(wait_started=True))
    scenario.start_scheduler()
    expect_full(scenario)


def test_sigterm_while_binding_ends_in_order_and_the_next_run_goes_on(scenario: Scenario) -> None:
    tight_cluster(scenario)
    first = scenario.start_scheduler()
    scenario.recorder.wait_for_binds(20, 30)
    scenario.terminate(first)
    scenario.start_scheduler()
    expect_full(scenario)


def test_sigkill_while_binding_loses_and_doubles_nothing(scenario: Scenario) -> None:
    tight_cluster(scenario)
    for binds in (20, 60, 120):
        process = scenario.start_scheduler()
        scenario.recorder.wait_for_binds(binds, 30)
        process.kill()
    scenario.start_scheduler()
    expect_full(scenario)


def test_a_second_run_counts_what_the_first_one_has_bound(scenario: Scenario) -> None:
    tight_cluster(scenario, pods=PODS // 2)
    first = scenario.start_scheduler()
    scenario.wait_bound()
    scenario.terminate(first)
    scenario.add_pods(PODS // 2 + TOO_MANY, prefix="second", cpu="1")
    scenario.start_scheduler()
    expect_full(scenario)
