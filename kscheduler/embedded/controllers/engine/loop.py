"""The loop: from changes of the store to keys, from keys to plans, from plans to writes.

`Engine` is synchronous: tests call `settle`, which works until nothing is left to do. `ControllerLoop` owns the task
that calls it in slices: after a slice it rests at least three times as long as it worked, so that controllers take at
most a quarter of a core, and events about one object that arrive meanwhile are handled together.
"""

import heapq
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial

from kscheduler.aio import REAL_CLOCK, BackgroundService, Clock, WakeupEvent, running
from kscheduler.api.machinery.api_errors import ApiError
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.embedded.controllers.engine.performer import Performer
from kscheduler.embedded.controllers.engine.plan import Concerned, Controller
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.objects.registry import ObjectRegistry
from kscheduler.embedded.objects.store import Change, ChangeType, Key, Subscriber
from kscheduler.telemetry.logs import get_logger

# The objects to reconcile, now and later; without I/O and clock.
#
# An object is queued once, however many events concern it. After a refused plan it comes back with a growing delay, as
# with kube-controller-manager's rate limiter: 10 ms doubled with each failure, 60 s at most.

# (name of the controller, key of the object).
Item = tuple[str, Key]

_FIRST_RETRY_SECONDS = 0.01
_LAST_RETRY_SECONDS = 60.0
_DOUBLINGS = 16


class WorkQueue:
    """Items in the order of their first event."""

    def __init__(self) -> None:
        self._ready: dict[Item, None] = {}
        self._later: list[tuple[datetime, Item]] = []
        self._due: dict[Item, datetime] = {}
        self._failures: dict[Item, int] = {}

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, item: Item) -> None:
        """Queue an item; it keeps its place if it is queued already."""
        self._ready[item] = None

    def add_after(self, item: Item, moment: datetime) -> None:
        """Queue an item at `moment`; of several moments the earliest counts."""
        known = self._due.get(item)
        if known is None or moment < known:
            self._due[item] = moment
            heapq.heappush(self._later, (moment, item))

    def pop(self) -> Item | None:
        """The next item."""
        if not self._ready:
            return None
        item = next(iter(self._ready))
        del self._ready[item]
        return item

    def failed(self, item: Item, now: datetime) -> None:
        """The item's plan was refused: queue it again with a delay."""
        count = self._failures[item] = self._failures.get(item, 0) + 1
        delay = min(_FIRST_RETRY_SECONDS * 2.0 ** min(count - 1, _DOUBLINGS), _LAST_RETRY_SECONDS)
        self.add_after(item, now + timedelta(seconds=delay))

    def succeeded(self, item: Item) -> None:
        """The item's plan was executed: forget its failures."""
        self._failures.pop(item, None)

    def wake(self, now: datetime) -> None:
        """Queue the items that are due."""
        while self._later and self._later[0][0] <= now:
            moment, item = heapq.heappop(self._later)
            if self._due.get(item) == moment:
                del self._due[item]
                self._ready[item] = None

    def next_due(self) -> datetime | None:
        """When the next item is due; None means never."""
        while self._later and self._due.get(self._later[0][1]) != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None


log = get_logger(__name__)

# The length of a slice; a plan that takes longer is completed.
_SLICE_SECONDS = 0.005
# The rest after a slice, as a multiple of the work.
_REST = 3.0
# The shortest rest: related events arrive within it.
_GATHERING_SECONDS = 0.01
_IDLE_SECONDS = 60.0
# Plans in a `settle`; more mean that two controllers undo each other's work.
_ENDLESS = 100_000


class Engine:
    """Controllers over a registry, without a task."""

    def __init__(self, registry: ObjectRegistry, controllers: Iterable[Controller]) -> None:
        self.view = View(registry)
        self.wakeup: WakeupEvent | None = None
        """Rung when there is work."""
        self._store = registry.store
        self._performer = Performer(registry)
        self._controllers = {controller.name: controller for controller in controllers}
        self._queue = WorkQueue()
        self._subscriptions: list[tuple[str, Subscriber]] = []

    def start(self) -> None:
        """Subscribe to the store; all existing objects count as new."""
        for name, controller in self._controllers.items():
            for resource, concerned in controller.watched().items():
                self._follow(name, resource, concerned)

    def stop(self) -> None:
        """Unsubscribe from the store."""
        for collection, subscriber in self._subscriptions:
            self._store.unsubscribe(collection, subscriber)
        self._subscriptions.clear()
        self.view.close()

    def settle(self) -> None:
        """Work until nothing is due. Raises RuntimeError if that never ends."""
        for _ in range(_ENDLESS):
            if not self.step():
                return
        raise RuntimeError("the controllers do not settle: two of them undo each other's work")

    def step(self) -> bool:
        """Reconcile an object; False if none is due."""
        now = self.view.now
        self._queue.wake(now)
        item = self._queue.pop()
        if item is None:
            return False
        name, key = item
        try:
            plan = self._controllers[name].reconcile(self.view, key)
            self._performer.perform(plan)
        except ApiError as error:
            log.debug("controller_refused", controller=name, object="/".join(key), err=error.message)
            self._queue.failed(item, now)
        except Exception:
            # An object that a controller cannot read must not end the cluster.
            log.exception("controller_failed", controller=name, object="/".join(key))
            self._queue.failed(item, now)
        else:
            self._queue.succeeded(item)
            if plan.again_seconds is not None:
                self._queue.add_after(item, now + timedelta(seconds=plan.again_seconds))
        return True

    def idle_seconds(self) -> float:
        """Seconds until an object is due, if no event comes."""
        if self._queue:
            return 0.0
        due = self._queue.next_due()
        return _IDLE_SECONDS if due is None else max((due - self.view.now).total_seconds(), 0.0)

    def _follow(self, name: str, resource: ServedResource, concerned: Concerned) -> None:
        subscriber = partial(self._note, name, concerned)
        self._store.subscribe(resource.collection, subscriber)
        self._subscriptions.append((resource.collection, subscriber))
        for key, record in tuple(self._store.collection(resource.collection).records.items()):
            subscriber(Change(ChangeType.ADDED, key, record, None))

    def _note(self, name: str, concerned: Concerned, change: Change) -> None:
        found = False
        for key in concerned(self.view, change):
            self._queue.add((name, key))
            found = True
        if found and self.wakeup is not None:
            self.wakeup.notify()


class ControllerLoop:
    """The task of an engine; `run` is a service."""

    def __init__(self, engine: Engine, clock: Clock = REAL_CLOCK) -> None:
        self._engine = engine
        self._clock = clock

    async def run(self) -> None:
        """Work until cancelled."""
        wakeup = self._engine.wakeup = WakeupEvent(self._clock)
        self._engine.start()
        try:
            while True:
                await wakeup.wait(self._engine.idle_seconds())
                await self._clock.sleep(max(_GATHERING_SECONDS, self._slice() * _REST))
        finally:
            self._engine.stop()

    def _slice(self) -> float:
        """Work for a slice; returns its duration in seconds."""
        begin = now = self._clock.monotonic()
        while now - begin < _SLICE_SECONDS and self._engine.step():
            now = self._clock.monotonic()
        return now - begin


@asynccontextmanager
async def running_controllers(
    registry: ObjectRegistry, controllers: Iterable[Controller], clock: Clock = REAL_CLOCK
) -> AsyncIterator[Engine]:
    """Run controllers while the body runs, in the event loop that serves the registry."""
    engine = Engine(registry, controllers)
    async with running(BackgroundService("controllers", ControllerLoop(engine, clock).run)):
        yield engine
