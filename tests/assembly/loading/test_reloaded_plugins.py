"""Plugin files of a running service: a changed one is taken over whole, or refused while the one before goes on."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from benchmarks.reloads.pair import CONFIG as PAIR_CONFIG
from benchmarks.reloads.pair import WHOLE, version
from kscheduler.assembly.configured import ConfigurationReader, Configured
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, ConfigSource, Options
from kscheduler.service.metrics.config_reloads import ReloadResult
from tests.builders import node_tree, pod_tree
from tests.informers.test_audit import HastyClock
from tests.service.running import node_of, put, running, until
from tests.service.test_reloading import HEAD, replace, until_true

CONFIG = f"""\
{HEAD}
pluginSources: [{{file: only.py}}]
profiles: [{{schedulerName: red, plugins: {{multiPoint: {{enabled: [{{name: Only}}]}}}}}}]
"""
ONLY = """\
from kscheduler.framework.per_node import plugin

@plugin("Only", sign=lambda pod: None)
def filter(pod, node):
    return None if node.name == "{}" else "node(s) weren't the one"
"""


@dataclass
class World:
    """A scheduler whose policy is a file."""

    server: EmbeddedAPIServer
    app: App
    folder: Path
    lines: list[dict[str, Any]]

    @property
    def policy(self) -> Path:
        return self.folder / "only.py"

    def said(self, word: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == word]

    def count(self, result: ReloadResult) -> int:
        return self.app.reloader.statistics().results.get(result, 0)

    async def write(self, file: Path, text: str, result: ReloadResult) -> None:
        before = self.count(result)
        replace(file, text)
        await until_true(lambda: self.count(result) > before)

    async def until_taken_over(self, times: int) -> None:
        await until_true(lambda: self.count(ReloadResult.TAKEN_OVER) >= times)

    async def goes_to(self, pod: str) -> str:
        put(self.server, "pods", pod_tree(pod, schedulerName="red"))
        await until(self.server, lambda: node_of(self.server, pod) != "")
        return node_of(self.server, pod)


@asynccontextmanager
async def following(folder: Path, config: str, **policies: str) -> AsyncIterator[World]:
    """A service under a configuration file; without a text for it, under a plugin of the command line."""
    for name, text in policies.items():
        (folder / f"{name}.py").write_text(text)
    file = folder / "config.yaml"
    if config:
        file.write_text(config)
        reader = ConfigurationReader(directories=[str(folder)])
        configured = reader.read_file(str(file))
        source = ConfigSource(
            str(file), lambda data: reader.read_bytes(data, str(file)), plugin_files=lambda: reader.paths
        )
    else:
        reader = ConfigurationReader(plugins=[str(folder / "only.py")])
        configured = without_election(reader.default("red"))
        source = ConfigSource("", lambda _: without_election(reader.default("red")), plugin_files=lambda: reader.paths)
    options = Options(
        configured.config,
        source,
        serving=HTTPServing.plain_on_loopback(),
        clock=HastyClock(),
        registry=configured.registry,
        origins=configured.origins,
    )
    with structlog.testing.capture_logs() as lines:
        async with EmbeddedAPIServer(seed=1) as server, running(server, options) as (app, _, _):
            for name in "abcd":
                put(server, "nodes", node_tree(name))
            await app.parts.informers.wait_for_sync(20)
            world = World(server, app, folder, lines)  # type: ignore[arg-type]
            await until_true(lambda: app.reloader.statistics().digest)
            yield world


def without_election(configured: Configured) -> Configured:
    loaded = configured.config
    election = msgspec.structs.replace(loaded.configuration.leader_election, leader_elect=False)
    configuration = msgspec.structs.replace(loaded.configuration, leader_election=election)
    return dataclasses.replace(configured, config=dataclasses.replace(loaded, configuration=configuration))


async def test_a_changed_policy_is_taken_over_without_a_change_of_the_configuration(tmp_path: Path) -> None:
    async with following(tmp_path, CONFIG, only=ONLY.format("a")) as world:
        assert await world.goes_to("first") == "a"
        await world.write(world.policy, ONLY.format("b"), ReloadResult.TAKEN_OVER)
        assert await world.goes_to("second") == "b"
        (line,) = world.said("config_taken_over")
        assert "plugin Only" in line["changed"]
        loaded = world.said("plugin_loaded")
        assert [entry["plugin"] for entry in loaded] == ["Only", "Only"]
        assert loaded[0]["hash"] != loaded[1]["hash"]
        assert loaded[0]["origin"] == f"file {world.policy}"


async def test_a_broken_policy_is_refused_with_its_line_and_the_one_before_goes_on(tmp_path: Path) -> None:
    async with following(tmp_path, CONFIG, only=ONLY.format("a")) as world:
        await world.write(world.policy, "def filter(:", ReloadResult.REFUSED)
        assert await world.goes_to("first") == "a"
        (line,) = world.said("config_refused")
        assert line["reason"] == f"{world.policy}:1: SyntaxError: invalid syntax"
        assert line["field"] == "pluginSources[0].file"
        await world.write(world.policy, ONLY.format("c"), ReloadResult.TAKEN_OVER)
        assert await world.goes_to("second") == "c"


async def test_a_policy_that_vanishes_and_comes_back(tmp_path: Path) -> None:
    async with following(tmp_path, CONFIG, only=ONLY.format("a")) as world:
        world.policy.unlink()
        await until_true(lambda: world.count(ReloadResult.REFUSED))
        assert await world.goes_to("first") == "a"
        await world.write(world.policy, ONLY.format("a"), ReloadResult.UNCHANGED)
        await world.write(world.policy, ONLY.format("d"), ReloadResult.TAKEN_OVER)
        assert await world.goes_to("second") == "d"


async def test_a_plugin_of_the_command_line_is_read_again_without_a_configuration(tmp_path: Path) -> None:
    async with following(tmp_path, "", only=ONLY.format("a")) as world:
        assert await world.goes_to("first") == "a"
        await world.write(world.policy, ONLY.format("b"), ReloadResult.TAKEN_OVER)
        assert await world.goes_to("second") == "b"


async def test_a_broken_plugin_of_the_command_line_is_named_without_a_configuration(tmp_path: Path) -> None:
    async with following(tmp_path, "", only=ONLY.format("a")) as world:
        await world.write(world.policy, "def filter(:", ReloadResult.REFUSED)
        (note,) = world.app.reloader.notes()
        name = world.policy
        refused = f"configuration: {name} was refused, the one before goes on: --plugin: {name}:1: SyntaxError"
        assert str(note).startswith(refused), note
        assert [line["file"] for line in world.said("config_refused")] == [str(name)]


async def test_a_plugin_that_no_profile_enables_is_reported(tmp_path: Path) -> None:
    config = CONFIG.replace(", plugins: {multiPoint: {enabled: [{name: Only}]}}", "")
    async with following(tmp_path, config, only=ONLY.format("a")) as world:
        (line,) = world.said("plugin_not_enabled")
        assert (line["plugin"], line["log_level"]) == ("Only", "warning")


FAILING = """\
from kscheduler.framework.per_node import plugin

@plugin("Only")
def score(pod, node):
    raise ValueError("mistake"){}
"""


async def test_a_failure_of_another_version_is_reported_at_once_though_it_is_as_before(
    tmp_path: Path,
) -> None:
    """Anyone who has just edited the file would take the silence for success."""
    async with following(tmp_path, CONFIG, only=FAILING.format("")) as world:
        await world.goes_to("first")
        await world.goes_to("second")
        assert len(world.said("plugin_failed")) == 1
        await world.write(world.policy, FAILING.format("  # mended"), ReloadResult.TAKEN_OVER)
        await world.goes_to("third")
        await world.goes_to("fourth")
        assert [line["pod"] for line in world.said("plugin_failed")] == ["default/first", "default/third"]


MISSPELT = """\
from kscheduler.framework.plugin import Plugin

class Only(Plugin):
    name = "Only"
    def score(self, cycle, pod, nodes, rows):
        return rows * 0
    {}
"""


async def test_a_misspelt_name_is_a_warning_at_the_start_and_at_each_change(tmp_path: Path) -> None:
    wrong = MISSPELT.format("def prefilter(self, cycle, pod, nodes): return None")
    async with following(tmp_path, CONFIG, only=wrong) as world:
        (line,) = world.said("plugin_misspelt")
        assert (line["plugin"], line["log_level"]) == ("Only", "warning")
        assert line["reason"] == "`prefilter` has no effect: did you mean `pre_filter`?"
        await world.write(world.policy, MISSPELT.format("refresh_intervall = 10"), ReloadResult.TAKEN_OVER)
        _, later = world.said("plugin_misspelt")
        assert later["reason"] == "`refresh_intervall` has no effect: did you mean `refresh_interval`?"
        await world.write(world.policy, MISSPELT.format(""), ReloadResult.TAKEN_OVER)
        assert len(world.said("plugin_misspelt")) == 2


async def test_no_pod_is_lost_or_decided_by_half_of_a_change_while_policies_change(tmp_path: Path) -> None:
    """Under one version only node a is left, under the other only c; one filter of each leaves b, or d, alone.

    `python -m benchmarks.reloads` does it a thousand times, with the service as a process.
    """
    async with following(tmp_path, PAIR_CONFIG, pair=version(0)) as world:
        rounds, each = 40, 5
        for number in range(1, rounds + 1):
            for pod in range(each):
                put(world.server, "pods", pod_tree(f"p{number}-{pod}", schedulerName="red"))
            replace(tmp_path / "pair.py", version(number))
            world.app.reloader.ask()
            await world.until_taken_over(number)
        names = [f"p{number}-{pod}" for number in range(1, rounds + 1) for pod in range(each)]
        await until(world.server, lambda: all(node_of(world.server, name) for name in names))
        assert {node_of(world.server, name) for name in names} == WHOLE
        assert world.count(ReloadResult.REFUSED) == 0
