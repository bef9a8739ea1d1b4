"""docs/plugins.md: each plugin on the page can be loaded, each configuration uses what stands before it."""

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from kscheduler.assembly.configuration_checks import profile_problems
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.assembly.plugin_files import run_file
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.testing import Cluster, make_node, make_pod
from tests.effort import sampled

PAGE: Final = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def names_of(text: str) -> list[str]:
    return re.findall(r'@plugin\("(\w+)"|^    name = "(\w+)"', text, re.MULTILINE)


PLUGINS: Final = [text for text in blocks("python") if "def test_" not in text]
TESTS: Final = [text for text in blocks("python") if "def test_" in text]


@pytest.mark.parametrize("text", PLUGINS, ids=range(len(PLUGINS)))
def test_each_plugin_can_be_loaded_and_decides(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    plugins = run_file(str(file), text.encode()).plugins
    assert [[name for name in found if name] for found in names_of(text)] == [[name] for name in plugins]
    if not {"Affordable", "OldestFirst"} & {*plugins}:  # they want arguments, and a configuration
        configured = ConfigurationReader(plugins=[str(file)]).default()
        assert profile_problems(configured.config, configured.registry) == ()


@pytest.mark.parametrize("text", sampled(TESTS, 1, "tries a plugin in 45 clusters"), ids=range(len(TESTS)))
def test_each_test_passes(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cheap.py").write_text(PLUGINS[0])
    (tmp_path / "business_hours.py").write_text(next(text for text in PLUGINS if "class BusinessHours" in text))
    (tmp_path / "not_frozen.py").write_text(next(text for text in PLUGINS if "class NotFrozen" in text))
    monkeypatch.syspath_prepend(str(tmp_path))
    space: dict[str, Any] = {}
    exec(text, space)
    tests = [value for name, value in space.items() if name.startswith("test_")]
    for test in tests:
        assert not inspect.iscoroutinefunction(test), "plain pytest runs none: it would need a plugin"
        test()
    assert tests


@pytest.mark.parametrize("text", blocks("yaml"), ids=range(len(blocks("yaml"))))
def test_each_configuration_can_be_used(text: str, tmp_path: Path) -> None:
    by_file = {"cheap.py": "PreferCheap", "affordable.py": "Affordable", "oldest_first.py": "OldestFirst"}
    for file, name in by_file.items():
        (source,) = [block for block in blocks("python") if f'@plugin("{name}")' in block or f"class {name}" in block]
        (tmp_path / file).write_text(source)
    (tmp_path / "config.yaml").write_text(text)
    configured = ConfigurationReader(directories=[str(tmp_path)]).read_file(str(tmp_path / "config.yaml"))
    assert profile_problems(configured.config, configured.registry) == ()
    assert (len(configured.origins), configured.unused) == (1, ())


def test_what_the_page_says_of_pods_nodes_and_pre_filter_holds(tmp_path: Path) -> None:
    """The classes and functions of the page decide what their comments say."""
    found: dict[str, Any] = {}
    for name in ("SpreadTeam", "OnRack"):
        (text,) = [text for text in PLUGINS if name in text]
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        found |= run_file(str(file), text.encode()).plugins
    mine = {"team": "mine", "rack": "r1"}
    nodes = [make_node(name, labels={"rack": rack}) for name, rack in (("a", "r1"), ("b", "r1"), ("c", "r2"))]
    cluster = Cluster(*nodes, make_pod("there", labels=mine, node="a"))
    for plugin in found.values():
        cluster.enable(plugin)
    pod = make_pod("new", labels=mine)
    assert cluster.points(pod, "SpreadTeam") == {"a": 90, "b": 100}
    assert "node(s) were on another rack" in cluster.explain(pod)
    assert "rack r9 is being moved" in cluster.explain(make_pod("late", labels={"rack": "r9"}))
    assert cluster.node_for(make_pod("large", labels=mine, requests={"memory": "1000Gi"})) == ""


def test_the_oldest_pod_of_the_page_goes_first(tmp_path: Path) -> None:
    (text,) = [text for text in PLUGINS if "OldestFirst" in text]
    factory: Any = run_file(str(tmp_path / "oldest_first.py"), text.encode()).plugins["OldestFirst"]
    old, new = (SimpleNamespace(pod=PodInfo(make_pod(name))) for name in ("old", "new"))
    for queued, age in ((old, "2026-01-01T00:00:00Z"), (new, "2026-02-01T00:00:00Z")):
        queued.pod.pod.metadata.creation_timestamp = age
    key = factory(None, None).sort_key
    assert sorted([new, old], key=key) == [old, new]
