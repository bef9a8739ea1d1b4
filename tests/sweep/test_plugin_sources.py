"""Plugins of a policy: files go along with the runs, and each counts by its source."""

from pathlib import Path

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.sweep.plugin_sources import module_digest
from kscheduler.sweep.running import run
from kscheduler.sweep.sweep_file import Sweep, read_sweep
from tests.sweep.sweeps import write

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
TINY = "workloads: [{name: w, synthetic: {scale: 0.004}}]\n"
SHOP = """\
workloads:
- name: shop
  generated: {count: 20, nodes: [{count: 3, allocatable: {cpu: '4'}}], pods: [{requests: {cpu: 500m}}]}
"""
LAST = """\
from kscheduler import plugin

@plugin("NAME")
def score(pod, node):
    return int(node.name[-1])
"""


def profile_with(plugin: str) -> str:
    return f"profiles:\n- plugins: {{score: {{enabled: [{{name: {plugin}}}]}}}}\n"


def read(folder: Path, text: str) -> Sweep:
    return read_sweep(str(write(folder / "sweep.yaml", text)))


def test_plugin_sources_of_a_configuration_are_parts_of_the_runs(tmp_path: Path) -> None:
    """The example of README.md: `pluginSources: [{file: cheap.py}]`."""
    folder = tmp_path / "own"
    folder.mkdir()
    source = write(folder / "last.py", LAST)
    write(folder / "config.yaml", f"{HEAD}pluginSources: [{{file: last.py}}]\n{profile_with('NAME')}")
    policies = "policies: [{name: last, config: own/config.yaml, weights: {NAME: [1, 99]}}, {name: default}]\n"
    sweep = SHOP + policies + "seeds: [1]\n"
    runs = read(tmp_path, sweep).runs()
    write(source, LAST + "# changed\n")
    again = read(tmp_path, sweep).runs()
    assert [one.key == other.key for one, other in zip(runs, again, strict=True)] == [False, False, True]
    source.unlink()  # as on another machine
    rows = [run(each) for each in runs]
    assert [row.error for row in rows] == ["", "", ""]
    assert rows[1].placements != rows[2].placements


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{file: ../last.py}", "alone; it must be in the folder of the configuration"),
        ("{file: nowhere.py}", "nowhere.py cannot be read: No such file"),
        ("{file: last.py, sha256: '00'}", "where 00 is expected"),
        ("{file: last.py, module: json}", "name either a file or a module"),
    ],
)  # fmt: skip
def test_plugin_sources_are_checked_as_elsewhere(entry: str, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    for each in (folder, tmp_path):
        write(each / "last.py", LAST)
    write(folder / "config.yaml", f"{HEAD}pluginSources: [{entry}]\nprofiles: [{{}}]\n")
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, TINY + "policies: [{name: last, config: own/config.yaml}]")
    assert f"policies[0]: {folder / 'config.yaml'}: pluginSources[0]" in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("policy", "changed"),
    [
        ("plugins: [{0}.rules]", "__init__.py"),
        ("plugins: [{0}.rules]", "rules.py"),
        ("plugins: [{0}.rules]", "below/deep.py"),
        ("config: module.yaml", "rules.py"),
        ("config: declared.yaml", "rules.py"),
    ],
    ids=["package", "module", "beside", "pluginSources", "entry-point"],
)
def test_a_changed_module_makes_other_runs(
    policy: str, changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    package = "swept_" + request.node.callspec.id.replace("-", "_")
    files = tmp_path / package
    (files / "below").mkdir(parents=True)
    write(files / "rules.py", LAST.replace("NAME", package))
    write(files / "__init__.py", f"from {package}.rules import score\n")
    write(files / "below" / "deep.py", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path / "module.yaml", f"{HEAD}pluginSources: [{{module: {package}.rules}}]\n{profile_with(package)}")
    if "declared" in policy:
        info = tmp_path / f"{package}-1.dist-info"
        info.mkdir()
        write(info / "METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        write(info / "entry_points.txt", f"[kscheduler.plugins]\n{package} = {package}.rules:score\n")
        write(tmp_path / "declared.yaml", HEAD + profile_with(package))
    sweep = TINY + f"policies: [{{name: last, {policy.format(package)}}}]\n"
    before = read(tmp_path, sweep).runs()[0]
    assert read(tmp_path, sweep).runs()[0].key == before.key
    assert run(before).error == ""
    write(files / changed, (files / changed).read_text(encoding="utf-8") + "# changed\n")
    assert read(tmp_path, sweep).runs()[0].key != before.key
    assert f"module {package}" in run(before).error
    assert "is not the one that the sweep began with" in run(before).error


def test_a_module_that_is_no_package_counts_by_its_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("swept_alone", "swept_beside"):
        write(tmp_path / f"{name}.py", LAST)
    before = module_digest("swept_alone")
    write(tmp_path / "swept_beside.py", "")
    assert module_digest("swept_alone") == before
    write(tmp_path / "swept_alone.py", LAST + "# changed\n")
    assert module_digest("swept_alone") != before
    assert [module_digest(name) for name in ("nowhere.at_all", "sys", "..")] == ["nowhere.at_all", "sys", ".."]
