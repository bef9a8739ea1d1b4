"""Plugins of one's own from files: what is found, what is refused, and that a refusal names the place."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.assembly.plugin_files import MAX_BYTES, UnusablePluginError, content_of, digest_of, run_file
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import DEFAULT_GATES
from kscheduler.framework.handle import Handle

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

CHEAP = """
from kscheduler.framework.per_node import plugin

@plugin("PreferCheap")
def score(pod, node):
    return 50

@plugin("OnlyLinux")
def filter(pod, node):
    return None
"""

TWO_SCORES = """
from kscheduler.framework.per_node import plugin

@plugin("One")
def score(pod, node):
    return 1

@plugin("Two")
def score(pod, node):
    return 2
"""

CLASSES = """
import msgspec
from kscheduler.framework.plugin import Plugin
from kscheduler.plugins.node_name import NodeName

class Shared(Plugin):
    def pre_enqueue(self, pod):
        ...

class Gate(Shared):
    name = "Gate"

class _Hidden(Shared):
    name = "Hidden"

class Priced(Shared):
    name = "Priced"

    class Args(msgspec.Struct, rename="camel"):
        max_price: float
        zones: list[str] = []

        def __post_init__(self):
            if self.max_price < 0:
                raise ValueError("maxPrice must not be negative")

    def __init__(self, args):
        self.args = args
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cheap.py").write_text(CHEAP)
    (tmp_path / "classes.py").write_text(CLASSES)
    return tmp_path


def config(folder: Path, sources: str, profiles: str = "") -> str:
    file = folder / "config.yaml"
    file.write_text(f"{HEAD}pluginSources: {sources}\n{profiles}")
    return str(file)


def profile_with(name: str, args: str = "") -> str:
    arguments = f"pluginConfig: [{{name: {name}, args: {args}}}], " if args else ""
    return f"profiles: [{{{arguments}plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}}}]"


def allowing(path: str) -> ConfigurationReader:
    """Under `--plugin-directory`, that of the configuration."""
    return ConfigurationReader(directories=[str(Path(path).parent)])


def problems(path: str, **flags: Any) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        (ConfigurationReader(**flags) if flags else allowing(path)).read_file(path)
    return [str(problem) for problem in refused.value.problems]


def test_a_file_is_found_beside_the_configuration_and_each_plugin_has_its_origin(folder: Path) -> None:
    path = config(folder, "[{file: cheap.py}]", profile_with("PreferCheap"))
    found = allowing(path).read_file(path)
    assert "PreferCheap" in found.registry
    assert [(each.name, each.origin) for each in found.origins] == [
        ("PreferCheap", f"file {folder / 'cheap.py'}"),
        ("OnlyLinux", f"file {folder / 'cheap.py'}"),
    ]
    assert found.origins[0].digest == digest_of(CHEAP.encode())
    assert [each.name for each in found.unused] == ["OnlyLinux"]


def test_functions_of_one_name_are_both_plugins(tmp_path: Path) -> None:
    assert set(run_file(str(tmp_path / "two.py"), TWO_SCORES.encode()).plugins) == {"One", "Two"}


@pytest.mark.parametrize(
    "line", ["from kscheduler.framework import plugin", "from kscheduler.framework.plugin import plugin"]
)
def test_who_takes_the_module_for_the_decorator_is_told_where_the_decorator_is(line: str, tmp_path: Path) -> None:
    source = f"{line}\n@plugin('Mine')\ndef score(pod, node): return 1\n"
    with pytest.raises(UnusablePluginError, match="imported by `from kscheduler import plugin`"):
        run_file(str(tmp_path / "mine.py"), source.encode())


def test_classes_with_a_name_of_their_own_are_plugins_and_imported_ones_are_not(folder: Path) -> None:
    assert set(run_file(str(folder / "classes.py"), CLASSES.encode()).plugins) == {"Gate", "Priced"}


def test_typed_arguments_are_checked_with_their_paths(folder: Path) -> None:
    path = config(
        folder, "[{file: classes.py}]", profile_with("Priced", "{maxPrice: cheap, zones: [a, 3], maxprice: 1}")
    )
    assert problems(path) == [
        "profiles[0].pluginConfig[0].args.maxprice: unknown field: did you mean maxPrice?",
        "profiles[0].pluginConfig[0].args.maxPrice: expected `float`, got `str`",
        "profiles[0].pluginConfig[0].args.zones[1]: expected `str`, got `int`",
    ]


def test_what_a_struct_itself_refuses_is_reported_at_its_arguments(folder: Path) -> None:
    path = config(folder, "[{file: classes.py}]", profile_with("Priced", "{maxPrice: -1}"))
    assert problems(path) == ["profiles[0].pluginConfig[0].args: maxPrice must not be negative"]
    path = config(folder, "[{file: classes.py}]", profile_with("Priced", "{zones: [a]}"))
    assert problems(path) == ["profiles[0].pluginConfig[0].args: object missing required field `maxPrice`"]


def test_typed_arguments_reach_the_plugin_and_plain_ones_are_refused_by_one_that_takes_none(folder: Path) -> None:
    path = config(folder, "[{file: classes.py}]", profile_with("Priced", "{maxPrice: 2}"))
    found = allowing(path).read_file(path)
    (entry,) = [each for each in found.config.configuration.profiles[0].plugin_config if each.name == "Priced"]
    handle: Handle = None  # type: ignore[assignment]  # these plugins ask for none
    built: Any = found.registry.build("Priced", entry.args, handle)
    assert (built.args.max_price, built.args.zones) == (2.0, [])
    with pytest.raises(ValueError, match="it takes no arguments"):
        found.registry.build("Gate", {"a": 1}, handle)
    with pytest.raises(ValueError, match="missing required field `maxPrice`"):
        found.registry.build("Priced", None, handle)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = (", ":1: SyntaxError: '(' was never closed"),
        ("\nimport nowhere_at_all", ":2: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("def f():\n    return 1 / 0\nf()", ":2: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", ":1: SystemExit: 3"),
        ("x = 1", ": it declares no plugin: neither"),
        (CLASSES + "\nclass Again(Shared):\n    name = 'Gate'", ": it declares two plugins named Gate"),
        (
            CHEAP + "\n@plugin('PreferCheap')\ndef filter(pod, node):\n    return None\n",
            ": it declares two plugins named PreferCheap: @plugin('PreferCheap') score (",
        ),
        (
            CLASSES + "\nclass P(Shared):\n    name = 'P'\n    def __init__(self, x):\n        pass",
            ": `P(x)` is built with `args` and `handle`",
        ),
        (CHEAP.replace("def score", "async def score"), ":4: @plugin('PreferCheap'), "),
    ],
)
def test_a_file_that_fails_is_refused_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    path = str(tmp_path / "mine.py")
    before = dict(sys.modules)
    with pytest.raises(UnusablePluginError) as refused:
        run_file(path, text.encode())
    assert str(refused.value).startswith(path + expected)
    assert "kscheduler_plugin_mine" not in sys.modules or "kscheduler_plugin_mine" in before


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("{head}class NoBase:\n    name = 'NoBase'\n{score}", "class NoBase (mine.py:3) does not derive from `{base}`"),
        ("{head}class NoName(Plugin):\n{score}", 'class NoName (mine.py:3) has no `name`, as in `name = "NoName"`'),
        (
            "{head}class Neither:\n{score}",
            'class Neither (mine.py:3) has no `name`, as in `name = "Neither"` and does not derive from `{base}`',
        ),
        (
            "{head}class One:\n    name = 'One'\n{score}\nclass Two(Plugin):\n{score}",
            "class One (mine.py:3) does not derive from `{base}`; class Two (mine.py:8) has no `name`",
        ),
        ("{head}class Row:\n    name = 'no plugin'\n", "neither a function `filter` or `score` under @plugin"),
    ],
    ids=["no base", "no name", "neither", "two of them", "another class"],
)
def test_a_class_that_lacks_only_its_name_or_its_base_is_named(tmp_path: Path, text: str, reported: str) -> None:
    path = tmp_path / "mine.py"
    score = "    def score(self, cycle, pod, nodes, rows):\n        return rows * 0\n"
    path.write_text(text.format(head="from kscheduler.framework.plugin import Plugin\n\n", score=score))
    with pytest.raises(UnusablePluginError) as refused:
        run_file(str(path), path.read_bytes())
    expected = reported.format(base="kscheduler.framework.plugin.Plugin")
    assert str(refused.value).startswith(f"{path}: it declares no plugin: {expected}")


def test_two_plugins_of_one_name_are_refused_with_what_to_do() -> None:
    with pytest.raises(UnusablePluginError, match=r"give each a name of its own .*, or make one plugin"):
        run_file("mine.py", (CHEAP + "\n@plugin('PreferCheap')\ndef filter(pod, node):\n    return None\n").encode())


def test_a_changed_file_is_run_again_and_an_unchanged_one_is_not(folder: Path) -> None:
    path = config(folder, "[{file: classes.py}]", profile_with("Priced", "{maxPrice: 2}"))
    reader = allowing(path)
    first, again = reader.read_file(path), reader.read_file(path)
    assert first == again
    (folder / "classes.py").write_text(CLASSES + "\n# another\n")
    assert reader.read_file(path) != first


def test_a_file_that_fails_leaves_the_one_before_in_its_place(folder: Path) -> None:
    path = config(folder, "[{file: cheap.py}]")
    reader = allowing(path)
    reader.read_file(path)
    module = sys.modules["kscheduler_plugin_cheap"]
    (folder / "cheap.py").write_text("raise OSError('disk')")
    with pytest.raises(ConfigError, match=r"pluginSources\[0\].file: .*cheap.py:1: OSError: disk"):
        reader.read_file(path)
    assert sys.modules["kscheduler_plugin_cheap"] is module
    assert reader.paths == (str(folder / "cheap.py"),)


# --- where files may lie ---------------------------------------------------------------------------------------------


def test_a_configuration_reaches_files_only_where_the_command_line_allows_it(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "far.py").write_text(CHEAP)
    (folder / "link.py").symlink_to(elsewhere / "far.py")
    for named in (str(elsewhere / "far.py"), f"../{elsewhere.name}/far.py", "link.py"):
        path = config(folder, f"[{{file: {named}}}]")
        (text,) = problems(path, directories=[str(folder)])
        assert text.startswith("pluginSources[0].file: ")
        assert "--plugin-directory=" in text
        allowed = ConfigurationReader(directories=[str(folder), str(elsewhere)])
        assert "PreferCheap" in allowed.read_file(path).registry
    (text,) = problems(config(folder, "[{file: cheap.py}]"), directories=[])
    assert text.endswith(f"the process must be started with --plugin-directory={folder}")


def test_a_mount_of_a_config_map_is_one_directory(tmp_path: Path) -> None:
    """The kubelet swaps `..data`, and each file is a symlink through it."""
    data = tmp_path / "..2026_11_23"
    data.mkdir()
    (data / "cheap.py").write_text(CHEAP)
    (tmp_path / "..data").symlink_to(data.name)
    (tmp_path / "cheap.py").symlink_to("..data/cheap.py")
    path = config(tmp_path, "[{file: cheap.py}]")
    assert "PreferCheap" in allowing(path).read_file(path).registry


def test_a_digest_pins_the_content(folder: Path) -> None:
    digest = digest_of(CHEAP.encode())
    path = config(folder, f"[{{file: cheap.py, sha256: {digest.upper()}}}]")
    assert "PreferCheap" in allowing(path).read_file(path).registry
    (folder / "cheap.py").write_text(CHEAP + "#")
    (text,) = problems(path)
    assert f"where {digest.upper()} is expected" in text


def test_a_pipe_is_refused_and_keeps_nobody_waiting(folder: Path) -> None:
    os.mkfifo(folder / "pipe.py")
    with pytest.raises(UnusablePluginError, match=r"pipe\.py is no regular file"):
        content_of(str(folder / "pipe.py"))


def test_files_that_were_read_stay_as_they_were_for_a_reader_that_does_not_read_anew(folder: Path) -> None:
    """So that another version of Kubernetes does not bring other plugins where `--config-reload` is off."""
    file = folder / "mine.py"
    text = "from kscheduler.framework.per_node import plugin\n@plugin('{}')\ndef score(pod, node): return 1\n"
    file.write_text(text.format("First"))
    reader = ConfigurationReader(plugins=[str(file)])
    first = reader.default().origins
    file.write_text(text.format("Second"))
    assert reader.under(DEFAULT_GATES, rereads=False).default().origins == first
    assert [origin.name for origin in reader.under(DEFAULT_GATES).default().origins] == ["Second"]
    assert reader.paths == (str(file),)


def test_a_file_that_everybody_may_write_is_refused(folder: Path) -> None:
    os.chmod(folder / "cheap.py", 0o666)  # noqa: PTH101  that is the case
    (text,) = problems(config(folder, "[{file: cheap.py}]"))
    assert "may be written by everybody" in text


def test_files_that_cannot_be_plugins(folder: Path) -> None:
    (folder / "big.py").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(UnusablePluginError, match="source code"):
        content_of(str(folder / "big.py"))
    assert problems(
        config(folder, "[{file: nowhere.py}, {}, {file: cheap.py, module: os}, {module: os, sha256: a}]")
    ) == [
        f"pluginSources[0].file: {folder / 'nowhere.py'} cannot be read: No such file or directory",
        "pluginSources[1]: name either a file or a module",
        "pluginSources[2]: name either a file or a module",
        "pluginSources[3].sha256: goes with a file: a module is what the interpreter has installed",
    ]


# --- modules, distributions, the command line ------------------------------------------------------------------------


def test_a_module_is_imported_once_and_found_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "acme_policies.py").write_text(TWO_SCORES + CLASSES)
    monkeypatch.syspath_prepend(str(folder))
    path = config(folder, "[{module: acme_policies}]")
    first = {origin.name for origin in ConfigurationReader().read_file(path).origins}
    assert first == {"One", "Two", "Gate", "Priced"}
    # of two functions called alike, the module's namespace keeps the second
    assert {origin.name for origin in ConfigurationReader().read_file(path).origins} == first
    (text,) = problems(config(folder, "[{module: acme_nothing}]"))
    assert text == (
        "pluginSources[0].module: module acme_nothing cannot be imported: "
        "ModuleNotFoundError: No module named 'acme_nothing'"
    )


@pytest.mark.parametrize("name", ["this", "venv.__main__", "acme_program.__main__"])
def test_a_module_that_can_have_no_plugins_is_not_run(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "acme_program").mkdir()
    (folder / "acme_program" / "__main__.py").write_text("print('it runs')")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
    (text,) = problems(config(folder, f"[{{module: {name}}}]"))
    assert text == f"pluginSources[0].module: module {name} has no plugins: it is Python's own, or a program"
    assert capsys.readouterr().out == ""
    assert name not in sys.modules


def test_an_entry_point_is_loaded_when_a_profile_names_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "acme_entry.py").write_text(CLASSES)
    (folder / "acme_broken.py").write_text("raise RuntimeError('no licence')")
    info = folder / "acme-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[kscheduler.plugins]\nPriced = acme_entry:Priced\nBroken = acme_broken:X\n"
        "Number = acme_entry:msgspec.__version__\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    found = ConfigurationReader().read_file(config(folder, "[]", profile_with("Priced", "{maxPrice: 1}")))
    assert [(each.name, each.origin) for each in found.origins] == [("Priced", "distribution acme 1.2")]
    assert "acme_broken" not in sys.modules
    where = "profiles[0].plugins.multiPoint.enabled[0].name: plugin"
    assert problems(config(folder, "[]", profile_with("Broken"))) == [
        f"{where} Broken of acme 1.2 cannot be loaded: RuntimeError: no licence"
    ]
    (text,) = problems(config(folder, "[]", profile_with("Number")))
    assert text.endswith("is neither a plugin nor a factory")


def test_the_command_line_may_name_any_file_and_its_plugins_are_enabled_without_a_configuration(folder: Path) -> None:
    found = ConfigurationReader(plugins=[str(folder / "cheap.py")]).default("thrifty")
    (profile,) = found.config.configuration.profiles
    assert [entry.name for entry in profile.plugins.multi_point.enabled][-2:] == ["PreferCheap", "OnlyLinux"]
    assert found.unused == ()


def test_two_plugins_of_one_name_are_refused_whoever_brings_them(folder: Path) -> None:
    (folder / "again.py").write_text(CHEAP)
    (text,) = problems(config(folder, "[{file: cheap.py}, {file: again.py}]"))
    assert text.endswith(f"a plugin named PreferCheap exists already (file {folder / 'cheap.py'})")
    (folder / "name.py").write_text(CHEAP.replace("PreferCheap", "NodeName"))
    (text,) = problems(config(folder, "[{file: name.py}]"))
    assert text.endswith("a plugin named NodeName exists already (kscheduler itself)")
    with pytest.raises(ConfigError, match=r"--plugin: .*nowhere\.py cannot be read"):
        ConfigurationReader(plugins=["nowhere.py"]).default()


def test_plugins_of_the_command_line_are_enabled_in_each_profile_of_a_file_also_those_that_come_later(
    tmp_path: Path,
) -> None:
    """As `cluster --schedule --plugin` reads the file that it has written."""
    file, plugins = tmp_path / "config.yaml", tmp_path / "mine.py"
    plugins.write_text(CHEAP)
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: a}, {schedulerName: b}]\n"
    )
    reader = ConfigurationReader(plugins=[str(plugins)], enables_plugins=True)
    assert reader.read_file(str(file)).unused == ()
    plugins.write_text(CHEAP + "\n\n" + CHEAP.replace("PreferCheap", "Rank").replace("OnlyLinux", "Other"))
    later = reader.read_bytes(file.read_bytes(), str(file))
    for profile in later.config.configuration.profiles:
        assert [entry.name for entry in profile.plugins.multi_point.enabled][-4:] == [
            "PreferCheap",
            "OnlyLinux",
            "Rank",
            "Other",
        ]
    without = ConfigurationReader(plugins=[str(plugins)])
    assert {origin.name for origin in without.read_file(str(file)).unused} >= {"PreferCheap", "Rank"}
