"""The fields of a sweep's file, and the checks of their values that need no other file."""

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, Final

import msgspec

from kscheduler.api.codec import UndecodableError, convert
from kscheduler.api.core import PodSpec
from kscheduler.api.quantity import QuantityError, nano_value
from kscheduler.config.plugin_args import Settings
from kscheduler.config.reading.decode import Walk
from kscheduler.framework.cluster.topology_request import request_in_annotations
from kscheduler.scenario.fields import misspelt
from kscheduler.sweep.run_spec import GeneratedGangs, GeneratedNodes, GeneratedPods
from kscheduler.sweep.trace.openb import LISTS
from kscheduler.sweep.trace.profiles import POLICIES
from kscheduler.sweep.trace.run_drawing import DEFAULT_ARRIVAL
from kscheduler.sweep.trace.trace_objects import GPU

GOALS: Final = ("packing", "waiting", "skew", "price")
"""`sweep.search` says what each is."""
MAX_RUNS: Final = 100_000
"""Of a grid."""
MAX_PODS: Final = 1_000_000
"""Of a generated workload."""


class OpenbSettings(Settings, frozen=True):
    """Tasks of the trace openb."""

    directory: str = ""
    """Of the downloaded CSV files, plain or gzip."""
    list: str = "default"
    """Which tasks; `*`: all that have published results, each a workload."""
    arrival: float = DEFAULT_ARRIVAL
    """How many GPUs the tasks ask for together, of all that there are."""


class SyntheticSettings(Settings, frozen=True):
    """Tasks like those of openb, without its files."""

    scale: float = 1.0
    """How many nodes and tasks there are, of those of the trace."""
    arrival: float = DEFAULT_ARRIVAL


class RecordingSettings(Settings, frozen=True):
    """What `kscheduler run --record` has written."""

    path: str = ""
    """The directory, or one file of it."""


class GeneratedSettings(Settings, frozen=True):
    """Pods and gangs that arrive at random times."""

    nodes: tuple[GeneratedNodes, ...] = ()
    pods: tuple[GeneratedPods, ...] = ()
    gangs: tuple[GeneratedGangs, ...] = ()
    count: int = 100
    """How many pods and gangs arrive."""
    arrival_seconds: float = 1.0
    """Between two of them, on average."""
    life_seconds: float = 0.0
    """How long a pod or a gang runs, on average; 0: to the end."""


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
    """Settings of `--search`."""

    policy: str = ""
    """The policy whose weights are searched."""
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


def check_settings(settings: SweepSettings, walk: Walk) -> None:
    """Add each problem to the walk."""
    _check_names("workloads", [each.name for each in settings.workloads], walk)
    _check_names("policies", [each.name for each in settings.policies], walk)
    _check_names("nodeShapes", [each.name for each in settings.node_shapes], walk)
    for name, given in (("workloads", settings.workloads), ("policies", settings.policies), ("seeds", settings.seeds)):
        if not given:
            walk.wrong(name, "at least one is needed")
    if len(set(settings.seeds)) < len(settings.seeds):
        walk.wrong("seeds", "a seed is listed twice")
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
            walk.wrong(f"{path}[{index}].name", f"{name!r} is listed twice")


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
    if not generated.nodes:
        walk.wrong(f"{path}.nodes", "at least one kind is needed")
    if not generated.pods and not generated.gangs:
        walk.wrong(f"{path}.pods", "at least one kind is needed, here or in gangs")
    _check_range(generated.count, 1, MAX_PODS, f"{path}.count", walk)
    _check_range(generated.arrival_seconds, 0, 1e6, f"{path}.arrivalSeconds", walk)
    _check_range(generated.life_seconds, 0, 1e8, f"{path}.lifeSeconds", walk)
    for index, nodes in enumerate(generated.nodes):
        _check_range(nodes.count, 1, 100_000, f"{path}.nodes[{index}].count", walk)
        _check_quantities(nodes.allocatable, f"{path}.nodes[{index}].allocatable", walk)
    for index, pods in enumerate(generated.pods):
        _check_pods(pods, f"{path}.pods[{index}]", walk)
    for index, gangs in enumerate(generated.gangs):
        _check_pods(gangs, f"{path}.gangs[{index}]", walk)
        _check_gangs(gangs, f"{path}.gangs[{index}]", walk)
        pods_at_most = generated.count * max(gangs.members, default=0)
        if pods_at_most > MAX_PODS:
            walk.wrong(f"{path}.gangs[{index}].members", f"up to {pods_at_most:,} pods are more than {MAX_PODS:,}")


def _check_pods(pods: GeneratedPods, path: str, walk: Walk) -> None:
    _check_range(pods.weight, 1, 1_000_000, f"{path}.weight", walk)
    _check_quantities(pods.requests, f"{path}.requests", walk)
    _check_spec(pods.spec, f"{path}.spec", walk)


def _check_gangs(gangs: GeneratedGangs, path: str, walk: Walk) -> None:
    if not gangs.members:
        walk.wrong(f"{path}.members", "at least one size is needed, such as [4, 8]")
    for index, members in enumerate(gangs.members):
        _check_range(members, 1, 10_000, f"{path}.members[{index}]", walk)
    topology = request_in_annotations(gangs.annotations)
    if topology is not None and topology.problem:
        walk.wrong(f"{path}.annotations", topology.problem)


def _check_quantities(amounts: Mapping[str, str], path: str, walk: Walk) -> None:
    for resource, amount in amounts.items():
        try:
            if nano_value(amount) < 0:
                walk.wrong(f"{path}.{resource}", f"{amount} is below zero")
        except QuantityError as problem:
            walk.wrong(f"{path}.{resource}", str(problem))


def _check_spec(spec: dict[str, Any], path: str, walk: Walk) -> None:
    for problem in misspelt(spec, PodSpec, path):
        place, _, message = problem.partition(" ")
        walk.wrong(place, message)
    try:
        convert(spec, PodSpec)
    except UndecodableError as problem:
        walk.wrong(path, str(problem))


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
    # Checked before they are listed: a few plugins with a few dozen weights each would take all memory.
    combinations = prod(map(len, weights.values()))
    if combinations > MAX_RUNS:
        walk.wrong(path, f"{combinations:,} combinations are more than {MAX_RUNS:,}")


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
