"""docs/policies.md and the shipped profiles: each can be used, and they are the same in each place."""

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kscheduler.assembly.configuration_checks import profile_problems
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.cli import main
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import default_configuration, from_tree
from kscheduler.config.types import FIRST_IN_ORDER
from kscheduler.plugins.packing import PACKING
from kscheduler.plugins.policies.catalogue import POLICIES

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
PACKING_PAGE: Final = (ROOT / "docs" / "packing.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
EXAMPLE: Final = ROOT / "deploy" / "examples" / "policies" / "config.yaml"
CHART: Final = ROOT / "deploy" / "helm" / "kscheduler" / "files" / "policies.yaml"


def enabled_by(profile: dict[str, Any]) -> set[str]:
    return {entry["name"] for point in profile.get("plugins", {}).values() for entry in point.get("enabled", ())}


def ready() -> list[dict[str, Any]]:
    profiles: list[dict[str, Any]] = yaml.safe_load(CHART.read_text(encoding="utf-8"))["profiles"]
    return profiles


@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_each_configuration_of_the_page_can_be_used(text: str) -> None:
    configured = ConfigurationReader().read_bytes(text.encode(), "page")
    assert profile_problems(configured.config, configured.registry) == ()
    (profile,) = yaml.safe_load(text)["profiles"]
    (policy,) = enabled_by(profile)
    assert policy in {one.name for one in POLICIES}


def test_each_policy_has_a_section_named_as_its_profile() -> None:
    by_section = dict(re.findall(r"^\| \[`([\w-]+)`\]\(#[\w-]+\) \| (\w+) \|", PAGE, re.MULTILINE))
    assert set(by_section.values()) == {policy.name for policy in POLICIES}
    packing = {plugin.name for plugin in PACKING}
    assert {
        profile["schedulerName"]: enabled_by(profile) for profile in ready() if not enabled_by(profile) & packing
    } == {name: {policy} for name, policy in by_section.items()}
    assert all(f"\n## {name}\n" in PAGE for name in by_section)


def test_each_profile_for_packing_stands_on_its_page_with_its_plugins() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+)(?:, then (\w+))? \|", PACKING_PAGE, re.MULTILINE)
    packing = {plugin.name for plugin in PACKING}
    assert {profile["schedulerName"]: enabled_by(profile) for profile in ready() if enabled_by(profile) & packing} == {
        name: {plugin for plugin in plugins if plugin} for name, *plugins in rows
    }
    assert all(f"`{name}`" in PAGE for name, *_ in rows)
    by_name = {profile["schedulerName"]: profile for profile in ready()}
    assert {by_name[name].get("tieRule") for name, *_ in rows} == {FIRST_IN_ORDER}


@pytest.mark.parametrize("profile", ready(), ids=lambda profile: profile["schedulerName"])
def test_each_profile_loads_without_a_warning(profile: dict[str, Any], tmp_path: Path) -> None:
    """As `kscheduler config check` judges what `kscheduler config policies NAME` prints."""
    shown = io.StringIO()
    with redirect_stdout(shown):
        assert main(["config", "policies", profile["schedulerName"]]) == 0
    (tmp_path / "config.yaml").write_text(shown.getvalue(), encoding="utf-8")
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown):
        assert main(["config", "check", str(tmp_path / "config.yaml")]) == 0
    names = f"it schedules for kscheduler, {profile['schedulerName']}\n"
    assert shown.getvalue() == f"{tmp_path}/config.yaml: can be used; {names}"


def test_the_example_has_the_charts_profiles_beside_the_untouched_default() -> None:
    tree = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    assert tree["profiles"] == [{"schedulerName": "kscheduler"}, *ready()]
    configured = ConfigurationReader().read_file(str(EXAMPLE))
    assert profile_problems(configured.config, configured.registry) == ()
    assert configured.config.configuration.profiles[0] == default_configuration().configuration.profiles[0]


def test_the_command_prints_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "policies"]) == 0
    assert capsys.readouterr().out == EXAMPLE.read_text(encoding="utf-8")


def test_the_command_prints_those_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "policies", "cheapest", "external"]) == 0
    text = capsys.readouterr().out
    assert "# Each profile below is a policy of docs/policies.md or docs/packing.md, but `kscheduler`" in text
    tree = yaml.safe_load(text)
    assert [profile["schedulerName"] for profile in tree["profiles"]] == ["kscheduler", "cheapest", "external"]
    assert tree["profiles"][1:] == [one for one in ready() if one["schedulerName"] in {"cheapest", "external"}]
    assert main(["config", "policies", "cheap"]) == 2
    assert "'cheap' is no ready policy: there are kscheduler, random," in capsys.readouterr().err


def test_no_policy_is_enabled_by_default() -> None:
    (profile,) = default_configuration().configuration.profiles
    named = {entry.name for entry in profile.plugins.multi_point.enabled}
    assert named.isdisjoint({policy.name for policy in POLICIES})
    assert {entry.name for entry in profile.plugin_config}.isdisjoint({policy.name for policy in POLICIES})


@pytest.mark.parametrize(
    ("plugin", "args", "rule"),
    [
        (
            "AnnotationMatch",
            {"keys": [{"key": "a", "mode": "Preferred"}, {"key": "b", "mode": "Required"}]},
            "keys[1].mode",
        ),
        ("ExternalScore", {"url": "http://numbers.example/", "whenStale": "Fail"}, "whenStale"),
    ],
)
def test_a_rule_that_nobody_would_ask_is_refused(plugin: str, args: Any, rule: str) -> None:
    def problems(point: str) -> list[str]:
        profile = {
            "schedulerName": "strict",
            "pluginConfig": [{"name": plugin, "args": args}],
            "plugins": {point: {"enabled": [{"name": plugin}]}},
        }
        kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        try:
            from_tree({**kind, "profiles": [profile]}, "test")
        except ConfigError as refused:
            return [problem.path for problem in refused.problems]
        return []

    assert problems("score") == [f"profiles[0].pluginConfig[0].args.{rule}"]
    assert problems("multiPoint") == problems("filter") == []
