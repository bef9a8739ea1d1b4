"""Turns come at their rate, and addresses take them in rotation: a flood waits behind itself."""

from kscheduler.aio import VirtualClock
from kscheduler.server.connection_rate_limiter import ConnectionRateLimiter


async def test_a_burst_is_let_through_and_then_the_rate_holds() -> None:
    clock, granted = VirtualClock(), list[float]()
    rate_limiter = ConnectionRateLimiter(10.0, 3, clock)
    for _ in range(6):
        rate_limiter.ask("a", lambda: granted.append(round(clock.monotonic(), 3)))
    assert granted == [0.0, 0.0, 0.0]
    for _ in range(10):
        await clock.advance(0.05)
    assert len(granted) == 6
    assert granted[-1] >= 0.3
    assert rate_limiter.delayed == 3


async def test_a_probe_waits_for_one_round_of_the_addresses_whatever_they_have_queried_for() -> None:
    clock, granted = VirtualClock(), list[str]()
    rate_limiter = ConnectionRateLimiter(10.0, 1, clock)
    for number in range(500):
        address = f"attacker-{number % 5}"
        rate_limiter.ask(address, lambda address=address: granted.append(address))  # type: ignore[misc]
    rate_limiter.ask("kubelet", lambda: granted.append("kubelet"))
    while "kubelet" not in granted:
        await clock.advance(0.1)
    assert len(granted) <= 1 + 5 + 1
    assert clock.monotonic() < 1.0


async def test_a_turn_that_was_given_up_costs_nothing() -> None:
    clock, granted = VirtualClock(), list[int]()
    rate_limiter = ConnectionRateLimiter(10.0, 1, clock)
    turns = [rate_limiter.ask("a", lambda number=number: granted.append(number)) for number in range(50)]  # type: ignore[misc]
    for turn in turns[1:49]:
        turn.cancel()
    await clock.advance(0.11)
    assert granted == [0, 49]


async def test_after_the_end_nobody_gets_a_turn() -> None:
    clock, granted = VirtualClock(), list[int]()
    rate_limiter = ConnectionRateLimiter(10.0, 1, clock)
    for number in range(3):
        rate_limiter.ask("a", lambda number=number: granted.append(number))  # type: ignore[misc]
    rate_limiter.close()
    await clock.advance(10)
    assert granted == [0]


async def test_unused_turns_add_up_to_the_burst_and_no_further() -> None:
    clock, granted = VirtualClock(), list[int]()
    rate_limiter = ConnectionRateLimiter(10.0, 5, clock)
    await clock.advance(100)
    for number in range(20):
        rate_limiter.ask("a", lambda number=number: granted.append(number))  # type: ignore[misc]
    assert len(granted) == 5
