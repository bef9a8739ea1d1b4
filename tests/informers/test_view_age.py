"""The age of a view grows while no watch is open, whatever is opened and ends in between, and never otherwise."""

from kscheduler.aio import VirtualClock
from kscheduler.informers.view_age import OLD_VIEW_SECONDS, ViewAge


async def test_a_quiet_watch_is_not_old_and_one_that_is_down_is() -> None:
    clock = VirtualClock()
    view = ViewAge(clock)
    assert view.statistics().age_seconds == 0.0, "nothing has been listed yet"
    view.heard()
    view.opened()
    await clock.advance(44.0)
    assert view.statistics().age_seconds == 0.0, "bookmarks come once a minute"
    view.closed()
    await clock.advance(OLD_VIEW_SECONDS)
    assert (view.statistics().age_seconds, view.statistics().is_old) == (OLD_VIEW_SECONDS, False)
    await clock.advance(1.0)
    assert view.statistics().is_old
    view.opened()
    await clock.advance(1.0)
    assert view.statistics().age_seconds == 0.0


async def test_watches_that_end_at_once_make_nothing_young() -> None:
    clock = VirtualClock()
    view = ViewAge(clock)
    view.heard()
    for _ in range(100):
        view.opened()
        view.closed()
        await clock.advance(1.0)
    assert view.statistics().age_seconds == 100.0


async def test_a_list_makes_it_young_without_a_watch() -> None:
    clock = VirtualClock()
    view = ViewAge(clock)
    view.heard()
    await clock.advance(50.0)
    view.heard()
    await clock.advance(20.0)
    assert view.statistics().age_seconds == 20.0


async def test_after_a_watch_that_fell_silent_the_age_is_that_of_its_last_news() -> None:
    clock = VirtualClock()
    view = ViewAge(clock)
    view.opened()
    view.heard()
    await clock.advance(45.0)
    view.closed(was_silent=True)
    await clock.advance(5.0)
    assert view.statistics().age_seconds == 50.0


async def test_a_silent_watch_that_is_open_again_at_once_was_a_quiet_one() -> None:
    """Else each quiet watch would be told to be down for 45 s."""
    clock = VirtualClock()
    view = ViewAge(clock)
    view.opened()
    view.heard()
    await clock.advance(45.0)
    view.closed(was_silent=True)
    view.requested()
    assert view.statistics().age_seconds == 0.0
    await clock.advance(0.5)
    view.opened()
    for _ in range(60):
        assert view.statistics().age_seconds == 0.0
        await clock.advance(1.0)


async def test_it_says_when_the_next_try_comes() -> None:
    clock = VirtualClock()
    view = ViewAge(clock)
    view.retries_in(12.0)
    await clock.advance(5.0)
    assert view.statistics().retry_seconds == 7.0
    view.retries_in(None)
    assert view.statistics().retry_seconds is None


async def test_the_view_of_an_earlier_term_is_not_old_while_its_watch_is_opened_again() -> None:
    """An answer may take two seconds, and a watch that brings nothing counts as open a second later."""
    clock = VirtualClock()
    await clock.advance(100.0)
    view = ViewAge(clock)
    view.resume_from(20.0)
    view.requested()
    await clock.advance(1.9)
    view.opened()
    for _ in range(50):
        await clock.advance(0.1)
        assert view.statistics().age_seconds == 0.0
