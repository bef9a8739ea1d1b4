"""The same gangs for kube-scheduler and kscheduler with the same extender: where they go, and every text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import kube_scheduler
from tests.e2e.extenders.stage import by_pod
from tests.e2e.groups.gang_capacity import KUBERNETES, GangRoom, followed_with_groups
from tests.e2e.groups.test_group_parity import PROGRAMS, clean, reported, settle
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME, RealServer, Server
from tests.extender_program import ExtenderProgram, extender_program, leaves

Play = Callable[[GangRoom, ExtenderProgram], None]

pytestmark = [
    pytest.mark.real,
    pytest.mark.followed_kubernetes("kube-scheduler is of its own release"),
    pytest.mark.usefixtures("only_kscheduler", "priorities"),
]


@pytest.fixture(autouse=True)
def _on_the_real_one(server: Server) -> None:
    if not isinstance(server, RealServer):
        pytest.skip("kube-scheduler is compared on the real API server")
    if not server.api.answers(f"/apis/{KUBERNETES.group_version}/podgroups"):
        pytest.skip(f"{KUBERNETES.group_version} is not served")


def fits_on_what_is_left(gangs: GangRoom, _extender: ExtenderProgram) -> None:
    gangs.add_gang("train", 2)
    gangs.wait_whole("train")


def has_too_little_left(gangs: GangRoom, _extender: ExtenderProgram) -> None:
    gangs.add_gang("train", 3)
    gangs.wait_reported("train", "cannot be satisfied")


def one_member_is_refused_everywhere(gangs: GangRoom, _extender: ExtenderProgram) -> None:
    gangs.add_gang("odd", 2)
    gangs.wait_reported("odd", "cannot be satisfied")


def the_extender_fails_and_comes_back(gangs: GangRoom, extender: ExtenderProgram) -> None:
    extender.status = 500
    gangs.add_gang("train", 2)
    gangs.wait_reported("train", "failed filter with extender")
    extender.status = 200
    gangs.wait_whole("train")


PLAYS: tuple[Play, ...] = (
    fits_on_what_is_left,
    has_too_little_left,
    one_member_is_refused_everywhere,
    the_extender_fails_and_comes_back,
)


@pytest.mark.parametrize("play", PLAYS, ids=[play.__name__ for play in PLAYS])
def test_extenders_have_the_same_say_about_gangs(scenario: Scenario, tmp_path: Path, play: Play) -> None:
    found = {program: outcome(scenario, tmp_path / program, program, play) for program in PROGRAMS}
    assert found["kscheduler"] == found["kube-scheduler"]


def outcome(scenario: Scenario, folder: Path, program: str, play: Play) -> dict[str, Any]:
    """Plays on two nodes with room for two members each, of which the extender leaves `node-1`, and cleans up."""
    for number in range(2):
        scenario.add_node(f"node-{number}")
    answers = {f"train-{number}": leaves("node-1", reason="no token left") for number in range(5)}
    answers |= {"odd-0": leaves("node-0", "node-1"), "odd-1": leaves(reason="no token left")}
    with extender_program({"filter": by_pod(answers)}) as extender:
        gangs = GangRoom(scenario, KUBERNETES, folder)
        process = scenario.server.scheduler(program, folder)
        process.command += with_extender(extender, program, folder, scenario.server.identity(program))
        process.start()
        scenario.processes.append(process)
        play(gangs, extender)
        settle(scenario)
        found = reported(scenario, gangs, compares_groups=True)
        found["nodes"] = sorted(str(pod["spec"].get("nodeName")) for pod in scenario.pods())
        found["asked about"] = {tree["Pod"]["metadata"]["name"] for _, tree in extender.queried}
        process.stop()
        clean(scenario, gangs)
    return json.loads(json.dumps(found, default=sorted).replace(extender.url, "URL"))  # type: ignore[no-any-return]


def with_extender(extender: ExtenderProgram, program: str, folder: Path, kubeconfig: Path) -> tuple[str, ...]:
    """Flags with which a scheduler follows Kubernetes' groups and asks the extender."""
    whole = kube_scheduler.configuration(kubeconfig, NAME, "application/json")
    whole["extenders"] = [extender.settings(nodeCacheCapable=True)]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "configuration.json"
    path.write_text(json.dumps(whole))
    version = ("--emulated-version", followed_with_groups()) if program == NAME else ()
    return ("--config", str(path), "--feature-gates", KUBERNETES.gates, *version)
