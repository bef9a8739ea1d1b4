"""While extenders are not called, a pod that one of them has a say about is held, or preempts nobody."""

from typing import Any

import pytest

from kscheduler.assembly import profiles_over
from kscheduler.config.loader import from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.framework.status import Code
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.classes.signatures import Signatures
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, make_pod, pod_info

GPU = "example.com/gpu"
WITH_GPU: Tree = {"containers": [{"name": "c", "resources": {"requests": {GPU: "1"}}}]}
MANAGES: Tree = {"managedResources": [{"name": GPU}]}
BIG: Tree = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}


def cluster() -> Cache:
    cache = Cache()
    cache.add_node(make_node("a", **{GPU: "4"}))
    return cache


def built(view: Cache, *extenders: Tree) -> Profile:
    tree = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "extenders": [{"urlPrefix": "http://u:p@x.y/z", **e} for e in extenders],
    }
    (profile,) = profiles_over(view, from_tree(tree, "test"), registry()).values()
    return profile


def decided(*extenders: Tree, **pod: Any) -> SchedulingRecord:
    view = cluster()
    return schedule(built(view, *extenders), pod_info(**pod), view)


@pytest.mark.parametrize(
    ("extender", "does"),
    [
        ({"filterVerb": "f"}, "filters its nodes"),
        ({"bindVerb": "b", "prioritizeVerb": "p", "weight": 1}, "binds it"),
        ({"filterVerb": "f", "bindVerb": "b", "preemptVerb": "p"}, "filters its nodes and binds it"),
    ],
    ids=["filter", "bind", "all verbs"],
)
def test_a_pod_that_an_extender_filters_or_binds_is_held_and_told_which(extender: Tree, does: str) -> None:
    record = decided(extender)
    assert record.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert record.message == (
        "0/1 nodes are available: pod is held because kscheduler has not built extenders yet "
        f"(extender http://x.y/z {does})."
    )
    assert record.diagnosis.plugins == {"Extender"}


def test_all_extenders_that_have_a_say_are_named() -> None:
    record = decided({"filterVerb": "f", **MANAGES}, {"bindVerb": "b", "urlPrefix": "http://b"}, **WITH_GPU)
    assert "(extender http://x.y/z filters its nodes; extender http://b binds it)" in record.message


@pytest.mark.parametrize(
    ("extender", "pod"),
    [
        ({"filterVerb": "f", **MANAGES}, {}),
        ({"filterVerb": "f", "bindVerb": "b", "ignorable": True}, {}),
        ({"prioritizeVerb": "p", "weight": 1}, {}),
        ({"preemptVerb": "p"}, {}),
        ({}, {}),
    ],
    ids=["manages what the pod does not ask for", "ignorable", "only gives points", "only preempts", "no verb"],
)
def test_a_pod_that_none_has_a_say_about_is_bound(extender: Tree, pod: Tree) -> None:
    assert decided(extender, **pod).node_name == "a"


def crowded() -> Cache:
    view = cluster()
    view.add_pod(make_pod("low", node="a", priority=-10, **BIG))
    return view


@pytest.mark.parametrize(
    ("extender", "made_room"),
    [
        ({"preemptVerb": "p"}, False),
        ({"preemptVerb": "p", "ignorable": True}, True),
        ({"preemptVerb": "p", **MANAGES}, True),
        ({"prioritizeVerb": "p", "weight": 1}, True),
    ],
    ids=["has a say", "ignorable", "manages something else", "only gives points"],
)
def test_nobody_is_preempted_where_an_extender_has_a_say_in_it(extender: Tree, made_room: bool) -> None:
    view = crowded()
    record = schedule(built(view, extender), pod_info("high", priority=10, **BIG), view)
    assert record.node_name == ""
    assert (record.nominated_node_name == "a") is made_room
    assert record.post_filter is not None
    assert record.post_filter.is_success is made_room
    if not made_room:
        assert record.message == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not tried because "
            "kscheduler has not built extenders yet (extender http://x.y/z has a say in it)"
        )


def test_pods_of_an_extender_are_of_no_class() -> None:
    """What an extender says is signed by nobody, so no verdict may be shared with a pod that it is not asked about."""
    view = cluster()
    for extender in ({"filterVerb": "f", **MANAGES}, {"preemptVerb": "p", **MANAGES}):
        profile = built(view, extender)
        signatures = Signatures({profile.name: profile}, view.nominator)
        plain, special = (pod_info(schedulerName=profile.name, **more) for more in ({}, WITH_GPU))
        assert signatures.class_of(plain) is not None
        assert signatures.class_of(special) is None


def test_node_resources_fit_leaves_out_what_the_extender_accounts_for() -> None:
    ignored = {"ignorable": True, "managedResources": [{"name": "example.com/share", "ignoredByScheduler": True}]}
    wants = {"containers": [{"name": "c", "resources": {"requests": {"example.com/share": "1"}}}]}
    assert decided(ignored, **wants).node_name == "a"
    assert "Insufficient example.com/share" in decided(**wants).message
