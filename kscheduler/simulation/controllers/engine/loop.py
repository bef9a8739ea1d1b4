"""The loop: changes of the store become keys, keys become plans, plans become writes.

`Engine` is synchronous: `settle` works until nothing is left to do, which tests call as often as they like.
`ControllerLoop` owns the one task that calls it, in slices: between two slices it rests at least three times as long
as it worked, so the controllers take a quarter of one core at most, whatever the cluster does, and events about one
object that come meanwhile are one look.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

from kscheduler.aio import REAL_CLOCK, BackgroundService, Bell, Clock, running
from kscheduler.logs import get_logger
from kscheduler.simulation.controllers.engine.performer import Performer
from kscheduler.simulation.controllers.engine.plan import Concerned, Controller
from kscheduler.simulation.controllers.engine.view import View
from kscheduler.simulation.controllers.engine.work_queue import WorkQueue
from kscheduler.simulation.kinds.api_errors import ApiError
from kscheduler.simulation.kinds.resources import ServedResource
from kscheduler.simulation.objects.registry import ObjectRegistry
from kscheduler.simulation.objects.store import Change, ChangeType, Subscriber

log = get_logger(__name__)

_SLICE_SECONDS = 0.005
"""Work at a time; a plan that takes longer is finished."""
_REST = 3.0
"""Rest after a slice, in times of the work."""
_GATHERING_SECONDS = 0.01
"""Least rest: events that belong together arrive within it."""
_IDLE_SECONDS = 60.0
_ENDLESS = 100_000
"""Plans in one `settle`; more means that two controllers undo each other's work."""


class Engine:
    """Controllers over one registry, without a task."""

    def __init__(self, registry: ObjectRegistry, controllers: Iterable[Controller]) -> None:
        self.view = View(registry)
        self.bell: Bell | None = None
        """Rung when there is something to do."""
        self._store = registry.store
        self._performer = Performer(registry)
        self._controllers = {controller.name: controller for controller in controllers}
        self._queue = WorkQueue()
        self._subscriptions: list[tuple[str, Subscriber]] = []

    def start(self) -> None:
        """Follow the store from here on; every object there is counts as new."""
        for name, controller in self._controllers.items():
            for resource, concerned in controller.watched().items():
                self._follow(name, resource, concerned)

    def stop(self) -> None:
        """Follow the store no longer."""
        for collection, subscriber in self._subscriptions:
            self._store.unsubscribe(collection, subscriber)
        self._subscriptions.clear()
        self.view.close()

    def settle(self) -> None:
        """Work until nothing is due now. Raises RuntimeError if that never ends."""
        for _ in range(_ENDLESS):
            if not self.step():
                return
        raise RuntimeError("the controllers do not settle: two of them undo each other's work")

    def step(self) -> bool:
        """Look at one object; false when none is due."""
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
            log.debug("a controller was refused", controller=name, object="/".join(key), err=error.message)
            self._queue.failed(item, now)
        except Exception:
            # One object that a controller cannot read must not end the cluster.
            log.exception("a controller failed", controller=name, object="/".join(key))
            self._queue.failed(item, now)
        else:
            self._queue.succeeded(item)
            if plan.again_seconds is not None:
                self._queue.add_after(item, now + timedelta(seconds=plan.again_seconds))
        return True

    def idle_seconds(self) -> float:
        """How long nothing is due, if nothing happens."""
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
        if found and self.bell is not None:
            self.bell.ring()


class ControllerLoop:
    """The task of an engine; `run` is a service."""

    def __init__(self, engine: Engine, clock: Clock = REAL_CLOCK) -> None:
        self._engine = engine
        self._clock = clock

    async def run(self) -> None:
        """Work until cancelled."""
        bell = self._engine.bell = Bell(self._clock)
        self._engine.start()
        try:
            while True:
                await bell.heard(self._engine.idle_seconds())
                await self._clock.sleep(max(_GATHERING_SECONDS, self._slice() * _REST))
        finally:
            self._engine.stop()

    def _slice(self) -> float:
        """Work for a moment; the seconds that it took."""
        begin = now = self._clock.monotonic()
        while now - begin < _SLICE_SECONDS and self._engine.step():
            now = self._clock.monotonic()
        return now - begin


@asynccontextmanager
async def running_controllers(
    registry: ObjectRegistry, controllers: Iterable[Controller], clock: Clock = REAL_CLOCK
) -> AsyncIterator[Engine]:
    """Controllers at work while the body runs, in the event loop that serves the registry."""
    engine = Engine(registry, controllers)
    async with running(BackgroundService("controllers", ControllerLoop(engine, clock).run)):
        yield engine
