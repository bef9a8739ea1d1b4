"""What is left of a profile whose plugin is quarantined."""

from typing import Any

import pytest

from kscheduler.assembly import profiles_over
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import from_tree
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.plugins import in_tree
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.quarantined_profiles import quarantined
from kscheduler.scheduling.supervision.supervisor import OnFailure, Quarantine
from kscheduler.state.cache import Cache

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Everything(Plugin):
    """A QueueSort and Bind plugin."""

    name = "Everything"

    def sort_key(self, queued: Any) -> int:
        return 0

    async def bind(self, cycle: Any, pod: Any, node_name: str) -> Status:
        return SUCCESS


class AlsoMine(Plugin):
    """A second plugin of the user's."""

    name = "AlsoMine"

    def permit(self, cycle: Any, pod: Any, node_name: str) -> Any:
        return SUCCESS


def profile(**settings: Any) -> Profile:
    registry = in_tree.registry()
    registry.register("Everything", lambda *_: Everything())
    registry.register("AlsoMine", lambda *_: AlsoMine())
    alone = {"disabled": [{"name": "*"}], "enabled": [{"name": "Everything"}]}
    plugins = {"queueSort": alone, "bind": alone, "permit": {"enabled": [{"name": "AlsoMine"}]}}
    config = [{"name": "Everything", **settings}] if settings else []
    tree = {**HEAD, "profiles": [{"schedulerName": "mine", "plugins": plugins, "pluginConfig": config}]}
    return profiles_over(Cache(), from_tree(tree, "test"), registry)["mine"]


def after(plugin: str, on_failure: OnFailure) -> Profile:
    return quarantined(profile(), Quarantine("mine", plugin, on_failure, 0.0, "Bind", "ValueError: boom"))


def names(plugins: Any) -> list[str]:
    return [plugin.name for plugin in plugins]


@pytest.mark.parametrize("policy", OnFailure)
def test_the_only_sort_and_bind_plugins_are_replaced_by_kubernetes_own(policy: OnFailure) -> None:
    left = after("Everything", policy)
    assert left.queue_sort.name == "PrioritySort"
    assert names(left.bind) == ["DefaultBinder"]
    assert {"PrioritySort", "DefaultBinder"} <= set(names(left.instances))
    assert "Everything" not in {*left.traits, *names(left.instances)}
    assert names(left.permit) == ([] if policy is OnFailure.FALLBACK else ["AlsoMine"])
    assert (left.failing is not None) is (policy is OnFailure.FAIL)


def test_in_tree_plugins_and_their_weights_stay() -> None:
    before, left = profile(), after("Everything", OnFailure.FALLBACK)
    assert [(weighted.plugin.name, weighted.weight) for weighted in left.score] == [
        (weighted.plugin.name, weighted.weight) for weighted in before.score
    ]
    assert names(left.filter) == names(before.filter)


def test_a_second_quarantine_keeps_the_first() -> None:
    first = after("AlsoMine", OnFailure.FAIL)
    second = quarantined(first, Quarantine("mine", "Everything", OnFailure.IGNORE, 1.0, "Bind", "boom"))
    assert [found.plugin for found in second.quarantines] == ["AlsoMine", "Everything"]
    assert second.failing is first.failing


def test_a_profile_knows_its_plugins_by_what_they_are_not_by_their_stand_ins() -> None:
    traits = profile().traits
    assert not traits["Everything"].is_in_tree
    assert traits["PrioritySort" if "PrioritySort" in traits else "NodeName"].is_in_tree
    assert not traits["AlsoMine"].registers_events


def test_limits_are_read_from_the_configuration() -> None:
    supervisor = profile(timeBudget="1.5s", onFailure="Ignore").supervisor
    assert supervisor is not None
    limits = supervisor.limits
    assert (limits["Everything"].budget_seconds, limits["Everything"].on_failure) == (1.5, OnFailure.IGNORE)
    assert (limits["AlsoMine"].budget_seconds, limits["AlsoMine"].on_failure) == (0.2, OnFailure.FAIL)
    assert limits.keys() == {"Everything", "AlsoMine"}


class OwnInTree(Plugin):
    """As if it were one of kscheduler's own, which kube-scheduler does not have."""

    name = "OwnInTree"

    def permit(self, cycle: Any, pod: Any, node_name: str) -> Any:
        return SUCCESS


OwnInTree.__module__ = "kscheduler.plugins.own"


def test_a_plugin_of_ours_that_kube_scheduler_does_not_have_refuses_limits_too() -> None:
    registry = in_tree.registry()
    registry.register("OwnInTree", lambda *_: OwnInTree())
    plugins = {"permit": {"enabled": [{"name": "OwnInTree"}]}}
    config = [{"name": "OwnInTree", "onFailure": "Ignore"}]
    tree = {**HEAD, "profiles": [{"schedulerName": "mine", "plugins": plugins, "pluginConfig": config}]}
    with pytest.raises(ConfigError, match='plugin "OwnInTree" is in-tree: timeBudget and onFailure'):
        profiles_over(Cache(), from_tree(tree, "test"), registry)
