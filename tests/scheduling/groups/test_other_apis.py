"""Groups of scheduler-plugins and Volcano: switched on by name, placed by the same engine."""

from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.groups import (
    SCHEDULER_PLUGINS_LABEL,
    VOLCANO_ANNOTATION,
    SchedulerPluginsPodGroup,
    VolcanoPodGroup,
)
from kscheduler.config.errors import ConfigError
from tests.builders import make_pod
from tests.scheduling.groups.world import ON, World, member, with_other_apis

TOO_FEW = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
HALF: dict[str, Any] = {"requests": {"cpu": "2"}}


def metadata(api: str, group: str) -> dict[str, Any]:
    """How a pod names its group there."""
    if api == "volcano":
        return {"metadata": {"annotations": {VOLCANO_ANNOTATION: group}}}
    return {"labels": {SCHEDULER_PLUGINS_LABEL: group}}


def group_of(api: str, name: str, least: int) -> SchedulerPluginsPodGroup | VolcanoPodGroup:
    tree = {"metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": least}}
    return convert(tree, VolcanoPodGroup) if api == "volcano" else convert(tree, SchedulerPluginsPodGroup)


@pytest.mark.parametrize("api", ["scheduler-plugins", "volcano"])
async def test_all_or_nothing_for_jobs_of_today(api: str) -> None:
    world = World(with_other_apis(api))
    world.nodes(2)
    async with world.working():
        world.add_group(group_of(api, "fits", 4))
        world.add_group(group_of(api, "large", 5))
        world.add(*(make_pod(f"large-{number}", **metadata(api, "large"), **HALF) for number in range(5)))
        await world.settle()
        assert world.bound() == []
        world.add(*(make_pod(f"fits-{number}", **metadata(api, "fits"), **HALF) for number in range(4)))
        await world.settle()
        assert world.sizes() == {"fits": 4}
        assert world.groups.conditions == [], "their controllers write their statuses"


@pytest.mark.parametrize(("version", "without"), [("1.36", ""), ("1.37", "podGroupPostFilter")])
@pytest.mark.parametrize("api", ["scheduler-plugins", "volcano"])
async def test_nothing_is_appended_where_no_plugin_looks_for_victims(api: str, version: str, without: str) -> None:
    """To the message of a group of Kubernetes 1.37 appends an empty answer; it does not know these groups."""
    world = World(with_other_apis(api, version=version, without=without))
    world.nodes(1)
    async with world.working():
        world.add_group(group_of(api, "g", 3))
        world.add(*(make_pod(f"g-{number}", **metadata(api, "g"), **HALF) for number in range(3)))
        await world.settle()
        assert {note for note in world.reported.notes if "pod group" in note} == {
            f"pod group is unschedulable, {TOO_FEW}"
        }


async def test_an_empty_answer_is_appended_to_the_message_of_a_group_of_kubernetes_as_1_37_does() -> None:
    world = World(with_other_apis(version="1.37", gates=ON, without="podGroupPostFilter"))
    world.nodes(1)
    async with world.working():
        world.gang("g", 3, **HALF)
        await world.settle()
        assert world.groups.last("g").message == f"{TOO_FEW}, "


async def test_members_agree_among_themselves_whatever_their_priority() -> None:
    world = World(with_other_apis("volcano"))
    world.nodes(1)
    async with world.working():
        world.add_group(group_of("volcano", "g", 2))
        world.add(*(make_pod(f"g-{number}", priority=7, **metadata("volcano", "g")) for number in range(2)))
        await world.settle()
        assert len(world.bound()) == 2


async def test_what_is_not_switched_on_means_nothing() -> None:
    world = World(with_other_apis("volcano"))
    world.nodes(1)
    async with world.working():
        world.add(make_pod("p", **metadata("scheduler-plugins", "g")), member("q", "g"))
        await world.settle()
        assert world.bound() == ["p", "q"]


def test_an_api_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'podGroupAPIs\[0\]: Unsupported value: "kueue"'):
        with_other_apis("kueue")
    with pytest.raises(ConfigError, match=r"podGroupAPIs\[1\]: Duplicate"):
        with_other_apis("volcano", "volcano")
