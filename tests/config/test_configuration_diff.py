"""What is told of a changed configuration: places, values before and after, within bounds and without secrets."""

from typing import Any

import pytest

from kscheduler.config.loader import LoadedConfig
from kscheduler.config.reported_changes import LONGEST_REPORTED, MAX_REPORTED, reported_changes
from tests.config.test_changes import loaded


def profile(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"schedulerName": name, **fields}


def of_profiles(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    return reported_changes(loaded(profiles=[profile(**before)]), loaded(profiles=[profile(**after)]))


SCORE = {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 7}], "disabled": [{"name": "ImageLocality"}]}}
MULTI = {"multiPoint": SCORE["score"]}
MOST = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({}, {}, (), id="nothing"),
        pytest.param(
            {},
            {"plugins": SCORE},
            ("profiles[a].plugins.score: NodeResourcesFit weight 1 -> 7, ImageLocality disabled",),
            id="a weight",
        ),
        pytest.param(
            {"plugins": SCORE},
            {},
            ("profiles[a].plugins.score: NodeResourcesFit weight 7 -> 1, ImageLocality no longer disabled",),
            id="a weight back",
        ),
        pytest.param(
            {},
            {"plugins": MULTI},
            ("profiles[a].plugins.multiPoint: NodeResourcesFit weight 1 -> 7, ImageLocality disabled",),
            id="a weight at all points",
        ),
        pytest.param(
            {},
            {"pluginConfig": [{"name": "NodeResourcesFit", "args": MOST}]},
            (
                "profiles[a].pluginConfig[NodeResourcesFit].args.scoringStrategy.type: LeastAllocated -> MostAllocated",
                "profiles[a].pluginConfig[NodeResourcesFit].args.scoringStrategy.resources: memory removed",
                "profiles[a].pluginConfig[NodeResourcesFit].args.scoringStrategy.resources[cpu].weight: 1 -> 3",
            ),
            id="arguments",
        ),
        pytest.param(
            {},
            {"percentageOfNodesToScore": 50},
            ("profiles[a].percentageOfNodesToScore: unset -> 50",),
            id="a field",
        ),
    ],
)
def test_what_changes_within_a_profile(
    before: dict[str, Any], after: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert of_profiles(before, after) == expected


def test_profiles_that_come_and_go_are_reported_by_name_and_their_order_is_none() -> None:
    one, other = (loaded(profiles=[profile(name) for name in names]) for names in ("ab", "ca"))
    assert reported_changes(one, other) == ("profiles: b removed", "profiles: c added")
    assert reported_changes(one, loaded(profiles=[profile("b"), profile("a")])) == ()


def test_secrets_are_not_reported() -> None:
    def with_extender(url: str, token: str) -> LoadedConfig:
        mine = {"name": "Mine", "args": {"apiToken": token}}
        fields = {"extenders": [{"urlPrefix": url, "filterVerb": "f", "weight": len(token)}]}
        return loaded(profiles=[profile(pluginConfig=[mine])], **fields)

    reported = reported_changes(with_extender("http://u:pass@x/", "abc"), with_extender("http://u:word@x/", "wxyz"))
    assert reported == ("profiles[a].pluginConfig[Mine].args.apiToken: changed", "extenders[http://x/].weight: 3 -> 4")


def test_a_part_that_comes_as_a_whole_is_reported_value_by_value() -> None:
    mine = {"name": "Mine", "args": {"source": {"url": "http://x", "login": {"password": "hush"}}}}
    reported = of_profiles({"pluginConfig": [{"name": "Mine"}]}, {"pluginConfig": [mine]})
    place = "profiles[a].pluginConfig[Mine].args.source"
    assert reported == (f"{place}.url: unset -> http://x", f"{place}.login.password: changed")


def test_what_is_very_deep_is_reported_all_the_same() -> None:
    def nested(value: str) -> dict[str, Any]:
        args: dict[str, Any] = {"x": value}
        for _ in range(35):
            args = {"x": args}
        return {"pluginConfig": [{"name": "Mine", "args": args}]}

    (reported,) = of_profiles(nested("a"), nested("b"))
    assert reported.startswith("profiles[a].pluginConfig[Mine].args.x.x.x")


def test_many_and_long_changes_are_cut() -> None:
    before = {"pluginConfig": [{"name": "Mine", "args": {str(number): "a" for number in range(100)}}]}
    after = {"pluginConfig": [{"name": "Mine", "args": {str(number): "b" * 1000 for number in range(100)}}]}
    reported = of_profiles(before, after)
    assert len(reported) == MAX_REPORTED + 1
    assert reported[-1] == f"and {100 - MAX_REPORTED} more"
    assert max(map(len, reported)) == LONGEST_REPORTED
