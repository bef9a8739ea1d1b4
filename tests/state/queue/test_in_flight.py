"""What happened while a pod was being tried is kept for it, in order, and for no longer than it is needed."""

from kscheduler.framework.events import ASSIGNED_POD_DELETE, NODE_ADD, NODE_DELETE, ClusterEvent
from kscheduler.state.queue.in_flight import InFlight, SeenEvent


def seen(event: ClusterEvent, only: str = "") -> SeenEvent:
    """An event about nothing in particular."""
    return SeenEvent(event, None, None, only)


def labels(in_flight: InFlight, uid: str) -> list[str]:
    """What a pod has missed."""
    return [seen.event.label for seen in in_flight.since(uid)]


def test_each_pod_gets_what_came_after_it_was_popped_in_order() -> None:
    flight = InFlight()
    flight.record(seen(NODE_ADD))
    flight.begin("a")
    flight.record(seen(NODE_ADD))
    flight.begin("b")
    flight.record(seen(ASSIGNED_POD_DELETE))
    flight.record(seen(NODE_DELETE))
    assert labels(flight, "a") == ["NodeAdd", "AssignedPodDelete", "NodeDelete"]
    assert labels(flight, "b") == ["AssignedPodDelete", "NodeDelete"]
    assert labels(flight, "stranger") == []


def test_a_pod_s_own_update_is_nobody_else_s() -> None:
    flight = InFlight()
    flight.begin("a")
    flight.begin("b")
    flight.record(seen(NODE_ADD, only="a"))
    assert (labels(flight, "a"), labels(flight, "b")) == (["NodeAdd"], [])


def test_events_live_as_long_as_somebody_needs_them() -> None:
    flight = InFlight()
    flight.begin("a")
    flight.record(seen(NODE_ADD))
    flight.begin("b")
    flight.record(seen(NODE_DELETE))
    flight.done("b")
    assert labels(flight, "a") == ["NodeAdd", "NodeDelete"], "b's going takes nothing from a"
    flight.begin("c")
    flight.done("a")
    assert not any(flight.events.values()), "c came after all of them"
    flight.done("a")
    flight.done("c")
    flight.record(seen(NODE_ADD))
    assert (len(flight), any(flight.events.values())) == (0, False)


def test_a_pod_that_is_popped_again_starts_afresh() -> None:
    flight = InFlight()
    flight.begin("a")
    flight.record(seen(NODE_ADD))
    flight.done("a")
    flight.begin("a")
    assert labels(flight, "a") == []


def test_a_pod_that_is_tried_is_found_by_its_name_the_newest_first() -> None:
    flight = InFlight()
    flight.begin("old", "default/p")
    flight.begin("new", "default/p")
    assert flight.uid_of("default/p") == "new"
    flight.done("new")
    assert (flight.uid_of("default/p"), flight.uid_of("default/q")) == ("old", "")
