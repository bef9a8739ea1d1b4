"""The comparison with hand-made schedulers: what is counted as forgotten, and who is compared."""

from typing import Any

import pytest
import yaml

from benchmarks.hand_made import world
from benchmarks.hand_made.__main__ import COLUMNS, row
from benchmarks.hand_made.play import SHIPPED, Run
from benchmarks.hand_made.scripts import SCRIPTS, any_one, cpu_of, in_turn
from kscheduler.api.machinery.resources import PODS


@pytest.fixture
async def server() -> world.CountingServer:
    made = world.CountingServer()
    world.fill(made)
    world.add_pods(made, "random", range(10))
    return made


def put(server: world.CountingServer, name: str, node: str) -> None:
    (pod,) = (each for each in world.pods_of(server) if each["metadata"]["name"] == name)
    server.store.put(PODS.collection, {**pod, "spec": {**pod["spec"], "nodeName": node}})


def test_each_script_has_a_shipped_profile() -> None:
    profiles = yaml.safe_load(SHIPPED.read_text())["profiles"]
    assert set(SCRIPTS) <= {profile["schedulerName"] for profile in profiles}


async def test_what_is_forgotten_is_counted(server: world.CountingServer) -> None:
    assert world.unplaced(server) == 10
    for name, node in {
        "plain-0": "a",
        "plain-1": "tainted",
        "disk-2": "a",
        "apart-3": "b",
        "type-4": "c",
        "disk-6": "e",
        "apart-7": "b",
        "type-8": "a",
        "large-9": "small",
    }.items():
        put(server, name, node)
    audit = world.audit(server)
    assert (audit.selector, audit.apart, audit.type, audit.taint, audit.overfull, audit.never) == (1, 2, 1, 1, 1, 1)
    assert sum(audit.by_node.values()) == 9
    assert audit.dollars == pytest.approx((3 * 0.4 + 2 * 0.1 + 0.2 + 1) / 24 + 2 * 0.01 + 0.05 / 24)


async def test_a_row_has_a_cell_for_each_column(server: world.CountingServer) -> None:
    line = row(
        Run(
            "random",
            is_hand_made=True,
            audit=world.audit(server),
            lost=3,
            start_cpu_seconds=0.1,
            cpu_seconds=0.2,
            requests=7,
        )
    )
    assert len(line.strip("| ").split(" | ")) == len(COLUMNS)


def test_the_scripts_choose_as_they_say() -> None:
    nodes: list[dict[str, Any]] = [{"metadata": {"name": name}} for name in "ab"]
    assert [in_turn({}, nodes)["metadata"]["name"] for _ in range(3)] in ([*"aba"], [*"bab"])
    assert any_one({}, nodes[:1]) == nodes[0]
    pods = [{"spec": {"containers": [{"resources": {"requests": {"cpu": text}}}]}} for text in ("500m", "2")]
    assert [cpu_of(pod) for pod in pods] == [0.5, 2.0]
