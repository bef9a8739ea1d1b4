"""What can come between a gang's decision and its last member's Binding: a SIGKILL after any write, a refusal, a
lost answer, members and groups that go.

The Bindings of a gang are writes of their own, in kube-scheduler, too: a scheduler that dies between two of them leaves
some members bound. The one that comes next must finish the gang, as bound members count for its minimum; if there is
no longer room for the rest, it must hold none for it, and say so. kscheduler talks through a proxy here.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.controlplane.process import Process
from tests.e2e.audit import condition_text
from tests.e2e.groups.gang_capacity import VOLCANO, GangAPI, GangRoom
from tests.e2e.scenario import SECONDS, Scenario
from tests.e2e.write_proxy import Write, WriteProxy, once

MEMBERS = 5
Start = Callable[..., Process]

pytestmark = pytest.mark.usefixtures("only_kscheduler")


def bindings(method: str, path: str, body: bytes) -> str:
    """`binding`, and `told` for what is written into a group."""
    del method, body
    if path.endswith("/binding"):
        return "binding"
    return "told" if path.endswith("/status") and "/podgroups/" in path else ""


@pytest.fixture
def proxy(gangs: GangRoom) -> Iterator[WriteProxy]:
    with WriteProxy(gangs.scenario.server.identity("kscheduler"), bindings) as running:
        yield running


@pytest.fixture(autouse=True)
def _one_custom_resource(request: pytest.FixtureRequest) -> None:
    """Volcano's groups differ from the others in how they are read, which `test_gangs` tries: a minute for nothing."""
    if "api" in request.fixturenames and os.environ.get("KSCHEDULER_LONG") != "1":
        api: GangAPI = request.getfixturevalue("api")
        if api is VOLCANO:
            pytest.skip("faults with Volcano's groups, too: KSCHEDULER_LONG=1")


@pytest.fixture(autouse=True)
def _nodes(scenario: Scenario) -> None:
    """Room for two members each, for six in all."""
    for number in range(3):
        scenario.add_node(f"node-{number}")


class KillAfter:
    """Kills the kscheduler of the first Binding when so many are applied, before the last answer.

    No further one of its Bindings passes. It writes several at a time, so one may come to the proxy after its end: the
    scheduler that was started meanwhile, not behind the proxy, is not killed for it.
    """

    def __init__(self, scenario: Scenario, proxy: WriteProxy, bindings_applied: int) -> None:
        self._scenario, self._left = scenario, bindings_applied
        self._one = threading.Lock()
        self._victim: Process | None = None
        proxy.before, proxy.after = self._before, self._after

    def _before(self, write: Write) -> None:
        if write.kind != "binding":
            return
        self._one.acquire()
        if not self._left:
            self._kill()
            self._one.release()
            raise ConnectionAbortedError("killed before this write")

    def _after(self, write: Write) -> None:
        if write.kind != "binding":
            return
        self._left -= 1
        if not self._left:
            self._kill()
        self._one.release()

    def _kill(self) -> None:
        if self._victim is None:
            self._victim = self._scenario.processes[-1]
            self._victim.kill()


@pytest.mark.parametrize("written", range(MEMBERS + 1))
def test_a_gang_is_finished_by_the_next_scheduler_whichever_bind_was_the_last(
    scenario: Scenario, gangs: GangRoom, proxy: WriteProxy, start_behind: Start, written: int
) -> None:
    """SIGKILL between any two Bindings. Rivals of the same priority come while nobody schedules: they do not get in."""
    gangs.add_gang("train", MEMBERS)
    KillAfter(scenario, proxy, written)
    assert start_behind().wait(SECONDS) == -signal.SIGKILL
    bound = {name: scenario.node_of(name) for name in gangs.bound("train")}
    assert len(bound) == written
    if written:
        for number in range(2):
            scenario.add_pod(f"a-rival-{number}", cpu="2")
    gangs.start()
    gangs.wait_whole("train")
    assert bound.items() <= {name: scenario.node_of(name) for name in gangs.bound("train")}.items()
    if written:
        scenario.wait("one rival is bound", lambda: len(scenario.pending()) == 1)
        scenario.wait_rejected(scenario.pending()[0], "0/3 nodes are available: 3 Insufficient cpu.")


@pytest.mark.parametrize("written", range(1, MEMBERS))
def test_the_rest_of_a_gang_that_no_longer_fits_holds_no_room(
    scenario: Scenario, gangs: GangRoom, proxy: WriteProxy, start_behind: Start, written: int
) -> None:
    """Somebody takes the room while nobody schedules. Bound members stay, here as with kube-scheduler; the others wait
    together, and hold nothing: what there is left is there for others.
    """
    gangs.add_gang("train", MEMBERS)
    KillAfter(scenario, proxy, written)
    assert start_behind().wait(SECONDS) == -signal.SIGKILL
    take_room(scenario, gangs, 2)
    gangs.start()
    scenario.wait("they are told", lambda: gangs.reported_members("train") == MEMBERS - written)
    # the group's condition may be True since before the kill; it is never taken back
    texts = [text for text in map(condition_text, gangs.members("train")) if text not in ("", "no condition")]
    why = gangs.reason_of_members("train", gangs.minimum_missed(MEMBERS, MEMBERS - 1))
    assert all(text.startswith("0/3 nodes are available") or why in text for text in texts), texts
    others = [f"other-{number}" for number in range(MEMBERS - 1 - written)]
    for name in others:
        scenario.add_pod(name, cpu="2")
    if others:
        scenario.wait_bound(*others)
    assert len(gangs.bound("train")) == written
    for number in range(2):
        scenario.add_node(f"more-{number}")
    gangs.wait_whole("train")


def take_room(scenario: Scenario, gangs: GangRoom, slots: int) -> None:
    """Pods that somebody else has put onto nodes beside the gang."""
    used = [scenario.node_of(name) for name in gangs.bound("train")]
    free = [node for node in ("node-0", "node-1", "node-2") for _ in range(2 - used.count(node))]
    for number, node in enumerate(free[:slots]):
        scenario.add_pod(f"taker-{number}", cpu="2", nodeName=node)


@pytest.mark.parametrize("is_applied", [True, False], ids=["applied", "not-applied"])
def test_a_lost_answer_to_a_binding_does_not_break_the_gang(
    scenario: Scenario, gangs: GangRoom, proxy: WriteProxy, start_behind: Start, is_applied: bool
) -> None:
    def lose(write: Write) -> None:
        raise ConnectionAbortedError("the answer is lost")

    if is_applied:
        proxy.after = once(lose, "binding")
    else:
        proxy.before = once(lose, "binding")
    gangs.add_gang("train", MEMBERS)
    start_behind()
    gangs.wait_whole("train")
    assert sum(write.kind == "binding" for write, _ in proxy.refused) <= 1


@pytest.mark.parametrize("is_applied", [True, False], ids=["applied", "not-applied"])
def test_a_condition_whose_answer_is_lost_is_written_again(
    gangs: GangRoom, proxy: WriteProxy, start_behind: Start, is_applied: bool
) -> None:
    if not gangs.api.is_kubernetes:
        pytest.skip("nothing is written to groups of other APIs")

    def lose(write: Write) -> None:
        raise ConnectionAbortedError("the answer is lost")

    if is_applied:
        proxy.after = once(lose, "told")
    else:
        proxy.before = once(lose, "told")
    gangs.add_gang("train", MEMBERS)
    start_behind()
    gangs.wait_whole("train")


def test_a_member_that_is_deleted_before_its_binding_can_be_made_anew(
    scenario: Scenario, gangs: GangRoom, proxy: WriteProxy, start_behind: Start
) -> None:
    gone: list[str] = []

    def delete(write: Write) -> None:
        gone.append(write.name)
        scenario.api.delete(f"{scenario.pods_path}/{write.name}", grace_seconds=0)

    proxy.before = once(delete, "binding")
    gangs.add_gang("train", MEMBERS)
    start_behind()
    scenario.wait("the others are bound", lambda: len(gangs.bound("train")) == MEMBERS - 1)
    scenario.wait("the deleted one is gone", lambda: not scenario.api.answers(f"{scenario.pods_path}/{gone[0]}"))
    gangs.add_member("train", gone[0])
    gangs.wait_whole("train")


def test_a_storm_of_kills_leaves_no_gang_in_part(
    scenario: Scenario, gangs: GangRoom, proxy: WriteProxy, start_behind: Start
) -> None:
    """Eight gangs of three in room for two; a SIGKILL after each few Bindings, for as long as there is work.

    Whole gangs end, and make room. Each kill finds at most one gang in part, which the next scheduler finishes first.
    """
    chance = random.Random(28)
    names = [f"g{number}" for number in range(8)]
    for name in names:
        gangs.add_gang(name, 3)
    left, kills = set(names), 0
    deadline = time.monotonic() + 150
    while left:
        KillAfter(scenario, proxy, chance.randint(1, 5))
        process = start_behind()
        while process.running and left:
            assert time.monotonic() < deadline, f"{sorted(left)} are left, in part {gangs.partial()}; {process.tail()}"
            for name in [name for name in left if len(gangs.bound(name)) == 3]:
                left.remove(name)
                for number in range(3):
                    scenario.api.delete(f"{scenario.pods_path}/{name}-{number}", grace_seconds=0)
                gangs.forget(name)
            time.sleep(0.05)
        kills += not process.running
        assert len(gangs.partial()) <= 2
    assert kills >= 4
