"""Who hears of an event: those who want its type, in their order, and every event has somebody who wants it."""

from pathlib import Path
from typing import Any

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.recorder.flight_recorder import FlightRecorder
from kscheduler.recorder.segment_thread import SegmentThread, WriteSettings
from kscheduler.scheduling.attempt_events import (
    STEP_BEGAN,
    BackoffFlushed,
    PermitReleased,
    PodBound,
    PodLeftQueue,
    SchedulingEvent,
    StepBegan,
)
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import NO_OBSERVERS, Observers, hears
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.pod_log.recent_attempts import RecentAttempts
from kscheduler.scheduling.reports import Reporter


class Listener:
    def __init__(self, name: str, heard: list[str]) -> None:
        self.name = name
        self.heard = heard

    @hears(PodLeftQueue)
    def left(self, event: PodLeftQueue) -> None:
        self.heard.append(f"{self.name}: {event.uid}")


class Louder(Listener):
    @hears(PodLeftQueue)
    def left(self, event: PodLeftQueue) -> None:
        self.heard.append(f"{self.name}: {event.uid}!")


class Broken:
    @hears(PodLeftQueue)
    def left(self, event: PodLeftQueue) -> None:
        raise RuntimeError(event.uid)


class Twice(Listener):
    @hears(PodLeftQueue)
    def left_again(self, event: PodLeftQueue) -> None:
        """Not allowed."""


class NoSink:
    def record(self, regarding: Any, **fields: Any) -> None:
        """Nothing is recorded."""


def test_observers_hear_in_the_order_of_the_list_and_only_what_they_want() -> None:
    heard: list[str] = []
    observers = Observers(Listener("a", heard), None, object(), Listener("b", heard))
    observers.tell(PodLeftQueue("u"))
    observers.tell(PermitReleased("u"))
    assert heard == ["a: u", "b: u"]


def test_a_subclass_hears_with_its_own_handler_alone() -> None:
    heard: list[str] = []
    Observers(Louder("a", heard)).tell(PodLeftQueue("u"))
    assert heard == ["a: u!"]


def test_an_observer_with_two_handlers_of_an_event_is_refused() -> None:
    with pytest.raises(ValueError, match="Twice has two handlers of PodLeftQueue"):
        Observers(Twice("a", []))


def test_what_an_observer_raises_reaches_the_teller() -> None:
    """As a bug of the attempt itself does: its pod is tried again, and nothing that was reserved stays so."""
    heard: list[str] = []
    observers = Observers(Listener("a", heard), Broken(), Listener("b", heard))
    with pytest.raises(RuntimeError, match="u"):
        observers.tell(PodLeftQueue("u"))
    assert heard == ["a: u"]


def test_whether_an_event_is_heard_is_known_before_it_is_built() -> None:
    observers = Observers(Listener("a", []))
    assert observers.is_heard(PodLeftQueue)
    assert not observers.is_heard(StepBegan)
    NO_OBSERVERS.tell(STEP_BEGAN)
    assert not NO_OBSERVERS.is_heard(PodLeftQueue)


@pytest.fixture
def everybody(tmp_path: Path) -> tuple[object, ...]:
    """The observers of a service that is recorded."""
    recorder = FlightRecorder(SegmentThread(WriteSettings(tmp_path, "x", 1, 1, 1.0)), VirtualClock())
    log = PodLog()
    return recorder, Observations(), Reporter(NoSink()), log.recent, log


@pytest.mark.parametrize("event_type", SchedulingEvent.__subclasses__(), ids=lambda each: each.__name__)
def test_every_event_is_heard_by_somebody(event_type: type[SchedulingEvent], everybody: tuple[object, ...]) -> None:
    assert Observers(*everybody).is_heard(event_type)


def test_without_a_recorder_nobody_wants_the_steps_of_each_pod() -> None:
    log = PodLog()
    observers = Observers(Observations(), Reporter(NoSink()), RecentAttempts(), log)
    assert not any(observers.is_heard(each) for each in (StepBegan, PodLeftQueue, BackoffFlushed))
    assert observers.is_heard(PodBound)
