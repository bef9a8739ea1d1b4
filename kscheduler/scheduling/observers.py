"""Who hears of what happens: `Observers.tell` gives an event to each observer that wants its type, in their order.

An observer is any object; what it wants are its methods with the mark of an event type:

    class RecentAttempts:
        @hears(PodBound)
        def note_bound(self, event: PodBound) -> None: ...

    observers = Observers(recorder, metrics, events, recent, log)
    observers.tell(PodBound(queued, record, ...))

The order is that of the list, made once where the scheduler is assembled. The handlers of each type are looked up
once, too, so an event costs one call and one for each handler, and an observer costs nothing in the events that it does
not want. Where an event is told for every pod and only a recorder wants it, who tells it asks `is_heard` first.

Handlers are short, never wait, and must not raise: what one raises reaches the code that told the event, as any bug
there does, and observers behind it do not hear of this event.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from kscheduler.scheduling.attempt_events import SchedulingEvent

_MARK: Final = "_hears_event_type"

E = TypeVar("E", bound=SchedulingEvent)
O = TypeVar("O")  # noqa: E741  an observer


def hears(event_type: type[E]) -> Callable[[Callable[[O, E], None]], Callable[[O, E], None]]:
    """Mark a method as the handler of an event type. A class has one handler of a type at most."""

    def mark(method: Callable[[O, E], None]) -> Callable[[O, E], None]:
        setattr(method, _MARK, event_type)
        return method

    return mark


class Observers:
    """Those who hear of one scheduler's events."""

    def __init__(self, *observers: object | None) -> None:
        """In the order in which they hear of each event; `None` is left out.

        Raises `ValueError` if one has two handlers of a type.
        """
        self._handlers: dict[type[SchedulingEvent], tuple[Callable[[Any], None], ...]] = dict.fromkeys(
            SchedulingEvent.__subclasses__(), ()
        )
        for observer in observers:
            for event_type, handler in _handlers_of(observer):
                self._handlers[event_type] += (handler,)

    def tell(self, event: SchedulingEvent) -> None:
        """Something has happened: let everybody hear who wants to."""
        for handle in self._handlers[type(event)]:
            handle(event)

    def is_heard(self, event_type: type[SchedulingEvent]) -> bool:
        """Whether any observer wants events of this type. It stays so."""
        return bool(self._handlers[event_type])


# Nobody hears anything.
NO_OBSERVERS: Final = Observers()


def _handlers_of(observer: object) -> Iterator[tuple[type[SchedulingEvent], Callable[[Any], None]]]:
    """The marked methods of an observer, by event type; those of a subclass replace what they override."""
    seen: set[type[SchedulingEvent]] = set()
    for name in dir(type(observer)):
        event_type = getattr(getattr(type(observer), name, None), _MARK, None)
        if event_type is None:
            continue
        if event_type in seen:
            raise ValueError(f"{type(observer).__name__} has two handlers of {event_type.__name__}")
        seen.add(event_type)
        yield event_type, getattr(observer, name)
