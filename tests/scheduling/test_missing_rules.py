"""A pod that needs a rule which is not built is held, told which, and let go when the profile does without the rule."""

import pytest

from kscheduler.config.loader import default_configuration
from kscheduler.framework.status import Code
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.missing_rules import MISSING_RULES, held_status
from tests.builders import Tree, pod_info
from tests.scheduling.plugins_for_tests import cluster, profile

GROUPED: Tree = {"schedulingGroup": {"podGroupName": "g"}}

NEEDS: list[tuple[str, Tree]] = [("GangScheduling", GROUPED)]


@pytest.mark.parametrize(("plugin", "fields"), NEEDS, ids=lambda value: value if isinstance(value, str) else "")
def test_held_where_the_profile_asks_for_the_rule(plugin: str, fields: Tree) -> None:
    pod = pod_info(**fields)
    held = held_status(pod, frozenset({plugin}))
    assert held.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert held.plugin == plugin
    assert f"has not built {plugin} yet" in held.message


def test_a_member_of_a_group_is_not_held() -> None:
    """With the gate off kube-scheduler ignores the field; with it on, groups are built."""
    assert held_status(pod_info(schedulingGroup={"podGroupName": "g"}), frozenset({"GangScheduling"})).is_success


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "volumes": [
                {"name": "v", "emptyDir": {}},
                {"name": "w", "configMap": {"name": "c"}},
                {"name": "x", "csi": {}},
                {"name": "y", "persistentVolumeClaim": {"claimName": "c"}},
            ]
        },
        {"affinity": {"nodeAffinity": {}}},
        {"hostNetwork": True},
        {"hostUsers": False},
    ],
    ids=str,
)
def test_whoever_needs_none_of_them_is_not_held(fields: Tree) -> None:
    every = frozenset(rule.plugin for rule in MISSING_RULES)
    assert held_status(pod_info(**fields), every).is_success


def test_a_held_pod_is_turned_down_for_all_nodes_and_says_why() -> None:
    record = schedule(profile(enabled=frozenset({"GangScheduling"})), pod_info(**GROUPED), cluster("a", "b"))
    assert record.message == (
        "0/2 nodes are available: pod is held because kscheduler has not built GangScheduling yet "
        "(its spec.schedulingGroup needs it)."
    )
    assert record.diagnosis.plugins == {"GangScheduling"}


def test_the_default_profile_asks_for_every_rule() -> None:
    (settings,) = default_configuration().configuration.profiles
    enabled = {plugin.name for plugin in settings.plugins.multi_point.enabled}
    assert {rule.plugin for rule in MISSING_RULES} <= enabled
