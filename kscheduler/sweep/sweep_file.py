"""The file of `kscheduler sweep`: typed, strict, and all of its mistakes at once.

The files that it names are looked at here, before the first run: configurations and plugins are loaded, traces and
recordings are digested. Paths begin at the folder of the file.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.loader import data_of
from kscheduler.config.plugin_args import Settings
from kscheduler.config.reading.decode import Walk, decode_struct
from kscheduler.config.reading.lines import with_lines
from kscheduler.config.reading.yaml_tree import parse_yaml
from kscheduler.recorder.blocks import SegmentError
from kscheduler.recorder.replaying.replay import RecordingError
from kscheduler.sweep.policies import Tree, check, default_profile, one_profile, plugin_source, weighted
from kscheduler.sweep.run_spec import (
    AS_THEY_ARE,
    GeneratedNodes,
    GeneratedPods,
    GeneratedWorkload,
    NodeShaping,
    PlayedPolicy,
    RecordedWorkload,
    RunSpec,
    SyntheticWorkload,
    TraceWorkload,
    Workload,
    code_version,
)
from kscheduler.sweep.running import recording_digest, trace_digest
from kscheduler.sweep.trace.openb import ARRIVING, GPU, LISTS, TraceError
from kscheduler.sweep.trace.profiles import POLICIES

MOST_RUNS: Final = 100_000
GOALS: Final = ("packing", "waiting", "skew", "price")
"""`sweep.search` says what each is."""
_RECORDING_SEED: Final = 0


class OpenbSettings(Settings, frozen=True):
    """Tasks of the trace openb."""

    directory: str = ""
    """Of the downloaded CSV files, plain or gzip."""
    list: str = "default"
    """Which tasks; `*`: all that have published results, each a workload."""
    arrival: float = ARRIVING
    """How many GPUs the tasks ask for together, of all that there are."""


class SyntheticSettings(Settings, frozen=True):
    """Tasks like those of openb, without its files."""

    scale: float = 1.0
    """How many nodes and tasks there are, of those of the trace."""
    arrival: float = ARRIVING


class RecordingSettings(Settings, frozen=True):
    """What `kscheduler run --record` has written."""

    path: str = ""
    """The directory, or one file of it."""


class GeneratedSettings(Settings, frozen=True):
    """Pods that come at random moments."""

    nodes: tuple[GeneratedNodes, ...] = ()
    pods: tuple[GeneratedPods, ...] = ()
    count: int = 100
    """How many pods come."""
    arrival_seconds: float = 1.0
    """Between two pods, on average."""
    life_seconds: float = 0.0
    """How long a pod runs, on average; 0: to the end."""


class WorkloadSettings(Settings, frozen=True):
    """A workload: one of its kinds."""

    name: str = ""
    openb: OpenbSettings | None = None
    synthetic: SyntheticSettings | None = None
    recording: RecordingSettings | None = None
    generated: GeneratedSettings | None = None


class PolicySettings(Settings, frozen=True):
    """A policy: kube-scheduler's default plugins, unless something else is given."""

    name: str = ""
    ready: str = ""
    """A profile of `kscheduler config policies`."""
    config: str = ""
    """A configuration file."""
    profile: str = ""
    """Which of the file's profiles; with one it may be left out."""
    openb: str = ""
    """A policy that the trace is published with, or ours: for workloads of the trace, and synthetic ones."""
    recorded: bool = False
    """As it was recorded: for recordings."""
    plugins: tuple[str, ...] = ()
    """Python files, or modules; without `config` each is enabled behind the others."""
    weights: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """By score plugin, the weights that are tried, each with each; 0: without its points."""


class ShapeSettings(Settings, frozen=True):
    """A change of all workloads' nodes, tried beside the others."""

    name: str = ""
    scale: dict[str, float] = msgspec.field(default_factory=dict)
    """By resource, what nodes have of it, as a factor."""
    share: float = 1.0
    """How many of the nodes there are."""


class SearchSettings(Settings, frozen=True):
    """What `--search` looks for."""

    policy: str = ""
    """The policy whose weights are looked for."""
    goal: str = "packing"
    weights: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """By score plugin, the weights to choose from."""
    candidates: int = 0
    """How many of the combinations are drawn; 0: all."""
    keep: int = 3
    """After each round the best of this many stays."""
    seed: int = 1


class SweepSettings(Settings, frozen=True):
    """The file."""

    workloads: tuple[WorkloadSettings, ...] = ()
    policies: tuple[PolicySettings, ...] = ()
    seeds: tuple[int, ...] = (1,)
    node_shapes: tuple[ShapeSettings, ...] = ()
    gpu: str = GPU
    """The extended resource that counts GPUs."""
    search: SearchSettings | None = None


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What a file asks for."""

    workloads: tuple[Workload, ...]
    """With each node shape."""
    policies: tuple[PlayedPolicy, ...]
    seeds: tuple[int, ...]
    bases: dict[str, PlayedPolicy]
    """The policies as they are without the grid's weights, by name."""
    search: SearchSettings | None

    def runs(self) -> tuple[RunSpec, ...]:
        """All of the grid, in the order of the file."""
        return tuple(self._runs())

    def _runs(self) -> Iterator[RunSpec]:
        version = code_version()
        for workload in self.workloads:
            for policy in self.policies:
                if goes_with(policy, workload):
                    for seed in seeds_of(workload, self.seeds):
                        yield RunSpec(policy, workload, seed, version)

    def left_out(self) -> tuple[str, ...]:
        """Which policy does not go with which workload."""
        found = (
            f"{policy.name} is not for {workload.name}"
            for workload in self.workloads
            for policy in self.policies
            if not goes_with(policy, workload)
        )
        return tuple(dict.fromkeys(found))


def goes_with(policy: PlayedPolicy, workload: Workload) -> bool:
    """Whether the policy can place such pods."""
    if policy.kind == "trace":
        return isinstance(workload, TraceWorkload | SyntheticWorkload)
    return policy.kind != "recorded" or isinstance(workload, RecordedWorkload)


def seeds_of(workload: Workload, seeds: tuple[int, ...]) -> tuple[int, ...]:
    """Nothing is drawn in a recording."""
    return (_RECORDING_SEED,) if isinstance(workload, RecordedWorkload) else seeds


def read_sweep(path: str) -> Sweep:
    """Raises `ConfigError` with all mistakes that were found."""
    data = data_of(path)
    where, folder = path, Path(path).parent
    tree = parse_yaml(data, where)
    walk = Walk()
    settings = decode_struct(tree, SweepSettings, "", walk)
    if not walk.problems:
        _check(settings, walk)
    sweep = _Reader(settings, walk, folder).sweep() if not walk.problems else None
    if sweep is None or walk.problems:
        raise ConfigError(with_lines(walk.problems, data), where)
    return sweep


def _check(settings: SweepSettings, walk: Walk) -> None:
    _check_names("workloads", [each.name for each in settings.workloads], walk)
    _check_names("policies", [each.name for each in settings.policies], walk)
    _check_names("nodeShapes", [each.name for each in settings.node_shapes], walk)
    for name, given in (("workloads", settings.workloads), ("policies", settings.policies), ("seeds", settings.seeds)):
        if not given:
            walk.wrong(name, "at least one is needed")
    if len(set(settings.seeds)) < len(settings.seeds):
        walk.wrong("seeds", "a seed stands there twice")
    for index, workload in enumerate(settings.workloads):
        _check_workload(workload, f"workloads[{index}]", walk)
    for index, policy in enumerate(settings.policies):
        _check_policy(policy, f"policies[{index}]", walk)
    for index, shape in enumerate(settings.node_shapes):
        _check_range(shape.share, 0.001, 1, f"nodeShapes[{index}].share", walk)
        for resource, factor in shape.scale.items():
            _check_range(factor, 0.001, 1000, f"nodeShapes[{index}].scale.{resource}", walk)
    if settings.search is not None:
        _check_search(settings.search, [policy.name for policy in settings.policies], walk)


def _check_names(path: str, names: list[str], walk: Walk) -> None:
    for index, name in enumerate(names):
        if not name:
            walk.wrong(f"{path}[{index}].name", "a name is needed: rows are told apart by it")
        elif name in names[:index]:
            walk.wrong(f"{path}[{index}].name", f"{name!r} stands there twice")


def _check_workload(workload: WorkloadSettings, path: str, walk: Walk) -> None:
    kinds = ("openb", "synthetic", "recording", "generated")
    given = [kind for kind in kinds if getattr(workload, kind) is not None]
    if len(given) != 1:
        walk.wrong(path, f"one of {', '.join(kinds)} is needed{', not ' + ' and '.join(given) if given else ''}")
    for kind in given:
        settings = getattr(workload, kind)
        if hasattr(settings, "arrival"):
            _check_range(settings.arrival, 0.01, 10, f"{path}.{kind}.arrival", walk)
    if workload.openb is not None and workload.openb.list not in (*LISTS, "*"):
        walk.wrong(f"{path}.openb.list", f"{workload.openb.list!r} is none of {', '.join(LISTS)}, *")
    if workload.synthetic is not None:
        _check_range(workload.synthetic.scale, 0.002, 10, f"{path}.synthetic.scale", walk)
    if workload.generated is not None:
        _check_generated(workload.generated, f"{path}.generated", walk)


def _check_generated(generated: GeneratedSettings, path: str, walk: Walk) -> None:
    for name in ("nodes", "pods"):
        if not getattr(generated, name):
            walk.wrong(f"{path}.{name}", "at least one kind is needed")
    _check_range(generated.count, 1, 1_000_000, f"{path}.count", walk)
    _check_range(generated.arrival_seconds, 0, 1e6, f"{path}.arrivalSeconds", walk)
    _check_range(generated.life_seconds, 0, 1e8, f"{path}.lifeSeconds", walk)
    for index, nodes in enumerate(generated.nodes):
        _check_range(nodes.count, 1, 100_000, f"{path}.nodes[{index}].count", walk)
    for index, pods in enumerate(generated.pods):
        _check_range(pods.weight, 1, 1_000_000, f"{path}.pods[{index}].weight", walk)


def _check_policy(policy: PolicySettings, path: str, walk: Walk) -> None:
    given = [name for name in ("ready", "config", "openb", "recorded") if getattr(policy, name)]
    if len(given) > 1:
        walk.wrong(path, f"one of ready, config, openb, recorded, not {' and '.join(given)}")
    if policy.openb and policy.openb not in POLICIES:
        walk.wrong(f"{path}.openb", f"{policy.openb!r} is none of {', '.join(POLICIES)}")
    if policy.profile and not policy.config:
        walk.wrong(f"{path}.profile", "goes with config")
    if (policy.openb or policy.recorded) and (policy.weights or policy.plugins):
        walk.wrong(path, f"{given[0]} goes without weights and plugins")
    _check_weights(policy.weights, f"{path}.weights", walk)


def _check_weights(weights: dict[str, tuple[int, ...]], path: str, walk: Walk) -> None:
    for plugin, values in weights.items():
        if not values:
            walk.wrong(f"{path}.{plugin}", "at least one weight is needed")
        for value in values:
            _check_range(value, 0, 2**31 - 1, f"{path}.{plugin}", walk)


def _check_search(search: SearchSettings, policies: Iterable[str], walk: Walk) -> None:
    if search.policy not in policies:
        walk.wrong("search.policy", f"{search.policy!r} is none of the policies of this file")
    if search.goal not in GOALS:
        walk.wrong("search.goal", f"{search.goal!r} is none of {', '.join(GOALS)}")
    if not search.weights:
        walk.wrong("search.weights", "at least one plugin is needed")
    _check_weights(search.weights, "search.weights", walk)
    _check_range(search.keep, 2, 100, "search.keep", walk)
    _check_range(search.candidates, 0, 10_000, "search.candidates", walk)


def _check_range(value: float, low: float, high: float, path: str, walk: Walk) -> None:
    if not low <= value <= high:
        walk.wrong(path, f"{value:g} is outside [{low:g}, {high:g}]")


class _Reader:
    """What the settings' files have."""

    def __init__(self, settings: SweepSettings, walk: Walk, folder: Path) -> None:
        self._settings, self._walk, self._folder = settings, walk, folder

    def sweep(self) -> Sweep:
        settings = self._settings
        workloads = [workload for index in range(len(settings.workloads)) for workload in self._workloads(index)]
        bases, played = dict[str, PlayedPolicy](), list[PlayedPolicy]()
        for index, policy in enumerate(settings.policies):
            found = self._of(f"policies[{index}]", partial(self._policy, index))
            if found is not None:
                bases[policy.name] = found
                played += self._of(f"policies[{index}].weights", partial(_grid, found, policy.weights)) or []
        shaped = [msgspec.structs.replace(each, shape=shape) for each in workloads for shape in self._shapes()]
        sweep = Sweep(tuple(shaped), tuple(played), settings.seeds, bases, settings.search)
        if not self._walk.problems:
            self._check_grid(sweep)
        return sweep

    def _check_grid(self, sweep: Sweep) -> None:
        for policy in sweep.policies:
            if not any(goes_with(policy, workload) for workload in sweep.workloads):
                self._walk.wrong("policies", f"{policy.name} is for none of the workloads")
        runs = len(sweep.workloads) * len(sweep.policies) * len(sweep.seeds)
        if runs > MOST_RUNS:
            self._walk.wrong("", f"{runs:,} runs are more than {MOST_RUNS:,}")

    def _of(self, path: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except ConfigError as problem:
            prefix = f"{problem.where}: " if problem.where else ""
            self._walk.problems += [Problem(path, f"{prefix}{each}") for each in problem.problems]
        except (TraceError, RecordingError, SegmentError) as problem:
            self._walk.wrong(path, str(problem))
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else None
            self._walk.wrong(
                path, f"{getattr(problem, 'filename', None) or ''}: {reason or problem}".removeprefix(": ")
            )
        return None

    def _shapes(self) -> list[NodeShaping]:
        shapes = [NodeShaping(each.name, tuple(each.scale.items()), each.share) for each in self._settings.node_shapes]
        return [AS_THEY_ARE, *shapes]

    def _workloads(self, index: int) -> list[Workload]:
        given, path = self._settings.workloads[index], f"workloads[{index}]"
        if given.openb is not None:
            openb = given.openb
            lists = LISTS if openb.list == "*" else (openb.list,)
            found = [
                self._of(f"{path}.openb.directory", partial(self._trace, given.name, openb, name)) for name in lists
            ]
            return [each for each in found if each is not None]
        if given.synthetic is not None:
            return [SyntheticWorkload(given.name, given.synthetic.scale, given.synthetic.arrival)]
        if given.recording is not None:
            one = self._of(f"{path}.recording.path", partial(self._recording, given.name, given.recording))
            return [] if one is None else [one]
        assert given.generated is not None  # noqa: S101  one of them is there
        made = given.generated
        return [
            GeneratedWorkload(
                given.name,
                made.nodes,
                made.pods,
                made.count,
                made.arrival_seconds,
                made.life_seconds,
                self._settings.gpu,
            )
        ]

    def _trace(self, name: str, openb: OpenbSettings, tasks: str) -> Workload:
        if not openb.directory:
            raise TraceError("which directory? That of the downloaded CSV files")
        directory = (self._folder / openb.directory).resolve()
        full = f"{name}/{tasks}" if openb.list == "*" else name
        return TraceWorkload(full, str(directory), tasks, openb.arrival, trace_digest(directory, tasks))

    def _recording(self, name: str, recording: RecordingSettings) -> Workload:
        if not recording.path:
            raise RecordingError("which recording? The directory of `kscheduler run --record`, or one file of it")
        path = (self._folder / recording.path).resolve()
        return RecordedWorkload(name, str(path), recording_digest(path), self._settings.gpu)

    def _policy(self, index: int) -> PlayedPolicy:
        given, path = self._settings.policies[index], f"policies[{index}]"
        if given.openb:
            return PlayedPolicy(given.name, "trace", given.openb)
        if given.recorded:
            return PlayedPolicy(given.name, "recorded")
        plugins = tuple(plugin_source(each, self._folder) for each in given.plugins)
        policy = PlayedPolicy(given.name, "profile", json.dumps(self._tree(given)), plugins, not given.config)
        check(policy, str(self._folder / given.config) if given.config else path)
        return policy

    def _tree(self, given: PolicySettings) -> Tree:
        if given.config:
            path = self._folder / given.config
            return one_profile(data_of(path), str(path), given.profile)
        if given.ready:
            ready = files("kscheduler.config").joinpath("policies.yaml").read_bytes()
            return one_profile(ready, "`kscheduler config policies`", given.ready)
        return default_profile()


def _grid(policy: PlayedPolicy, weights: dict[str, tuple[int, ...]]) -> list[PlayedPolicy]:
    """The policy with each combination of weights. Raises `ConfigError`."""
    if not weights:
        return [policy]
    found = [with_weights(policy, dict(zip(weights, chosen, strict=True))) for chosen in product(*weights.values())]
    for each in found:
        check(each, each.name)
    return found if len(found) > 1 else [msgspec.structs.replace(found[0], name=policy.name)]


def with_weights(policy: PlayedPolicy, weights: dict[str, int]) -> PlayedPolicy:
    """The policy with other weights, which its name tells."""
    tree = weighted(json.loads(policy.configuration), weights)
    told = ",".join(f"{plugin}={weight}" for plugin, weight in weights.items())
    return msgspec.structs.replace(policy, name=f"{policy.name}[{told}]", configuration=json.dumps(tree))
