"""Alibaba's GPU sharing extender, as it is, beside kscheduler: it filters and binds.

A node has 16 units of GPU memory on two devices, 8 on each. After two pods of 5 units, 6 are free by the scheduler's
sums, but no device has 5: only the extender knows.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.controlplane.process import Process, free_port
from tests.e2e.extenders import real_extender
from tests.e2e.extenders.real_extender import COUNT, RESOURCE, NoExtenderError
from tests.e2e.extenders.stage import deciding
from tests.e2e.scenario import Scenario
from tests.extender_program import Tree

INDEX = "ALIYUN_COM_GPU_MEM_IDX"


@pytest.fixture
def extender(scenario: Scenario, tmp_path: Path) -> Iterator[Tree]:
    """The extender at work; its settings, as its own documentation gives them."""
    try:
        program = real_extender.find()
    except NoExtenderError as reason:
        pytest.skip(str(reason))
    port = free_port()
    environment = os.environ | {
        "PORT": str(port),
        "KUBECONFIG": str(scenario.server.admin_kubeconfig),
        "LOG_LEVEL": "debug",
    }
    process = Process("gpushare", [program], tmp_path / "gpushare.log", environment)
    process.start()
    try:
        url = f"http://127.0.0.1:{port}/gpushare-scheduler"
        process.wait_until("its HTTP server", lambda: _answers(f"http://127.0.0.1:{port}/version"), 30.0)
        yield {
            "urlPrefix": url,
            "filterVerb": "filter",
            "bindVerb": "bind",
            "nodeCacheCapable": True,
            "managedResources": [{"name": RESOURCE, "ignoredByScheduler": False}],
            "ignorable": False,
        }
    finally:
        process.kill()


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def wants(scenario: Scenario, name: str, units: int) -> None:
    resources = {"limits": {RESOURCE: str(units)}, "requests": {RESOURCE: str(units)}}
    scenario.add_pod(name, containers=[{"name": "main", "image": "registry.example/app:1", "resources": resources}])


def device(scenario: Scenario, name: str) -> str:
    index: str = scenario.pod(name)["metadata"]["annotations"][INDEX]
    return index


@pytest.mark.usefixtures("only_kscheduler")
def test_gpu_sharing(scenario: Scenario, extender: Tree, tmp_path: Path) -> None:
    for name in ("plain", "gpu"):
        scenario.add_node(name)
    scenario.set_allocatable("gpu", **{RESOURCE: "16", COUNT: "2", "cpu": "4", "memory": "8Gi", "pods": "110"})
    with deciding(scenario, "kscheduler", [extender], tmp_path / "kscheduler"):
        for name in ("first", "second"):
            wants(scenario, name, 5)
            scenario.wait_bound(name)
            assert scenario.node_of(name) == "gpu"
        assert {device(scenario, "first"), device(scenario, "second")} == {"0", "1"}
        wants(scenario, "third", 5)
        scenario.wait_rejected("third", "1 Insufficient GPU Memory in one device")
        wants(scenario, "small", 3)
        scenario.wait_bound("small")
        scenario.delete_pod("third")
