"""`kscheduler plugin`: write a policy of your own, list what is loaded, try one on random clusters."""

import argparse
import json
import keyword
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from kscheduler.cli.debugging import add_debug_flag, begin_debugging
from kscheduler.cli.named_config import (
    add_feature_gates,
    add_plugin_flags,
    by_first_that_takes_it,
    configuration_reader,
    feature_gates,
)
from kscheduler.cli.parser import StoreText, text
from kscheduler.cli.refusal import refuse
from kscheduler.config.errors import ConfigError
from kscheduler.config.types import OWN_SCHEDULER_NAME

if TYPE_CHECKING:
    from kscheduler.assembly.configured import Configured

_SILENT_SECONDS: Final = 5.0
_NEW = """\
Write NAME.py, a policy that works, and test_NAME.py, its test: `pytest test_NAME.py` passes. An existing file is never
written over."""
_LIST = """\
List the plugins of each profile: where each comes from, its extension points and weight, and whether its answers are
kept for pods that are alike. Nothing is scheduled."""
_CHECK = """\
Try each plugin of a file on random clusters, made of the words in its source, and say what it does wrong: it fails,
answers differently when asked twice, changes what it is asked about, leaves out in `sign` what it reads, is slow; and
what it could do better. Extension points that are not tried are named. That nothing is found proves nothing: a plugin
is code."""
_CHECK_EPILOG = "Exit codes: 0 nothing is wrong (there may be advice), 1 something is, 2 the file cannot be used."

_PLUGIN: Final = '''\
"""{name}: nodes with a low `{label}` are better."""

from kscheduler import NodeInfo, PodInfo, plugin


@plugin("{name}", sign=lambda pod: None)  # what it reads of the pod: nothing, so its answers are kept for all pods
def score(pod: PodInfo, node: NodeInfo) -> int:
    """Points from 0 to 100; a node without a readable label gets none."""
    try:
        value = float(node.labels.get("{label}", ""))
    except ValueError:
        return 0
    return round(100 * max(0.0, min(1.0, 1 - value)))
'''
_TEST: Final = '''\
"""What {name} prefers."""

from {module} import score

from kscheduler.testing import Cluster, assert_goes_to, assert_prefers, make_node, make_pod


def cluster() -> Cluster:
    dear = make_node("dear", labels={{"{label}": "0.9"}})
    cheap = make_node("cheap", labels={{"{label}": "0.1"}})
    return Cluster(dear, cheap, make_node("unknown")).enable(score, weight=5)


def test_a_low_value_wins() -> None:
    assert_goes_to(cluster(), make_pod("web"), "cheap")


def test_a_node_without_the_label_comes_last() -> None:
    assert_prefers(cluster(), make_pod("web"), "{name}", better="dear", worse="unknown")
'''


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the verbs below `plugin`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "plugin", help="write, list and check policies of your own", description=__doc__
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="verb")
    new = verbs.add_parser("new", help="write a policy and its test", description=_NEW, allow_abbrev=False)
    new.add_argument("name", type=text, metavar="NAME", help="of the plugin, such as PreferCheap")
    new.add_argument("--directory", action=StoreText, metavar="DIRECTORY", default=".", help="where to (default: here)")
    listed = verbs.add_parser("list", help="list the plugins of each profile", description=_LIST, allow_abbrev=False)
    listed.add_argument(
        "--config", action=StoreText, metavar="FILE", default="", help="a KubeSchedulerConfiguration; default: none"
    )
    listed.add_argument("-o", "--output", choices=("text", "json"), default="text", help="(default %(default)s)")
    add_plugin_flags(listed)
    add_feature_gates(listed)
    check = verbs.add_parser(
        "check", help="try a policy on random clusters", description=_CHECK, epilog=_CHECK_EPILOG, allow_abbrev=False
    )
    check.add_argument("file", type=text, metavar="FILE", help="a Python file with plugins")
    check.add_argument(
        "--args", action=StoreText, metavar="JSON", default="", help="arguments, as `pluginConfig` would give them"
    )
    add_debug_flag(check)
    check.add_argument("--seed", type=int, metavar="N", default=1, help="of the random clusters (default %(default)s)")
    return parser


def run(args: argparse.Namespace) -> int:
    """Write, list or check; 2 for names, files and configurations that cannot be used."""
    begin_debugging(args)
    try:
        match args.verb:
            case "new":
                return _write_new(args.name, Path(args.directory))
            case "list":
                return _list(args)
            case _:
                return _check(args)
    except ConfigError as failure:
        return refuse(failure)


# --- new --------------------------------------------------------------------------------------------------------------


def _write_new(name: str, directory: Path) -> int:
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        return refuse(f"{name!r} is no name for a plugin: letters and digits, such as PreferCheap")
    if _is_taken(name):
        return refuse(f"{name} is the name of a plugin that exists already: yours needs another one")
    module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    present = [each for each in (f"{module}.py", f"test_{module}.py") if (directory / each).exists()]
    if present:
        return refuse(f"{directory / present[0]} exists: nothing is written over")
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        return refuse(f"{name} would be in {module}.py, which hides the Python module {module}: use another name")
    words = {"name": name, "module": module, "label": f"example.com/{module.replace('_', '-')}"}
    files = {f"{module}.py": _PLUGIN.format(**words), f"test_{module}.py": _TEST.format(**words)}
    try:
        for file, source in files.items():
            (directory / file).write_text(source, encoding="utf-8")
    except OSError as failure:
        return refuse(f"{failure.filename}: {failure.strerror}")
    path = directory / f"{module}.py"
    print(f"{path} and {directory / f'test_{module}.py'} are written. Next:")
    print(f"  (cd {directory} && python -m pytest test_{module}.py)   # its test; needs: pip install pytest")
    print(f"  kscheduler plugin check {path}")
    print(f"  kscheduler cluster --schedule --plugin {path}   # try it, without a cluster of yours")
    print(f"  kscheduler run --plugin {path}")
    return 0


def _is_taken(name: str) -> bool:
    """Whether a plugin of kube-scheduler, of kscheduler or of an installed package has the name."""
    from importlib.metadata import entry_points

    from kscheduler.assembly.plugin_loading import GROUP
    from kscheduler.config.in_tree_plugins import IN_TREE_PLUGINS
    from kscheduler.plugins import in_tree

    return name in in_tree.registry() or name in IN_TREE_PLUGINS or bool(entry_points(group=GROUP, name=name))


# --- list -------------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    from kscheduler.assembly import profiles_over
    from kscheduler.scheduling.profiles import misspelt
    from kscheduler.state.cache import Cache

    configured = by_first_that_takes_it(args, lambda version: _configured(args, version))
    profiles = profiles_over(Cache(), configured.config, configured.registry)
    origins = {origin.name: origin.origin for origin in configured.origins}
    rows = [row for profile in profiles.values() for row in _rows(profile, origins)]
    unused = [{"name": each.name, "origin": each.origin} for each in configured.unused]
    for name, reported in misspelt(profiles.values()):
        print(f"kscheduler: plugin {name}: {reported}", file=sys.stderr)
    if args.output == "json":
        version = configured.config.gates.version
        print(json.dumps({"plugins": rows, "notEnabled": unused, "emulationVersion": version}))
        return 0
    _print_table(rows)
    for each in unused:
        print(f"kscheduler: plugin {each['name']} ({each['origin']}) is enabled in no profile", file=sys.stderr)
    return 0


def _configured(args: argparse.Namespace, version: str) -> "Configured":
    reader = configuration_reader(args, feature_gates(args, version))
    return reader.read_file(args.config) if args.config else reader.default(OWN_SCHEDULER_NAME)


def _rows(profile: Any, origins: dict[str, str]) -> Iterator[dict[str, Any]]:
    from kscheduler.framework.plugin import Point

    weights = {weighted.plugin.name: weighted.weight for weighted in profile.score}
    taking_part: dict[Point, set[str]] = {}
    for point in Point:
        plugins = getattr(profile, point.name.lower())
        listed = (plugins,) if point is Point.QUEUE_SORT else plugins
        taking_part[point] = set(weights) if point is Point.SCORE else {plugin.name for plugin in listed}
    for plugin in profile.instances:
        traits = profile.traits[plugin.name]
        yield {
            "profile": profile.name,
            "name": plugin.name,
            "origin": origins.get(plugin.name, "kscheduler"),
            "points": [point.label for point, names in taking_part.items() if plugin.name in names],
            "weight": weights.get(plugin.name),
            "kept": traits.is_keepable,
        }


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    head = ("PROFILE", "PLUGIN", "FROM", "WEIGHT", "KEPT", "EXTENSION POINTS")
    lines = [head]
    for row in rows:
        weight = "" if row["weight"] is None else str(row["weight"])
        kept = "yes" if row["kept"] else "no"
        lines.append((row["profile"], row["name"], row["origin"], weight, kept, ", ".join(row["points"])))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


# --- check ------------------------------------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> int:
    from kscheduler.assembly.plugin_files import UnusablePluginError, content_of, run_file
    from kscheduler.scheduling.runtime.guard import PluginFailure
    from kscheduler.testing.trial import Severity, Trial

    try:
        data = content_of(args.file)
        plugins = run_file(args.file, data).plugins
    except UnusablePluginError as failure:
        return refuse(str(failure))
    is_wrong = False
    for name in plugins:
        registry, arguments = _with_arguments(plugins, name, args.args)
        trial = Trial(registry, name, arguments, data.decode("utf-8", "replace"), args.seed, _Progress(name))
        try:
            findings, not_tried = trial.findings(), trial.not_tried()
        except PluginFailure as failure:
            advice = "" if args.args else "; where it needs arguments, give them: --args JSON"
            return refuse(f"{args.file}: {failure}{advice}")
        is_wrong |= any(finding.severity is Severity.WRONG for finding in findings)
        print(f"{name}:")
        for finding in findings:
            print(f"  {finding.severity.value} ({finding.kind}): {finding.text}")
        for point, why in not_tried.items():
            print(f"  not tried: {point}: {why}")
        if not any(finding.severity is Severity.WRONG for finding in findings):
            print(f"  no mistakes found in {trial.clusters} clusters")
    return 1 if is_wrong else 0


class _Progress:
    """A line on standard error now and then while a trial takes long: silence looks like a plugin that hangs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._due = monotonic() + _SILENT_SECONDS

    def __call__(self, clusters: int) -> None:
        now = monotonic()
        if now >= self._due:
            self._due = now + _SILENT_SECONDS
            print(f"kscheduler: {self._name} is slow, and still tried: {clusters} clusters so far", file=sys.stderr)


def _with_arguments(plugins: Any, name: str, given: str) -> tuple[Any, Any]:
    """The registry, and the plugin's arguments as its `pluginConfig` would bring them. Raises `ConfigError`."""
    from kscheduler.config.reading.convert import converted
    from kscheduler.config.reading.decode import Walk
    from kscheduler.plugins import in_tree

    registry = in_tree.registry()
    for each, factory in plugins.items():
        registry.register(each, factory)
    if not given:
        return registry, None
    walk = Walk()
    try:
        tree = json.loads(given)
    except ValueError as failure:
        walk.wrong("--args", f"no JSON: {failure}")
        raise ConfigError(walk.problems) from None
    kind = registry.args_kind(name)
    if kind is None:
        return registry, tree
    arguments = converted(tree, kind, "--args", walk)
    if walk.problems:
        raise ConfigError(walk.problems)
    return registry, arguments
