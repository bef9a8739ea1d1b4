"""Configurations that differ in everything that a running process takes over, and plugins to see the difference."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.config.loader import LoadedConfig, from_tree
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType as Action
from kscheduler.framework.events import ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import PermitResult, Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.registry import Registry
from kscheduler.framework.status import SUCCESS, Code, Status
from kscheduler.plugins import in_tree
from tests.builders import Tree

# Profiles that come and go.
NAMES = ("red", "green", "blue")


class Door(Plugin):
    """A PreEnqueue that keeps pods with the label `door` of a chosen value out."""

    name = "Door"
    depends_on = ()

    def __init__(self, shut: str) -> None:
        self._shut = shut

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL)),)

    def sign(self, pod: PodInfo) -> object:
        return pod.labels.get("door")

    def pre_enqueue(self, pod: PodInfo) -> Status:
        is_shut = pod.labels.get("door") == self._shut
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("the door is shut",), "Door") if is_shut else SUCCESS


class Only(Plugin):
    """A Filter that lets pods onto some nodes only; all pods are alike to it."""

    name = "Only"
    depends_on = ()
    reads_pods = False
    reads_spec_only = True
    reasons: Mapping[int, str] = {1: "not one of those"}  # type: ignore[misc]

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = frozenset(nodes)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(ClusterEvent(Resource.NODE, Action.ADD)),)

    def sign(self, pod: PodInfo) -> object:
        del pod
        return ()

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return np.array([int(nodes.name_of(row) not in self._nodes) for row in rows.tolist()], dtype=np.int64)


class Hold(Plugin):
    """A Permit that holds pods with the label `hold` until somebody lets them go."""

    name = "Hold"
    depends_on = (Source.ANYTHING,)

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        if "hold" in pod.labels:
            return PermitResult(Status(Code.WAIT, (), "Hold"), 600.0)
        return PermitResult(SUCCESS)


class ByName(Plugin):
    """Another order of pods."""

    name = "ByName"

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return queued.pod.name


class FragilePlugin(Plugin):
    """One whose factory raises."""

    name = "Fragile"


def fragile(args: Any, _handle: object) -> Plugin:
    raise (ValueError if args else RuntimeError)("it cannot be built today")


def registry() -> Registry:
    """The in-tree plugins and those above."""
    known = in_tree.registry()
    known.register("Door", lambda args, _: Door((args or {}).get("shut", "")))
    known.register("Only", lambda args, _: Only((args or {}).get("nodes", ())))
    known.register("Hold", lambda _args, _: Hold())
    known.register("ByName", lambda _args, _: ByName())
    known.register("Fragile", fragile)
    return known


def profile_tree(name: str, *, sort: str = "", plugins: Sequence[str] = (), args: Tree | None = None) -> Tree:
    """A profile as in a file: plugins of ours beside the default ones; preemption is left out."""
    entries = [{"name": plugin} for plugin in plugins]
    disabled = [{"name": "DefaultPreemption"}]
    sets: Tree = {"multiPoint": {"enabled": entries, "disabled": disabled}}
    if sort:
        sets["queueSort"] = {"enabled": [{"name": sort}], "disabled": [{"name": "*"}]}
    config = [{"name": plugin, "args": value} for plugin, value in (args or {}).items()]
    return {"schedulerName": name, "plugins": sets, "pluginConfig": config}


def loaded(
    *profiles: Tree, where: str = "config.yaml", gates: FeatureGates = DEFAULT_GATES, **fields: Any
) -> LoadedConfig:
    """The configuration of a file with these profiles."""
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return from_tree({**header, "profiles": list(profiles), **fields}, where, gates)


@st.composite
def profiles(draw: st.DrawFn, name: str, sort: str) -> Tree:
    """A profile of that name."""
    plugins = draw(st.sets(st.sampled_from(("Door", "Only", "Hold"))))
    args: Tree = {}
    if "Door" in plugins:
        args["Door"] = {"shut": draw(st.sampled_from(("front", "back")))}
    if "Only" in plugins:
        args["Only"] = {"nodes": sorted(draw(st.sets(st.sampled_from(("node-0", "node-1", "node-2")))))}
    strategy = draw(st.sampled_from(("LeastAllocated", "MostAllocated")))
    args["NodeResourcesFit"] = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    tree = profile_tree(name, sort=sort, plugins=sorted(plugins), args=args)
    if draw(st.booleans()):
        tree["percentageOfNodesToScore"] = draw(st.integers(1, 100))
    if draw(st.booleans()):
        tree["plugins"]["filter"] = {"disabled": [{"name": "TaintToleration"}]}
    return tree


@st.composite
def configurations(draw: st.DrawFn) -> LoadedConfig:
    """Any configuration that can be taken over."""
    sort = draw(st.sampled_from(("", "ByName")))
    names = draw(st.sets(st.sampled_from(NAMES), min_size=1))
    initial = draw(st.integers(1, 5))
    return loaded(
        *(draw(profiles(name, sort)) for name in sorted(names)),
        podInitialBackoffSeconds=initial,
        podMaxBackoffSeconds=initial * draw(st.integers(1, 4)),
        parallelism=draw(st.integers(1, 32)),
    )
