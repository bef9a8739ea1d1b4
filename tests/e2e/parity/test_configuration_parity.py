"""A configuration file is refused by both, or means the same to both: to kube-scheduler, which writes what it has read.

No cluster is needed: kube-scheduler writes its completed configuration before it asks the API server for anything.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.assembly.configuration_checks import profile_problems
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import gates_of, parse_feature_gates
from kscheduler.config.loader import load_bytes, to_tree
from tests.controlplane.binaries import find
from tests.controlplane.kubeconfig import write
from tests.controlplane.process import POLL_SECONDS
from tests.controlplane.releases import pinned

VERSION = pinned.followed_version(pinned.chosen())
SECONDS = 30.0
HEAD = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "leaderElection: {leaderElect: false}\n"
)
PLACEMENTS = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
MANAGED = "managedResources: [{name: a.b/c, ignoredByScheduler: true}, {name: d.e/f}]"

pytestmark = [pytest.mark.real, pytest.mark.followed_kubernetes("no API server takes part")]


def profile(settings: str) -> str:
    return f"profiles: [{{schedulerName: x, {settings}}}]"


def plugins(sets: str) -> str:
    return profile(f"plugins: {{{sets}}}")


def args(plugin: str, text: str) -> str:
    return profile(f"pluginConfig: [{{name: {plugin}, args: {text}}}]")


CASES = {
    "nothing": "",
    "null lists": "profiles: [null]\nextenders: [null]",
    "a plugin at a point without work": plugins("preScore: {enabled: [{name: TaintToleration}]}"),
    "a plugin at a point that it lacks": plugins("reserve: {enabled: [{name: TaintToleration}]}"),
    "plugins for groups": plugins(
        "permit: {enabled: [{name: GangScheduling}]}, placementScore: {enabled: [{name: NodeResourcesFit}]}"
    ),
    "all disabled but": plugins(
        "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}"
    ),
    "disabled and enabled again": plugins(
        "score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 7}, {name: NodeAffinity}]}"
    ),
    "named twice": plugins("multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}"),
    "nobody binds": plugins("bind: {disabled: [{name: '*'}]}"),
    "two that sort": plugins("queueSort: {enabled: [{name: PrioritySort}, {name: PrioritySort}]}"),
    "a weight below zero": plugins("score: {enabled: [{name: NodeAffinity, weight: -5}]}"),
    "a removed plugin": plugins("filter: {enabled: [{name: EBSLimits}]}"),
    "somebody else's plugin": plugins("filter: {enabled: [{name: Coscheduling}]}"),
    "two unnamed profiles": "profiles: [{}, {}]",
    "what is done for groups": plugins("podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}"),
    "nothing is done for groups": plugins("podGroupPostFilter: {disabled: [{name: '*'}]}"),
    "a plugin that does nothing for groups": plugins("podGroupPostFilter: {enabled: [{name: NodeAffinity}]}"),
    "a removed plugin for groups": plugins("podGroupPostFilter: {enabled: [{name: EBSLimits}]}"),
    "what judges placements": plugins("placementFeasible: {enabled: [{name: GangScheduling}]}"),
    "a plugin that judges none": plugins("placementFeasible: {enabled: [{name: NodeAffinity}]}"),
    "a removed plugin for placements": plugins("placementScore: {enabled: [{name: EBSLimits}]}"),
    "preemption that reserves": plugins("reserve: {enabled: [{name: DefaultPreemption}]}"),
    "nobody reserves": plugins("reserve: {disabled: [{name: '*'}]}"),
    "placements without their gate": "percentageOfPlacementsToScore: 30",
    "placements of a profile without their gate": profile("percentageOfPlacementsToScore: 0"),
    "extender": f"extenders: [{{urlPrefix: a, filterVerb: f, enableHTTPS: true, {MANAGED}}}]",
    "extender that scores": "extenders: [{urlPrefix: a, prioritizeVerb: p}]",
    "extenders that bind": "extenders: [{urlPrefix: a, bindVerb: b}, {urlPrefix: c, bindVerb: d}]",
    "extender with a plain resource": "extenders: [{urlPrefix: a, managedResources: [{name: cpu}]}]",
    "extender and nobody who ignores": f"extenders: [{{urlPrefix: a, {MANAGED}}}]\n"
    + plugins("multiPoint: {disabled: [{name: NodeResourcesFit}]}"),
    "extender whose resources replace": f"extenders: [{{urlPrefix: a, {MANAGED}}}]\n"
    + args("NodeResourcesFit", "{ignoredResources: [g.h/i], ignoredResourceGroups: [j.k]}"),
    "extender with half a key": "extenders: [{urlPrefix: a, tlsConfig: {certData: '###'}}]",
    "extender both ways": "extenders: [{urlPrefix: a, tlsConfig: {insecure: true, caData: YWJj}}]",
    "arguments of nobody": args("Mine", "{foo: bar}"),
    "arguments of another": args("DefaultPreemption", "{kind: NodeAffinityArgs}"),
    "a shape without its gate": args("VolumeBinding", "{shape: [{utilization: 0, score: 0}]}"),
    "a ratio": args(
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, "
        "score: 0}, {utilization: 100, score: 10}]}}}",
    ),
    "spread by list": args(
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}",
    ),
}
GATED = {
    "shape by default": ("", "StorageCapacityScoring=true"),
    "shape": (args("VolumeBinding", "{shape: [{utilization: 9, score: 1}]}"), "StorageCapacityScoring=true"),
    "shape out of order": (
        args("VolumeBinding", "{shape: [{utilization: 9, score: 1}, {utilization: 9, score: 11}]}"),
        "StorageCapacityScoring=true",
    ),
    "a plugin of resizes": ("", "InPlacePodVerticalScalingSchedulerPreemption=true"),
    "timeouts of gates": ("", "DRADeviceBindingConditions=false,DRASchedulerFilterTimeout=false"),
}
if "GangScheduling" not in gates_of(VERSION):  # where it is a gate, pod groups are not built
    GATED |= {
        "plugins of removed gates": ("", "GenericWorkload=true,GangScheduling=true"),
        "plugins of pod groups": ("", "GenericWorkload=true"),
        "every alpha": ("", "AllAlpha=true"),
        "placements": ("", PLACEMENTS),
        "some placements": (
            f"percentageOfPlacementsToScore: 30\n{profile('percentageOfPlacementsToScore: 0')}",
            PLACEMENTS,
        ),
        "too many placements": ("percentageOfPlacementsToScore: 101", PLACEMENTS),
        "too many placements of a profile": (profile("percentageOfPlacementsToScore: 101"), PLACEMENTS),
    }


def written(text: str, gates: str, folder: Path) -> Any:
    """What kube-scheduler has read; `None` where it has refused it."""
    file, output = folder / "scheduler.yaml", folder / "written.yaml"
    file.write_text(text)
    command: list[str | Path] = [
        find().kube_scheduler,
        "--config",
        file,
        "--secure-port=0",
        "--write-config-to",
        output,
    ]
    with (folder / "log").open("w") as log:
        child = subprocess.Popen([*command, f"--feature-gates={gates}"], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + SECONDS
            while child.poll() is None and not (output.exists() and output.stat().st_size):
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(POLL_SECONDS)
        finally:
            child.kill()
            child.wait()
    return yaml.safe_load(output.read_text()) if output.exists() else None


def read(text: str, gates: str) -> Any:
    """The same for kscheduler."""
    try:
        loaded = load_bytes(text.encode(), "f", parse_feature_gates(gates, version=VERSION))
    except ConfigError:
        return None
    return None if profile_problems(loaded) else to_tree(loaded.configuration)


def plain(tree: Any) -> Any:
    """Without what is empty, and arguments by name: kube-scheduler leaves out those of unknown plugins."""
    if isinstance(tree, list):
        return [plain(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    reported = {name: plain(value) for name, value in tree.items()}
    if "pluginConfig" in reported:
        reported["pluginConfig"] = sorted(_known(reported["pluginConfig"]), key=lambda entry: str(entry["name"]))
    return {name: value for name, value in reported.items() if value not in ({}, [], None, 0, "", False)}


def _known(entries: list[Any]) -> Iterator[Any]:
    yield from (entry for entry in entries if entry["name"] != "Mine")


@pytest.mark.parametrize(
    ("text", "gates"), [*((text, "") for text in CASES.values()), *GATED.values()], ids=[*CASES, *GATED]
)
def test_both_refuse_it_or_both_read_the_same(text: str, gates: str, tmp_path: Path) -> None:
    connection = {"kubeconfig": str(write(tmp_path / "kubeconfig", server="http://127.0.0.1:1"))}
    whole = HEAD + f"{text}\nclientConnection: {json.dumps(connection)}"
    assert plain(read(whole, gates)) == plain(written(whole, gates, tmp_path))
