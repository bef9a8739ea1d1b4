"""`--scheduled-events`: which bound pods have an Event, what a sum says, and what a tenant can cause."""

import asyncio
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.aio import BackgroundService, VirtualClock, running
from kscheduler.api.core import Pod
from kscheduler.client.events import scheduled
from kscheduler.client.events.recorder import EventReference
from kscheduler.client.events.scheduled import (
    EACH,
    MOST_OF_NAMESPACE,
    QUIET_SECONDS,
    WINDOW_SECONDS,
    NoPod,
    SampledPods,
    SummedPods,
    success_policy,
)
from tests.builders import make_pod

_numbers = count()


def pod_of(owner: str, *, namespace: str = "ns", scheduler: str = "kscheduler", **fields: str) -> Pod:
    """A pod of this ReplicaSet; `fields` of the reference."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"u-{owner}", **fields}
    owners = [{**reference, "controller": True}]
    name = f"{owner}-{next(_numbers)}"
    return make_pod(name, namespace=namespace, schedulerName=scheduler, metadata={"ownerReferences": owners})


class Recorded:
    """Keeps Events of sums."""

    def __init__(self) -> None:
        self.events: list[tuple[EventReference, str]] = []
        self.others: list[dict[str, str]] = []

    def __call__(self, regarding: EventReference, *, note: str, **others: str) -> None:
        self.events.append((regarding, note))
        self.others.append(others)

    @property
    def notes(self) -> list[str]:
        return [note for _, note in self.events]


# --- sampled ----------------------------------------------------------------------------------------------------------


def test_of_an_owner_the_first_pod_in_a_minute_and_each_hundredth_have_an_event() -> None:
    clock = VirtualClock()
    policy = SampledPods(clock)
    told = [number for number in range(1, 3 * EACH) if policy.has_own(pod_of("web"), "n")]
    assert told == [1, EACH, 2 * EACH]
    assert policy.has_own(pod_of("other"), "n")
    assert policy.omitted == 3 * EACH - 1 - 3


async def test_each_minute_begins_anew() -> None:
    clock = VirtualClock()
    policy = SampledPods(clock)
    assert [policy.has_own(pod_of("web"), "n") for _ in range(3)] == [True, False, False]
    await clock.advance(WINDOW_SECONDS)
    assert [policy.has_own(pod_of("web"), "n") for _ in range(3)] == [True, False, False]


def test_pods_without_an_owner_are_sampled_as_if_they_had_one_in_common() -> None:
    policy = SampledPods(VirtualClock())
    assert [policy.has_own(make_pod(name, namespace="ns"), "n") for name in "abc"] == [True, False, False]
    assert policy.has_own(make_pod("a", namespace="other"), "n")


def test_a_tenant_of_many_owners_has_its_share_of_events_and_takes_none_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduled, "MOST_OWNERS", 8)
    policy = SampledPods(VirtualClock())
    told = sum(policy.has_own(pod_of(f"job-{number}"), "n") for number in range(10 * MOST_OF_NAMESPACE))
    assert told == MOST_OF_NAMESPACE
    assert policy.has_own(pod_of("web", namespace="other"), "n")
    assert len(policy._of_owner) == 8


def test_an_owner_of_the_same_uid_in_another_namespace_is_another() -> None:
    """Who writes pods may name any owner: with that he takes no Event from pods elsewhere."""
    policy = SampledPods(VirtualClock())
    assert policy.has_own(pod_of("web", namespace="hostile"), "n")
    assert policy.has_own(pod_of("web"), "n")


# --- summed -----------------------------------------------------------------------------------------------------------


async def test_a_sum_tells_how_many_pods_of_the_owner_were_bound_to_how_many_nodes() -> None:
    clock, recorded = VirtualClock(), Recorded()
    policy = SummedPods(recorded, clock)
    for number in range(120):
        assert not policy.has_own(pod_of("web"), f"node-{number % 87}")
    last = pod_of("web")
    policy.has_own(last, "node-0")
    async with running(BackgroundService("sums", policy.run)):
        await clock.advance(QUIET_SECONDS - 1)
        assert not recorded.events
        await clock.advance(2)
    assert recorded.events == [
        (
            EventReference("apps/v1", "ReplicaSet", "ns", "web", "u-web"),
            f"Successfully assigned 121 pods to 87 nodes, the last one {last.key} to node-0",
        )
    ]
    assert recorded.others == [
        {"type": "Normal", "reason": "Scheduled", "action": "Binding", "reporting_controller": "kscheduler"}
    ]
    assert policy.omitted == 121


async def test_a_sum_of_one_pod_names_it_as_its_own_event_would() -> None:
    recorded = Recorded()
    policy = SummedPods(recorded, VirtualClock())
    pod = pod_of("web")
    policy.has_own(pod, "node-1")
    await policy.flush()
    assert recorded.notes == [f"Successfully assigned {pod.key} to node-1"]


async def test_an_owner_that_is_never_quiet_has_an_event_each_minute() -> None:
    clock, recorded = VirtualClock(), Recorded()
    policy = SummedPods(recorded, clock)
    async with running(BackgroundService("sums", policy.run)):
        for _ in range(3 * int(WINDOW_SECONDS)):
            policy.has_own(pod_of("web"), "node-1")
            await clock.advance(1.0)
    assert len(recorded.events) == 3
    assert all(note.partition(",")[0].endswith(" pods to 1 node") for note in recorded.notes)


def test_a_pod_without_an_owner_has_its_own_event() -> None:
    recorded = Recorded()
    policy = SummedPods(recorded, VirtualClock())
    assert policy.has_own(make_pod("bare"), "n")
    assert policy.omitted == 0


async def test_pods_are_summed_by_namespace_owner_and_scheduler_name() -> None:
    """Who names an owner of somebody else adds nothing to that one's Events."""
    recorded = Recorded()
    policy = SummedPods(recorded, VirtualClock())
    for pod in (pod_of("web"), pod_of("web", namespace="hostile"), pod_of("web", scheduler="batch"), pod_of("db")):
        policy.has_own(pod, "n")
    await policy.flush()
    assert [(regarding.namespace, regarding.name) for regarding, _ in recorded.events] == [
        ("ns", "web"),
        ("hostile", "web"),
        ("ns", "web"),
        ("ns", "db"),
    ]
    assert [others["reporting_controller"] for others in recorded.others].count("batch") == 1


@pytest.mark.parametrize("field", ["name", "uid", "kind", "apiVersion"])
def test_an_owner_of_a_megabyte_is_none(field: str) -> None:
    policy = SummedPods(Recorded(), VirtualClock())
    assert policy.has_own(pod_of("web", **{field: "x" * 1_000_000}), "n")
    assert policy.omitted == 0


def test_of_too_many_owners_the_one_used_longest_ago_is_reported_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled, "MOST_OWNERS", 2)
    recorded = Recorded()
    policy = SummedPods(recorded, VirtualClock())
    for owner in ("a", "b", "a", "c"):
        policy.has_own(pod_of(owner), "n")
    assert [regarding.name for regarding, _ in recorded.events] == ["b"]


def test_of_too_many_names_of_nodes_the_oldest_sums_are_reported_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled, "MOST_NODES", 5)
    recorded = Recorded()
    policy = SummedPods(recorded, VirtualClock())
    for owner, node in (("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("b", "2"), ("c", "1"), ("c", "2")):
        policy.has_own(pod_of(owner), node)
    assert [regarding.name for regarding, _ in recorded.events] == ["a"]
    for number in range(10):
        policy.has_own(pod_of("c"), f"of-c-{number}")
    assert sum(len(each.nodes) for each in policy._sums.values()) == policy._nodes <= 5


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5), st.sampled_from([0.0, 0.5, 3.0, 30.0])), max_size=60)
)
def test_each_pod_is_in_exactly_one_event_of_its_owner(history: list[tuple[str, int, float]]) -> None:
    """Whatever comes in whatever order, and however small the tables."""

    async def play() -> None:
        clock, recorded = VirtualClock(), Recorded()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scheduled, "MOST_OWNERS", 3)
            patch.setattr(scheduled, "MOST_NODES", 7)
            policy = SummedPods(recorded, clock)
            async with running(BackgroundService("sums", policy.run, policy.flush)):
                for owner, node, seconds in history:
                    policy.has_own(pod_of(owner), f"node-{node}")
                    await clock.advance(seconds)
        for owner in "abcd":
            notes = [note for regarding, note in recorded.events if regarding.name == owner]
            assert sum(_pods(note) for note in notes) == sum(each == owner for each, _, _ in history)
        assert (policy._nodes, len(policy._sums)) == (0, 0)

    asyncio.run(play())


def _pods(note: str) -> int:
    words = note.split()
    return int(words[2]) if words[3] == "pods" else 1


# --- all and none -----------------------------------------------------------------------------------------------------


def test_all_has_no_policy_and_none_has_no_event() -> None:
    assert success_policy("all", Recorded()) is None
    policy = success_policy("none", Recorded())
    assert isinstance(policy, NoPod)
    assert not policy.has_own(make_pod(), "n")
    assert policy.omitted == 1
