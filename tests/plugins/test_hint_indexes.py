"""An index finds every parked pod whose hint wakes it: in random worlds, against hints that are called one by one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Namespace, Pod
from kscheduler.framework.events import ActionType, ClusterEvent, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.hint_index import IndexedEvent, keys_of_match
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.plugins.inter_pod_affinity import InterPodAffinity
from kscheduler.plugins.pod_topology_spread import PodTopologySpread
from kscheduler.state.cache import Cache
from kscheduler.state.queue.hints import HintTable, QueueingStrategy
from kscheduler.state.queue.parked import Parked
from tests.builders import Tree, make_pod, pod_info

NAMESPACES = st.sampled_from(["default", "blue", "unknown"])
KEYS, VALUES = st.sampled_from(["app", "tier"]), st.sampled_from(["web", "db"])
LABELS = st.dictionaries(KEYS, VALUES)


def expressions() -> st.SearchStrategy[Tree]:
    with_values = st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": sorted(values)},
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.sets(VALUES, min_size=1),
    )
    without = st.builds(
        lambda key, operator: {"key": key, "operator": operator}, KEYS, st.sampled_from(["Exists", "DoesNotExist"])
    )
    return with_values | without


SELECTORS: st.SearchStrategy[Tree | None] = st.none() | st.fixed_dictionaries(
    {}, optional={"matchLabels": LABELS, "matchExpressions": st.lists(expressions(), max_size=2)}
)
TERMS = st.lists(
    st.fixed_dictionaries(
        {"topologyKey": st.just("zone"), "labelSelector": SELECTORS},
        optional={
            "namespaces": st.lists(NAMESPACES, max_size=2),
            "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "blue"}}]),
        },
    ),
    max_size=2,
)
AFFINITIES = st.builds(
    lambda near, far: {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": far},
    },
    TERMS,
    TERMS,
)
CONSTRAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "topologyKey": st.just("zone"),
            "maxSkew": st.just(1),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": SELECTORS,
        },
        optional={"matchLabelKeys": st.just(["app"])},
    ),
    max_size=2,
)


@st.composite
def waiting_pods(draw: st.DrawFn) -> list[PodInfo]:
    return [
        pod_info(
            f"waiting-{number}",
            namespace=draw(NAMESPACES),
            labels=draw(LABELS),
            affinity=draw(AFFINITIES),
            topologySpreadConstraints=draw(CONSTRAINTS),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[PodInfo], ClusterEvent, Pod | None, Pod | None]:
    """Parked pods, and a change of a pod that is on a node, expected on one, or on none; it may have terms itself.

    It may be the first of the parked pods: one that waits for its resize.
    """
    pods = draw(waiting_pods())
    name, namespace = draw(st.sampled_from([("other", None), ("waiting-0", pods[0].namespace)]))
    fields: dict[str, Any] = {
        "namespace": namespace or draw(NAMESPACES),
        "node": draw(st.sampled_from(["node-1", ""])),
        "affinity": draw(st.just({}) | AFFINITIES),
        "status": draw(st.sampled_from([{}, {"nominatedNodeName": "node-1"}])),
    }
    before, after = make_pod(name, labels=draw(LABELS), **fields), make_pod(name, labels=draw(LABELS), **fields)
    what = draw(st.sampled_from([ActionType.ADD, ActionType.DELETE, ActionType.UPDATE_POD_LABEL]))
    event = ClusterEvent(Resource.ASSIGNED_POD, what)
    return pods, event, None if what is ActionType.ADD else before, None if what is ActionType.DELETE else after


def plugin_of(kind: Any) -> Any:
    cache = Cache()
    for name, team in (("default", "red"), ("blue", "blue")):  # nothing is known of the third
        cache.counters.set_namespace(convert({"metadata": {"name": name, "labels": {"team": team}}}, Namespace))
    return kind(None, Handle(cache, None, None, counters=cache.counters))  # type: ignore[arg-type]


PLUGINS = {kind.name: plugin_of(kind) for kind in (InterPodAffinity, PodTopologySpread)}


@pytest.mark.parametrize("names", [["InterPodAffinity"], ["PodTopologySpread"], sorted(PLUGINS)], ids="+".join)
@given(world=worlds())
def test_an_index_finds_every_pod_that_the_event_wakes(
    names: list[str], world: tuple[list[PodInfo], ClusterEvent, Pod | None, Pod | None]
) -> None:
    pods, event, old, new = world
    table = HintTable({"kscheduler": {name: PLUGINS[name].events_to_register() for name in names}})
    parked, by = Parked(few=0), frozenset(names)
    waiting = [QueuedPodInfo(pod, unschedulable_plugins=by) for pod in pods]
    for queued in waiting:
        parked.put(queued)
    found = {each.key for each in parked.concerned(table, event, old, new)}
    woken = {each.key for each in waiting if table.strategy(each, event, old, new) is not QueueingStrategy.SKIP}
    assert woken <= found


def test_pods_that_wait_for_other_labels_are_not_queried() -> None:
    """Ten thousand parked pods, each for a pod of its own: one that comes concerns one of them."""
    table = HintTable({"kscheduler": {"InterPodAffinity": PLUGINS["InterPodAffinity"].events_to_register()}})
    parked = Parked()
    for number in range(20):
        near: Tree = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"color": f"yellow-{number}"}}}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
        pod = pod_info(f"waiting-{number}", affinity=affinity)
        parked.put(QueuedPodInfo(pod, unschedulable_plugins=frozenset(["InterPodAffinity"])))
    other = make_pod("other", labels={"color": "yellow-7"}, node="node-1")
    event = ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD)
    (found,) = parked.concerned(table, event, None, other)
    assert found.key == "default/waiting-7"
    assert not parked.concerned(table, event, None, make_pod("another", labels={"color": "green"}, node="node-1"))


def test_both_plugins_index_changes_of_pods() -> None:
    for plugin in PLUGINS.values():
        (indexed,) = [each for each in plugin.events_to_register() if isinstance(each, IndexedEvent)]
        assert indexed.event.resource is Resource.POD
        assert indexed.hint is not None
        assert indexed.hint(pod_info("waiting"), None, None) in QueueingHint


def test_a_single_term_that_cannot_be_judged_is_found() -> None:
    """Nothing is known of the namespace, and one of two terms selects the pod: 1.38 wakes, and so does this."""
    table = HintTable({"kscheduler": {"InterPodAffinity": PLUGINS["InterPodAffinity"].events_to_register()}})
    blue = {"matchLabels": {"team": "blue"}}
    near: list[Tree] = [
        {"topologyKey": "zone", "namespaceSelector": blue, "labelSelector": {"matchLabels": {"app": app}}}
        for app in ("db", "web")
    ]
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near}}
    waiting = QueuedPodInfo(pod_info(affinity=affinity), unschedulable_plugins=frozenset(["InterPodAffinity"]))
    parked = Parked(few=0)
    parked.put(waiting)
    event = ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD)
    for app in ("db", "web"):
        other = make_pod("other", namespace="unknown", labels={"app": app}, node="node-1")
        assert table.strategy(waiting, event, None, other) is QueueingStrategy.AFTER_BACKOFF
        assert parked.concerned(table, event, None, other) == [waiting]


def test_of_an_intersection_the_part_with_values_is_filed() -> None:
    """Two terms whose namespaces differ: a pod without the value that the second one wants does not open its drawer."""
    terms: list[Tree] = [
        {"topologyKey": "zone", "namespaces": ["blue"], "labelSelector": {"matchLabels": {"app": "web"}}},
        {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
    ]
    for listed in (terms, terms[::-1]):
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": listed}}
        wanted = pod_info(affinity=affinity).affinity_terms.all_required_affinity
        assert wanted is not None
        assert list(keys_of_match(wanted)) == [("blue", "app", "web")]
