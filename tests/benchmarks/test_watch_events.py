"""`python -m benchmarks.watch_events`: each kind of event is fed, and reaches cache and queue."""

from benchmarks.watch_events import FedScheduler, PodStory, costs
from kscheduler.api.kinds import PODS
from kscheduler.bench.cluster import SCHEDULER_NAME

KINDS = [
    "created",
    "our Binding shows",
    "its containers are made",
    "it runs",
    "it is terminating",
    "it is gone",
    "another's is created",
    "another's is bound",
    "another's runs",
    "another's is gone",
    "a node reports",
]


async def test_each_kind_of_event_costs_something_and_repeats() -> None:
    first, second = [await costs(pods=20, size=2600, at_once=4, rounds=1) for _ in range(2)]
    assert [one.kind for one in first] == KINDS
    assert all(one.python_calls > 10 and one.line_bytes > 1500 for one in first)
    for one, other in zip(first, second, strict=True):
        assert abs(one.python_calls - other.python_calls) < 3, one.kind


async def test_a_story_goes_through_the_queue_to_the_cache_and_leaves_nothing() -> None:
    fed, story = FedScheduler(), PodStory(1, 2600, SCHEDULER_NAME)
    await fed.begin()
    queue, cache = fed.service.queue, fed.service.cache
    await fed.feed(PODS, [story.pending()])
    assert queue.statistics().active == 1
    fed.assume_all({story.uid: "node-1"})
    assert cache.is_assumed(story.uid)
    await fed.feed(PODS, [story.bound(), story.creating() + story.running(), story.terminating()])
    assert cache.node_of(story.uid) == "node-1"
    assert not cache.is_assumed(story.uid)
    await fed.feed(PODS, [story.deleted()])
    assert cache.statistics().pods == 0
