"""Victims go in order, the preemptor waits just as long as it must, and no failure leaves it asleep."""

import asyncio

import pytest

from kscheduler.client.errors import NotSentError
from kscheduler.framework.status import Code
from kscheduler.scheduling.eviction.evictions import PREEMPTIONS_AT_ONCE
from kscheduler.scheduling.eviction.pod_change_waits import LONGEST_LAG_SECONDS
from kscheduler.state.waiting_pods import PodAtPermit
from tests.scheduling.eviction.stage import FORBIDDEN, MESSAGE, Stage, turns

PREEMPTED = "Normal Preempted: Preempted by pod uid-of-big on node n"
IN_MEMORY = f"{PREEMPTED} (in kube-scheduler memory)."


async def test_a_victim_gets_its_condition_and_its_event_and_is_deleted() -> None:
    stage = Stage()
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    condition = stage.writes.conditions["v"]
    assert (condition.type, condition.status) == ("DisruptionTarget", "True")
    assert (condition.reason, condition.message) == ("PreemptionByScheduler", MESSAGE)
    assert stage.store.keys() == {"default/big"}
    assert stage.recorded.notes == [PREEMPTED]
    assert stage.executions() == {"success": 1}
    assert stage.activated == [], "the deletion's event wakes the preemptor"
    assert not stage.must_wait()


async def test_all_but_the_last_go_together_and_the_last_one_alone() -> None:
    stage = Stage()
    names = [f"v{number}" for number in range(5)]
    stage.writes.gates = {name: asyncio.Event() for name in names}
    stage.evictions.begin(stage.preemption(*names))
    await turns()
    assert stage.writes.started == names[:-1]
    for name in names[1:-1]:
        stage.writes.gates[name].set()
    await turns()
    assert names[-1] not in stage.writes.started
    stage.writes.gates["v0"].set()
    await turns()
    assert stage.writes.started == names


async def test_the_preemptor_waits_and_is_let_in_once_the_last_victim_is_going() -> None:
    """The event of its going comes before the answer to the deletion, and must not be lost."""
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event(), "b": asyncio.Event()}
    assert not stage.must_wait()
    stage.evictions.begin(stage.preemption("a", "b"))
    assert stage.must_wait(), "from the moment it has begun"
    await turns()
    stage.terminating("a")
    assert stage.must_wait(), "the last one's turn has not come"
    stage.writes.gates["a"].set()
    await turns()
    assert stage.must_wait()
    stage.terminating("b")
    assert not stage.must_wait()
    stage.writes.gates["b"].set()
    await turns()
    assert stage.activated == [], "it was let in"
    assert stage.executions() == {"success": 1}


async def test_the_preemptor_waits_until_the_watch_shows_what_the_api_server_has_done() -> None:
    """Else it would find its victims where they were and choose others."""
    stage = Stage()
    stage.writes.take_their_time = True
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    assert stage.executions() == {"success": 1}
    assert stage.must_wait()
    stage.terminating("b")
    assert stage.must_wait(), "a's turn to be shown has not come"
    stage.terminating("a")
    assert not stage.must_wait()


async def test_after_a_failure_too_it_waits_for_what_was_deleted_and_not_for_what_was_not() -> None:
    stage = Stage()
    stage.writes.take_their_time = True
    stage.writes.failures["b"] = FORBIDDEN
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    assert stage.activated == ["big"]
    assert stage.must_wait()
    stage.terminating("a")
    assert not stage.must_wait()


async def test_what_the_watch_has_shown_is_not_kept() -> None:
    stage = Stage()
    stage.writes.take_their_time = True
    stage.evictions.begin(stage.preemption("a", preemptor="one"))
    await turns()
    stage.terminating("a")
    stage.evictions.begin(stage.preemption("b", preemptor="two"))
    await turns()
    assert stage.evictions._under_way.keys() == {"uid-of-two"}


async def test_a_last_victim_that_has_ended_or_was_made_again_lets_the_preemptor_in() -> None:
    stage = Stage()
    stage.writes.gates = {"v": asyncio.Event()}
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    assert stage.must_wait()
    stage.pod("v", uid="another")
    assert not stage.must_wait()
    stage.pod("v", status={"phase": "Succeeded"})
    assert not stage.must_wait()


async def test_victims_that_are_going_already_are_skipped() -> None:
    stage = Stage()
    preemption = stage.preemption("a", "b")
    stage.terminating("a")
    stage.evictions.begin(preemption)
    await turns()
    assert stage.writes.started == ["b"]
    assert stage.observations._victims.total == 2, "as upstream, the metric counts all that were chosen"


async def test_with_no_victim_left_nothing_is_begun() -> None:
    stage = Stage()
    preemption = stage.preemption("a")
    stage.terminating("a")
    stage.evictions.begin(preemption)
    assert not stage.must_wait()
    await turns()
    assert (stage.writes.started, stage.executions()) == ([], {})


async def test_a_victim_that_is_gone_by_its_turn_is_no_failure_and_gets_no_event() -> None:
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event()}
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    del stage.store["default/b"]
    stage.writes.gates["a"].set()
    await turns()
    assert stage.writes.started == ["a"]
    assert stage.executions() == {"success": 1}


async def test_a_preemptor_that_was_kept_out_is_woken_when_no_victim_is_left_to_do_it() -> None:
    """Each deletion told it to look, each time it was told to wait, and no other event will come."""
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event()}
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    del stage.store["default/b"]
    assert stage.must_wait(), "b's event has come and gone"
    stage.writes.gates["a"].set()
    await turns()
    assert stage.activated == ["big"]


async def test_a_preemptor_kept_out_from_a_new_node_is_woken_though_its_victims_take_for_ever_to_go() -> None:
    """A node was added while the evictions were under way. It is not added again, and a finalizer keeps the victims."""
    stage = Stage()
    stage.writes.take_their_time = True
    stage.writes.gates = {"a": asyncio.Event()}
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    assert stage.must_wait(), "the new node's event"
    stage.writes.gates["a"].set()
    await turns()
    assert stage.executions() == {"success": 1}
    assert stage.activated == [], "it would find its victims where they were"
    stage.terminating("a")
    await turns()
    assert stage.activated == []
    stage.terminating("b")
    await turns()
    assert stage.activated == ["big"]


async def test_a_preemptor_kept_out_is_woken_at_once_where_the_watch_was_faster_than_the_answers() -> None:
    stage = Stage()
    stage.writes.take_their_time = True
    stage.writes.gates = {"a": asyncio.Event()}
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    assert stage.must_wait()
    stage.terminating("a")
    stage.terminating("b")
    stage.writes.gates["a"].set()
    await turns()
    assert stage.activated == ["big"]


async def test_a_retry_after_a_failure_that_found_the_gate_shut_is_repeated_when_it_opens() -> None:
    """The first victim went, the second was refused, and the watch was slower than the retry."""
    stage = Stage()
    stage.writes.take_their_time = True
    stage.writes.failures["b"] = FORBIDDEN
    stage.on_activate = lambda _: looked.append(not stage.must_wait())
    looked: list[bool] = []
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    assert looked == [False]
    stage.terminating("a")
    await turns()
    assert looked == [False, True]


async def test_a_victim_that_the_watch_never_shows_going_keeps_the_preemptor_out_for_two_minutes_only() -> None:
    """Its newest version cannot be decoded, so the last good one stays in the store."""
    stage = Stage()
    stage.writes.take_their_time = True
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    await stage.clock.advance(LONGEST_LAG_SECONDS - 1)
    assert stage.must_wait()
    await stage.clock.advance(2.0)
    assert stage.activated == ["big"]
    assert not stage.must_wait()


@pytest.mark.parametrize(
    ("failing", "started"),
    [pytest.param("a", ["a", "b"], id="one-of-the-first"), pytest.param("c", ["a", "b", "c"], id="the-last")],
)
async def test_after_a_failure_the_preemptor_is_tried_again_at_once(failing: str, started: list[str]) -> None:
    """A failure among the first spares the last one."""
    stage = Stage()
    stage.writes.failures[failing] = FORBIDDEN
    stage.evictions.begin(stage.preemption("a", "b", "c"))
    await turns()
    assert stage.writes.started == started
    assert stage.activated == ["big"]
    assert stage.executions() == {"error": 1}
    assert not stage.must_wait(), "else PreEnqueue would keep it out after all"


async def test_who_fails_again_and_again_pauses_and_a_success_forgets_it() -> None:
    """A scheduler that may not delete pods must not turn as fast as the API server refuses."""
    stage = Stage()
    stage.writes.failures["v"] = NotSentError("refused")
    pauses = []
    for _ in range(6):
        stage.evictions.begin(stage.preemption("v"))
        await turns()
        before = stage.clock.monotonic()
        while not stage.activated:
            await stage.clock.run_to_next()
        pauses.append(stage.clock.monotonic() - before)
        assert stage.activated == ["big"]
        stage.activated.clear()
    assert pauses == [0, 1, 2, 4, 8, 10]
    del stage.writes.failures["v"]
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    stage.writes.failures["v"] = NotSentError("refused")
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    assert stage.activated == ["big"]


async def test_a_bug_is_a_failure_like_any_other() -> None:
    stage = Stage()
    stage.writes.failures["v"] = KeyError("oops")  # type: ignore[assignment]
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    assert stage.activated == ["big"]
    assert stage.executions() == {"error": 1}


async def test_no_more_than_sixteen_victims_go_at_a_time() -> None:
    stage = Stage()
    stage.evictions.begin(stage.preemption(*(f"v{number}" for number in range(60))))
    await turns(200)
    assert stage.writes.most == 16
    assert len(stage.writes.started) == 60


async def test_when_the_preemptor_is_gone_the_victims_that_are_left_are_spared() -> None:
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event()}
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    del stage.store["default/big"]
    stage.writes.gates["a"].set()
    await turns()
    assert stage.writes.started == ["a"]
    assert "default/b" in stage.store


async def test_when_the_preemptor_has_got_a_node_otherwise_the_victims_that_are_left_are_spared() -> None:
    """Somebody bound it by hand while its first victim was on its way out."""
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event()}
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    stage.pod("big", node="elsewhere", priority=100)
    stage.writes.gates["a"].set()
    await turns()
    assert stage.writes.started == ["a"]


async def test_when_the_preemptor_is_outbid_the_victims_that_are_left_are_spared() -> None:
    """The room will be another's, who takes victims of its own: what still lives must not die for nothing."""
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event()}
    first = stage.preemption("a", "b", preemptor="first")
    stage.evictions.begin(first)
    await turns()
    stage.nominator.nominate(first.preemptor, "n")
    stage.evictions.begin(stage.preemption("c", preemptor="second", outbid=[first.preemptor]))
    stage.writes.gates["a"].set()
    await turns()
    assert sorted(stage.writes.started) == ["a", "c"]
    assert "first" in stage.activated, "and looks for another node"


async def test_when_the_preemptor_lost_its_profile_the_victims_that_are_left_are_spared() -> None:
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event()}
    preemption = stage.preemption("a", "b", preemptor="first")
    stage.evictions.begin(preemption)
    await turns()
    stage.evictions.call_off("somebody else's")
    stage.evictions.call_off(preemption.preemptor.uid)
    stage.writes.gates["a"].set()
    await turns()
    assert stage.writes.started == ["a"]


async def test_who_is_outbid_before_its_turn_has_come_touches_nobody_and_is_not_written_down() -> None:
    """Hundreds of preemptions wait for their turn in a storm."""
    stage = Stage()
    names = [f"v{number}" for number in range(PREEMPTIONS_AT_ONCE)]
    stage.writes.gates = {name: asyncio.Event() for name in names}
    for name in names:
        stage.evictions.begin(stage.preemption(name, preemptor=f"of-{name}"))
    late = stage.preemption("late-victim", preemptor="late")
    stage.evictions.begin(late)
    stage.nominator.nominate(late.preemptor, "n")
    stage.evictions.begin(stage.preemption("w", preemptor="higher", outbid=[late.preemptor]))
    for gate in stage.writes.gates.values():
        gate.set()
    await turns()
    assert "late-victim" not in stage.writes.started
    assert ("late", "n") not in stage.statuses.nominated
    assert "w" in stage.writes.started


async def test_two_preemptors_are_reported_apart() -> None:
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event(), "b": asyncio.Event()}
    stage.evictions.begin(stage.preemption("a", preemptor="one"))
    stage.evictions.begin(stage.preemption("b", preemptor="two"))
    await turns()
    assert stage.must_wait("one")
    stage.writes.gates["a"].set()
    await turns()
    assert (stage.must_wait("one"), stage.must_wait("two")) == (False, True)
    stage.writes.gates["b"].set()
    await turns()
    assert len(stage.evictions) == 0


# --- in memory


def held(stage: Stage, name: str) -> PodAtPermit:
    """A pod that waits for Permit on the node."""
    one = PodAtPermit(stage.pod(name, node=""), "n", {"Gang": 100.0}, {"Gang": 100.0})
    stage.waiting.hold(one)
    return one


async def test_a_victim_that_waits_for_permit_is_stopped_in_memory_and_keeps_its_object() -> None:
    stage = Stage()
    one = held(stage, "v")
    stage.evictions.begin(stage.preemption(one.pod))
    await turns()
    assert one.verdict is not None
    assert (one.verdict.code, one.verdict.reasons) == (Code.ERROR, ("preempted",))
    assert stage.writes.started == []
    assert "default/v" in stage.store
    assert stage.recorded.notes == [IN_MEMORY]
    assert stage.executions() == {"success": 1}


async def test_a_victim_that_permit_has_just_let_go_is_deleted() -> None:
    stage = Stage()
    one = held(stage, "v")
    one.allow("Gang")
    stage.evictions.begin(stage.preemption(one.pod))
    await turns()
    assert stage.writes.started == ["v"]
    assert stage.recorded.notes == [PREEMPTED]


async def test_a_victim_in_pre_bind_is_called_back_in_memory() -> None:
    stage = Stage()
    victim = stage.pod("v", node="")
    entry = stage.in_pre_bind.add(victim.uid)
    stage.evictions.begin(stage.preemption(victim))
    await turns()
    assert entry.cause == "preempted by DefaultPreemption"
    assert not entry.mark_pre_bound()
    assert stage.writes.started == []
    assert stage.recorded.notes == [IN_MEMORY]


async def test_a_victim_whose_binding_has_been_sent_is_deleted() -> None:
    stage = Stage()
    victim = stage.pod("v", node="")
    assert stage.in_pre_bind.add(victim.uid).mark_pre_bound()
    stage.evictions.begin(stage.preemption(victim))
    await turns()
    assert stage.writes.started == ["v"]


async def test_a_preemptor_kept_out_while_a_victim_was_stopped_in_memory_is_woken() -> None:
    """The victim keeps its object, so no deletion of it will ever be seen."""
    stage = Stage()
    one = held(stage, "held")
    stage.writes.gates = {"a": asyncio.Event()}
    stage.evictions.begin(stage.preemption(one.pod, "a", "b"))
    await turns()
    assert stage.must_wait(), "the held pod has given its node back"
    del stage.store["default/b"]
    stage.writes.gates["a"].set()
    await turns()
    assert stage.activated == ["big"]


async def test_a_preemptor_does_not_look_before_a_victim_stopped_in_memory_has_given_its_node_back() -> None:
    """It would find the victim there, choose it again, and this time have it deleted: of a pod that is on no node."""
    stage = Stage()
    one = held(stage, "held")
    stage.slow_to_leave = {one.pod.uid}
    stage.writes.gates = {"a": asyncio.Event()}
    stage.evictions.begin(stage.preemption("a", one.pod))
    await turns()
    assert stage.must_wait(), "an event that came meanwhile"
    stage.writes.gates["a"].set()
    await turns()
    assert one.verdict is not None
    assert (stage.activated, stage.must_wait()) == ([], True)
    stage.slow_to_leave.clear()
    assert not stage.must_wait(), "the end of the victim's attempt wakes it"


async def test_a_preemptor_kept_out_is_woken_when_a_victim_stopped_in_memory_gives_its_node_back() -> None:
    """Nothing of it shows on the watch."""
    stage = Stage()
    one = held(stage, "held")
    stage.slow_to_leave = {one.pod.uid}
    stage.evictions.begin(stage.preemption(one.pod))
    await turns()
    assert stage.must_wait(), "a new node came, and comes but once"
    stage.gives_back(one.pod)
    await turns()
    assert (stage.activated, stage.must_wait()) == (["big"], False)


async def test_a_victim_that_is_on_no_node_by_its_turn_keeps_its_life() -> None:
    """Permit rejected it while the preemption waited for its turn: it takes no room and is to be scheduled again."""
    stage = Stage()
    one = held(stage, "v")
    preemption = stage.preemption(one.pod)
    one.reject("Gang", "no")
    stage.evictions.begin(preemption)
    await turns()
    assert stage.writes.started == []
    assert "default/v" in stage.store
    assert stage.recorded.notes == []
    assert stage.executions() == {"success": 1}
    assert not stage.must_wait()


# --- nominations


async def test_no_victim_is_touched_before_it_is_written_down_what_the_room_is_for() -> None:
    """Else a scheduler that takes over after a crash would give the room away and take other victims."""
    stage = Stage()
    stage.statuses.failures["big"] = FORBIDDEN
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    assert stage.writes.started == []
    assert stage.activated == ["big"]
    del stage.statuses.failures["big"]
    stage.evictions.begin(stage.preemption("v"))
    await turns()
    assert stage.statuses.nominated == [("big", "n")]
    assert stage.writes.started == ["v"]


async def test_the_outbid_lose_their_nomination_first_and_look_for_another_node() -> None:
    stage = Stage()
    stage.writes.gates = {"v": asyncio.Event()}
    small = stage.pod("small", node="", priority=1, status={"nominatedNodeName": "n"})
    stage.nominator.add(small)
    stage.evictions.begin(stage.preemption("v", outbid=[small]))
    await turns()
    assert stage.statuses.withdrawn == ["uid-of-small"]
    assert stage.statuses.cleared == ["small"]
    assert stage.nominator.nominated_node(small) == ""
    assert stage.activated == ["small"]
    assert stage.writes.started == ["v"]
    stage.writes.gates["v"].set()
    await turns()
    assert stage.executions() == {"success": 1}


async def test_one_that_is_expected_on_another_node_by_its_turn_keeps_that_nomination() -> None:
    """It was outbid, and judged again before the preemption that outbids it had its turn on the wire."""
    stage = Stage()
    small = stage.pod("small", node="", priority=1, status={"nominatedNodeName": "n"})
    stage.nominator.add(small)
    stage.evictions.begin(stage.preemption("v", outbid=[small]))
    stage.nominator.nominate(small, "another")
    await turns()
    assert stage.nominator.nominated_node(small) == "another"
    assert (stage.statuses.cleared, stage.activated) == ([], [])
    assert stage.writes.started == ["v"]


async def test_a_nomination_that_cannot_be_cleared_spares_no_victim_but_is_an_error() -> None:
    """As upstream: the victims go all the same, and the preemptor looks again."""
    stage = Stage()
    stage.statuses.failures["small"] = FORBIDDEN
    small = stage.pod("small", node="", priority=1, status={"nominatedNodeName": "n"})
    stage.evictions.begin(stage.preemption("v", outbid=[small]))
    await turns()
    assert stage.writes.started == ["v"]
    assert stage.activated == ["small", "big"]
    assert stage.executions() == {"error": 1}


# --- the end


async def test_a_stop_lets_what_has_begun_come_to_its_end() -> None:
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event()}
    running = asyncio.ensure_future(stage.evictions.run())
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    stop = asyncio.ensure_future(stage.evictions.stop())
    await turns()
    assert not stop.done()
    stage.writes.gates["a"].set()
    assert await stop
    assert stage.writes.started == ["a", "b"]
    running.cancel()
    await asyncio.wait({running})


async def test_a_stop_does_not_let_preemptions_begin_that_wait_for_their_turn() -> None:
    """Of hundreds in a storm, the next ones would be cut off half-way."""
    stage = Stage()
    names = [f"v{number}" for number in range(PREEMPTIONS_AT_ONCE + 1)]
    stage.writes.gates = {name: asyncio.Event() for name in names}
    for name in names:
        stage.evictions.begin(stage.preemption(name, preemptor=f"of-{name}"))
    await turns()
    stop = asyncio.ensure_future(stage.evictions.stop())
    await turns()
    for gate in stage.writes.gates.values():
        gate.set()
    assert await stop
    assert stage.writes.started == names[:-1]
    assert stage.statuses.nominated == [(f"of-{name}", "n") for name in names[:-1]]


async def test_a_stop_does_not_wait_for_ever_and_leaves_no_task() -> None:
    stage = Stage()
    stage.writes.gates = {"a": asyncio.Event()}
    running = asyncio.ensure_future(stage.evictions.run())
    stage.evictions.begin(stage.preemption("a", "b"))
    await turns()
    stop = asyncio.ensure_future(stage.evictions.stop())
    await turns()
    await stage.clock.advance(5.0)
    assert not await stop
    running.cancel()
    await asyncio.wait({running})
    assert len(stage.evictions) == 0
    assert stage.writes.started == ["a"]


async def test_a_stop_does_not_wait_for_pauses() -> None:
    stage = Stage()
    stage.writes.failures["v"] = FORBIDDEN
    for _ in range(2):
        stage.evictions.begin(stage.preemption("v"))
        await turns()
    assert stage.clock.sleepers == 1
    assert await stage.evictions.stop()
    assert stage.clock.sleepers == 0
