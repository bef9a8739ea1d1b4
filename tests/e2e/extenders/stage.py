"""Either scheduler with the same extenders, in a scenario."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.controlplane import kscheduler_process, kube_scheduler
from tests.controlplane.process import Process
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME, RealServer
from tests.extender_program import Explanation, Tree, leaves

# Node, or reason and message of the condition.
Outcome = tuple[str, str, str]

STOP_SECONDS = 15.0


@contextmanager
def deciding(scenario: Scenario, program: str, extenders: list[Tree], folder: Path) -> Iterator[Process]:
    """One of the schedulers at work, until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    identity = scenario.server.identity(program)
    if program == "kube-scheduler":
        assert isinstance(scenario.server, RealServer)
        binaries = scenario.server.plane.binaries
        process = kube_scheduler.process(binaries, identity, folder, NAME, settings={"extenders": extenders})
    else:
        file = folder / "config.json"
        file.write_text(json.dumps(configuration(identity, extenders)))
        process = kscheduler_process.process(identity, folder, "--config", str(file), scheduler_name=NAME)
    process.start()
    scenario.processes.append(process)
    try:
        yield process
    finally:
        scenario.terminate(process) if program == scenario.program else process.stop()


def configuration(kubeconfig: Path, extenders: list[Tree]) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": NAME}],
        "extenders": extenders,
    }


def outcome(scenario: Scenario, name: str) -> Outcome:
    """What has become of a pod; empty texts as long as nothing has."""
    pod = scenario.pod(name)
    node = pod["spec"].get("nodeName", "")
    conditions = pod.get("status", {}).get("conditions", [])
    found: dict[str, str] = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    return (node, "", "") if node else ("", found.get("reason", ""), found.get("message", ""))


def by_pod(answers: dict[str, Explanation]) -> Explanation:
    """An answer for each pod, by name; to others it leaves all."""

    def answer(tree: Tree) -> Any:
        name = tree["Pod"]["metadata"]["name"]
        return answers.get(name, leaves("node-0", "node-1", "node-2"))(tree)

    return answer
