"""What the tests of faults share: kscheduler behind their proxy."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane import kscheduler_process, kubeconfig
from tests.controlplane.process import Process
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME
from tests.e2e.write_proxy import WriteProxy

Start = Callable[..., Process]


@pytest.fixture
def start_behind(scenario: Scenario, proxy: WriteProxy, tmp_path: Path) -> Start:
    """Starts kscheduler behind the proxy, with further options."""

    def start(*options: str) -> Process:
        config = kubeconfig.write(tmp_path / "proxied.json", server=proxy.url)
        process = kscheduler_process.process(config, tmp_path / "behind-proxy", *options, scheduler_name=NAME)
        process.start()
        scenario.processes.append(process)
        return process

    return start
