"""The configuration is exchanged under a running scheduler, and pods flow through all of it."""

import os
import signal
from pathlib import Path

import pytest

from tests.controlplane import kscheduler_process
from tests.controlplane.process import Process
from tests.e2e.scenario import SECONDS, Scenario
from tests.e2e.servers import NAME

PODS = 60


def text_of(*profiles: str, more: str = "") -> str:
    header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    listed = "".join(f"- {profile}\n" for profile in profiles)
    return f"{header}leaderElection: {{leaderElect: false}}\n{more}profiles:\n{listed}"


PLAIN = f"{{schedulerName: {NAME}}}"
PACKING = (
    f"{{schedulerName: {NAME}, pluginConfig: [{{name: NodeResourcesFit, args: {{scoringStrategy: "
    "{type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]}"
)
NO_TAINTS = f"{{schedulerName: {NAME}, plugins: {{multiPoint: {{disabled: [{{name: TaintToleration}}]}}}}}}"
SECOND = "{schedulerName: second-profile}"


class Mount:
    """A ConfigMap's volume as the kubelet keeps it: each version is a folder, and `..data` points at one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._version = folder, 0
        folder.mkdir()
        self.file = folder / "config.yaml"

    def put(self, text: str) -> None:
        self._version += 1
        version, link = self.folder / f"..{self._version}", self.folder / "..data_tmp"
        version.mkdir()
        (version / "config.yaml").write_text(text)
        os.symlink(version.name, link)  # noqa: PTH211
        link.rename(self.folder / "..data")
        if not self.file.is_symlink():
            self.file.symlink_to("..data/config.yaml")


def said(process: Process, message: str) -> int:
    return sum(line.get("msg") == message for line in kscheduler_process.log_lines(process))


def wait_said(scenario: Scenario, process: Process, message: str, times: int = 1) -> None:
    scenario.wait(f"{message}, {times} times", lambda: said(process, message) >= times)


@pytest.fixture
def mount(tmp_path: Path, program: str) -> Mount:
    if program != "kscheduler":
        pytest.skip("kube-scheduler reads its configuration once")
    return Mount(tmp_path / "mount")


def started(scenario: Scenario, mount: Mount) -> Process:
    process = scenario.start_scheduler("--config", str(mount.file))
    wait_said(scenario, process, "scheduling")
    return process


def test_a_changed_config_map_is_taken_over_while_pods_flow(scenario: Scenario, mount: Mount) -> None:
    """Some wait, some are bound: nobody is lost, and what keeps a pod out goes with the plugin that says so."""
    taint = {"key": "only", "value": "x", "effect": "NoSchedule"}
    scenario.add_node("open", cpu="10")
    scenario.add_node("tainted", cpu="10", taints=[taint])
    scenario.add_pods(PODS, cpu="100m")
    scenario.add_pod("kept-out", cpu="100m", nodeSelector={"kubernetes.io/hostname": "tainted"})
    scenario.add_pod("of-the-second", cpu="100m", schedulerName="second-profile")
    mount.put(text_of(PLAIN))
    process = started(scenario, mount)
    for number, text in enumerate((text_of(PACKING), text_of(PLAIN, more="parallelism: 2\n"), text_of(PACKING)), 1):
        mount.put(text)
        scenario.add_pods(5, prefix=f"later-{number}", cpu="10m")
        wait_said(scenario, process, "config_taken_over", number)
    assert not scenario.node_of("kept-out")
    mount.put(text_of(NO_TAINTS, SECOND))
    scenario.wait_bound("kept-out", "of-the-second")
    assert scenario.node_of("kept-out") == "tainted"
    scenario.wait_bound(seconds=SECONDS)


def test_a_broken_config_map_is_refused_and_the_one_before_schedules_on(scenario: Scenario, mount: Mount) -> None:
    scenario.add_node("node", cpu="10")
    mount.put(text_of(PLAIN))
    process = started(scenario, mount)
    mount.put(text_of(PLAIN, more="percentageOfNodesToScore: 101\n"))
    wait_said(scenario, process, "config_kept")
    (refused,) = [line for line in kscheduler_process.log_lines(process) if line["msg"] == "config_refused"]
    assert (refused["field"], refused["line"]) == ("percentageOfNodesToScore", 4)
    status, ready = kscheduler_process.own_page(process, "/readyz?verbose")
    assert status == 200
    assert "was refused, the one before goes on: percentageOfNodesToScore" in ready
    assert "kscheduler_config_reload_last_successful 0" in kscheduler_process.own_page(process, "/metrics")[1]
    scenario.add_pod("p")
    scenario.wait_bound("p")
    mount.put(text_of(PACKING))
    wait_said(scenario, process, "config_taken_over")
    assert "kscheduler_config_reload_last_successful 1" in kscheduler_process.own_page(process, "/metrics")[1]


def test_a_hangup_asks_for_it_at_once(scenario: Scenario, mount: Mount) -> None:
    scenario.add_node("node", cpu="10")
    mount.file.write_text(text_of(PLAIN))
    process = scenario.start_scheduler("--config", str(mount.file), "--config-reload", "signal")
    wait_said(scenario, process, "scheduling")
    scenario.add_pod("p", schedulerName="second-profile")
    mount.file.write_text(text_of(PLAIN, SECOND))
    process.send(signal.SIGHUP)
    scenario.wait_bound("p")
    assert said(process, "config_reload_requested") == 1
