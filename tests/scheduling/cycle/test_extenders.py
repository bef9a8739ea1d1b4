"""What extenders mean for a cycle that does not ask them: for classes, and for NodeResourcesFit."""

from typing import Any

import pytest

from kscheduler.assembly import profiles_over
from kscheduler.config.loader import from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.classes.signatures import Signatures
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, pod_info

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
    "extender",
    [{"filterVerb": "f"}, {"bindVerb": "b"}, {"preemptVerb": "p"}, {"prioritizeVerb": "p", "weight": 1}, {}],
    ids=["filters", "binds", "preempts", "gives points", "no verb"],
)
def test_whoever_does_not_ask_decides_as_if_there_were_no_extender(extender: Tree) -> None:
    """A what-if has nobody to ask; `explain` says which extenders have a say."""
    assert decided(extender).node_name == "a"


def test_pods_of_an_extender_are_of_no_class() -> None:
    """What an extender says is signed by nobody, so no verdict may be shared with a pod that it is not asked about."""
    view = cluster()
    for verb in ("filterVerb", "preemptVerb", "prioritizeVerb"):
        extender: Tree = {verb: "v", "weight": 1, **MANAGES}
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
