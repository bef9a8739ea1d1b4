"""From a file, bytes or a decoded JSON object to a complete, valid configuration, or to all of its problems."""

import dataclasses
import stat
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec.structs import replace

from kscheduler.api.releases import BEHAVIOURS, VERSION, Behaviours, had_by
from kscheduler.config.defaults import apply_defaults
from kscheduler.config.durations import Duration
from kscheduler.config.errors import MAX_PROBLEMS_SHOWN, ConfigError, Problem, config_error, shown
from kscheduler.config.expansion import POINTS_OF_VERSIONS
from kscheduler.config.extenders import with_ignored_resources
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.config.plugin_args import ARGS_KINDS, PodTopologySpreadArgs
from kscheduler.config.reading.convert import converted
from kscheduler.config.reading.decode import TYPE_FIELDS, Walk, child, decode_struct, excess
from kscheduler.config.reading.lines import with_lines
from kscheduler.config.reading.yaml_tree import MAX_BYTES, Tree, parse_yaml
from kscheduler.config.types import (
    API_VERSION,
    KIND,
    OWN_SCHEDULER_NAME,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
    PluginSet,
)
from kscheduler.config.validation.configuration import PERCENTAGE_OF_PLACEMENTS, validate

# How messages name the file `-`.
STANDARD_INPUT = "standard input"
GROUP = API_VERSION.partition("/")[0]
_CAN_BE_CONVERTED: Final = "; `kscheduler config convert` turns such a file into one"
# Of Volcano's file and of a policy, which may be without a kind.
_FIELDS_OF_OTHERS: Final = frozenset(("actions", "tiers", "predicates", "priorities"))
# Fields that not all of the followed versions have: who has it, and where it stands.
_FIELDS_OF_VERSIONS: Final[tuple[tuple[Callable[[Behaviours], bool], tuple[str, ...]], ...]] = (
    *((has, ("profiles", "plugins", point)) for point, has in POINTS_OF_VERSIONS.items()),
    (attrgetter("has_percentage_of_placements"), ("profiles", PERCENTAGE_OF_PLACEMENTS)),
    (attrgetter("has_percentage_of_placements"), (PERCENTAGE_OF_PLACEMENTS,)),
)

# From the name of a custom plugin to the struct of its arguments, if it declares one.
ArgsKind = Callable[[str], type[msgspec.Struct] | None]
# Loads the plugins that a configuration names, before its arguments are read; notes mistakes in the walk. The text is
# the file's name.
LoadPlugins = Callable[[KubeSchedulerConfiguration, Walk, str], ArgsKind]


def _no_struct(plugin: str) -> None:
    del plugin


def no_plugins(configuration: KubeSchedulerConfiguration, walk: Walk, where: str) -> ArgsKind:
    """Load nothing: for readers of a configuration that build no plugin of one's own."""
    del configuration, walk, where
    return _no_struct


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration that is complete and valid."""

    configuration: KubeSchedulerConfiguration
    as_given: KubeSchedulerConfiguration
    """The configuration as the user wrote it, before default plugins and dependent defaults were merged in."""
    given: frozenset[str] = frozenset()
    """Paths of the fields that the user set: `profiles[0].pluginConfig[1].args.bindTimeoutSeconds`."""
    gates: FeatureGates = DEFAULT_GATES
    where: str = ""
    """The file's name, for messages; empty for the built-in defaults."""
    data: bytes = field(default=b"", repr=False, compare=False)
    """The file's content, for the lines of mistakes that are found later."""

    def is_given(self, path: str) -> bool:
        """Whether the user set the field. Example: an unset `clientConnection.qps` lets the client adapt."""
        return path in self.given


class UnusableConfigError(ConfigError):
    """A file with mistakes that could be read all the same: one edit can correct what further checks find, too."""

    def __init__(self, problems: Iterable[Problem], readable: LoadedConfig) -> None:
        super().__init__(problems, readable.where)
        self.readable = readable
        """The file, with defaults in place of the fields that could not be read."""

    def is_in_doubt(self, path: str) -> bool:
        """Whether the field may have a default because of a mistake: it could not be read, or may be misspelt."""
        return path not in self.readable.given or any(problem.path == path for problem in self.problems)

    def with_further(self, found: Iterable[Problem]) -> "UnusableConfigError":
        """The same with what another check has found in fields that are not in doubt."""
        sound = [problem for problem in found if not self.is_in_doubt(problem.path)]
        return UnusableConfigError((*self.problems, *with_lines(sound, self.readable.data)), self.readable)


def default_configuration(
    scheduler_name: str = OWN_SCHEDULER_NAME, gates: FeatureGates = DEFAULT_GATES
) -> LoadedConfig:
    """The configuration without a file. Profile and Lease have `scheduler_name`: it is safe beside kube-scheduler."""
    bare = KubeSchedulerConfiguration(
        profiles=(KubeSchedulerProfile(scheduler_name=scheduler_name),),
        leader_election=LeaderElectionConfiguration(resource_name=scheduler_name),
    )
    return _completed(bare, Walk(), gates, where="")


def load_file(
    path: str | Path, gates: FeatureGates = DEFAULT_GATES, load_plugins: LoadPlugins = no_plugins
) -> LoadedConfig:
    """Read a configuration file; `-` is standard input. Raises `ConfigError`, also where the file cannot be read."""
    where = STANDARD_INPUT if str(path) == "-" else str(path)
    return load_bytes(data_of(path), where, gates, load_plugins)


def data_of(path: str | Path) -> bytes:
    """A file's content, at most a byte more than a configuration may have. Raises `ConfigError`; `-` as `load_file`.

    What standard input or a pipe has said is kept: it can be read once, and is judged by the rules of several versions.
    """
    try:
        if str(path) == "-":
            return _said_once(sys.stdin.buffer, sys.stdin.buffer.read)
        found = Path(path).stat()
        if not stat.S_ISFIFO(found.st_mode):
            return start_of(path)
        return _said_once((found.st_dev, found.st_ino), lambda size: start_of(path, size))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        where = STANDARD_INPUT if str(path) == "-" else str(path)
        raise config_error("", f"cannot be read: {reason}", where) from None


def start_of(path: str | Path, size: int = MAX_BYTES + 1) -> bytes:
    """A file's first bytes: by default one more than a configuration may have. Raises `OSError`."""
    with Path(path).open("rb") as file:
        return file.read(size)


# What streams have said in this process: a second reading would find nothing, or wait for a writer.
_read_streams: Final[dict[Hashable, bytes]] = {}


def _said_once(stream: Hashable, read: Callable[[int], bytes]) -> bytes:
    if stream not in _read_streams:
        _read_streams[stream] = read(MAX_BYTES + 1)
    return _read_streams[stream]


def load_bytes(
    data: bytes, where: str, gates: FeatureGates = DEFAULT_GATES, load_plugins: LoadPlugins = no_plugins
) -> LoadedConfig:
    """Read YAML or JSON. `where` names it in messages. Raises `ConfigError`."""
    tree = parse_yaml(data, where)
    try:
        loaded = from_tree(tree, where, gates, load_plugins)
    except UnusableConfigError as error:
        readable = dataclasses.replace(error.readable, data=data)
        raise UnusableConfigError(with_lines(error.problems, data), readable) from None
    except ConfigError as error:
        raise ConfigError(with_lines(error.problems, data), error.where) from None
    return dataclasses.replace(loaded, data=data)


def from_tree(
    tree: Tree, where: str, gates: FeatureGates = DEFAULT_GATES, load_plugins: LoadPlugins = no_plugins
) -> LoadedConfig:
    """Read a decoded JSON object. Raises `ConfigError` with every problem that was found.

    It is an `UnusableConfigError` if checks of other fields may go on: a tree that is no object, is too large or says
    that it is of another kind or version is judged no further.
    """
    if not isinstance(tree, dict):
        raise config_error("", f"not a {KIND} but {'empty' if tree is None else shown(tree)}", where)
    too_much = excess(tree)
    if too_much:
        raise config_error("", too_much, where)
    _check_kind(tree, where)
    walk = Walk()
    configuration = decode_struct(tree, KubeSchedulerConfiguration, "", walk, allowed=TYPE_FIELDS)
    args_kind = load_plugins(configuration, walk, where)
    profiles = tuple(
        _with_typed_args(profile, f"profiles[{index}]", walk, args_kind)
        for index, profile in enumerate(configuration.profiles)
    )
    configuration = replace(configuration, profiles=profiles)
    _note_fields_of_other_versions(tree, gates, walk)
    if walk.problems:
        completed = apply_defaults(configuration, gates, walk.given)
        readable = LoadedConfig(completed, configuration, frozenset(walk.given), gates, where)
        raise UnusableConfigError([*walk.problems, *_further_problems(completed, walk, gates)], readable)
    return _completed(configuration, walk, gates, where)


def _note_fields_of_other_versions(tree: dict[str, Any], gates: FeatureGates, walk: Walk) -> None:
    """A field that the followed version does not have is unknown there, even where it is null or empty.

    Nothing in it counts as given: what further checks say of it would be a second message about one mistake.
    """
    for has, (*parents, name) in _FIELDS_OF_VERSIONS:
        if has(gates.behaviours):
            continue
        having = [version for version, behaviours in BEHAVIOURS.items() if has(behaviours)]
        for path in _paths_of(tree, parents, name):
            walk.wrong(path, f"unknown field ({had_by(having)})")
            walk.given -= {given for given in walk.given if given == path or given.startswith((f"{path}.", f"{path}["))}


def _paths_of(tree: Tree, parents: Sequence[str], name: str, path: str = "") -> Iterator[str]:
    """Where the field stands in the tree, below these parents; `profiles` is a list."""
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _paths_of(item, parents, name, f"{path}[{index}]")
    elif not isinstance(tree, dict):
        return
    elif parents:
        yield from _paths_of(tree.get(parents[0]), parents[1:], name, child(path, parents[0]))
    elif name in tree:
        yield child(path, name)


def _further_problems(completed: KubeSchedulerConfiguration, walk: Walk, gates: FeatureGates) -> list[Problem]:
    """Problems of the fields that could be read, besides those that could not, so that one edit can correct all.

    Only of fields that were given: a field that seems to be missing may just be misspelt. And not for a file with a
    hundred problems already: more would not be read.
    """
    if len(walk.problems) >= MAX_PROBLEMS_SHOWN:
        return []
    unread = {problem.path for problem in walk.problems}
    found = validate(completed, gates)
    return [problem for problem in found if problem.path in walk.given - unread]


def _completed(bare: KubeSchedulerConfiguration, walk: Walk, gates: FeatureGates, where: str) -> LoadedConfig:
    configuration = apply_defaults(bare, gates, walk.given)
    problems = validate(configuration, gates)
    configuration, of_extenders = with_ignored_resources(configuration)
    loaded = LoadedConfig(configuration, bare, frozenset(walk.given), gates, where)
    if problems or of_extenders:
        raise UnusableConfigError([*problems, *of_extenders], loaded)
    return loaded


def _check_kind(tree: dict[str, Any], where: str) -> None:
    version, kind = tree.get("apiVersion"), tree.get("kind")
    missing = [name for name, value in (("apiVersion", version), ("kind", kind)) if not value]
    if len(missing) == 2 and _FIELDS_OF_OTHERS & tree.keys():
        message = f"not a {KIND} but a file of another scheduler or an old policy"
        raise config_error("", f"{message}{_CAN_BE_CONVERTED}", where)
    if missing:
        expected = {"apiVersion": API_VERSION, "kind": KIND}
        raise ConfigError((Problem(name, f"is missing: write {name}: {expected[name]}") for name in missing), where)
    if (version, kind) == (API_VERSION, KIND):
        return
    message = f"couldn't decode as {KIND}, got {_short(version)}, Kind={_short(kind)}"
    if kind == KIND and str(version).startswith(f"{GROUP}/"):
        message += f": Kubernetes {VERSION} reads {API_VERSION} only{_CAN_BE_CONVERTED}"
    elif kind in ("Policy", "ConfigMap"):
        message += _CAN_BE_CONVERTED.replace("; ", ": ")
    elif kind in ("Pod", "Deployment", "DaemonSet"):
        message += (
            ": `kscheduler config convert` turns a manifest that runs kube-scheduler into one that runs kscheduler"
        )
    raise config_error("", message, where)


def _short(value: Any) -> str:
    return value[:80] if isinstance(value, str) else shown(value)


def _with_typed_args(profile: KubeSchedulerProfile, path: str, walk: Walk, args_kind: ArgsKind) -> KubeSchedulerProfile:
    entries = tuple(
        _typed_entry(entry, f"{path}.pluginConfig[{index}].args", walk, args_kind)
        for index, entry in enumerate(profile.plugin_config)
    )
    return replace(profile, plugin_config=entries)


def _typed_entry(entry: PluginConfig, path: str, walk: Walk, args_kind: ArgsKind) -> PluginConfig:
    kind = ARGS_KINDS.get(entry.name)
    if kind is None:
        own = args_kind(entry.name)
        return entry if own is None else replace(entry, args=converted(entry.args, own, path, walk))
    tree = {} if entry.args is None else entry.args
    if isinstance(tree, dict):
        _check_args_kind(entry.name, tree, path, walk)
        if kind is PodTopologySpreadArgs:
            tree = _with_zero_skews(tree)
    return replace(entry, args=decode_struct(tree, kind, path, walk, allowed=TYPE_FIELDS))


def _check_args_kind(plugin: str, tree: dict[str, Any], path: str, walk: Walk) -> None:
    """Arguments may leave out `apiVersion` and `kind`; if given, they must be right."""
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if version not in (None, "", API_VERSION):
        walk.wrong(child(path, "apiVersion"), f"expected {API_VERSION}, got {_short(version)}")
    if kind not in (None, "", f"{plugin}Args"):
        expected, got = f"{plugin}Args.{GROUP}", f"{_short(kind)}.{GROUP}"
        walk.wrong(child(path, "kind"), f"args for plugin {plugin} were not of type {expected}, got {got}")


def _with_zero_skews(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree with `maxSkew` 0 where it is missing, so that validation reports it.

    The type's own default is that of a pod's constraint, whose `maxSkew` the API server has filled in.
    """
    constraints = tree.get("defaultConstraints")
    if not isinstance(constraints, list):
        return tree
    filled = [{"maxSkew": 0, **item} if isinstance(item, dict) else item for item in constraints]
    return {**tree, "defaultConstraints": filled}


def to_tree(configuration: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The configuration as a file would spell it, ready for JSON: for `/configz` and `config default`."""
    return {"apiVersion": API_VERSION, "kind": KIND, **_fields(configuration)}


def dump(configuration: KubeSchedulerConfiguration) -> str:
    """The configuration as YAML; `load_bytes` reads it back as the same value."""
    return _as_yaml(to_tree(configuration))


def _as_yaml(tree: dict[str, Any]) -> str:
    return yaml.safe_dump(tree, sort_keys=True, allow_unicode=True, width=120)


def dump_default(
    scheduler_name: str = OWN_SCHEDULER_NAME, gates: FeatureGates = DEFAULT_GATES, without: Collection[str] = ()
) -> str:
    """The default configuration as YAML, as a file to start from, without the fields at these paths.

    The client's rate is left out: unset it adapts, but kube-scheduler's default of 50 a second, written into a file,
    would be honoured.
    """
    tree = to_tree(default_configuration(scheduler_name, gates).configuration)
    for path in ("clientConnection.qps", "clientConnection.burst", *without):
        parent, _, name = path.rpartition(".")
        del (tree[parent] if parent else tree)[name]
    return _as_yaml(tree)


def _fields(settings: msgspec.Struct) -> dict[str, Any]:
    names = zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True)
    tree = {encoded: _spelled(getattr(settings, name)) for name, encoded in names if _is_set(settings, name)}
    if isinstance(settings, PluginConfig) and settings.name in ARGS_KINDS:
        tree["args"] = {"apiVersion": API_VERSION, "kind": f"{settings.name}Args", **tree["args"]}
    return tree


def _is_set(settings: msgspec.Struct, name: str) -> bool:
    value = getattr(settings, name)
    return not (value is None or value == () or (isinstance(value, PluginSet) and value == PluginSet()))


def _spelled(value: Any) -> Any:
    match value:
        case msgspec.Struct():
            return _fields(value)
        case tuple():
            return [_spelled(item) for item in value]
        case Duration():
            return str(value)
        case None | str() | bool() | int() | float() | dict():
            return value
    return msgspec.to_builtins(value, enc_hook=str)  # in arguments that a custom plugin declares
