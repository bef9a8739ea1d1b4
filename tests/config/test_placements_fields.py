"""Fields of placements: which versions have them, what they need, and what they become."""

import pytest

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import LoadedConfig, from_tree
from kscheduler.config.types import API_VERSION, KIND
from kscheduler.config.unsupported_settings import unhonoured
from tests.builders import Tree

ON = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
FIELD = "percentageOfPlacementsToScore"
FEASIBLE = {"placementFeasible": {"enabled": [{"name": "GangScheduling"}]}}


def load(fields: Tree, gates: str = "", version: str = "1.38") -> LoadedConfig:
    return from_tree(
        {"apiVersion": API_VERSION, "kind": KIND, **fields}, "f", parse_feature_gates(gates, version=version)
    )


def problems(fields: Tree, gates: str = "", version: str = "1.38") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(fields, gates, version)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


@pytest.mark.parametrize("version", [name for name, each in BEHAVIOURS.items() if not each.has_placement_feasible])
def test_they_are_unknown_before_the_versions_that_have_them(version: str) -> None:
    profile = {FIELD: 3, "plugins": FEASIBLE}
    found = problems({FIELD: None, "profiles": [profile, "no profile"]}, version=version)
    unknown = [text.partition(" (")[0] for text in found if "unknown field" in text]
    assert unknown == [
        "profiles[0].plugins.placementFeasible: unknown field",
        f"profiles[0].{FIELD}: unknown field",
        f"{FIELD}: unknown field",
    ]


def test_the_percentage_needs_its_gate() -> None:
    forbidden = f"{FIELD} requires TopologyAwareWorkloadScheduling feature gate to be enabled"
    for fields, path in (({FIELD: 0}, FIELD), ({"profiles": [{FIELD: 500}]}, f"profiles[0].{FIELD}")):
        assert problems(fields) == [f"{path}: Forbidden: {forbidden}"]
        assert load({}).configuration.percentage_of_placements_to_score is None


@pytest.mark.parametrize("percentage", [-1, 101])
def test_with_its_gate_it_is_a_percentage(percentage: int) -> None:
    for fields in ({FIELD: percentage}, {"profiles": [{FIELD: percentage}]}):
        (problem,) = problems(fields, ON)
        assert "not in valid range [0-100]" in problem


def test_with_its_gate_it_is_adaptive_by_default() -> None:
    loaded = load({"profiles": [{FIELD: 40}]}, ON).configuration
    assert loaded.percentage_of_placements_to_score == 0
    assert loaded.profiles[0].percentage_of_placements_to_score == 40


def test_a_plugin_that_judges_placements_warns_where_there_are_no_groups() -> None:
    (warning,) = unhonoured(load({"profiles": [{"plugins": FEASIBLE}]}))
    assert warning.path == "profiles[0].plugins.placementFeasible"
    assert not unhonoured(load({"profiles": [{"plugins": FEASIBLE}]}, ON))


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_preemption_reserves_nothing_by_default_where_it_could(version: str) -> None:
    reserve = load({}, version=version).configuration.profiles[0].plugins.reserve
    assert [plugin.name for plugin in reserve.disabled] == (["DefaultPreemption"] if version == "1.38" else [])
    if version != "1.36":
        assert not load({}, "GenericWorkload=true", version).configuration.profiles[0].plugins.reserve.disabled


@pytest.mark.parametrize("point", ["placementGenerate", "placementScore", "placementFeasible"])
def test_removed_plugins_are_refused_at_the_points_of_placements(point: str) -> None:
    plugins = {point: {"enabled": [{"name": "EBSLimits"}]}}
    (problem,) = problems({"profiles": [{"plugins": plugins}]}, ON)
    assert problem.startswith(f"profiles[0].plugins.{point}.enabled[0]: Invalid value")
    if point != "placementFeasible":
        load({"profiles": [{"plugins": plugins}]}, ON, "1.37")
