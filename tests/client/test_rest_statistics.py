"""What is counted of requests, and where it is found again."""

from kscheduler.client.rest_statistics import RESTCounters, RESTStatistics


def sums(statistics: RESTStatistics) -> dict[str, dict[str, float]]:
    """What the histograms add up to, by verb."""
    names = ("durations", "waited", "sent_bytes", "received_bytes")
    return {name: {verb: one.total for verb, one in getattr(statistics, name).items()} for name in names}


def test_each_number_is_found_under_its_name_and_verb() -> None:
    counters = RESTCounters()
    counters.count(200, "GET", 1.0)
    counters.count(200, "GET", 2.0, 0, 100)
    counters.count(0, "POST", 4.0, 1000)
    counters.count(201, "POST", 32.0, 200, 300)
    counters.count(201, "POST", 64.0, 400, 500)
    for seconds in (8.0, 16.0):
        counters.count_waited("POST", seconds)
    statistics = counters.statistics()
    assert statistics.requests == {("200", "GET"): 2, ("201", "POST"): 2, ("<error>", "POST"): 1}
    assert sums(statistics) == {
        "durations": {"GET": 3.0, "POST": 100.0},
        "waited": {"POST": 24.0},
        "sent_bytes": {"POST": 600.0},
        "received_bytes": {"GET": 100.0, "POST": 800.0},
    }
    assert statistics.throttled == 0


def test_a_429_was_throttled() -> None:
    counters = RESTCounters()
    counters.count(429, "GET", 0.1)
    counters.count(500, "GET", 0.1)
    assert counters.statistics().throttled == 1


def test_a_snapshot_stays_as_it_was() -> None:
    counters = RESTCounters()
    counters.count(200, "GET", 1.0, 1, 1)
    counters.count_waited("GET", 1.0)
    before = counters.statistics()
    counters.count(200, "GET", 1.0, 1, 1)
    counters.count_waited("GET", 1.0)
    assert all(by_verb == {"GET": 1.0} for by_verb in sums(before).values())
