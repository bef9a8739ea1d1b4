"""The configuration file is read again: taken over as a whole, or refused while the one before goes on."""

import asyncio
import json
import os
import random
import string
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from kscheduler.aio.clock import Clock
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.config.loader import load_file
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, ConfigSource, Options, reloading, source_of
from kscheduler.service.config_file import FileChangeDetector, FileRead, digest_of, read_source
from kscheduler.service.metrics.config_reloads import ReloadResult
from kscheduler.service.parts import CONNECTIONS_BESIDE_BINDS
from tests.assembly.configurations import registry
from tests.builders import node_tree, pod_tree
from tests.informers.test_audit import HastyClock
from tests.service.running import answer, node_of, put, running, until

HEAD = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""


def text_of(*names: str, more: str = "") -> str:
    listed = "".join(f"\n- schedulerName: {name}" for name in names)
    return f"{HEAD}{more}\nprofiles:{listed}\n"


async def until_true(condition: Callable[[], object]) -> None:
    """Wait for what tells nobody that it has changed: the log, and what the reloader keeps."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@dataclass
class World:
    """A scheduler that follows a file."""

    server: EmbeddedAPIServer
    app: App
    file: Path
    lines: list[dict[str, Any]]
    """What it has logged."""

    async def until_true(self, condition: Callable[[], object]) -> None:
        await until_true(condition)

    def said(self, word: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == word]

    def count(self, result: ReloadResult) -> int:
        return self.app.reloader.statistics().results.get(result, 0)

    async def write(self, text: str | bytes, result: ReloadResult) -> None:
        """Replace the file as an editor does, and wait for what becomes of it."""
        before = self.count(result)
        replace(self.file, text)
        await self.until_true(lambda: self.count(result) > before)

    @property
    def profiles(self) -> set[str]:
        return set(self.app.parts.assembly.profiles)


def count_looks(world: World) -> list[None]:
    """An entry for each look at the files from now on."""
    looks: list[None] = []
    threads, call = world.app.reloader._threads, world.app.reloader._threads.call

    async def counted(function: Callable[[], Any], seconds: float) -> Any:
        looks.append(None)
        return await call(function, seconds)

    threads.call = counted  # type: ignore[method-assign]
    return looks


ONE = """\
from kscheduler.framework.per_node import plugin

@plugin("One")
def score(pod, node):
    return 1
"""


def replace(file: Path, text: str | bytes) -> None:
    new = file.with_name("new")
    new.write_bytes(text.encode() if isinstance(text, str) else text)
    new.replace(file)


@asynccontextmanager
async def following(
    tmp_path: Path, text: str = text_of("red"), *, is_watched: bool = True, clock: Clock | None = None
) -> AsyncIterator[World]:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    options = Options(
        load_file(file),
        source_of(str(file), is_watched=is_watched, registry=registry()),
        serving=HTTPServing.plain_on_loopback(),
        clock=clock or HastyClock(),
        registry=registry(),
    )
    with structlog.testing.capture_logs() as lines:
        async with EmbeddedAPIServer(seed=1) as server, running(server, options) as (app, _, _):
            put(server, "nodes", node_tree("node"))
            await app.parts.informers.wait_for_sync(20)
            world = World(server, app, file, lines)  # type: ignore[arg-type]
            await world.until_true(lambda: app.reloader.statistics().digest)
            yield world


async def test_a_changed_file_is_taken_over_and_shown(tmp_path: Path) -> None:
    async with following(tmp_path) as world:
        put(world.server, "pods", pod_tree("theirs", schedulerName="green"))
        new = text_of("red", "green", more="percentageOfNodesToScore: 70")
        await world.write(new, ReloadResult.TAKEN_OVER)
        await until(world.server, lambda: node_of(world.server, "theirs") == "node")
        (line,) = world.said("config_taken_over")
        assert line["changed"] == ("percentageOfNodesToScore", "profiles")
        assert line["changes"] == ("percentageOfNodesToScore: 0 -> 70", "profiles: green added")
        assert line["profiles_added"] == ["green"]
        assert line["hash"] == digest_of(new.encode()) == world.app.reloader.statistics().digest
        shown = json.loads((await answer(world.app, "/configz"))[1])["componentconfig"]
        assert [profile["schedulerName"] for profile in shown["profiles"]] == ["red", "green"]
        assert shown["percentageOfNodesToScore"] == 70


async def test_a_profile_that_went_is_scheduled_for_no_more(tmp_path: Path) -> None:
    async with following(tmp_path, text_of("red", "green")) as world:
        await world.write(text_of("green"), ReloadResult.TAKEN_OVER)
        put(world.server, "pods", pod_tree("a", schedulerName="red"))
        put(world.server, "pods", pod_tree("b", schedulerName="green"))
        await until(world.server, lambda: node_of(world.server, "b") == "node")
        assert node_of(world.server, "a") == ""


async def test_pods_of_a_profile_that_went_are_reported_until_it_is_back(tmp_path: Path) -> None:
    async with following(tmp_path, text_of("red", "green")) as world:
        for name in ("a", "b"):
            put(world.server, "pods", pod_tree(name, schedulerName="red", requests={"cpu": "500"}))
        await world.until_true(lambda: world.app.parts.assembly.queue.find("default/b") is not None)
        await world.write(text_of("green"), ReloadResult.TAKEN_OVER)
        (line,) = world.said("profile_removed")
        assert (line["log_level"], line["profile"], line["pods"]) == ("warning", "red", 2)
        put(world.server, "pods", pod_tree("c", schedulerName="red"))
        await world.until_true(lambda: world.app.parts.removed_profiles.waiting() == {"red": 3})
        note = '[i]profile "red" was removed from the configuration, and 3 pods without a node name it: '
        assert note in (await answer(world.app, "/readyz?verbose"))[1]
        assert "kscheduler_unserved_pods 3.0" in (await answer(world.app, "/metrics"))[1]
        await world.write(text_of("red"), ReloadResult.TAKEN_OVER)
        await until(world.server, lambda: node_of(world.server, "c") == "node")
        assert "kscheduler_unserved_pods 0.0" in (await answer(world.app, "/metrics"))[1]
        text = (await answer(world.app, "/readyz?verbose"))[1]
        assert 'profile "red"' not in text
        assert [line["profile"] for line in world.said("profile_removed")] == ["red", "green"]


async def test_parallelism_is_taken_over_with_its_workers(tmp_path: Path) -> None:
    async with following(tmp_path, text_of("red", more="parallelism: 1")) as world:
        await world.until_true(lambda: world.app.parts.workers._is_running)
        await world.write(text_of("red", more="parallelism: 3"), ReloadResult.TAKEN_OVER)
        parts = world.app.parts
        assert parts.limit.statistics().limit == 3
        assert parts.workers._working.statistics().running == 12
        assert parts.client._room.work_slots == 12 + CONNECTIONS_BESIDE_BINDS
        for number in range(10):
            put(world.server, "pods", pod_tree(f"p{number}", schedulerName="red"))
        await until(world.server, lambda: all(node_of(world.server, f"p{number}") for number in range(10)))
        await world.write(text_of("red", more="parallelism: 1"), ReloadResult.TAKEN_OVER)
        assert parts.limit.statistics().limit == 1


BROKEN: dict[str, tuple[str | bytes, int | None]] = {
    "not YAML": ("{", None),
    "empty": ("", None),
    "an alias": (f"{HEAD}a: &x 1\nb: *x\n", 4),
    "an unknown field": (f"{HEAD}percentageOfNodes: 3\n", 4),
    "out of range": (f"{HEAD}percentageOfNodesToScore: 300\n", 4),
    "two profiles of a name": (text_of("red", "red"), 7),
    "another kind": ("apiVersion: v1\nkind: Pod\n", None),
    "not UTF-8": (b"\xff\xfe", None),
    "a plugin that is not there": (f"{HEAD}profiles: [{{plugins: {{filter: {{enabled: [{{name: None_}}]}}}}}}]\n", 4),
    "too large": (f"{HEAD}#{'x' * 2**20}\n", None),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_file_is_refused_line_by_line_and_the_old_one_goes_on(tmp_path: Path, name: str) -> None:
    text, line = BROKEN[name]
    async with following(tmp_path) as world:
        digest, before = world.app.reloader.statistics().digest, world.app.parts.assembly.config
        await world.write(text, ReloadResult.REFUSED)
        refused = world.said("config_refused")
        assert refused
        assert all(one["file"] == str(world.file) and one["log_level"] == "error" for one in refused)
        assert refused[0].get("line") == line or line is None
        assert world.said("config_kept")[0]["in_force"] == digest
        assert world.app.parts.assembly.config is before
        status, text_of_answer = await answer(world.app, "/readyz?verbose")
        assert status == 200, "an old configuration is in force, and it works"
        assert f"[i]configuration: {world.file} was refused, the one before goes on: " in text_of_answer
        assert not world.app.reloader.statistics().is_last_successful
        put(world.server, "pods", pod_tree("p", schedulerName="red"))
        await until(world.server, lambda: node_of(world.server, "p") == "node")
        await world.write(text_of("red"), ReloadResult.UNCHANGED)
        assert "[i]configuration" not in (await answer(world.app, "/readyz?verbose"))[1]
        assert world.said("config_unchanged"), "the correction is told"


async def test_a_plugin_that_cannot_be_built_keeps_the_old_one_and_all_profiles_are_reported(tmp_path: Path) -> None:
    plugins = "plugins: {multiPoint: {enabled: [{name: Fragile}]}}"
    text = (
        f"{HEAD}profiles:\n- schedulerName: red\n- {{schedulerName: a, {plugins}}}\n- {{schedulerName: b, {plugins}}}\n"
    )
    async with following(tmp_path) as world:
        await world.write(text, ReloadResult.REFUSED)
        reported = [(line["field"], line["line"]) for line in world.said("config_refused")]
        assert reported == [("profiles[1].plugins", 6), ("profiles[2].plugins", 7)]
        assert all("it cannot be built today" in line["reason"] for line in world.said("config_refused"))
        assert world.profiles == {"red"}


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ("clientConnection: {qps: 7}", "clientConnection.qps"),
        ("clientConnection: {qps: 50}", "clientConnection.qps"),
        ("clientConnection: {kubeconfig: /other}", "clientConnection.kubeconfig"),
        ("delayCacheUntilActive: true", "delayCacheUntilActive"),
        ("enableContentionProfiling: false", "enableContentionProfiling"),
    ],
)
async def test_what_only_a_start_reads_is_refused_by_name_with_all_the_rest(
    tmp_path: Path, more: str, field: str
) -> None:
    async with following(tmp_path) as world:
        await world.write(text_of("red", "green", more=more), ReloadResult.REFUSED)
        (line,) = world.said("config_refused")
        assert (line["field"], line["line"]) == (field, 4)
        assert line["reason"].startswith("needs a restart: it is ")
        assert world.profiles == {"red"}, "half of a file is a configuration that nobody wrote"


async def test_mistakes_and_what_needs_a_restart_are_refused_in_one_step(tmp_path: Path) -> None:
    async with following(tmp_path) as world:
        await world.write(text_of("red", more="delayCacheUntilActive: true\nparallelism: -1"), ReloadResult.REFUSED)
        reported = {(line["field"], line["line"]) for line in world.said("config_refused")}
        assert reported == {("delayCacheUntilActive", 4), ("parallelism", 5)}


async def test_a_plugin_that_cannot_be_built_is_reported_with_what_needs_a_restart(tmp_path: Path) -> None:
    plugins = "\n  plugins: {filter: {enabled: [{name: Nowhere}]}}"
    unknown = text_of(f"red{plugins}", more="delayCacheUntilActive: true")
    async with following(tmp_path) as world:
        await world.write(unknown, ReloadResult.REFUSED)
        reasons = [line["reason"] for line in world.said("config_refused")]
        assert len(reasons) == 2
        assert reasons[0].startswith("needs a restart")
        assert "Nowhere" in reasons[1]


async def test_the_election_is_no_matter_of_a_running_process(tmp_path: Path) -> None:
    async with following(tmp_path) as world:
        await world.write(text_of("red").replace("false", "false, leaseDuration: 40s"), ReloadResult.REFUSED)
        assert world.said("config_refused")[0]["field"] == "leaderElection.leaseDuration"


async def test_settings_without_effect_are_reported_again_only_if_they_are_new(tmp_path: Path) -> None:
    weight = "pluginConfig: [{name: Nada}]"
    first = f"{HEAD}profiles:\n- {{schedulerName: red, {weight}}}\n"
    async with following(tmp_path, first) as world:
        reported = len(world.said("setting_not_honoured"))
        assert reported == 1
        await world.write(first + "percentageOfNodesToScore: 50\n", ReloadResult.TAKEN_OVER)
        assert len(world.said("setting_not_honoured")) == reported
        await world.write(first + f"- {{schedulerName: green, {weight}}}\n", ReloadResult.TAKEN_OVER)
        assert world.said("setting_not_honoured")[reported:][0]["setting"].startswith("profiles[1]")


async def test_only_queried_for_if_it_is_not_watched(tmp_path: Path) -> None:
    async with following(tmp_path, is_watched=False) as world:
        replace(world.file, text_of("green"))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert world.profiles == {"red"}
        world.app.reloader.ask()
        await world.until_true(lambda: world.profiles == {"green"})
        world.app.reloader.ask()
        await world.until_true(lambda: world.said("config_unchanged"))


async def test_a_file_that_is_gone_is_refused_once_and_read_when_it_is_back(tmp_path: Path) -> None:
    async with following(tmp_path) as world:
        world.file.unlink()
        await world.until_true(lambda: world.count(ReloadResult.REFUSED))
        assert world.said("config_refused")[0]["reason"] == "cannot be read: No such file or directory"
        await world.write(text_of("green"), ReloadResult.TAKEN_OVER)
        assert world.count(ReloadResult.REFUSED) == 1


async def test_a_config_maps_mount_is_followed_through_its_links(tmp_path: Path) -> None:
    """As the kubelet does it: config.yaml -> ..data/config.yaml, ..data -> ..2026_11_22, swapped by a rename."""

    def version(name: str, text: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(text)
        os.symlink(name, tmp_path / "..data_tmp")  # noqa: PTH211
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    mount = tmp_path / "config.yaml"
    version("..1", text_of("red"))
    mount.symlink_to("..data/config.yaml")
    options = Options(
        load_file(mount), source_of(str(mount)), serving=HTTPServing.plain_on_loopback(), clock=HastyClock()
    )
    async with EmbeddedAPIServer(seed=1) as server, running(server, options) as (app, _, _):
        await until_true(lambda: app.reloader.statistics().digest)
        version("..2", text_of("green"))
        await until_true(lambda: set(app.parts.assembly.profiles) == {"green"})


def test_a_file_that_is_still_being_written_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text_of("red", "green"))
    watched = FileChangeDetector(source_of(str(file)))
    assert not watched.has_changed()
    file.write_text(text_of("red"))
    assert not watched.has_changed(), "half of it may be missing"
    with file.open("a") as writing:
        writing.write("- schedulerName: blue\n")
    assert not watched.has_changed()
    assert watched.has_changed()
    assert not watched.has_changed(), "each change is told once"


async def test_a_bug_while_reading_ends_nothing(tmp_path: Path) -> None:
    async with following(tmp_path) as world:

        def breaks(_data: bytes) -> Any:
            raise RuntimeError("a bug")

        world.app.reloader._source = ConfigSource(str(world.file), breaks)
        await world.app.reloader._reload(world.app.reloader._source)
        assert world.said("config_reload_failed")
        assert world.profiles == {"red"}


async def test_a_file_that_cannot_be_read_to_its_end_holds_up_nothing_and_is_read_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network file system that has gone."""
    monkeypatch.setattr(reloading, "READ_SECONDS", 0.05)
    async with following(tmp_path) as world:
        answers, times = threading.Event(), list[Any]()

        def hangs(*given: Any) -> FileRead:
            times.append(given)
            answers.wait(30)
            return read_source(*given)

        monkeypatch.setattr(reloading, "read_source", hangs)
        world.app.reloader.ask()
        await world.until_true(lambda: len(times) > 2)
        (line,) = world.said("config_refused")
        assert line["reason"].startswith("reading it hangs: it has not ended within 0.05 s")
        assert "hangs" in (await answer(world.app, "/readyz?verbose"))[1]
        put(world.server, "pods", pod_tree("meanwhile", schedulerName="red"))
        await until(world.server, lambda: node_of(world.server, "meanwhile") == "node")
        answers.set()
        await world.until_true(lambda: not list(world.app.reloader.notes()))
        assert world.profiles == {"red"}


async def test_a_plugin_that_hangs_at_its_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "READ_SECONDS", 0.2)
    plugin = tmp_path / "sleeps.py"
    plugin.write_text("import sys\nsys.modules['may_end'].wait(30)\n" + ONE)
    ends = threading.Event()
    monkeypatch.setitem(sys.modules, "may_end", ends)
    async with following(tmp_path) as world:
        reader = ConfigurationReader(directories=[str(tmp_path)], base=registry())
        file = str(world.file)
        source = ConfigSource(
            file,
            lambda data: reader.read_bytes(data, file),
            being_loaded=lambda: reader.being_loaded,
            stands_at=lambda: reader.stands_at,
        )
        world.app.reloader._source = source
        world.file.write_text(text_of("red", more="pluginSources: [{file: sleeps.py}]"))
        await world.app.reloader._reload(source)
        (line,) = world.said("config_refused")
        assert line["reason"].startswith(f"loading plugins from file {plugin} hangs: it has not ended within 0.2 s")
        assert line["reason"].endswith(f"; it stands at {plugin}:2")
        ends.set()
        await world.until_true(lambda: not reader.being_loaded)


async def test_a_file_that_was_refused_when_queried_for_is_not_refused_again_by_the_watch(tmp_path: Path) -> None:
    async with following(tmp_path) as world:
        await world.until_true(lambda: world.app.reloader.statistics().digest)
        replace(world.file, text_of("red", more="parallelism: -1"))
        world.app.reloader.ask()
        await world.until_true(lambda: world.count(ReloadResult.REFUSED))
        looks = count_looks(world)
        await world.until_true(lambda: len(looks) > 4)
        assert world.count(ReloadResult.REFUSED) == 1
        assert len(world.said("config_refused")) == 1
        await world.write(text_of("red", more="parallelism: -2"), ReloadResult.REFUSED)
        assert world.count(ReloadResult.REFUSED) == 2, "another content is another change"


async def test_a_file_that_is_half_written_when_queried_for_is_read_again_when_it_is_complete(tmp_path: Path) -> None:
    async with following(tmp_path) as world:
        world.file.write_text(text_of("red") + "- schedulerName")
        world.app.reloader.ask()
        await world.until_true(lambda: world.count(ReloadResult.REFUSED))
        with world.file.open("a") as writing:
            writing.write(": green\n")
        await world.until_true(lambda: world.profiles == {"red", "green"})


async def test_a_place_in_a_file_that_is_no_yaml_is_a_line_and_a_column(tmp_path: Path) -> None:
    async with following(tmp_path) as world:
        await world.write(f"{HEAD}profiles: [\n", ReloadResult.REFUSED)
        (line,) = world.said("config_refused")
        assert (line["line"], line["column"]) == (5, 1)
        assert "field" not in line


async def test_a_pipe_in_the_files_place_is_refused_and_a_file_is_taken_again(tmp_path: Path) -> None:
    async with following(tmp_path) as world:
        world.file.unlink()
        os.mkfifo(world.file)
        await world.until_true(lambda: world.said("config_refused"))
        assert world.said("config_refused")[0]["reason"] == "cannot be read: it is no regular file"
        replace(world.file, text_of("red", "green"))
        await world.until_true(lambda: world.profiles == {"red", "green"})


async def test_fuzzed_files_keep_the_old_one_or_are_what_they_say(tmp_path: Path) -> None:
    """Bytes of a good file are changed, dropped and doubled: whatever it means then, the service holds one of both."""
    chance = random.Random(5)
    good = text_of("red", "green", more="podInitialBackoffSeconds: 2")
    async with following(tmp_path, good, is_watched=False) as world:
        source = world.app.reloader._source
        assert source is not None
        for _ in range(150):
            letters = list(good)
            for _ in range(chance.randint(1, 4)):
                place = chance.randrange(len(letters))
                letters[place : place + chance.choice((0, 1, 1, 9))] = chance.choices(
                    string.printable, k=chance.choice((0, 1, 3))
                )
            world.file.write_text("".join(letters))
            before = world.app.parts.assembly.config
            refused = world.count(ReloadResult.REFUSED)
            await world.app.reloader._reload(source)
            in_force = world.app.parts.assembly.config
            if world.count(ReloadResult.REFUSED) > refused:
                assert in_force is before
            else:
                assert in_force.configuration == load_file(world.file).configuration
            assert world.profiles == {profile.scheduler_name for profile in in_force.configuration.profiles}
        assert world.count(ReloadResult.REFUSED) > 50
        assert not world.said("config_reload_failed")
