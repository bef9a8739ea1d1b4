"""Pods that differ in labels which nobody reads are rejected together: each with the text of a cycle of its own."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import Pod
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod, pod_info
from tests.effort import example_count
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.classes.test_signatures import default_profile
from tests.scheduling.plugins_for_tests import TurnsDown

ZONE = "topology.kubernetes.io/zone"


def selector(key: str, value: str = "") -> dict[str, Any]:
    return {"matchLabels": {key: value}} if value else {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def term(key: str, value: str = "") -> dict[str, Any]:
    return {"labelSelector": selector(key, value), "topologyKey": ZONE}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def far(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def spread(key: str, value: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector(key, value),
    }


@pytest.fixture
def cache() -> Cache:
    """Two small nodes, each in a zone of its own."""
    cache = Cache()
    for name in ("a", "b"):
        cache.add_node(make_node(name, labels={ZONE: name}, cpu="1"))
    return cache


def cycles_of(cache: Cache, *pods: Pod, profile: Profile | None = None) -> int:
    """How many of these pods, none of which fits, had a cycle of their own."""
    harness = SchedulerHarness(profile or default_profile(cache), cache)
    harness.add(*pods)
    decide_all(harness)
    assert len(harness.reported.reports) == len(pods), "each has its condition and its Event"
    return int(sum(harness.observations.schedule_attempts.values()))


def decide_all(harness: SchedulerHarness) -> None:
    while (queued := harness.queue.pop_nowait(harness.clock.time())) is not None:
        harness.scheduler.decide(queued)


def hopeless(number: int, **fields: Any) -> Pod:
    """A pod with a label of its own, as of a StatefulSet, that asks for more than any node has."""
    return make_pod(f"p{number}", labels={"app": "web", "index": str(number)}, requests={"cpu": "64"}, **fields)


def test_pods_that_differ_in_a_label_that_nobody_reads_share_one_cycle(cache: Cache) -> None:
    assert cycles_of(cache, *(hopeless(number) for number in range(8))) == 1


def test_selectors_that_read_other_labels_do_not_matter(cache: Cache) -> None:
    cache.add_pod(make_pod("there", node="a", labels={"app": "db"}, affinity=far(term("app", "web"))))
    wants = {"affinity": near(term("app", "db")), "topologySpreadConstraints": [spread("app", "web")]}
    assert cycles_of(cache, *(hopeless(number, **wants) for number in range(8))) == 1


def test_they_wait_by_themselves_since_a_hint_may_read_the_label_later(cache: Cache) -> None:
    harness = SchedulerHarness(default_profile(cache), cache)
    harness.add(*(hopeless(number) for number in range(4)))
    decide_all(harness)
    classes = [harness.queue.find(f"default/p{number}") for number in range(4)]
    assert all(classes)
    assert harness.reported.classes == {}
    assert len(set(harness.reported.notes)) == 1


READERS: dict[str, dict[str, Any]] = {
    "its own affinity": {"affinity": near(term("index"))},
    "its own spread": {"topologySpreadConstraints": [spread("index", "1")]},
}


@pytest.mark.parametrize("fields", READERS.values(), ids=READERS)
def test_a_pod_s_own_selector_that_reads_the_label_tells_them_apart(cache: Cache, fields: dict[str, Any]) -> None:
    assert cycles_of(cache, *(hopeless(number, **fields) for number in range(3))) == 3


def test_a_term_of_a_running_pod_that_reads_the_label_tells_them_apart(cache: Cache) -> None:
    cache.add_pod(make_pod("there", node="a", affinity=far(term("index", "1"))))
    assert cycles_of(cache, *(hopeless(number) for number in range(3))) == 3


def test_a_term_of_a_nominated_pod_may_read_any_label(cache: Cache) -> None:
    cache.nominator.nominate(pod_info("soon", priority=9, affinity=far(term("index", "1"))), "a")
    assert cycles_of(cache, *(hopeless(number) for number in range(3))) == 3


@pytest.mark.parametrize(
    "fields",
    [{"namespace": "other"}, {"priority": 5}, {"requests": {"cpu": "32"}}],
    ids=["namespace", "priority", "cpu"],
)
def test_pods_that_differ_in_more_do_not_share(cache: Cache, fields: dict[str, Any]) -> None:
    other = {"requests": {"cpu": "64"}, **fields}
    assert cycles_of(cache, hopeless(0), make_pod("other", labels={"app": "web", "index": "1"}, **other)) == 2


class Signs(TurnsDown):
    """A filter of a user: it signs, but nothing tells which labels it reads."""

    depends_on = ()

    def sign(self, pod: PodInfo) -> object:
        return ()


def test_a_plugin_of_a_user_may_read_any_label(cache: Cache) -> None:
    profile = default_profile(cache)
    profile = replace(profile, filter=(Signs("F", "a", "b"), *profile.filter))
    assert cycles_of(cache, *(hopeless(number) for number in range(3)), profile=profile) == 3


# --- any cluster ------------------------------------------------------------------------------------------------------

KEYS, VALUES = ("app", "tier", "index"), ("1", "2")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
TERMS = st.builds(term, st.sampled_from(KEYS), st.sampled_from(("", *VALUES)))
AFFINITIES = st.one_of(st.just({}), st.builds(near, TERMS), st.builds(far, TERMS), st.builds(far, TERMS, TERMS))
SPREADS = st.lists(st.builds(spread, st.sampled_from(KEYS), st.sampled_from(VALUES)), max_size=1)
PODS = st.fixed_dictionaries(
    {"labels": LABELS, "affinity": AFFINITIES, "priority": st.sampled_from((0, 5))},
    optional={"topologySpreadConstraints": SPREADS},
)


@settings(max_examples=example_count(200))
@given(
    st.lists(st.tuples(PODS, st.sampled_from(("a", "b"))), max_size=3),
    PODS,
    st.lists(LABELS, min_size=2, max_size=6),
    st.sampled_from(("64", "100m")),
)
def test_each_pod_is_told_what_a_cycle_of_its_own_finds(
    running: list[tuple[dict[str, Any], str]], template: dict[str, Any], labels: list[dict[str, str]], cpu: str
) -> None:
    cache = Cache()
    for name in ("a", "b"):
        cache.add_node(make_node(name, labels={ZONE: name}, cpu="1"))
    for number, (fields, node) in enumerate(running):
        cache.add_pod(make_pod(f"there-{number}", node=node, **fields))
    profile = default_profile(cache)
    harness = SchedulerHarness(profile, cache)
    for number, each in enumerate(labels):
        harness.add(make_pod(f"p{number}", **{**template, "labels": each, "requests": {"cpu": cpu}}))
    while (queued := harness.queue.pop_nowait(harness.clock.time())) is not None:
        expected = schedule(profile, queued.pod, cache)
        reports = len(harness.reported.reports)
        attempt = harness.scheduler.decide(queued)
        assert (attempt.node_name if attempt is not None else "") == expected.node_name
        if attempt is None:
            ((_, _, note),) = harness.reported.reports[reports:]
            assert note == expected.message
