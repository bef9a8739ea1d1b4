"""The tables of gates and extension points say what the real kube-scheduler says of itself, without a cluster."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.errors import ConfigError
from kscheduler.config.expansion import points_of
from kscheduler.config.feature_gates import Stage, gates_of, parse_feature_gates
from kscheduler.config.in_tree_plugins import IN_TREE_POINTS
from tests.controlplane.binaries import find
from tests.controlplane.kubeconfig import write
from tests.controlplane.releases import pinned

VERSION = pinned.followed_version(pinned.chosen())
SECONDS = 60.0
NAMED = {*points_of(BEHAVIOURS[VERSION])}
KNOWN = re.compile(r"kube:(\w+)=true\|false \((\w+) - default=(true|false)\)")

pytestmark = [pytest.mark.real, pytest.mark.followed_kubernetes("no API server takes part")]


@pytest.fixture(scope="module", name="kube_scheduler")
def kube_scheduler_() -> Path:
    return find().kube_scheduler


def said(kube_scheduler: Path, *arguments: str | Path) -> str:
    """All that a start prints that ends by itself."""
    finished = subprocess.run(
        [kube_scheduler, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return finished.stdout + finished.stderr


def test_the_help_lists_the_same_alpha_and_beta_gates(kube_scheduler: Path) -> None:
    listed = {name: (stage, default) for name, stage, default in KNOWN.findall(said(kube_scheduler, "--help"))}
    del listed["AllAlpha"], listed["AllBeta"]
    unfinished = (Stage.ALPHA, Stage.BETA)
    known = gates_of(VERSION).values()
    assert listed == {
        gate.name: (gate.stage.value, str(gate.default).lower()) for gate in known if gate.stage in unfinished
    }


SETTINGS = [
    "Nope=true",
    "wardle:PodLevelResources=true",
    "PodLevelResources",
    "PodLevelResources=maybe",
    "kube:PodLevelResources=true,OpportunisticBatching=false",
    "SchedulerQueueingHints=false",
    "SchedulerQueueingHints=true",
    "ExtendWebSocketsToKubelet=false",
    "NodeDeclaredFeatures=false",
    "GangScheduling=true",
    "GangScheduling=true,GenericWorkload=true",
    "AllBeta=false",
    "AllAlpha=true",
    "AllAlpha=true,GenericWorkload=false",
    "KubeletInUserNamespace=true",
    "kube:WatchListClient=false",
    "StorageCapacityScoring=false,VolumeLimitScaling=false",
    "DRAExtendedResource=false",
    "WorkloadAwarePreemption=true",
    "SidecarContainers=true",
    "CompositePodGroup=true",
    "CompositePodGroup=true,TopologyAwareWorkloadScheduling=true,GenericWorkload=true",
    "PodGroupPreemptionPolicy=true",
    "InPlacePodVerticalScalingSchedulerPreemption=true",
    "SchedulerPreQueueingHints=true,InterPodAffinityHostnameFastPath=true",
    "DRAFractionalCapacityRange=true,DRAConsumableCapacity=false",
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_same_gates_are_refused_in_the_same_words(kube_scheduler: Path, settings: str) -> None:
    """Where nothing is wrong with the gates, kube-scheduler goes on to a kubeconfig that does not exist."""
    answer = said(kube_scheduler, f"--feature-gates={settings}", "--kubeconfig=/does-not-exist")
    try:
        parse_feature_gates(settings, version=VERSION)
    except ConfigError as error:
        messages = [problem.message for problem in error.problems]
        if any("it is not built" in message for message in messages):
            return  # that kscheduler lacks it is no matter of kube-scheduler's words
        # kube-scheduler names one gate, any of them. kscheduler adds how to write a value, which version has it.
        words = [each.partition(": write ")[0].partition(" of ")[0].partition(" (Kubernetes ")[0] for each in messages]
        assert any(each in answer for each in words)
    else:
        assert "/does-not-exist: no such file" in answer


def configuration(folder: Path, plugins: dict[str, list[str]]) -> Path:
    """Names these plugins by point; the API server that it names answers nobody, which comes after the plugins."""
    kubeconfig = write(folder / "kubeconfig", server="http://127.0.0.1:1")
    sets = {point: {"enabled": [{"name": name} for name in names]} for point, names in plugins.items()}
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": "x", "plugins": sets}],
    }
    path = folder / "scheduler.json"
    path.write_text(json.dumps(tree))
    return path


def refused(kube_scheduler: Path, path: Path) -> str:
    return said(kube_scheduler, "--config", path, "--secure-port=0", "--v=0")


def test_every_point_of_the_table_is_one_of_kube_scheduler_s(kube_scheduler: Path, tmp_path: Path) -> None:
    """Named all at once; a plugin that does not exist is looked for after them, so that the start ends."""
    plugins = {point: [name for name, points in IN_TREE_POINTS[VERSION].items() if point in points] for point in NAMED}
    answer = refused(kube_scheduler, configuration(tmp_path, plugins | {"multiPoint": ["Nope"]}))
    assert 'Plugin \\"Nope\\" does not exist' in answer


@pytest.mark.parametrize("plugin", sorted(IN_TREE_POINTS[VERSION]))
def test_a_point_that_is_missing_from_the_table_is_missing_from_kube_scheduler(
    kube_scheduler: Path, tmp_path: Path, plugin: str
) -> None:
    for point in sorted(NAMED - IN_TREE_POINTS[VERSION][plugin])[::6]:
        answer = refused(kube_scheduler, configuration(tmp_path, {point: [plugin]}))
        assert f'plugin \\"{plugin}\\" does not extend {point[0].upper()}{point[1:]}Plugin plugin' in answer
