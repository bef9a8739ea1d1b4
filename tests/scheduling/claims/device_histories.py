"""Random histories: `python -m tests.scheduling.claims.device_histories --count 10000`.

Pods come with one or two claims, are decided about by DynamicResources, written by `ClaimCommits`, bound, and end.
Every second cycle has no patience at all: what it leaves is searched step by step between everything else.
Claims are made and deleted, also under an allocation. Drivers restart: their slices go, and come back one by one, with
another generation and other devices. Watches lag, claims' and slices' each by itself. The API server refuses requests
and loses answers. The scheduler is killed and begins again with what the API server has. The judge looks at the API
server alone: no device is ever held by two claims, a bound pod has its claims, and in the end nothing stays
taken for nobody.
"""

import argparse
import asyncio
import logging
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim, ResourceSlice
from kscheduler.framework.cluster.claim_writing import Deallocation
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.search_budget import SearchTimeBudget, UnfinishedSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status, StatusError
from kscheduler.plugins.dynamic_resources import DynamicResources
from tests.plugins.dynamic_resources.stage import Stage as DeviceStage
from tests.plugins.dynamic_resources.stage import device_class, devices_of, exactly, first_available, user
from tests.scheduling.claims.stage import ClaimServer, Stage
from tests.scheduling.claims.test_never_twice import APPLIED, UNAPPLIED

NODES = ("n0", "n1", "n2")
# A pool that all nodes reach.
FABRIC = "fabric"
STEPS = 80
SHAPES: Sequence[Callable[[], list[dict[str, Any]]]] = (
    lambda: [exactly()],
    lambda: [exactly(count=2)],
    lambda: [{"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}],
    lambda: [exactly("a"), exactly("b")],
    lambda: [first_available("any", "gpu", "gpu")],
)
# Driver, pool and device.
ReportedHold = tuple[str, str, str]


@dataclass(slots=True)
class Attempt:
    """A pod that has a node and is being written."""

    pod: PodInfo
    node: str
    cycle: CycleState
    task: "asyncio.Task[Status]"


@dataclass(slots=True)
class Scheduler:
    """One life of the scheduler, with its caches."""

    devices: DeviceStage
    claims: Stage
    plugin: DynamicResources
    running: dict[str, Attempt] = field(default_factory=dict)
    searches: list[UnfinishedSearch] = field(default_factory=list)
    """What cycles without patience have left; they go on beside everything else."""
    unseen: list[tuple[str, ResourceSlice | None]] = field(default_factory=list)
    """Changes of slices that its watch has not shown."""


class History:
    """The API server with all that happens to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.version = self.random.choice(("1.36", "1.37"))
        self.server = ClaimServer()
        self.is_faulty = True
        self.server.before = partial(self._maybe_fail, UNAPPLIED)
        self.server.after = partial(self._maybe_fail, APPLIED)
        self.slices: dict[str, ResourceSlice] = {}
        self.generations = Counter[str]()
        self.pods: dict[str, Pod] = {}
        """All that exist; by name, which is the UID, too."""
        self.bound: set[str] = set()
        self.counts = Counter[str]()
        self.made = 0
        self.held_twice: list[ReportedHold] = []
        for pool in (*NODES, FABRIC):
            self._publish(pool)
        self.life = self._begin()
        for _ in range(4):
            self.create_claim()

    # --- the scheduler ------------------------------------------------------------------------------------------------

    def _begin(self) -> Scheduler:
        """A scheduler that has listed everything."""
        devices = DeviceStage(device_class(), *self.slices.values(), nodes=len(NODES), version=self.version)
        claims = Stage(server=self.server, tracker=devices.cache.devices.claims, watch_lags=True)
        for name in self.server.objects:
            claims.tracker.update(self.server.claim(name))
        changed = self.server.on_change

        def on_change(now: dict[str, Any] | None, last: dict[str, Any]) -> None:
            changed(now, last)
            self.check()

        self.server.on_change = on_change
        return Scheduler(devices, claims, devices.without(claim_writer=claims.commits))

    async def kill(self) -> None:
        """The process ends between any two of its steps, and another one begins."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.life = self._begin()
        self.counts["kills"] += 1

    def attempt(self) -> None:
        """Decide about a pod that waits, and begin to write."""
        waiting = sorted(self.pods.keys() - self.bound - self.life.running.keys())
        if not waiting:
            return
        pod, life = PodInfo(self.pods[self.random.choice(waiting)]), self.life
        nodes, cycle = life.devices.cache.nodes, CycleState()
        if not life.plugin.pre_enqueue(pod).is_success:
            return
        search_budget = SearchTimeBudget(0) if self.random.random() < 0.5 else None
        if search_budget is not None:
            cycle.write(search_budget)
        if not life.plugin.pre_filter(cycle, pod, nodes).status.is_success:
            return
        try:
            codes = life.plugin.filter(cycle, pod, nodes, nodes.rows())
        except StatusError:  # such as: all devices are asked for, and a pool is being published just now
            if search_budget is not None and search_budget.rest is not None:
                life.searches.append(search_budget.rest)
                self.counts["long searches"] += 1
            else:
                self.counts["errors"] += 1
            return
        rows = nodes.rows() if codes is None else nodes.rows()[codes == 0]
        fitting = [nodes.name_of(row) for row in rows.tolist()]
        if not fitting:
            self._make_room(pod, cycle)
            return
        node = self.random.choice(fitting)
        if not life.plugin.reserve(cycle, pod, node).is_success:
            life.plugin.unreserve(cycle, pod, node)
            return
        task = asyncio.ensure_future(life.plugin.pre_bind(cycle, pod, node))
        life.running[pod.name] = Attempt(pod, node, cycle, task)
        self.counts["attempts"] += 1

    def _make_room(self, pod: PodInfo, cycle: CycleState) -> None:
        """PostFilter frees a claim of the pod that nobody else uses."""
        self.life.devices.cycle = cycle
        freed = self.life.devices.post_filter(pod.pod).deallocation
        if isinstance(freed, Deallocation):
            self.life.claims.commits.free(freed)
            self.counts["freed"] += 1

    async def look(self) -> None:
        """Bind pods whose claims are written; some fail, as do all whose PreBind did."""
        for name, attempt in list(self.life.running.items()):
            if not attempt.task.done():
                continue
            del self.life.running[name]
            await asyncio.wait([attempt.task])
            is_written = not attempt.task.cancelled() and attempt.task.result().is_success
            if not is_written or name not in self.pods or self.random.random() < 0.2:
                self.life.plugin.unreserve(attempt.cycle, attempt.pod, attempt.node)
                continue
            self.bound.add(name)
            self.counts["bound"] += 1
            for claim in self._claims_of(name):
                assert claim.status.allocation is not None, f"{name} is bound without {claim.key}"
                users = {entry.uid for entry in claim.status.reserved_for}
                assert name in users, f"{name} is bound, and {claim.key} is not reserved for it"

    # --- claims and pods ----------------------------------------------------------------------------------------------

    def _maybe_fail(self, failures: Sequence[Exception], _request: str) -> None:
        if self.is_faulty and self.random.random() < 0.1:
            raise self.random.choice(failures)

    def _claims_of(self, pod: str) -> list[ResourceClaim]:
        names = [entry.resource_claim_name or "" for entry in self.pods[pod].spec.resource_claims]
        return [self.server.claim(name) for name in names if name in self.server.objects]

    def create_claim(self) -> None:
        """A claim of some shape; a name may come back with another UID."""
        self.made += 1
        name = f"c{self.made % 10}"
        if name in self.server.objects:
            return
        spec = {"devices": {"requests": self.random.choice(SHAPES)()}}
        self.server.put_object(name)
        self.server._store(name, self.server.objects[name] | {"spec": spec})

    def delete_claim(self) -> None:
        """Somebody deletes a claim that no pod uses, maybe with its allocation."""
        unused = [name for name, tree in self.server.objects.items() if not tree["status"].get("reservedFor")]
        if unused:
            self.server.remove(self.random.choice(unused))
            self.counts["deleted"] += 1

    def create_pod(self) -> None:
        """A pod with one or two of the claims."""
        known, count = sorted(self.server.objects), self.random.choice((1, 2))
        names = self.random.sample(known, min(len(known), count))
        self.counts["pods"] += 1
        name = f"p{self.counts['pods']}"  # and UID: never used again
        if names:
            self.pods[name] = user(*names, name=name, uid=name)

    def end_pod(self) -> None:
        """A pod ends or is deleted, whatever becomes of it just now."""
        if self.pods:
            name = self.random.choice(sorted(self.pods))
            del self.pods[name]
            self.bound.discard(name)

    def control(self) -> None:
        """kube-controller-manager: reservations of pods that are gone, then allocations that nobody has reserved."""
        for name, tree in list(self.server.objects.items()):
            users = tree["status"].get("reservedFor", ())
            kept = [entry for entry in users if entry["uid"] in self.pods]
            if len(kept) < len(users):
                self.server.change(name, reservedFor=kept)
            elif tree["status"].get("allocation") and not users and self.random.random() < 0.5:
                self.server.change(name, allocation=None)

    # --- drivers ------------------------------------------------------------------------------------------------------

    def _publish(self, pool: str) -> None:
        """A driver begins: its slices, with a new generation and the devices that it has found this time."""
        self.generations[pool] += 1
        devices = [f"{pool}-gpu-{number}" for number in range(4) if self.random.random() < 0.8]
        parts = [devices[:2], devices[2:]] if pool != FABRIC else [devices[:2]]
        spec = {"name": pool, "generation": self.generations[pool], "resourceSliceCount": len(parts)}
        for number, part in enumerate(parts):
            where: dict[str, Any] = {"nodeName": None, "allNodes": True} if pool == FABRIC else {"nodeName": pool}
            slice_ = devices_of(pool, *part, pool=spec, **where)
            self._slice_changed(f"slice-{pool}-{number}", slice_)

    def _slice_changed(self, name: str, slice_: ResourceSlice | None) -> None:
        if slice_ is None:
            self.slices.pop(name, None)
        else:
            slice_ = type(slice_)(metadata=type(slice_.metadata)(name=name), spec=slice_.spec)
            self.slices[name] = slice_
        if hasattr(self, "life"):
            self.life.unseen.append((name, slice_))

    def restart_driver(self) -> None:
        """Its slices go; they come back now or later."""
        pool = self.random.choice((*NODES, FABRIC))
        for name in [name for name in self.slices if name.startswith(f"slice-{pool}-")]:
            self._slice_changed(name, None)
        if self.random.random() < 0.7:
            self._publish(pool)
        self.counts["driver restarts"] += 1

    def show_slices(self, count: int) -> None:
        """The watch of slices goes on a little."""
        table = self.life.devices.cache.devices
        shown, self.life.unseen[:count] = self.life.unseen[:count], []
        for name, slice_ in shown:
            if slice_ is None:
                table.remove_slice(name)
            else:
                table.put_slice(slice_)

    # --- the whole ----------------------------------------------------------------------------------------------------

    def held(self) -> Counter[ReportedHold]:
        """By device, how many claims have it in the API server."""
        found = Counter[ReportedHold]()
        for tree in self.server.objects.values():
            allocation = tree["status"].get("allocation") or {"devices": {}}
            for result in allocation["devices"].get("results", ()):
                found[result["driver"], result["pool"], result["device"]] += 1
        return found

    def check(self) -> None:
        """No device is held twice. Called where an exception would be somebody else's: `step` raises it."""
        self.held_twice += [device for device, count in self.held().items() if count > 1]

    def _taken(self) -> set[ReportedHold]:
        devices = self.life.devices.cache.devices.claims.allocated_state().devices
        return {(device.driver, device.pool, device.device) for device in devices}

    async def step(self) -> None:
        """One thing happens, then a little time passes."""
        act = self.random.choices(
            (
                *(self.attempt, self.create_pod, self.end_pod, self.create_claim, self.delete_claim, self.control),
                *(self.restart_driver, self.life.claims.catch_up, partial(self.show_slices, 1)),
            ),
            (8, 3, 2, 2, 1, 2, 1, 4, 4),
        )[0]
        act()
        for search in list(self.life.searches):
            if self.random.random() < 0.7 and search.run(0):
                self.life.searches.remove(search)
        if self.random.random() < 0.1 and self.life.running:
            self.life.running[self.random.choice(sorted(self.life.running))].task.cancel()
        if self.random.random() < 0.03:
            await self.kill()
        if self.random.random() < 0.3:
            await self.life.claims.clock.advance(self.random.choice([0.01, 1.0, 30.0]))
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)
        await self.look()
        assert not self.held_twice, f"held by two claims: {self.held_twice}"

    async def play(self) -> Counter[str]:
        """The whole history. Raises `AssertionError` if the judge objects."""
        for _ in range(STEPS):
            await self.step()
        self.is_faulty = False
        for _ in range(12):
            await self.life.claims.clock.advance(30)
            await self.life.claims.settle()
            self.life.claims.catch_up()
            await self.look()
        assert not self.life.running
        assert self._taken() == self.held().keys(), "what is taken is what claims hold"
        self.counts["histories"] += 1
        return self.counts


def main() -> int:
    """Print what happened. Exit status 1 if the judge objects to a history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # a task that is killed before it begins leaves a coroutine behind
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # faults are the rule
    counts, failures = Counter[str](), []
    for number in range(options.seed, options.seed + options.count):
        try:
            counts += asyncio.run(_played(number))
        except AssertionError as objection:
            failures.append(f"seed {number}: {objection}")
    happened = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    sys.stdout.write("\n".join((happened, *failures[:5], f"{len(failures)} objections", "")))
    return 1 if failures else 0


async def _played(seed: int) -> Counter[str]:
    return await History(seed).play()


if __name__ == "__main__":
    sys.exit(main())
