"""Who may be sent back from an overcommitted node, who is, how fast, and what a refusal means."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from kscheduler.aio.tasks import BackgroundService, running
from kscheduler.api.core import Pod
from kscheduler.client.errors import APIError, APIStatus, ClientError, NotSentError
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.overcommit.incidents import OvercommitCause
from kscheduler.scheduling.overcommit.overcommit_reports import OvercommitReporter
from kscheduler.scheduling.overcommit.repair import (
    CAUSES,
    PAUSE_SECONDS,
    REFUSED_SECONDS,
    OvercommitRepair,
    comes_back_elsewhere,
    is_untouched,
    pod_to_evict,
)
from tests.builders import Tree, make_node, make_pod, pod_info
from tests.scheduling.around import RecordedEvents
from tests.scheduling.overcommit.overcommitted import OURS, Looking, looking


def owned(kind: str = "ReplicaSet", **metadata: Any) -> Tree:
    """Metadata of a pod that a controller has made."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "uid-of-web", "controller": True}
    return {"ownerReferences": [owner], "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7", **metadata}


class Evictor:
    """Keeps the pods, and answers as told. Implements `UnstartedPodEvictor`."""

    def __init__(self, *answers: ClientError | None) -> None:
        self.answers = list(answers)
        self.evicted: list[str] = []
        self.on_call: Callable[[Pod], object] = lambda _: None

    async def evict_as_seen(self, pod: Pod) -> None:
        self.on_call(pod)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.evicted.append(pod.metadata.name)


class Repairing:
    """The repair of what is found."""

    def __init__(self, look: Looking, *answers: ClientError | None) -> None:
        self.look = look
        self.evictor = Evictor(*answers)
        self.events = RecordedEvents()
        reporter = OvercommitReporter(self.events, look.observations, OURS)
        self.repair = OvercommitRepair(look.cache, look.nodes, self.evictor, reporter, look.observations, look.clock)

    async def round(self) -> list[str]:
        """Look and repair once; who has been evicted so far."""
        self.look.nodes.look()
        await self.repair.repair()
        return self.evictor.evicted

    @property
    def results(self) -> dict[str, int]:
        return {result: count for (result,), count in self.look.observations.overcommit_evictions.items()}


def refusal(code: int) -> APIError:
    return APIError(APIStatus(kind="Status", code=code, message="no"))


# --- who --------------------------------------------------------------------------------------------------------------


async def test_the_youngest_of_our_unstarted_pods_is_evicted_and_reported_of() -> None:
    look = looking()
    look.ours("old", requests={"cpu": "1"}, metadata=owned())
    look.ours("young", requests={"cpu": "1"}, metadata=owned(creationTimestamp="2026-01-01T00:01:00Z"))
    look.ours("middle", requests={"cpu": "1"}, metadata=owned(creationTimestamp="2026-01-01T00:00:30Z"))
    look.theirs("q", requests={"cpu": "2"}, metadata=owned(creationTimestamp="2026-01-01T00:02:00Z"))
    repairing = Repairing(look)
    assert await repairing.round() == ["young"]
    assert repairing.results == {"evicted": 1}
    (note,) = repairing.events.notes
    assert note.startswith("Normal EvictedFromOverfilledNode: Node a is overfilled and the pod has not started")


async def test_of_pods_made_in_one_second_the_one_that_was_placed_last_goes() -> None:
    look = looking()
    for name in ("p0", "p1", "p2"):
        look.ours(name, requests={"cpu": "1"}, metadata=owned())
    look.theirs("q", requests={"cpu": "2"})
    assert await Repairing(look).round() == ["p2"]


async def test_a_pod_of_low_priority_goes_before_a_younger_one() -> None:
    look = looking()
    look.ours("low", requests={"cpu": "1"}, metadata=owned(), priority=1)
    look.ours("high", requests={"cpu": "1"}, metadata=owned(creationTimestamp="2026-01-01T00:01:00Z"), priority=2)
    look.theirs("q", requests={"cpu": "3"})
    assert await Repairing(look).round() == ["low"]


STARTED: Tree = {"phase": "Pending", "startTime": "2026-01-01T00:00:05Z"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="nobody makes it again"),
        pytest.param({"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "uid": "u"}]}}, id="no controller"),
        pytest.param({"metadata": owned("DaemonSet")}, id="it could only come back here"),
        pytest.param({"metadata": owned("Node")}, id="a mirror pod"),
        pytest.param({"metadata": owned(), "status": {"phase": "Running"}}, id="it runs"),
        pytest.param({"metadata": owned(), "status": STARTED}, id="the kubelet has taken it up"),
        pytest.param(
            {"metadata": owned(), "status": {"phase": "Pending", "initContainerStatuses": [{"name": "init"}]}},
            id="an init container",
        ),
        pytest.param({"metadata": owned(deletionTimestamp="2026-01-01T00:00:05Z")}, id="it is on its way out"),
        pytest.param({"metadata": owned(), "requests": {"memory": "1Gi"}}, id="it takes nothing of what is exceeded"),
        pytest.param({"metadata": owned(), "is_confirmed": False}, id="its Binding is on its way"),
    ],
)
async def test_a_pod_that_stays(fields: dict[str, Any]) -> None:
    look = looking()
    look.ours("p", **{"requests": {"cpu": "1"}, **fields})
    look.theirs("q", requests={"cpu": "5"}, metadata=owned())
    assert await Repairing(look).round() == []
    look.ours("may-go", requests={"cpu": "1"}, metadata=owned())  # so that it is the pod, and nothing else
    assert await Repairing(look).round() == ["may-go"]


async def test_why_nobody_goes_is_reported_once_and_again_when_it_is_another_reason() -> None:
    look = looking()
    look.ours("bare", requests={"cpu": "1"})
    look.ours("runs", requests={"cpu": "1"}, metadata=owned(), status={"phase": "Running"})
    look.ours("on-its-way", requests={"cpu": "1"}, metadata=owned(), is_confirmed=False)
    look.ours("wants-nothing", metadata=owned("DaemonSet"))
    look.theirs("q", requests={"cpu": "2"})
    repairing = Repairing(look)
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            assert await repairing.round() == []
        stay = {
            "another scheduler's": 1,
            "not bound yet": 1,
            "taken up by the kubelet": 1,
            "no controller makes it again elsewhere": 1,
        }
        line = {"event": "overfill_not_repaired", "log_level": "info", "node": "a", "result": "nobody_may_go"}
        assert lines == [{**line, "stay": stay}]
        look.cache.remove_pod("uid-of-bare")
        look.theirs("r", requests={"cpu": "1"})
        await repairing.round()
    assert [line["stay"]["another scheduler's"] for line in lines] == [1, 2]
    assert repairing.results == {}


async def test_nothing_is_reported_while_pods_on_their_way_out_are_waited_for() -> None:
    look = looking()
    look.ours("p", requests={"cpu": "3"})
    look.theirs("q", requests={"cpu": "3"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    with structlog.testing.capture_logs() as lines:
        assert await Repairing(look).round() == []
    assert lines == []


async def test_pods_of_others_stay_also_under_our_name() -> None:
    look = looking()
    look.theirs("q", requests={"cpu": "3"}, metadata=owned())
    taken = look.theirs("r", requests={"cpu": "3"}, metadata=owned(), schedulerName=OURS)
    look.taken.bound(taken, "a")
    assert await Repairing(look).round() == []


async def test_what_is_on_its_way_out_is_waited_for() -> None:
    look = looking()
    look.ours("p", requests={"cpu": "2"}, metadata=owned())
    look.theirs("goes", requests={"cpu": "2"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    look.theirs("q", requests={"cpu": "2"})
    assert look.found() == {("a", "cpu"): "another_scheduler"}
    assert await Repairing(look).round() == [], "without it the others fit"


async def test_a_host_port_is_cleared_by_one_who_claims_it() -> None:
    claim = [{"name": "main", "image": "app", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    other = [{"name": "main", "image": "app", "ports": [{"containerPort": 81, "hostPort": 81}]}]
    look = looking()
    look.ours("claims", containers=claim, metadata=owned())
    look.ours("claims-another", containers=other, metadata=owned(creationTimestamp="2026-01-01T00:01:00Z"))
    look.theirs("q", containers=claim)
    assert await Repairing(look).round() == ["claims"]


@pytest.mark.parametrize("cause", list(OvercommitCause))
async def test_only_what_would_not_happen_again_is_repaired(cause: OvercommitCause) -> None:
    look = Looking(make_node("a")) if cause is OvercommitCause.FOUND_AT_START else looking()
    if cause is OvercommitCause.OWN:
        look.theirs("q", requests={"cpu": "3"})
    look.ours("p", requests={"cpu": "2"}, metadata=owned())
    if cause is OvercommitCause.ALLOCATABLE:
        look.cache.update_node(make_node("a", cpu="1"))
    if cause in (OvercommitCause.ANOTHER_SCHEDULER, OvercommitCause.FOUND_AT_START):
        look.theirs("q", requests={"cpu": "3"})
    if cause is OvercommitCause.RESIZE:
        grows = {"conditions": [{"type": "PodResizePending", "status": "True"}]}
        look.theirs("q", requests={"cpu": "3"}, status=grows)
    assert look.found() == {("a", "cpu"): cause.value}
    assert await Repairing(look).round() == (["p"] if cause in CAUSES else [])


# --- how far ----------------------------------------------------------------------------------------------------------


async def test_no_more_pods_go_than_the_node_needs_and_its_room_is_given_away_only_within_its_allocatable() -> None:
    look = looking()
    for number in range(4):
        look.ours(f"p{number}", requests={"cpu": "1"}, metadata=owned())
    look.theirs("q", requests={"cpu": "2"})
    repairing = Repairing(look)

    def shown(pod: Pod) -> None:
        look.cache.remove_pod(pod.metadata.uid)

    repairing.evictor.on_call = shown
    row = look.cache.nodes.row_of("a")
    for _ in range(5):
        free = look.cache.nodes.allocatable[0, row] - look.cache.nodes.requested[0, row]
        overcommitted = bool(look.found())
        assert overcommitted == (free < 0), "a pod that wants cpu fits only where the incident is over"
        await repairing.round()
        look.clock._now += PAUSE_SECONDS
    assert repairing.evictor.evicted == ["p3", "p2"]
    assert look.found() == {}


async def test_a_node_has_a_pause_until_the_watch_has_shown_the_eviction() -> None:
    look = looking()
    for number in range(4):
        look.ours(f"p{number}", requests={"cpu": "1"}, metadata=owned())
    look.theirs("q", requests={"cpu": "2"})
    repairing = Repairing(look)
    for _ in range(5):
        await repairing.round()
        look.clock._now += 1.0
    assert repairing.evictor.evicted == ["p3"]
    look.clock._now += PAUSE_SECONDS
    assert await repairing.round() == ["p3", "p3"], "nothing has come of it: it is asked again"


async def test_many_nodes_at_once_are_repaired_slowly() -> None:
    names = [f"n{number}" for number in range(20)]
    look = looking(*(make_node(name) for name in names))
    for name in names:
        look.ours(f"p-{name}", name, requests={"cpu": "3"}, metadata=owned())
        look.theirs(f"q-{name}", name, requests={"cpu": "2"})
    repairing = Repairing(look)
    repairing.evictor.on_call = lambda pod: look.cache.remove_pod(pod.metadata.uid)
    look.nodes.look()
    async with running(BackgroundService("repair", repairing.repair.run)):
        await look.clock.advance(0.1)
        assert len(repairing.evictor.evicted) == 5
        await look.clock.advance(60.0)
        assert len(repairing.evictor.evicted) == 17


async def test_a_pod_that_has_changed_while_the_limit_held_it_up_is_judged_anew() -> None:
    names = [f"n{number}" for number in range(6)]
    look = looking(*(make_node(name) for name in names))
    for name in names:
        look.ours(f"p-{name}", name, requests={"cpu": "3"}, metadata=owned())
        look.theirs(f"q-{name}", name, requests={"cpu": "2"})
    repairing = Repairing(look)
    look.nodes.look()
    task = asyncio.ensure_future(repairing.repair.repair())
    await look.clock.next_sleep()
    started = make_pod("p-n5", node="n5", requests={"cpu": "3"}, metadata=owned(), status={"phase": "Running"})
    look.cache.add_pod(started)
    await look.clock.advance(10.0)
    await task
    assert repairing.evictor.evicted == [f"p-n{number}" for number in range(5)]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "result"),
    [
        pytest.param(refusal(429), "budget", id="a disruption budget"),
        pytest.param(refusal(409), "changed", id="the kubelet was faster"),
        pytest.param(refusal(404), "changed", id="gone"),
    ],
)
async def test_a_refusal_pauses_the_node(failure: ClientError, result: str) -> None:
    look = looking()
    look.ours("p", requests={"cpu": "3"}, metadata=owned())
    look.theirs("q", requests={"cpu": "2"})
    repairing = Repairing(look, failure)
    lines: list[Any]
    with structlog.testing.capture_logs() as lines:
        assert await repairing.round() == []
        assert await repairing.round() == []
    (line,) = lines
    assert (line["event"], line["log_level"], line["result"]) == ("overfill_not_repaired", "warning", result)
    assert repairing.results == {result: 1}
    look.clock._now += PAUSE_SECONDS
    assert await repairing.round() == ["p"]


@pytest.mark.parametrize("failure", [refusal(403), NotSentError("refused")])
async def test_another_failure_pauses_all_nodes(failure: ClientError) -> None:
    look = looking(make_node("a"), make_node("b"))
    for name in ("a", "b"):
        look.ours(f"p-{name}", name, requests={"cpu": "3"}, metadata=owned())
        look.theirs(f"q-{name}", name, requests={"cpu": "2"})
    repairing = Repairing(look, failure)
    look.nodes.look()
    async with running(BackgroundService("repair", repairing.repair.run)):
        await look.clock.advance(0.0)
        await look.clock.advance(REFUSED_SECONDS - 1.0)
        assert repairing.evictor.evicted == []
        assert repairing.results == {"failed": 1}
        await look.clock.advance(2.0)
        assert sorted(repairing.evictor.evicted) == ["p-a", "p-b"]


# --- the choice alone -------------------------------------------------------------------------------------------------


def test_two_exceeded_resources_are_lowered_by_whoever_takes_of_either() -> None:
    info = NodeInfo(make_node("a", cpu="1", memory="1Gi"))
    memory, cpu = pod_info("m", requests={"memory": "2Gi"}), pod_info("c", requests={"cpu": "2"})
    info.add_pod(memory)
    info.add_pod(cpu)
    assert pod_to_evict(info, ["memory"], [memory, cpu]) is memory
    assert pod_to_evict(info, ["cpu"], [memory, cpu]) is cpu
    assert pod_to_evict(info, ["ephemeral-storage"], [memory, cpu]) is None
    assert pod_to_evict(info, ["cpu", "memory"], []) is None


def test_a_pod_without_a_phase_is_untouched_as_one_that_is_pending() -> None:
    assert is_untouched(make_pod("p"))
    assert is_untouched(make_pod("p", status={"phase": "Pending"}))
    assert not is_untouched(make_pod("p", status={"phase": "Failed"}))
    assert comes_back_elsewhere(PodInfo(make_pod("p", metadata=owned("Job"))).pod)
