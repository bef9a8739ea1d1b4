"""Reads the file of `kscheduler sweep`: typed, strict, all problems reported at once.

Files that it names are checked before the first run: configurations and plugins are loaded, digests of traces and
recordings computed. Paths are relative to the folder of the file.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.loader import data_of
from kscheduler.config.reading.decode import Walk, decode_struct
from kscheduler.config.reading.lines import with_lines
from kscheduler.config.reading.yaml_tree import parse_yaml
from kscheduler.recorder.blocks import SegmentError
from kscheduler.recorder.replaying.replay import RecordingError, beginning_of, last_run_of
from kscheduler.sweep.plugin_sources import Tree, installed_plugins, plugin_source, without_sources
from kscheduler.sweep.policies import check, default_profile, one_profile, weighted
from kscheduler.sweep.run_spec import (
    UNCHANGED,
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
from kscheduler.sweep.sweep_settings import (
    MAX_RUNS,
    OpenbSettings,
    PolicySettings,
    RecordingSettings,
    SearchSettings,
    SweepSettings,
    check_settings,
)
from kscheduler.sweep.trace.openb import LISTS, TraceError

_RECORDING_SEED: Final = 0


@dataclasses.dataclass(frozen=True)
class Sweep:
    """The sweep of a file."""

    workloads: tuple[Workload, ...]
    """With each node shape."""
    policies: tuple[PlayedPolicy, ...]
    seeds: tuple[int, ...]
    bases: dict[str, PlayedPolicy]
    """The policies without the weights of the grid, by name."""
    search: SearchSettings | None

    def runs(self) -> tuple[RunSpec, ...]:
        """The whole grid, in the order of the file."""
        return tuple(self._runs())

    def _runs(self) -> Iterator[RunSpec]:
        version = code_version()
        for workload in self.workloads:
            for policy in self.policies:
                if is_compatible(policy, workload):
                    for seed in seeds_of(workload, self.seeds):
                        yield RunSpec(policy, workload, seed, version)

    def incompatible_pairs(self) -> tuple[str, ...]:
        """Which policy does not go with which workload."""
        found = (
            f"{policy.name} is not for {workload.name}"
            for workload in self.workloads
            for policy in self.policies
            if not is_compatible(policy, workload)
        )
        return tuple(dict.fromkeys(found))


def is_compatible(policy: PlayedPolicy, workload: Workload) -> bool:
    """Whether the policy can place such pods."""
    if policy.kind == "trace":
        return isinstance(workload, TraceWorkload | SyntheticWorkload)
    return policy.kind != "recorded" or isinstance(workload, RecordedWorkload)


def seeds_of(workload: Workload, seeds: tuple[int, ...]) -> tuple[int, ...]:
    """A recording has no random choices: one seed."""
    return (_RECORDING_SEED,) if isinstance(workload, RecordedWorkload) else seeds


def read_sweep(path: str) -> Sweep:
    """Raises `ConfigError` with all mistakes that were found."""
    data = data_of(path)
    where, folder = path, Path(path).parent
    tree = parse_yaml(data, where)
    walk = Walk()
    settings = decode_struct(tree, SweepSettings, "", walk)
    if not walk.problems:
        check_settings(settings, walk)
    sweep = _Reader(settings, walk, folder).sweep() if not walk.problems else None
    if sweep is None or walk.problems:
        raise ConfigError(with_lines(walk.problems, data), where)
    return sweep


class _Reader:
    """Builds the sweep from the settings and the files that they name."""

    def __init__(self, settings: SweepSettings, walk: Walk, folder: Path) -> None:
        self._settings, self._walk, self._folder = settings, walk, folder

    def sweep(self) -> Sweep:
        settings = self._settings
        workloads = [workload for index in range(len(settings.workloads)) for workload in self._workloads(index)]
        bases, played = dict[str, PlayedPolicy](), list[PlayedPolicy]()
        for index, policy in enumerate(settings.policies):
            found = self._or_problem(f"policies[{index}]", partial(self._policy, index))
            if found is not None:
                bases[policy.name] = found
                played += self._or_problem(f"policies[{index}].weights", partial(_grid, found, policy.weights)) or []
        shaped = [msgspec.structs.replace(each, shape=shape) for each in workloads for shape in self._shapes()]
        sweep = Sweep(tuple(shaped), tuple(played), settings.seeds, bases, settings.search)
        if not self._walk.problems:
            self._check_grid(sweep)
        return sweep

    def _check_grid(self, sweep: Sweep) -> None:
        for policy in sweep.policies:
            if not any(is_compatible(policy, workload) for workload in sweep.workloads):
                self._walk.wrong("policies", f"{policy.name} is for none of the workloads")
        runs = len(sweep.workloads) * len(sweep.policies) * len(sweep.seeds)
        if runs > MAX_RUNS:
            self._walk.wrong("", f"{runs:,} runs are more than {MAX_RUNS:,}")

    def _or_problem(self, path: str, read: Callable[[], Any]) -> Any:
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
        return [UNCHANGED, *shapes]

    def _workloads(self, index: int) -> list[Workload]:
        given, path = self._settings.workloads[index], f"workloads[{index}]"
        if given.openb is not None:
            openb = given.openb
            lists = LISTS if openb.list == "*" else (openb.list,)
            found = [
                self._or_problem(f"{path}.openb.directory", partial(self._trace, given.name, openb, name))
                for name in lists
            ]
            return [each for each in found if each is not None]
        if given.synthetic is not None:
            return [SyntheticWorkload(given.name, given.synthetic.scale, given.synthetic.arrival)]
        if given.recording is not None:
            recorded = self._or_problem(f"{path}.recording.path", partial(self._recording, given.name, given.recording))
            return [] if recorded is None else [recorded]
        assert given.generated is not None  # noqa: S101  one of them is there
        generated = given.generated
        return [
            GeneratedWorkload(
                given.name,
                generated.nodes,
                generated.pods,
                generated.count,
                generated.arrival_seconds,
                generated.life_seconds,
                self._settings.gpu,
                gangs=generated.gangs,
            )
        ]

    def _trace(self, name: str, openb: OpenbSettings, tasks: str) -> Workload:
        if not openb.directory:
            raise TraceError("a directory is needed: that of the downloaded CSV files")
        directory = (self._folder / openb.directory).resolve()
        full = f"{name}/{tasks}" if openb.list == "*" else name
        return TraceWorkload(full, str(directory), tasks, openb.arrival, trace_digest(directory, tasks))

    def _recording(self, name: str, recording: RecordingSettings) -> Workload:
        if not recording.path:
            raise RecordingError("a path is needed: the directory of `kscheduler run --record`, or one file of it")
        path = (self._folder / recording.path).resolve()
        beginning_of(last_run_of(path))  # a digest alone would accept any file
        return RecordedWorkload(name, str(path), recording_digest(path), self._settings.gpu)

    def _policy(self, index: int) -> PlayedPolicy:
        given, path = self._settings.policies[index], f"policies[{index}]"
        if given.openb:
            return PlayedPolicy(given.name, "trace", given.openb)
        if given.recorded:
            return PlayedPolicy(given.name, "recorded")
        plugins, tree = tuple(plugin_source(each, self._folder) for each in given.plugins), self._tree(given)
        policy = PlayedPolicy(given.name, "profile", json.dumps(tree), plugins, not given.config)
        if given.config:
            where = self._folder / given.config
            check(policy, str(where), plugin_directory=str(where.parent))
            tree, sources = without_sources(tree, where.parent)
            policy = msgspec.structs.replace(policy, configuration=json.dumps(tree), plugins=(*plugins, *sources))
        else:
            check(policy, path)
        return msgspec.structs.replace(policy, installed=installed_plugins(tree))

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
    """The policy with other weights, which stand in its name."""
    tree = weighted(json.loads(policy.configuration), weights)
    suffix = ",".join(f"{plugin}={weight}" for plugin, weight in weights.items())
    name, configuration = f"{policy.name}[{suffix}]", json.dumps(tree)
    return msgspec.structs.replace(policy, name=name, configuration=configuration, installed=installed_plugins(tree))
