"""The clock of `make bench-upstream`: what the watch shows first counts, and waits end with the last pod."""

import json

from benchmarks.upstream.clock import PodClock


def line(name: str, kind: str = "MODIFIED", *, node: str = "", is_tried: bool = False, version: str = "1") -> bytes:
    conditions = [{"type": "PodScheduled", "status": "False"}] if is_tried else []
    pod = {
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": version},
        "spec": {"nodeName": node} if node else {},
        "status": {"conditions": conditions},
    }
    return json.dumps({"type": kind, "object": pod}).encode()


def test_each_time_is_that_of_the_first_line_that_shows_it() -> None:
    clock = PodClock()
    assert clock.see(line("a", "ADDED", version="7"), 1.0) == "7"
    clock.see(line("a", is_tried=True), 2.0)
    clock.see(line("a", node="n", is_tried=True), 3.0)
    clock.see(line("a", node="n"), 4.0)
    clock.see(line("a", "DELETED", node="n"), 5.0)
    assert (clock.added, clock.tried, clock.bound, clock.gone) == (
        {"ns/a": 1.0},
        {"ns/a": 2.0},
        {"ns/a": 3.0},
        {"ns/a": 5.0},
    )


def test_who_is_bound_is_told_once() -> None:
    told: list[str] = []
    clock = PodClock()
    clock.on_bound = told.append
    for _ in range(2):
        clock.see(line("a", node="n"), 1.0)
    assert told == ["ns/a"]


def test_a_wait_ends_when_each_of_its_pods_is_bound_or_gone() -> None:
    clock = PodClock()
    clock.see(line("early", node="n"), 1.0)
    wait = clock.wait_for(["ns/early", "ns/a", "ns/b"])
    clock.see(line("a", is_tried=True), 2.0)
    clock.see(line("other", node="n"), 2.0)
    assert wait.remaining == {"ns/a", "ns/b"}
    clock.see(line("a", node="n"), 3.0)
    assert not wait.changed.is_set()
    clock.see(line("b", "DELETED"), 4.0)
    assert wait.changed.is_set()


def test_a_wait_for_attempts_ends_when_each_was_tried_or_bound() -> None:
    clock = PodClock()
    clock.see(line("early", is_tried=True), 1.0)
    wait = clock.wait_for(["ns/early", "ns/a", "ns/b"], is_for_attempts=True)
    clock.see(line("a", is_tried=True), 2.0)
    clock.see(line("b", node="n"), 3.0)
    assert wait.changed.is_set()


def test_a_wait_for_what_has_happened_is_over() -> None:
    clock = PodClock()
    clock.see(line("a", node="n"), 1.0)
    assert clock.wait_for(["ns/a"]).changed.is_set()


def test_a_wait_that_was_ended_is_told_nothing() -> None:
    clock = PodClock()
    wait = clock.wait_for(["ns/a"])
    clock.end(wait)
    clock.see(line("a", node="n"), 1.0)
    assert wait.remaining == {"ns/a"}
