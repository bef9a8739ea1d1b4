"""One server per session and kind, one namespace per scenario; `--server` chooses, SCHEDULER names who is tested.

pytest tests/e2e --server embedded
pytest tests/e2e --server real
pytest tests/e2e --server real --on-it-only                 without tests that bring servers of their own, or need none
KUBERNETES_VERSION=1.37.2 pytest tests/e2e --server real     on another release (make e2e-versions: on each)
SCHEDULER=kube-scheduler pytest tests/e2e --server real      the suite itself, tried on the original
"""

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.hollow_kubelets import HollowKubelets
from tests.controlplane.process import wait_until
from tests.controlplane.releases import pinned
from tests.e2e.devices import DevicesRoom
from tests.e2e.provisioner import Provisioner
from tests.e2e.recorder import Recorder
from tests.e2e.scenario import Scenario
from tests.e2e.servers import RealServer, Server
from tests.e2e.storage import Storage

SCHEDULERS = ("kscheduler", "kube-scheduler")
NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    choices = ("embedded", "real", "both")
    parser.addoption("--server", choices=choices, default="both", help="API server that the suite runs on")
    parser.addoption("--on-it-only", action="store_true", help="leave out what brings its own servers, or needs none")
    parser.addoption("--record-transcript", action="store_true", help="write tests/e2e/transcripts/transcript.txt anew")


def pytest_configure(config: pytest.Config) -> None:
    try:
        pinned.chosen()
    except pinned.UnknownReleaseError as error:
        raise pytest.UsageError(f"{pinned.VARIABLE}: {error}") from None
    # A run that is terminated stops its servers, as one that is interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A connection that is accepted in the instant in which the embedded server stops serving belongs to nobody in
    # aiohttp; the garbage collector closes it, later and with a warning.
    config.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")


def pytest_runtest_setup(item: pytest.Item) -> None:
    release = pinned.chosen()
    recorded = item.get_closest_marker("kubernetes_1_36")
    if recorded and release.minor != pinned.parse(pinned.DEFAULT).minor:
        pytest.skip(f"{recorded.args[0]}; this run is on {release}")
    compared = item.get_closest_marker("followed_kubernetes")
    if compared and pinned.oracle(release).version != release.version:
        pytest.skip(f"{compared.args[0]}; its kube-scheduler is not that of {release}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--server")
        kinds = ("embedded", "real") if chosen == "both" else (chosen,)
        metafunc.parametrize("server", kinds, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--on-it-only"):
        elsewhere = [item for item in items if "server" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]


@pytest.fixture(scope="session")
def program() -> str:
    """The scheduler under test."""
    name = os.environ.get("SCHEDULER", "kscheduler")
    if name not in SCHEDULERS:
        raise pytest.UsageError(f"SCHEDULER is {name!r}; it must be one of {', '.join(SCHEDULERS)}")
    return name


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(request.param, tmp_path_factory.mktemp("server")) as running:
        yield running


def start_server(kind: str, folder: Path) -> Server:
    if kind == "real":
        return RealServer(binaries.find())
    from tests.e2e.embedded import EmbeddedServer

    return EmbeddedServer(folder)


@pytest.fixture
def namespace(server: Server) -> Iterator[str]:
    name = f"scenario-{next(NUMBERS)}"
    create_namespace(server, name)
    yield name
    clean(server, name)


def create_namespace(server: Server, name: str) -> None:
    server.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    # a controller manager that has lost its API server backs off for longer than 30 s
    wait_until(f"the default ServiceAccount of {name}", lambda: server.api.answers(account), 120)


def clean(server: Server, namespace: str) -> None:
    """The next scenario finds no nodes, and no pods but its own."""
    for pod in server.api.items(f"/api/v1/namespaces/{namespace}/pods"):
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
        server.api.delete(path, grace_seconds=0, missing_ok=True)
    for node in server.api.items("/api/v1/nodes"):
        server.api.delete(f"/api/v1/nodes/{node['metadata']['name']}", missing_ok=True)
    server.api.delete(f"/api/v1/namespaces/{namespace}", missing_ok=True)


@pytest.fixture
def scenario(server: Server, namespace: str, program: str, tmp_path: Path) -> Iterator[Scenario]:
    """A cluster without nodes. After the test: the audit, then an orderly end of the scheduler."""
    with Recorder(server.api) as recorder, HollowKubelets(server.api):
        play = Scenario(server, recorder, namespace, program, tmp_path)
        try:
            yield play
            play.audit()
            play.stop_schedulers()
        finally:
            for process in play.processes:
                process.kill()


@pytest.fixture
def storage(scenario: Scenario) -> Iterator[Storage]:
    """Nodes in two zones and classes of volumes. After the test: the audit of volumes, while the scheduler runs."""
    with Provisioner(scenario.api, scenario.namespace) as provisioner:
        play = Storage(scenario, provisioner)
        try:
            yield play
            play.audit()
        finally:
            play.remove()


@pytest.fixture
def devices(scenario: Scenario) -> Iterator[DevicesRoom]:
    """Four nodes and a class of devices. After the test: the audit of devices, while the scheduler runs."""
    play = DevicesRoom(scenario)
    try:
        yield play
        play.audit()
    finally:
        play.remove()


@pytest.fixture
def serves_taint_rules(server: Server) -> None:
    """For rules of device taints in v1, which the API server serves since 1.37."""
    if not server.api.answers("/apis/resource.k8s.io/v1/devicetaintrules"):
        pytest.skip("no rules of device taints")


@pytest.fixture
def only_kscheduler(program: str) -> None:
    """For what kscheduler does differently from kube-scheduler on purpose."""
    if program != "kscheduler":
        pytest.skip("kube-scheduler does not do this")
