"""Whatever fails, however late the watch is: no device is ever held by two claims, and none stays taken for nobody.

Pods come, are given up, are cancelled and come again, each with claims that want devices. Who decides takes only
devices that the tracker says are free. The API server refuses, loses answers before and after it has applied a request,
and changes claims by itself.
"""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import pytest

from kscheduler.client.errors import NotSentError
from kscheduler.framework.cluster.claim_writing import ClaimRules, PodReservation, ReservedClaim
from kscheduler.framework.pods.pod_info import PodInfo
from tests.builders import make_pod
from tests.effort import example_count
from tests.scheduling.claims.stage import LOST, Stage, allocation, refusal

DEVICES = [f"gpu-{number}" for number in range(4)]
UNAPPLIED = [LOST, refusal(409, "modified", "Conflict"), refusal(500), refusal(403), NotSentError("refused")]
APPLIED = [LOST, refusal(500), refusal(504)]


class World:
    """A scheduler without nodes: claims get any free devices."""

    def __init__(self, seed: int, *, keeps_pending: bool) -> None:
        self.random = random.Random(seed)
        self.stage = Stage(watch_lags=True)
        self.rules = ClaimRules(keeps_pending=keeps_pending)
        self.is_faulty = True
        self.running: dict[str, tuple[PodReservation, asyncio.Task[Any]]] = {}
        self.bound: set[str] = set()
        self.stage.server.before = partial(self._maybe_fail, UNAPPLIED)
        self.stage.server.after = partial(self._maybe_fail, APPLIED)
        changed = self.stage.server.on_change

        def on_change(now: dict[str, Any] | None, last: dict[str, Any]) -> None:
            changed(now, last)
            assert all(len(claims) == 1 for claims in self.held().values()), self.held()

        self.stage.server.on_change = on_change
        for number in range(6):
            self.stage.server.put_object(f"c{number}")
        self.stage.catch_up()

    def _maybe_fail(self, failures: Sequence[Exception], _request: str) -> None:
        if self.is_faulty and self.random.random() < 0.15:
            raise self.random.choice(failures)

    def held(self) -> dict[str, list[str]]:
        """By device, the claims that have it in the API server."""
        found: dict[str, list[str]] = {}
        for name, tree in self.stage.server.objects.items():
            for result in (tree["status"].get("allocation") or {"devices": {}})["devices"].get("results", ()):
                found.setdefault(result["device"], []).append(name)
        return found

    def check_tracker(self) -> None:
        """What is held is taken, unless the watch has yet to show that it was given back and taken again."""
        assert self.held().keys() <= self.stage.taken()

    def begin(self, pod_name: str) -> None:
        """Reserve for a pod: two of the claims."""
        pod = PodInfo(make_pod(pod_name, uid=f"{pod_name}-uid"))
        reservation = PodReservation(pod, "node-1")
        for name in self.random.sample(sorted(self.stage.server.objects), 2):
            claim = self.stage.tracker.get(f"default/{name}")
            if claim is None or self.stage.tracker.pending(claim.metadata.uid) is not None:
                return self.stage.commits.unreserve(reservation)
            if claim.status.allocation is not None:
                reservation.claims.append(ReservedClaim(claim))
                continue
            free = sorted(set(DEVICES) - self.stage.taken())
            if not free:
                return self.stage.commits.unreserve(reservation)
            chosen = allocation(self.random.choice(free))
            status = msgspec.structs.replace(claim.status, allocation=chosen)
            self.stage.tracker.signal_pending(claim.metadata.uid, msgspec.structs.replace(claim, status=status))
            reservation.claims.append(ReservedClaim(claim, chosen, claim.metadata.uid))
        task = asyncio.ensure_future(self.stage.commits.pre_bind(reservation, self.rules))
        self.running[pod_name] = reservation, task
        return None

    async def look(self) -> None:
        """Requeue pods whose PreBind has failed; some of the others fail to be bound."""
        for name, (reservation, task) in list(self.running.items()):
            if not task.done():
                continue
            del self.running[name]
            await asyncio.wait([task])
            if task.cancelled() or not task.result().is_success or self.random.random() < 0.3:
                self.stage.commits.unreserve(reservation)
            else:
                self.bound.add(name)

    def free_claim_of_nobody(self) -> None:
        """kube-controller-manager takes an allocation away that nobody has reserved."""
        for name, tree in self.stage.server.objects.items():
            if tree["status"].get("allocation") and not tree["status"].get("reservedFor"):
                self.stage.server.change(name, allocation=None)
                return

    def end_pod(self) -> None:
        """A bound pod is done: its reservations go."""
        if not self.bound:
            return
        uid = f"{self.bound.pop()}-uid"
        for name, tree in self.stage.server.objects.items():
            users = tree["status"].get("reservedFor", ())
            if any(user["uid"] == uid for user in users):
                self.stage.server.change(name, reservedFor=[user for user in users if user["uid"] != uid])

    async def step(self, number: int) -> None:
        act = self.random.randrange(9)
        if act < 3:
            self.begin(f"p{number}")
        elif act == 3 and self.running:
            self.running[self.random.choice(sorted(self.running))][1].cancel()
        elif act == 4:
            self.stage.catch_up()
        elif act == 5:
            self.free_claim_of_nobody()
        elif act == 6:
            self.end_pod()
        else:
            await self.stage.clock.advance(self.random.choice([0.01, 1.0, 30.0]))
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)
        await self.look()
        self.check_tracker()


@pytest.mark.parametrize("keeps_pending", [True, False])
@pytest.mark.parametrize("seed", range(example_count(60)))
async def test_no_device_is_ever_held_twice_and_none_is_lost(seed: int, keeps_pending: bool) -> None:
    world = World(seed, keeps_pending=keeps_pending)
    for number in range(80):
        await world.step(number)
    world.is_faulty = False
    for _ in range(30):
        await world.stage.clock.advance(30)
        await world.stage.settle()
        await world.look()
    world.stage.catch_up()
    assert not world.running
    assert len(world.stage.commits) == 0
    assert world.stage.taken() == world.held().keys(), "what is taken is what claims hold"
