"""Servers that serve pod groups: Kubernetes' own from 1.37 on with its gate, those of two other projects everywhere."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from kscheduler.api.machinery.resources import served_kinds
from tests.controlplane import binaries, kscheduler_process, kubeconfig
from tests.controlplane.controlplane import Settings
from tests.controlplane.process import Process
from tests.controlplane.releases import pinned
from tests.e2e.groups import crds
from tests.e2e.groups.gang_capacity import APIS, KUBERNETES, GangAPI, GangRoom, options
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME, RealServer, Server
from tests.e2e.write_proxy import WriteProxy

GATE = "GenericWorkload"


class RealGroupServer(RealServer):
    """With the gate, if the release has it, and both custom resources."""

    def __init__(self) -> None:
        self.has_own = pinned.chosen() >= pinned.parse("1.37.0")
        gate = (f"--feature-gates={GATE}=true",) if self.has_own else ()
        served = ("--runtime-config=scheduling.k8s.io/v1beta1=true",) if self.has_own else ()
        super().__init__(binaries.find(), Settings(apiserver_options=gate + served, controller_options=gate))

    def __enter__(self) -> Self:
        super().__enter__()
        crds.install(self.api)
        return self

    def kscheduler_kubeconfig(self) -> Path:
        is_first = self._kscheduler_kubeconfig is None
        path = super().kscheduler_kubeconfig()
        if is_first:
            self.plane.grant("kscheduler-pod-groups", crds.RULES)
        return path


def start_group_server(kind: str, folder: Path) -> Server:
    """A server like the suite's others, with pod groups."""
    if kind == "real":
        return RealGroupServer()
    from tests.e2e.embedded import EmbeddedServer

    class EmbeddedGroupServer(EmbeddedServer):
        """With both custom resources, as `kscheduler cluster` has them."""

        def __enter__(self) -> Self:
            super().__enter__()
            crds.install(self.api)
            return self

    return EmbeddedGroupServer(folder, served_kinds("1.37", lambda gate: gate == GATE))


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_group_server(request.param, tmp_path_factory.mktemp("group-server")) as running:
        yield running


@pytest.fixture(params=list(APIS))
def api(request: pytest.FixtureRequest, server: Server, program: str) -> GangAPI:
    """One after the other; what this server does not serve, or this scheduler does not follow, is skipped."""
    chosen = APIS[request.param]
    if not server.api.answers(f"/apis/{chosen.group_version}/podgroups"):
        pytest.skip(f"{chosen.group_version} is not served")
    if program != NAME and not chosen.is_kubernetes:
        pytest.skip(f"kube-scheduler does not know {chosen.group_version}")
    return chosen


@pytest.fixture
def gangs(scenario: Scenario, api: GangAPI, tmp_path: Path) -> Iterator[GangRoom]:
    """After the test: the audit of gangs, while the scheduler runs."""
    play = GangRoom(scenario, api, tmp_path)
    yield play
    play.audit()


@pytest.fixture
def own_gangs(scenario: Scenario, server: Server, tmp_path: Path) -> Iterator[GangRoom]:
    """Those of Kubernetes, alone."""
    if not server.api.answers(f"/apis/{KUBERNETES.group_version}/podgroups"):
        pytest.skip(f"{KUBERNETES.group_version} is not served")
    play = GangRoom(scenario, KUBERNETES, tmp_path)
    yield play
    play.audit()


@pytest.fixture
def priorities(server: Server) -> Iterator[None]:
    """Classes `gangs-high`, and `gangs-never`, which preempts nobody."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    server.api.create(path, {"metadata": {"name": "gangs-high"}, "value": 100})
    server.api.create(path, {"metadata": {"name": "gangs-never"}, "value": 100, "preemptionPolicy": "Never"})
    yield
    for name in ("gangs-high", "gangs-never"):
        server.api.delete(f"{path}/{name}")


Start = Callable[..., Process]


@pytest.fixture
def start_behind(scenario: Scenario, gangs: GangRoom, proxy: WriteProxy, tmp_path: Path) -> Start:
    """Starts kscheduler behind the proxy; it follows the API of this test."""

    def start() -> Process:
        config = kubeconfig.write(tmp_path / "proxied.json", server=proxy.url)
        flags = options(gangs.api, NAME, tmp_path, config)
        process = kscheduler_process.process(config, tmp_path / "behind-proxy", *flags, scheduler_name=NAME)
        process.start()
        scenario.processes.append(process)
        return process

    return start
