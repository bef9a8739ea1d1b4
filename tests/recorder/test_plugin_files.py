"""A replay loads the plugin files of today: one that is not as it was is told of the file, never of the recording."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recorder.random_cluster import RandomCluster
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.cli import main
from kscheduler.config.feature_gates import FeatureGates
from tests.recorder.recorded import record

ODD = """from kscheduler.framework.per_node import plugin


@plugin("Odd")
def filter(pod, node):
    return None if len(pod.name) % 2 else "even"
"""
CHEAP = ODD.replace('"Odd"', '"Cheap"')
CONFIG = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: kscheduler, plugins: {filter: {enabled: [{name: Odd}]}}}]
"""
BROKEN: dict[str, Callable[[Path], object]] = {
    "a mistake in its syntax": lambda path: path.write_text(f"{ODD}\nclass\n"),
    "it raises": lambda path: path.write_text(f"raise RuntimeError('later')\n{ODD}"),
    "it has no such plugin any more": lambda path: path.write_text(CHEAP),
    "it is gone": Path.unlink,
}


def recorded(tmp_path: Path, *, reloads: bool = False) -> tuple[Path, Path]:
    """A recording with a plugin of a file, and the file."""
    path = tmp_path / "odd.py"
    path.write_text(ODD)

    def read() -> Any:
        return ConfigurationReader(FeatureGates(), (str(path),)).read_bytes(CONFIG.encode(), "test")

    known = read()

    class WithPlugin(RandomCluster):
        origins = known.origins
        reported = 0

        def report(self, pod: dict[str, Any]) -> None:
            self.reported += 1
            if reloads and self.reported == 6:
                self._soon(self._reload)

        def _reload(self) -> None:
            path.write_text(f"{ODD}# another version\n")
            now = read()
            self.origins = now.origins
            self.assembly.apply(
                self.assembly.draft(now.config, now.registry), lambda kind: self.informers[kind].store.list()
            )

    record(tmp_path / "recording", 50, 5, nodes=3, config=known.config, known=known.registry, cluster_type=WithPlugin)
    return tmp_path / "recording", path


@pytest.fixture(scope="module")
def recording_of_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return recorded(tmp_path_factory.mktemp("plugins"))


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_cannot_be_loaded_is_reported_of_the_file(
    what: str, recording_of_file: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, path = recording_of_file
    BROKEN[what](path)
    copy, other = tmp_path / "copy.py", tmp_path / "cheap.py"
    copy.write_text(ODD)
    other.write_text(CHEAP.replace("Cheap", "Cheaper"))
    for flags in ((), ("--plugin", str(other))):
        assert main(["replay", str(recording), *flags]) == 2
        said = capsys.readouterr().err
        assert "the recorded configuration cannot be built here, though the recording is whole" in said
        assert "give copies of them with --plugin FILE" in said
        assert "no recorder writes" not in said
    assert main(["replay", str(recording), "--plugin", str(copy), "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert tree["elsewhere"] == []
    assert tree["recorded"]["placed"] == tree["other"]["placed"] > 5
    assert any("--plugin stands for plugins of the recorded configuration" in note for note in tree["notes"])


def test_a_reload_ends_no_replay_and_its_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording, _ = recorded(tmp_path, reloads=True)
    assert main(["replay", str(recording), "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert tree["decisions"] > 10
    assert "another configuration was taken over" in tree["notes"]
    assert any(note.startswith("plugin Odd has changed since") for note in tree["notes"])


def test_a_file_that_has_changed_since_a_reload_is_named_for_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, path = recorded(tmp_path, reloads=True)
    path.write_text(ODD)  # as it was before the reload
    assert main(["replay", str(recording), "-o", "json"]) == 0
    notes = json.loads(capsys.readouterr().out.splitlines()[-1])["notes"]
    assert any(note.startswith("from a reload on: plugin Odd has changed since") for note in notes)
    assert not any(note.startswith("plugin Odd has changed since") for note in notes)
